"""kopf's part: it watches LLMDeployments and wakes the pass. No other module imports kopf here.

Only event handlers are used: they add no finalizer and no annotation, so kopf itself writes
nothing. What an event says is offered to the cache and then forgotten; the pass reads everything
anew.
"""

from collections.abc import Callable
from typing import Any

import kopf

from tidegate.api.llmdeployment import GROUP, PLURAL, VERSION
from tidegate.flow.ports import Ref
from tidegate.shell.kind_caches import KindCaches

_WATCH_SECONDS = 240
_CONNECT_SECONDS = 30
_RETRY_SECONDS = (1, 2, 5, 10)
"""Between kopf's tries of a call; after the last one it begins anew."""


def registry(
    deployments: KindCaches,
    wake: Callable[[Ref], None],
    login: Callable[[], kopf.ConnectionInfo],
    started: Callable[[], None],
) -> kopf.OperatorRegistry:
    """Return the handlers of one operator process; `started` is called at each start of kopf."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.startup(registry=handlers)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False  # Events are written by the pass, on transitions only
        settings.peering.standalone = True  # leadership is by our own Lease
        settings.scanning.disabled = True  # or it wants to list every CRD and namespace
        settings.watching.server_timeout = _WATCH_SECONDS
        settings.watching.client_timeout = _WATCH_SECONDS + 60
        settings.watching.connect_timeout = _CONNECT_SECONDS
        settings.networking.error_backoffs = _RETRY_SECONDS
        started()

    @kopf.on.login(registry=handlers)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return login()

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=handlers)
    async def changed(
        type: str | None, body: kopf.Body, name: str, namespace: str | None, **_: Any
    ) -> None:
        if type != "DELETED":
            deployments.offer(dict(body))
        wake(Ref(namespace or "", name))

    return handlers
