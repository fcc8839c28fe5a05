"""Laws of the checks, over specs and cards: a suggestion works, and more memory never hurts."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tidegate.core.checks import Severity
from tidegate.core.checks.subject import with_field
from tidegate.facts import gpus

from . import worlds

GIB = 2**30
CARDS = [
    product
    for product in gpus.known_products()
    if (card := gpus.find(product, None)) is not None
    and card.compute_capability is not None
    and card.compute_capability >= (7, 5)
    and not product.endswith("SHARED")
]
SIZES = st.sampled_from([1, 2, 3, 4, 8])
POOL = st.fixed_dictionaries(
    {"tensorParallel": SIZES, "replicas": st.integers(1, 6)},
    optional={"resources": st.just({"limits": {"memory": "96Gi"}})},
)
POOLS = st.one_of(
    st.fixed_dictionaries({"unified": POOL}),
    st.fixed_dictionaries({"prefill": POOL, "decode": POOL}),
)
LENGTHS = st.sampled_from([2048, 8192, 16384, 24576, 32768, 40960, 100_000])
SPECS = st.fixed_dictionaries(
    {
        "model__id": st.sampled_from(["Qwen/Qwen3-32B", "Qwen/Qwen3-8B"]),
        "pools": POOLS,
        "engine__maxModelLen": LENGTHS,
    },
    optional={
        "kvCache__dtype": st.sampled_from(["fp8", "int8", "nvfp4", "k8v4"]),
        "kvCache__offload": st.sampled_from([{"cpu": "16Gi"}, {"cpu": "200Gi"}, {"cpu": "2Ti"}]),
        "kvCache__blockSize": st.sampled_from([16, 32, 100]),
        "engine__maxNumSeqs": st.sampled_from([8, 128, 1024]),
        "engine__maxNumBatchedTokens": st.sampled_from([256, 2048, 16384]),
        "engine__prefixCaching": st.booleans(),
        "engine__extraArgs": st.just(["--enable-lora", "--max-lora-rank=64"]),
        "budget__kvCache": st.sampled_from(["1Gi", "20Gi", "100Gi"]),
        "workload__sharedPrefixTokens": st.sampled_from([10, 800, 3900]),
        "workload__peakRequestsPerSecond": st.sampled_from([0.5, 10, 100]),
        "slo": st.sampled_from(
            [
                {"timeToFirstToken": "1s", "timePerOutputToken": "50ms"},
                {"timeToFirstToken": "50ms", "timePerOutputToken": "2ms"},
            ]
        ),
        "kvCache__transfer": st.sampled_from([{"bandwidth": "1Gi"}, {"bandwidth": "50Gi"}]),
    },
)


def identity(verdict):
    return verdict.reason, verdict.field, verdict.pool, verdict.node_class


@given(changes=SPECS, card=st.sampled_from(CARDS), whole=st.sampled_from([4, 6, 8]))
@settings(max_examples=150, deadline=None)
def test_a_suggested_change_passes_the_check_that_suggested_it(changes, card, whole):
    asked, node = worlds.spec(**changes), worlds.node(card, whole)
    _, found = worlds.checked(asked, node)
    refused = [v for v in found if v.severity is Severity.REFUSE]

    for verdict in found:
        for change in verdict.changes:
            changed = with_field(asked, change.field, change.value)
            assert changed is not None, change
            plan, then = worlds.checked(changed, node)
            if verdict.severity is Severity.REFUSE and len(refused) == 1:
                assert plan is not None, change
                assert not [v for v in then if v.severity is Severity.REFUSE], change
            assert identity(verdict) not in {
                identity(v) for v in then if v.severity is verdict.severity
            }, change


@given(
    changes=SPECS,
    gib=st.integers(4, 190),
    more_gib=st.integers(1, 120),
    capability=st.sampled_from([(8, 0), (9, 0), (10, 0)]),
)
@settings(max_examples=40, deadline=None)
def test_a_larger_card_never_turns_a_pass_into_a_refusal(changes, gib, more_gib, capability):
    # the engine's own defaults for a batch grow with the card, and so does what they take
    fixed = {"engine__maxNumSeqs": 64, "engine__maxNumBatchedTokens": 2048}
    asked = worlds.spec(**(changes | fixed))
    small = worlds.node_of_memory(gib * GIB, capability)
    _, before = worlds.checked(asked, small)
    assume(not any(v.severity is Severity.REFUSE for v in before))
    _, after = worlds.checked(asked, worlds.node_of_memory((gib + more_gib) * GIB, capability))

    assert not [v.line for v in after if v.severity is Severity.REFUSE]


@given(changes=SPECS, card=st.sampled_from(CARDS))
@settings(max_examples=40, deadline=None)
def test_checks_are_the_same_again_and_every_line_fits_a_status(changes, card):
    asked, node = worlds.spec(**changes), worlds.node(card)
    found = worlds.verdicts(asked, node)

    assert worlds.verdicts(asked, node) == found
    for verdict in found:
        assert "\n" not in verdict.line
        assert verdict.wire()["severity"] in ("refuse", "warn", "inform")
