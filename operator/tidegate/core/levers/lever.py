"""A lever of the one on call: `spec.overload.override`, and the patch that sets or removes it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from tidegate.api.instant import parse_instant

FIELD_MANAGER = "kubectl-tidegate"
"""Who owns the field on the API server, so that `kubectl get --show-managed-fields` tells."""
_FIELDS = ("action", "percent", "to", "until", "reason", "setBy")


@dataclass(frozen=True)
class Lever:
    """What a person asks for.

    Attributes:
        action: Turn requests away, send them elsewhere, or keep the loop from doing either.
        until: When it lapses, with its zone.
        reason: Why, for those who come later.
        percent: Share of the requests; None with Open.
        to: The deployment that serves what is shifted; None otherwise.
    """

    action: Literal["Shed", "Shift", "Open"]
    until: datetime
    reason: str
    percent: float | None = None
    to: str | None = None

    def override(self) -> dict[str, Any]:
        """Return it as `spec.overload.override`."""
        percent = self.percent
        if percent is not None and percent == int(percent):
            percent = int(percent)
        fields = {
            "action": self.action,
            "percent": percent,
            "to": self.to,
            "until": self.until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "reason": self.reason,
        }
        return {key: value for key, value in fields.items() if value is not None}


def patch(lever: Lever | None, resource_version: str) -> dict[str, Any]:
    """Return the merge patch that sets a lever, or lets go of every one where it is None.

    It names every field: what an earlier lever had would else stay beside the new one. It holds
    for one version of the resource only.
    """
    override: dict[str, Any] | None = None
    if lever is not None:
        override = dict.fromkeys(_FIELDS) | lever.override()
    return {
        "metadata": {"resourceVersion": resource_version},
        "spec": {"overload": {"override": override}},
    }


def stored(resource: dict[str, Any]) -> dict[str, Any] | None:
    """Return the override that is written in a resource, lapsed or not."""
    found = ((resource.get("spec") or {}).get("overload") or {}).get("override")
    return found if isinstance(found, dict) else None


def is_written(lever: Lever | None, resource: dict[str, Any]) -> bool:
    """Tell whether a resource has this lever, whoever is its author; None: no lever."""
    found = stored(resource)
    if lever is None or found is None:
        return lever is None and found is None
    return {key: value for key, value in found.items() if key != "setBy"} == lever.override()


def held(resource: dict[str, Any], now: datetime) -> dict[str, Any] | None:
    """Return the override of a resource that holds: one that has lapsed does nothing any more."""
    found = stored(resource)
    return found if found is not None and now < moment(found.get("until")) else None


def moment(told: object) -> datetime:
    """Read a time that the API server has let pass; the last there is where it is none."""
    try:
        return parse_instant(told)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
