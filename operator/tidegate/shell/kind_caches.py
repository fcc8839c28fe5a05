"""The objects of one kind, wherever the operator looks: in all namespaces, or in some of them."""

from collections.abc import Callable, Iterable, Sequence

from tidegate.flow.ports import Document, Ref
from tidegate.shell.cache import Cache
from tidegate.shell.resources import Resource


class KindCaches:
    """One cache for all namespaces, or one for each that is named; read as if it were one.

    What is of no namespace that is looked at is not there, and is not taken.
    """

    def __init__(
        self,
        resource: Resource,
        keep: Callable[[Document], Document | None],
        changed: Callable[[Document], None],
        selector: str | None = None,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._by_namespace = {
            namespace: Cache(resource, keep, changed, selector, namespace)
            for namespace in namespaces or (None,)
        }

    def caches(self) -> list[Cache]:
        """Return the caches, to be run."""
        return list(self._by_namespace.values())

    def all(self) -> Iterable[Document]:
        """Return every object."""
        for cache in self._by_namespace.values():
            yield from cache.all()

    def get(self, namespace: str, name: str) -> Document | None:
        """Return one object."""
        cache = self._of(namespace)
        return cache.get(namespace, name) if cache else None

    def of(self, ref: Ref) -> list[Document]:
        """Return the objects that carry a deployment's label."""
        cache = self._of(ref.namespace)
        return cache.of(ref) if cache else []

    def offer(self, document: Document) -> None:
        """Take an object that came by another way, unless the cache knows better."""
        cache = self._of(document["metadata"]["namespace"])
        if cache is not None:
            cache.offer(document)

    def _of(self, namespace: str) -> Cache | None:
        return self._by_namespace.get(namespace) or self._by_namespace.get(None)
