"""Has the engine double in a pod go wrong, and be well again."""

import contextlib
import json
from collections.abc import Iterator

from e2e.kube import Document, Kube

_PORT = 8000


def put(kube: Kube, pod: Document, **faults: str) -> None:
    """Have it go wrong from now on; without faults, be well."""
    kube.text(f"{kube.pod_path(pod, _PORT)}/double/faults", "PUT", faults)


@contextlib.contextmanager
def failing(kube: Kube, pod: Document, **faults: str) -> Iterator[None]:
    """Have it go wrong for a while: `answers` or `metrics` of `e2e/double/faults.py`."""
    put(kube, pod, **faults)
    try:
        yield
    finally:
        put(kube, pod)


def pool(kube: Kube, pod: Document) -> Document:
    """Return what its KV pool has held at most, and whether it was ever too small."""
    found: Document = json.loads(kube.text(f"{kube.pod_path(pod, _PORT)}/double/pool"))
    return found
