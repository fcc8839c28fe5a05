"""A write is needed when, and only when, the live object lacks something of what is wanted."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core import differs, names

_TEXT = st.text(alphabet="abcxyz", min_size=1, max_size=4)
_VALUES = st.recursive(
    st.one_of(_TEXT, st.integers(1, 9), st.just(True)),
    lambda inner: st.one_of(
        st.dictionaries(_TEXT, inner, min_size=1, max_size=3),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)


def a_document(**spec):
    return {"kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": spec}


def stored(document):
    """What the API server makes of it: its own fields, defaults, and those of other writers."""
    live = copy.deepcopy(document)
    live["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 1}
    live["metadata"].setdefault("labels", {})["somebody"] = "else"
    live["spec"]["dnsPolicy"] = "ClusterFirst"
    live["status"] = {"replicas": 1}
    return live


@given(st.dictionaries(_TEXT, _VALUES, max_size=4))
def test_what_was_applied_does_not_differ(spec):
    applied = differs.stamp(a_document(**spec))
    assert not differs.differs(applied, stored(applied))


@given(st.dictionaries(_TEXT, _VALUES, min_size=1, max_size=4), st.data())
def test_a_changed_or_removed_field_differs(spec, data):
    live = stored(differs.stamp(a_document(**spec)))
    changed = dict(spec)
    key = data.draw(st.sampled_from(sorted(spec)))
    if data.draw(st.booleans()):
        changed[key] = {"new": "value"} if spec[key] != {"new": "value"} else "other"
    else:
        del changed[key]
    assert differs.differs(differs.stamp(a_document(**changed)), live)


@given(st.dictionaries(_TEXT, _VALUES, min_size=1, max_size=4), st.data())
def test_a_field_that_somebody_changed_is_put_right(spec, data):
    applied = differs.stamp(a_document(**spec))
    live = stored(applied)
    key = data.draw(st.sampled_from(sorted(spec)))
    live["spec"][key] = "drifted!"
    assert differs.differs(applied, live)


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        ({"resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}},
         {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}),
        ({"emptyDir": {"sizeLimit": "2048Mi"}}, {"emptyDir": {"sizeLimit": "2Gi"}}),
        ({"env": [{"name": "A", "value": ""}]}, {"env": [{"name": "A"}]}),
        ({"nodeSelector": {}, "args": [], "x": None}, {}),
        ({"publishNotReadyAddresses": False}, {}),
        ({"emptyDir": {}}, {"emptyDir": {}}),
        ({"containers": [{"name": "engine", "image": "i"}]},
         {"containers": [{"name": "sidecar"}, {"name": "engine", "image": "i", "tty": True}]}),
    ],
)  # fmt: skip
def test_what_the_api_server_writes_in_another_way_does_not_differ(wanted, there):
    applied = differs.stamp(a_document(**wanted))
    live = stored(applied)
    live["spec"] = {**there, "dnsPolicy": "ClusterFirst"}
    assert not differs.differs(applied, live)


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        ({"automount": False}, {}),
        ({"args": ["a", "b"]}, {"args": ["a"]}),
        ({"args": ["a"]}, {"args": ["a", "b"]}),
        ({"port": 80}, {"port": "80"}),
        ({"replicas": 2}, {"replicas": 3}),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}}),
        ({"limits": {"cpu": "1"}}, {}),
        ({"containers": [{"name": "engine"}]}, {"containers": [{"name": "sidecar"}]}),
    ],
)
def test_what_is_really_another_value_differs(wanted, there):
    applied = differs.stamp(a_document(**wanted))
    live = stored(applied)
    live["spec"] = there
    assert differs.differs(applied, live)


def test_replicas_are_compared_and_not_in_the_digest():
    two, three = (differs.stamp(a_document(replicas=count, x="y")) for count in (2, 3))
    annotation = names.ANNOTATION_APPLIED
    assert (
        two["metadata"]["annotations"][annotation] == three["metadata"]["annotations"][annotation]
    )
    assert differs.differs(three, stored(two))
