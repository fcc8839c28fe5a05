"""Does a prefill/decode split pay: what the transfer of a prompt costs beside computing it."""

import math

from tidegate.api.reasons import Reason
from tidegate.core.checks import nearest, speed
from tidegate.core.checks.subject import Slice
from tidegate.core.checks.verdict import Severity, Verdict, between, duration, size

_WORTHWHILE_SHARE = 0.5
"""A transfer above this share of the prefill, at its fastest, takes more than the split saves."""


def split_does_not_pay(at: Slice) -> Verdict | None:
    """Moving a p95 prompt takes long beside computing it."""
    if at.entry.pool != "prefill":
        return None
    share = _share(at)
    if share is None or share <= _WORTHWHILE_SHARE:
        return None
    needed = math.ceil(at.spec.kv_cache.transfer.bandwidth * share / _WORTHWHILE_SHARE)
    field = "spec.kvCache.transfer.bandwidth"

    def pays(found: Slice) -> str | None:
        then = _share(found)
        return f"moves it in {duration(_moved(found))}" if _pays(then) else None

    dtypes = nearest.other_kv_dtypes(at.spec.kv_cache.dtype)
    return at.verdict(
        Reason.SPLIT_DOES_NOT_PAY,
        Severity.WARN,
        f"{_costs(at)}; a network of {size(needed)}/s or a unified pool would",
        field,
        tuple(nearest.change("spec.kvCache.dtype", dtypes, at.with_field, pays)),
    )


def split_priced(at: Slice) -> Verdict | None:
    """What the transfer costs where it pays."""
    if at.entry.pool != "prefill" or not _pays(_share(at)):
        return None
    return at.verdict(
        Reason.SPLIT_PRICED,
        Severity.INFORM,
        _costs(at),
        "spec.kvCache.transfer",
    )


def _pays(share: float | None) -> bool:
    return share is not None and share <= _WORTHWHILE_SHARE


def _share(at: Slice) -> float | None:
    """Return the transfer as a share of the fastest prefill; None where that is not known."""
    computed = speed.prefill_seconds(at, _tokens(at))
    return None if computed is None or not computed[0] else _moved(at) / computed[0]


def _moved(at: Slice) -> float:
    return speed.transfer_seconds(at, _tokens(at))


def _tokens(at: Slice) -> int:
    workload = at.spec.workload
    return workload.prompt_tokens.p95 if workload else at.entry.engine.max_model_len


def _costs(at: Slice) -> str:
    computed = speed.prefill_seconds(at, _tokens(at))
    beside = f", beside {between(*computed)} of computing it" if computed else ""
    return (
        f"moving the KV of a prompt of {_tokens(at):,} tokens takes {duration(_moved(at))} at "
        f"{size(at.spec.kv_cache.transfer.bandwidth)}/s{beside}"
    )
