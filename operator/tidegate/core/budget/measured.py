"""What an engine told of its memory, in place of the estimates of a division.

An engine that profiles tells two kinds of numbers: terms with two decimals of a GiB, and how many
blocks it got, from which everything beside KV follows to a block. The second closes the sum: what
the terms leave open goes to the runtime, so the plan comes to the blocks that were seen.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from tidegate.api.figures import Figure, measured
from tidegate.core.budget.division import Case, Division
from tidegate.facts.gpus import Gpu

_SOURCE = "read from an engine of this configuration"


@dataclass(frozen=True)
class MeasuredTerms:
    """Bytes of each GPU; None is not known.

    `weights` has a draft's in it. `cuda_graphs` is what the engine takes from KV for them.
    `beside_kv` is all that it took off what it may use; None where it did not profile. `total` is
    the card, where it is not what the catalogue says.
    """

    weights_bytes: int | None = None
    activations_bytes: int | None = None
    cuda_graphs_bytes: int | None = None
    non_torch_bytes: int | None = None
    beside_kv_bytes: int | None = None
    total_bytes: int | None = None


def card(gpu: Gpu, terms: MeasuredTerms) -> Gpu:
    """Return a GPU with the memory that an engine saw on it."""
    if terms.total_bytes is None:
        return gpu
    return replace(gpu, cuda_total=_figure(terms.total_bytes))


def apply(divided: Division, terms: MeasuredTerms, case: Case) -> Division:
    """Return a division with what was measured.

    A line that the user fixed stays as it is, and the sum is then not closed.
    """
    fixed = _fixed_by_user(case)
    known = {
        name: _figure(value)
        for name, value in _lines(divided, terms).items()
        if value is not None and name not in fixed
    }
    result = replace(
        divided,
        weights=known.get("weights", divided.weights),
        activations=known.get("activations", divided.activations),
        cuda_graphs=known.get("cuda_graphs", divided.cuda_graphs),
        inside=known.get("inside", divided.inside),
    )
    is_whole = {"weights", "activations"} <= set(known) and _knows_graphs(divided, known)
    if fixed or not is_whole or terms.beside_kv_bytes is None:
        return result
    return _closed(result, terms.beside_kv_bytes)


def _lines(divided: Division, terms: MeasuredTerms) -> dict[str, int | None]:
    weights = terms.weights_bytes
    takes_graphs = divided.graphs_are_counted and divided.cuda_graphs.bytes
    return {
        "weights": None if weights is None else max(0, weights - divided.draft.bytes),
        "activations": terms.activations_bytes,
        "cuda_graphs": terms.cuda_graphs_bytes if takes_graphs else None,
        "inside": terms.non_torch_bytes,
    }


def _fixed_by_user(case: Case) -> set[str]:
    given = {"weights": case.weights_bytes, "activations": case.activations_bytes}
    return {name for name, value in given.items() if value is not None}


def _knows_graphs(divided: Division, known: Collection[str]) -> bool:
    """Say whether graphs take nothing from KV, or how much is known."""
    return "cuda_graphs" in known or not (divided.graphs_are_counted and divided.cuda_graphs.bytes)


def _closed(divided: Division, beside_kv_bytes: int) -> Division:
    """Make the lines add up to what the engine took; the terms are rounded, the sum is not."""
    graphs_bytes = divided.cuda_graphs.bytes if divided.graphs_are_counted else 0
    rest_bytes = beside_kv_bytes - divided.weights.bytes - divided.draft.bytes - graphs_bytes
    inside_bytes = rest_bytes - divided.activations.bytes
    activations_bytes = divided.activations.bytes + min(0, inside_bytes)
    if activations_bytes < 0:
        return divided  # the numbers contradict each other: none of their sums can be trusted
    return replace(
        divided,
        activations=_figure(activations_bytes),
        inside=_figure(max(0, inside_bytes)),
        is_measured=True,
    )


def _figure(count_bytes: int) -> Figure:
    return measured(count_bytes, _SOURCE)
