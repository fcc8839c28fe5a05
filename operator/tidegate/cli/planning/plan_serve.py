"""`tidegate plan --serve`: sizes a `vllm serve` command line, as it is and with other flags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tidegate.cli.inputs import files
from tidegate.cli.inputs.model_files import ModelFiles
from tidegate.cli.planning import weights_index
from tidegate.cli.verdict import Verdict
from tidegate.core import model_config
from tidegate.core import nodes as node_classes
from tidegate.core.budget import transfer
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.command_line import arguments, serve, served_model, sized, words
from tidegate.core.nodes import Node, NodeClass
from tidegate.core.plan import Exclusion, Plan
from tidegate.core.slice_plan import SlicePlan
from tidegate.core.what_if.axes import Combination
from tidegate.core.what_if.curves import Basis
from tidegate.core.what_if.rows import Held, Row
from tidegate.errors import Refused
from tidegate.facts import engines, models
from tidegate.facts.engines import Engine

_POOL = "unified"


@dataclass(frozen=True)
class _Asked:
    """A command line that was read, with the config.json of its model."""

    engine: Engine
    model: str
    config: Mapping[str, Any]
    arguments: Mapping[str, Any]
    notes: tuple[str, ...]


def verdict(
    command: str, version: str | None, nodes: Sequence[Node], model_files: ModelFiles
) -> Verdict:
    """Size a command line on every class of node; a refusal is an answer here, not an error."""
    try:
        asked = _read(command, version, model_files)
        plan = _plan(asked, node_classes.classes(nodes))
    except Refused as refusal:
        return Verdict(command[:200], "", None, refusal)
    title = f"vLLM {asked.engine.version}, as the command line starts it"
    return Verdict(asked.model, title, plan, None, _basis(asked))


def _basis(asked: _Asked) -> Basis:
    default = asked.engine.flags["--gpu-memory-utilization"].default
    return Basis(
        served_model.of(asked.config, asked.arguments),
        float(asked.arguments.get("gpu-memory-utilization", default)),
        kv_cache_bytes=asked.arguments.get("kv-cache-memory-bytes"),
    )


def table(
    command: str,
    version: str | None,
    nodes: Sequence[Node],
    model_files: ModelFiles,
    combinations: Sequence[Combination],
) -> tuple[str, list[Row]]:
    """Size a command line with each combination of flags on every class of node.

    Raises:
        Refused: The line cannot be read, or the version has no such flag.
        Invalid: A flag does not take a value.
    """
    asked = _read(command, version, model_files)
    classes = node_classes.classes(nodes).values()
    rows = []
    for combination in combinations:
        given = {field.lstrip("-"): value for field, value in combination}
        changed = {**asked.arguments, **arguments.read(given, asked.engine, "--vary")}
        rows += [_row(asked, changed, combination, node_class) for node_class in classes]
    return asked.model, rows


def _row(
    asked: _Asked, changed: Mapping[str, Any], combination: Combination, node_class: NodeClass
) -> Row:
    try:
        entry = _slice(asked, changed, node_class)
    except Refused as refusal:
        return Row(combination, _POOL, node_class.product, None, refusal)
    held = Held(entry.engine, entry.sizing, entry.gpus)
    return Row(combination, _POOL, node_class.product, held)


def _read(command: str, version: str | None, model_files: ModelFiles) -> _Asked:
    engine = engines.engine(version or engines.versions()[-1])
    split = words.split(command)
    path = words.config_file(split)
    read = serve.read(
        split, engine, None if path is None else files.read(path, "--serve: --config")
    )
    model = read.model or str(engine.flags["--model"].default)
    config = weights_index.added(_config_of(model, model_files.config), model_files.weights_index)
    return _Asked(engine, model, config, read.arguments, read.notes)


def _config_of(model: str, config_file: str | None) -> Mapping[str, Any]:
    if config_file is not None:
        return model_config.parse(files.read(config_file, "--config"), f"--config {config_file}")
    local = Path(model, "config.json")
    if local.is_file():
        return model_config.parse(files.read(str(local), "--serve"), str(local))
    known = models.find(model)
    if known is None:
        raise click.UsageError(
            f"--serve: the catalogue does not know {model[:200]}; give its config.json by --config"
        )
    return known.config


def _plan(asked: _Asked, classes: Mapping[str, NodeClass]) -> Plan:
    """Plan one pod on each class; the refusal of the first where it fits none."""
    slices, refusals = [], []
    for name, node_class in classes.items():
        try:
            slices.append(_slice(asked, asked.arguments, node_class))
        except Refused as refusal:
            refusals.append((name, refusal))
    if not slices and refusals:
        raise refusals[0][1]
    if not slices:
        raise click.UsageError("no node tells which GPU it has")
    excluded = [Exclusion(_POOL, name, r.reason, r.message) for name, r in refusals]
    return Plan("Unified", "", asked.engine.version, tuple(slices), tuple(excluded), asked.notes)


def _slice(asked: _Asked, flags: Mapping[str, Any], node_class: NodeClass) -> SlicePlan:
    model = served_model.of(asked.config, flags)
    found = sized.size(flags, model, asked.engine, node_class.gpu)
    config = found.settings.engine
    gpus = config.tensor_parallel * config.pipeline_parallel * config.data_parallel
    return SlicePlan(
        pool=_POOL,
        node_class=node_class,
        nodes=1,
        replicas=1,
        gpus=gpus,
        engine=config,
        sizing=found.sizing,
        because=found.because + _placement(config, gpus, node_class.gpus_per_node),
        prefill_tokens_per_second=transfer.prefill_tokens_per_second(
            model,
            node_class.gpu,
            config.tensor_parallel,
            min(transfer.USUAL_PROMPT_TOKENS, config.max_model_len),
        ),
    )


def _placement(config: EngineConfig, gpus: int, per_node: int) -> tuple[str, ...]:
    """Say what the GPUs of the command are, beside those of one engine."""
    told = []
    if config.data_parallel > 1:
        engines_count = config.data_parallel
        told.append(
            f"data-parallel-size {engines_count}: each of {engines_count} engines needs "
            f"{gpus // engines_count} of the {gpus} GPUs and has a KV cache of its own; KV and "
            "requests are those of one engine"
        )
    if gpus > per_node:
        told.append(f"{gpus} GPUs are more than the {per_node} of a node: it spans several nodes")
    return tuple(told)
