"""What clients notice of a rollout: as little as the limits allow."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.rollout.slices import State

from .cluster_model import ClusterModel, Spec, Target

_COUNTS = st.integers(1, 4)
_SLOW_STEPS = ("control", "schedule", "start", "end")


@st.composite
def _rollouts(draw):
    """A deployment at rest on class a, and the same of a new revision."""
    pools = draw(st.sampled_from([("unified",), ("prefill", "decode")]))
    targets = tuple(Target(pool, "a", draw(_COUNTS)) for pool in pools)
    surge, unavailable = draw(st.sampled_from([0, 1, 2])), draw(st.sampled_from([0, 1, 2]))
    return Spec("old", targets, surge, unavailable), Spec("new", targets, surge, unavailable)


def _at_rest(spec, spare_gpus):
    count = sum(target.replicas * target.gpus for target in spec.targets)
    model = ClusterModel({"n0": ("a", count), "n1": ("a", spare_gpus)}, spec)
    model.run()
    assert model.settled()
    return model


def _slowly(model, order, passes=300):
    """Yield after each single thing that happens, one pod at a time, until nothing moves."""
    still = 0
    for number in range(passes):
        moved = model.pass_once()
        yield
        for step in _SLOW_STEPS:
            argument = (1,) if step in ("start", "end") else ()
            if order[number % len(order)] != step:
                moved |= getattr(model, step)(*argument)
                yield
        still = 0 if moved else still + 1
        if still > len(order):
            return


_ORDER = st.lists(st.sampled_from([*_SLOW_STEPS, "none"]), min_size=1, max_size=6).filter(
    lambda order: len(set(order)) > 1 or order == ["none"]
)


@settings(max_examples=40, deadline=None)
@given(specs=_rollouts(), order=_ORDER)
def test_without_a_free_gpu_a_rollout_stays_within_its_limits(specs, order):
    old, new = specs
    model = _at_rest(old, spare_gpus=0)
    model.spec = new
    limits = new.limits()
    for _ in _slowly(model, order):
        for pool, limit in limits.items():
            if all(other.least_ready for other in limits.values()):
                assert model.serving(pool) >= limit.least_ready
            assert sum(p.ready for p in model.pods if p.slice.startswith(pool)) >= limit.least_ready
    if all(limit.unavailable for limit in limits.values()):
        assert model.settled(), model.last
    else:
        assert model.last.state == State.BLOCKED


@settings(max_examples=40, deadline=None)
@given(specs=_rollouts(), order=_ORDER)
def test_with_a_free_gpu_for_each_pool_no_request_is_lost(specs, order):
    old, new = specs
    new.surge = max(1, new.surge)
    model = _at_rest(old, spare_gpus=len(new.targets))
    model.spec = new
    for _ in _slowly(model, order):
        for target in new.targets:
            assert model.serving(target.pool) >= target.replicas
    assert model.settled(), model.last


@settings(max_examples=40, deadline=None)
@given(specs=_rollouts(), order=_ORDER, spare=st.integers(0, 2))
def test_a_revision_that_never_starts_does_not_end_the_one_that_serves(specs, order, spare):
    old, new = specs
    limits = new.limits()
    if not all(limit.least_ready for limit in limits.values()):
        return
    model = _at_rest(old, spare)
    model.spec, model.broken = new, {"new"}
    for _ in _slowly(model, order, passes=60):
        for pool, limit in limits.items():
            assert model.serving(pool) >= limit.least_ready
    model.spec = Spec("fixed", new.targets, new.surge, new.unavailable)
    model.run()
    if spare >= len(limits) or all(limit.unavailable for limit in limits.values()):
        assert model.settled(), model.last


@settings(max_examples=40, deadline=None)
@given(specs=_rollouts(), order=_ORDER)
def test_recreate_never_has_pods_of_two_revisions(specs, order):
    old, new = specs
    model = _at_rest(old, spare_gpus=8)
    model.spec = new
    new.strategy = "Recreate"
    for _ in _slowly(model, order):
        assert len({model.rows[pod.slice].revision for pod in model.pods}) <= 1
    assert model.settled(), model.last


def test_one_prefill_and_one_decode_on_two_gpus_are_replaced_without_a_deadlock():
    targets = (Target("prefill", "a", 1), Target("decode", "a", 1))
    model = _at_rest(Spec("old", targets), spare_gpus=0)
    model.spec = Spec("new", targets)
    model.run()
    assert model.settled()


def test_pods_of_two_gpus_do_not_wait_on_nodes_with_one_free_each():
    old = Spec("old", (Target("unified", "a", 4, gpus=1),))
    model = ClusterModel({"n0": ("a", 2), "n1": ("a", 2)}, old)
    model.run()
    model.spec = Spec("new", (Target("unified", "a", 2, gpus=2),))
    model.run()
    assert model.settled()


def test_two_pools_that_swap_their_classes_make_room_for_each_other():
    old = (Target("prefill", "b", 2), Target("decode", "a", 2))
    new = (Target("prefill", "a", 2), Target("decode", "b", 2))
    model = ClusterModel({"n0": ("a", 2), "n1": ("b", 2)}, Spec("old", old))
    model.run()
    model.spec = Spec("new", new)
    model.run()
    assert model.settled()


def test_a_gpu_that_somebody_else_takes_first_does_not_hold_up_the_rollout():
    spec = Spec("old", (Target("unified", "a", 2),))
    model = _at_rest(spec, spare_gpus=1)
    model.spec = Spec("new", spec.targets)
    model.pass_once()
    model.control()
    model.foreign["n1"] = 1  # before the scheduler placed the surge pod
    model.run()
    assert model.settled()


@pytest.mark.parametrize("mode", ["to a pair", "to unified"])
def test_a_change_of_mode_keeps_the_old_pods_until_the_new_ones_serve(mode):
    unified = (Target("unified", "a", 2),)
    pair = (Target("prefill", "a", 1), Target("decode", "a", 1))
    before, after = (unified, pair) if mode == "to a pair" else (pair, unified)
    model = _at_rest(Spec("old", before), spare_gpus=2)
    model.spec = Spec("new", after)
    for _ in _slowly(model, ["none"]):
        assert model.serving(before[0].pool) or model.serving(after[0].pool)
    assert model.settled()


def test_a_hiccup_of_a_lone_prefill_pod_does_not_end_its_decode_pods():
    targets = (Target("prefill", "a", 1), Target("decode", "a", 4))
    model = _at_rest(Spec("old", targets), spare_gpus=0)
    model.spec = Spec("new", targets)
    for pod in model.pods:
        if pod.slice.startswith("prefill"):
            pod.ready = False
    model.pass_once()
    assert model.rows["prefill-old-a"].replicas == 1
    assert model.rows["decode-old-a"].replicas >= 3
