"""`tidegate gate`: the data plane of one deployment."""

from pathlib import Path

import click

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("gate", short_help="Run a gate: what clients of a deployment connect to.")
@click.option("--namespace", required=True, help="The deployment's namespace.")
@click.option("--deployment", required=True, help="The deployment's name.")
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True)
@click.option(
    "--admin-port",
    type=click.IntRange(1, 65535),
    default=9090,
    show_default=True,
    help="Port of /metrics, /healthz, /readyz, /configz, /podz and /probe.",
)
@click.option("--host", help="Address to listen on; every address when absent.")
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("/var/lib/tidegate"),
    show_default=True,
    help="Folder of the copies that a restarted gate serves by while the API server is away.",
)
@click.option(
    "--keys-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of tenants and their keys; read again when it changes.",
)
@click.option("--config-file", type=_FILE, help="Run without a cluster, by this configuration.")
@click.option("--endpoints-file", type=_FILE, help="Run without a cluster: the engines.")
@click.option("--api-server", metavar="URL", help="API server; that of the pod when absent.")
@click.option(
    "--account-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder with token and ca.crt of the account; that of the pod when absent.",
)
@click.option(
    "--linger",
    "linger_seconds",
    type=click.FloatRange(0, 300),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="From the signal to stop to the closing of the port.",
)
@click.option(
    "--peer",
    "peers",
    multiple=True,
    metavar="NAME=HOST:PORT",
    help="Where another deployment's gate is; the cluster's DNS tells when absent.",
)
@click.option(
    "--log-requests",
    type=click.Choice(["all", "failed", "none"]),
    default="failed",
    show_default=True,
    help="Which requests get a log line.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def command(
    namespace: str,
    deployment: str,
    port: int,
    admin_port: int,
    host: str | None,
    state_dir: Path,
    keys_file: Path | None,
    config_file: Path | None,
    endpoints_file: Path | None,
    api_server: str | None,
    account_dir: Path | None,
    linger_seconds: float,
    peers: tuple[str, ...],
    log_requests: str,
    log_level: str,
) -> None:
    """Run a gate until it is stopped.

    Example, without a cluster: tidegate gate --namespace chat --deployment qwen
    --config-file gate.json --endpoints-file endpoints.json
    """
    from tidegate.gate.shell import logs, run
    from tidegate.gate.shell.api_server import ACCOUNT_FOLDER, Account
    from tidegate.gate.shell.request_log import Which
    from tidegate.gate.shell.settings import ByCluster, ByFiles, Settings

    source: ByFiles | ByCluster
    if config_file is not None and endpoints_file is not None:
        source = ByFiles(config_file, endpoints_file)
    elif config_file is not None or endpoints_file is not None:
        raise click.UsageError("give --config-file and --endpoints-file together")
    else:
        folder = account_dir or ACCOUNT_FOLDER
        account = Account(api_server, folder) if api_server else Account.of_pod(folder)
        if account is None:
            raise click.UsageError(
                "this is no pod: give --config-file and --endpoints-file, or --api-server"
            )
        source = ByCluster(account, state_dir)
    settings = Settings(
        namespace=namespace,
        deployment=deployment,
        source=source,
        host=host,
        port=port,
        admin_port=admin_port,
        keys_file=keys_file,
        linger_seconds=linger_seconds,
        request_log=Which(log_requests),
        peers=dict(map(_peer, peers)),
    )
    writing = logs.to_stderr(log_level)
    try:
        run.run(settings)
    finally:
        writing.stop()


def _peer(text: str) -> tuple[str, tuple[str, int]]:
    name, _, address = text.partition("=")
    host, _, port = address.rpartition(":")
    if not name or not host or not port.isascii() or not port.isdigit():
        raise click.BadParameter(f"{text!r} is not NAME=HOST:PORT", param_hint="--peer")
    return name, (host.strip("[]"), int(port))
