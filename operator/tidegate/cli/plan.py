"""`tidegate plan`: what memory holds, without a cluster."""

import click
from click.core import ParameterSource

from tidegate.cli import REFUSED, options

# What a way of asking needs is imported when it is asked for: `--batch` starts in a tenth of a
# second because it loads no models of the API.


_EXAMPLES = """\b
Examples:
  tidegate plan -f llmd.yaml --gpu NVIDIA-H100-80GB-HBM3 --gpu NVIDIA-L40S=4
  tidegate plan --serve "vllm serve Qwen/Qwen3-32B -tp 2" --gpu NVIDIA-H100-80GB-HBM3
  tidegate plan -f llmd.yaml --gpu NVIDIA-L40S --vary kvCache.dtype=auto,fp8
  tidegate plan --batch cases.jsonl
  tidegate plan --models
"""


@click.command(
    "plan",
    short_help="Size a resource or a command line on each class of GPU node.",
    epilog=_EXAMPLES,
)
@click.option("-f", "--filename", help="File with LLMDeployments; - for stdin.")
@click.option("--serve", "serve_line", metavar="COMMAND", help="A `vllm serve ...` command line.")
@click.option("--batch", "batch_file", metavar="FILE", help="JSON cases, one a line; - for stdin.")
@click.option("--models", "list_models", is_flag=True, help="List the models of the catalogue.")
@options.where_it_runs
@options.of_checkpoint
@click.option("--engine-version", help="vLLM's version for --serve; the newest known when absent.")
@click.option(
    "--vary",
    "varied",
    multiple=True,
    metavar="FIELD=A,B",
    help="Size with each of these values: a table; may be repeated for every combination.",
)
@click.option("--sort", "sort_key", help="Order of the --vary table: requests, kvTokens, gpus, ...")
@click.option("--html", "html_file", type=click.Path(dir_okay=False), help="Write a page as well.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table")
@click.pass_context
def command(
    context: click.Context,
    filename: str | None,
    serve_line: str | None,
    batch_file: str | None,
    list_models: bool,
    nodes_file: str | None,
    products: tuple[str, ...],
    config_file: str | None,
    weights_index: str | None,
    engine_version: str | None,
    varied: tuple[str, ...],
    sort_key: str | None,
    html_file: str | None,
    output: str,
) -> None:
    """Size what is to run on each class of GPU node: what memory holds, and why."""
    _require_one_subject(
        {
            "-f": filename is not None,
            "--serve": serve_line is not None,
            "--batch": batch_file is not None,
            "--models": list_models,
        }
    )
    if batch_file is not None:
        _refuse_others(context, "--batch", {"batch_file"})
        from tidegate.cli.planning import plan_batch

        debug = bool(context.parent and context.parent.params.get("debug"))
        good = plan_batch.run(batch_file, debug)
    elif list_models:
        _refuse_others(context, "--models", {"list_models", "output"})
        from tidegate.cli.planning import plan_models

        plan_models.show(output)
        good = True
    else:
        from tidegate.cli.inputs.model_files import ModelFiles
        from tidegate.cli.planning import plan_subject

        subject = plan_subject.Subject(
            filename,
            serve_line,
            nodes_file,
            products,
            ModelFiles(config_file, weights_index),
            engine_version,
        )
        good = plan_subject.show(subject, varied, sort_key, html_file, output)
    if not good:
        raise click.exceptions.Exit(REFUSED)


def _require_one_subject(given: dict[str, bool]) -> None:
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) != 1:
        names = ", ".join(given)
        told = f"not {' and '.join(chosen)}" if chosen else "to say what to size"
        raise click.UsageError(f"give one of {names}, {told}")


def _refuse_others(context: click.Context, subject: str, allowed: set[str]) -> None:
    """Refuse options that would be dropped silently."""
    given = [
        parameter.opts[-1]
        for parameter in context.command.params
        if parameter.name not in allowed
        and context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"{subject} takes no {' or '.join(given)}; leave it out")
