"""Whatever happens, a rollout keeps its promises and ends, in clusters with and without room."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.core.rollout.slices import State

from .cluster_model import ClusterModel, Spec, Target

_STEPS = st.sampled_from(["pass", "pass", "control", "schedule", "start", "end", "hiccup", "spec"])


@st.composite
def _nodes(draw):
    count = draw(st.integers(1, 4))
    return {
        f"n{i}": (draw(st.sampled_from(["a", "b"])), draw(st.integers(1, 4))) for i in range(count)
    }


@st.composite
def _spec(draw, nodes, revision, *, gpus=None):
    """A spec whose pods fit the cluster when nothing else is there."""
    pools = draw(st.sampled_from([("unified",), ("prefill", "decode")]))
    per_pod = {pool: gpus or draw(st.integers(1, 2)) for pool in pools}
    room = {name: count for name, (_, count) in nodes.items()}
    targets: dict[tuple[str, str], int] = {}
    # pods are put on nodes one by one, the large ones first, so that the whole is known to fit
    for pool in sorted(pools, key=lambda name: -per_pod[name]):
        for _ in range(draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 4))):
            fitting = [name for name in sorted(room) if room[name] >= per_pod[pool]]
            if not fitting:
                break
            node = draw(st.sampled_from(fitting))
            room[node] -= per_pod[pool]
            key = (pool, nodes[node][0])
            targets[key] = targets.get(key, 0) + 1
    for pool in pools:
        if not any(name == pool for name, _ in targets):
            targets[pool, next(iter(sorted(nodes.values())))[0]] = 0
    return Spec(
        revision=revision,
        targets=tuple(Target(p, c, n, per_pod[p]) for (p, c), n in sorted(targets.items())),
        surge=draw(st.sampled_from([0, 1, 2, "25%"])),
        unavailable=draw(st.sampled_from([0, 1, 2, "25%", "100%"])),
        strategy=draw(st.sampled_from(["RollingUpdate"] * 4 + ["Recreate"])),
    )


def _shake(data, model, nodes, steps, gpus):
    for number, step in enumerate(steps):
        if step == "spec":
            revision = data.draw(st.sampled_from(["r1", "r2", "r3"]))
            spec = data.draw(_spec(nodes, revision, gpus=gpus))
            # one revision has one shape, as the hash has it: only replicas may differ
            shape = model_shapes(model).setdefault(
                revision, {target.pool: target.gpus for target in spec.targets}
            )
            if {target.pool: target.gpus for target in spec.targets} == shape:
                model.spec = spec
        elif step == "pass":
            model.pass_once()
        elif step in ("start", "end"):
            getattr(model, step)(1)
        elif step == "hiccup":
            model.hiccup(number)
        elif step == "schedule":
            model.schedule(number)
        else:
            model.control()


def model_shapes(model):
    return model.__dict__.setdefault("shapes", {})


def _assert_settled(model):
    assert model.settled(), model.last
    wanted = {
        f"{t.pool}-{model.spec.revision}-{t.node_class}": t.replicas for t in model.spec.targets
    }
    there = {name: row.replicas for name, row in model.rows.items()}
    assert {k: v for k, v in there.items() if v} == {k: v for k, v in wanted.items() if v}
    assert not model.pass_once(), "a settled rollout writes nothing"


def _live_through(data, gpus):
    nodes = data.draw(_nodes())
    model = ClusterModel(nodes, data.draw(_spec(nodes, "r0", gpus=gpus)))
    _shake(data, model, nodes, data.draw(st.lists(_STEPS, max_size=60)), gpus)
    model.run()
    return model


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_history_of_alike_pods_ends_settled_or_says_why_not(data):
    model = _live_through(data, gpus=1)
    if model.last.state == State.BLOCKED:
        assert any(
            limit.unavailable == 0 or limit.replicas > 1 for limit in model.spec.limits().values()
        )
        assert "raise rollout.max" in model.last.message
    else:
        _assert_settled(model)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_pods_of_different_size_end_settled_unless_the_free_gpus_are_scattered(data):
    model = _live_through(data, gpus=None)
    if model.last.state == State.STARTING:
        assert all(pod.refused or pod.ready for pod in model.pods), "a pod waits for no reason"
    elif model.last.state != State.BLOCKED:
        _assert_settled(model)
