"""Kubeconfigs: which one a user's command goes by, and what is read of one.

The client's own functions name `KUBECONFIG` once in a process, and fail on a file that is no
kubeconfig in many ways; here it is one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from kubernetes.aio import config
from kubernetes.aio.client import Configuration

_ACCOUNTS_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_BROKEN = (yaml.YAMLError, AttributeError, KeyError, TypeError, UnicodeDecodeError)
"""What the client raises on a file that is something else."""


def of_user(named: str | None) -> str | None:
    """Return the kubeconfig of a user's command, as kubectl finds it: of a pod's account last.

    None where there is none at all. One that `KUBECONFIG` names and that is not there is not
    passed over: the command would go to another cluster than the user means.
    """
    if named or os.environ.get("KUBECONFIG"):
        return named or os.environ["KUBECONFIG"]
    usual = os.path.expanduser("~/.kube/config")
    return usual if os.path.exists(usual) else None


async def load(path: str | None, context: str | None, settings: Configuration) -> None:
    """Read address and credentials into `settings`.

    Raises:
        ConfigException: There is no kubeconfig that can be used.
    """
    with _readable(path):
        await config.load_kube_config(
            config_file=path, context=context, client_configuration=settings
        )


def namespace(path: str | None, context: str | None) -> str:
    """Return the namespace of a context; without a kubeconfig that of the pod's account.

    Raises:
        ConfigException: There is no kubeconfig that can be used.
    """
    if path is None:
        try:
            return _ACCOUNTS_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
        except OSError:
            return "default"
    with _readable(path):
        contexts, current = config.list_kube_config_contexts(config_file=path)
        chosen = next((entry for entry in contexts if entry["name"] == context), current)
        return str(chosen["context"].get("namespace") or "default")


@contextmanager
def _readable(path: str | None) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise config.ConfigException(f"{path} is no kubeconfig: {error}") from error
