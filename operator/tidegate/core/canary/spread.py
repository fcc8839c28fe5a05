"""From a revision's pods by pool to the pods of each of its slices, one for each class of node."""

from collections.abc import Mapping


def of_plan(total: int, planned: Mapping[str, int]) -> dict[str, int]:
    """Divide a part of the replicas over classes as the plan divides all of them.

    So a canary has its share on each class, the largest first where there are not enough pods.
    """
    whole = sum(planned.values())
    if total >= whole:
        return dict(planned)
    parts = {name: total * count // whole for name, count in planned.items()}
    by_remainder = sorted(planned, key=lambda name: (-(total * planned[name] % whole), name))
    for name in by_remainder[: total - sum(parts.values())]:
        parts[name] += 1
    return parts


def of_running(
    total: int, asked: Mapping[str, int], wished: Mapping[str, int], crowd: Mapping[str, int]
) -> dict[str, int]:
    """Divide the pods of a revision that runs over its slices, moving as few as possible.

    They go where others lack places, and come where there is one.

    Args:
        total: Pods that it is to have.
        asked: Pods that each slice is asked for now.
        wished: Pods that each slice would have beside the other revision, if it could be chosen.
        crowd: Pods of other revisions without a place where each slice is; less than none where
            places are left.
    """
    parts = dict(asked)
    while parts and (missing := total - sum(parts.values())):
        step = 1 if missing > 0 else -1
        movable = [name for name, count in parts.items() if step > 0 or count > 0]
        without = {of: max(0, parts[of] + (step > 0) + crowd.get(of, 0)) for of in movable}
        name = min(
            movable, key=lambda of: (step * without[of], step * (parts[of] - wished.get(of, 0)), of)
        )
        parts[name] += step
    return parts
