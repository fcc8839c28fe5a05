"""The scheduler keeps its books: no block is lost, and preemption changes no text."""

from dataclasses import replace

import pytest
from e2e.double.blocks import BlockPool
from e2e.double.generation import Generator, Sampling
from e2e.double.kv_cache import KVCache
from e2e.double.scheduler import Limits, Scheduler
from e2e.double.sequences import FinishReason, RemoteKV, Sequence, Times
from e2e.double.vocabulary import END_TOKEN, Vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st

BLOCK = 4
WORDS = Vocabulary([f" w{number}" for number in range(200)])
LIMITS = Limits(max_model_len=64, max_sequences=8, max_batched_tokens=32)


def make_scheduler(blocks=40, limits=LIMITS, mean_output=None, **options):
    cache = KVCache(BlockPool(blocks), BLOCK, keeps_contents=True)
    return Scheduler(limits, cache, Generator(WORDS, mean_output), **options)


def make_sequence(name, prompt, **options):
    sampling = Sampling(**{"max_tokens": 8, **options.pop("sampling", {})})
    arrived = options.pop("arrived", 0.0)
    return Sequence(name, tuple(prompt), sampling, Times(arrived), **options)


def run(scheduler, steps=10_000, check=None):
    """Step until nothing is left, a second a step; returns the number of steps."""
    for count in range(steps):
        step = scheduler.schedule(float(count))
        if check:
            check(scheduler, step)
        scheduler.complete(step, float(count) + 1)
        if not any(scheduler.sequences()):
            return count + 1
    raise AssertionError("the scheduler does not come to an end")


def check_books(scheduler, step):
    pool, limits = scheduler.cache.pool, scheduler.limits
    owned = {block for sequence in scheduler.sequences() for block in sequence.blocks}
    held = {block for held in scheduler.cache.held.values() for block in held.blocks}
    assert 0 not in owned, "the null block was handed out"
    assert len(owned | held) + pool.free_count == pool.block_count - 1
    assert pool.usage == pytest.approx(len(owned | held) / (pool.block_count - 1))
    assert step.tokens <= limits.max_batched_tokens
    assert len(scheduler.running) <= limits.max_sequences
    for sequence in scheduler.running:
        assert len(sequence.blocks) * BLOCK >= sequence.computed


prompts = st.lists(
    st.lists(st.integers(262, 265), min_size=1, max_size=40), min_size=1, max_size=12
)
limit_sets = st.builds(
    Limits,
    max_model_len=st.just(64),
    max_sequences=st.integers(1, 8),
    max_batched_tokens=st.integers(8, 64),
    long_prefill_threshold=st.sampled_from([0, 5]),
    watermark=st.sampled_from([0.0, 0.1]),
    reserves_full_prompt=st.booleans(),
    is_priority=st.booleans(),
)


@given(prompts, limit_sets, st.integers(18, 60), st.integers(1, 24))
@settings(max_examples=60, deadline=None)
def test_every_sequence_finishes_and_no_block_is_lost(texts, limits, blocks, output):
    scheduler = make_scheduler(blocks, limits)
    sequences = [
        make_sequence(f"s{number}", text, sampling={"max_tokens": output}, priority=number % 3)
        for number, text in enumerate(texts)
    ]
    for sequence in sequences:
        scheduler.add(sequence)
    run(scheduler, check=check_books)
    assert scheduler.cache.pool.usage == 0
    assert [len(sequence.output) for sequence in sequences] == [output] * len(sequences)


@given(prompts, st.integers(1, 24))
@settings(max_examples=40, deadline=None)
def test_a_preempted_sequence_says_the_same(texts, output):
    def outputs(blocks):
        scheduler = make_scheduler(blocks)
        sequences = [
            make_sequence(str(number), text, sampling={"max_tokens": output})
            for number, text in enumerate(texts)
        ]
        for sequence in sequences:
            scheduler.add(sequence)
        run(scheduler)
        return [sequence.output for sequence in sequences]

    assert outputs(blocks=18) == outputs(blocks=400)


@given(prompts)
@settings(max_examples=40, deadline=None)
def test_prefix_hits_are_whole_blocks_of_less_than_the_prompt(texts):
    scheduler = make_scheduler(400, replace(LIMITS, max_sequences=1))
    sequences = [make_sequence(str(number), text) for number, text in enumerate(texts)]
    for sequence in sequences:
        scheduler.add(sequence)
    run(scheduler)
    for sequence in sequences:
        assert sequence.local_hit_tokens % BLOCK == 0
        assert sequence.local_hit_tokens < len(sequence.prompt)
    assert scheduler.totals.local_hits == sum(s.local_hit_tokens for s in sequences)
    assert scheduler.totals.local_queries == sum(len(text) for text in texts)


def test_pressure_preempts_the_last_one_and_prefers_the_first():
    scheduler = make_scheduler(blocks=18)
    first, second = make_sequence("a", range(262, 294)), make_sequence("b", range(300, 332))
    for sequence in (first, second):
        sequence.sampling = replace(sequence.sampling, max_tokens=20)
        scheduler.add(sequence)
    run(scheduler)
    assert (first.preemptions, second.preemptions > 0) == (0, True)
    assert scheduler.totals.preemptions == second.preemptions


def test_the_priority_policy_serves_low_numbers_first_and_preempts_high_ones():
    limits = replace(LIMITS, is_priority=True, max_sequences=1)
    scheduler = make_scheduler(limits=limits)
    ordinary, urgent = make_sequence("a", [262], priority=5), make_sequence("b", [263], priority=-1)
    scheduler.add(ordinary)
    scheduler.add(urgent)
    assert [work.sequence for work in scheduler.schedule(0.0).work] == [urgent]


def test_a_long_prompt_is_computed_in_chunks_beside_others():
    limits = replace(LIMITS, max_batched_tokens=16, long_prefill_threshold=6)
    scheduler = make_scheduler(limits=limits)
    scheduler.add(make_sequence("long", range(262, 302)))
    scheduler.add(make_sequence("short", [300]))
    shares = {work.sequence.id: work.tokens for work in scheduler.schedule(0.0).work}
    assert shares == {"long": 6, "short": 1}


def test_without_chunked_prefill_a_prompt_waits_for_a_step_of_its_own_size():
    limits = replace(LIMITS, is_chunked=False)
    scheduler = make_scheduler(limits=limits)
    scheduler.add(make_sequence("a", range(262, 282)))
    scheduler.add(make_sequence("b", range(262, 282)))
    assert [work.tokens for work in scheduler.schedule(0.0).work] == [20]


def test_a_repeated_prompt_computes_only_its_last_block():
    scheduler = make_scheduler(limits=replace(LIMITS, max_sequences=1))
    for name in "ab":
        scheduler.add(make_sequence(name, range(262, 278)))
    run(scheduler)
    assert scheduler.totals.local_hits == 12  # of 16: one token at least is computed


def test_a_cache_salt_separates_prefixes():
    scheduler = make_scheduler(limits=replace(LIMITS, max_sequences=1))
    for salt in ("a", "b"):
        scheduler.add(make_sequence(salt, range(262, 278), cache_salt=salt))
    run(scheduler)
    assert scheduler.totals.local_hits == 0


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        ({"max_tokens": 5}, FinishReason.LENGTH),
        ({"max_tokens": 50}, FinishReason.LENGTH),  # max_model_len comes first
        ({"max_tokens": 5, "stop_token_ids": frozenset(range(262, 500))}, FinishReason.STOP),
    ],
)
def test_a_sequence_ends_by_length_or_stop(sampling, expected):
    scheduler = make_scheduler()
    sequence = make_sequence("a", [262] * 40, sampling=sampling)
    scheduler.add(sequence)
    run(scheduler)
    assert sequence.finish is expected
    assert sequence.length <= LIMITS.max_model_len


def test_the_mean_output_length_is_kept_and_ignore_eos_switches_it_off():
    scheduler = make_scheduler(4000, replace(LIMITS, max_model_len=4096), mean_output=20)
    free = [
        make_sequence(
            str(number),
            [262, 262 + number % 200, 262 + number // 200],
            sampling={"max_tokens": 1000},
        )
        for number in range(400)
    ]
    bound = make_sequence("x", [263], sampling={"max_tokens": 100, "ignore_eos": True})
    for sequence in (*free, bound):
        scheduler.add(sequence)
    run(scheduler)
    lengths = [len(sequence.output) for sequence in free]
    assert 16 < sum(lengths) / len(lengths) < 24
    assert all(sequence.output[-1] == END_TOKEN for sequence in free)
    assert len(bound.output) == 100


def test_min_tokens_delays_the_end():
    scheduler = make_scheduler(mean_output=1)
    sequence = make_sequence("a", [262], sampling={"max_tokens": 20, "min_tokens": 7})
    scheduler.add(sequence)
    run(scheduler)
    assert len(sequence.output) == 8


def prefilled(prompt, blocks=40):
    """A prefill engine that holds the KV of a prompt."""
    scheduler = make_scheduler(blocks)
    sequence = make_sequence("p", prompt, sampling={"max_tokens": 1}, hold=True)
    scheduler.add(sequence)
    run(scheduler)
    return scheduler, sequence


def test_a_finished_prefill_is_held_until_it_is_fetched_or_its_lease_ends():
    for end in ("fetched", "expired"):
        scheduler, sequence = prefilled(range(262, 272))
        assert scheduler.cache.pool.usage == pytest.approx(3 / 39)
        if end == "fetched":
            assert scheduler.cache.drop(sequence.id)
        else:
            assert scheduler.cache.expire(29.0) == []
            assert scheduler.cache.expire(60.0) == [sequence.id]
        assert scheduler.cache.pool.usage == 0
        assert not scheduler.cache.drop(sequence.id)


@pytest.mark.parametrize("foreign", [False, True])
def test_fetched_kv_gives_the_text_of_the_prompt_that_it_was_computed_for(foreign):
    prompt = list(range(262, 280))
    prefill, source = prefilled(list(range(400, 418)) if foreign else prompt)
    alone, decode = make_scheduler(), make_scheduler(counts_external=True)
    reference = make_sequence("a", prompt)
    alone.add(reference)
    run(alone)
    remote = RemoteKV("e", source.id, "h", 1, source.held_blocks, len(prompt))
    sequence = make_sequence("d", prompt, remote=remote)
    decode.add(sequence)
    step = decode.schedule(0.0)
    assert step.loads == (sequence,)
    assert step.work == ()
    decode.finish_load(sequence, prefill.cache.contents(source.held_blocks))
    run(decode, check=check_books)
    assert (sequence.output == reference.output) is not foreign
    assert (sequence.external_tokens, sequence.local_hit_tokens) == (18, 0)
    assert decode.totals.external_hits == 18
    assert decode.cache.pool.usage == 0


@pytest.mark.parametrize("recompute", [False, True])
def test_kv_that_cannot_be_fetched_fails_the_sequence_or_is_computed(recompute):
    decode = make_scheduler()
    sequence = make_sequence("d", range(262, 280), remote=RemoteKV("e", "r", "h", 1, (1,), 18))
    decode.add(sequence)
    decode.schedule(0.0)
    decode.fail_load(sequence, recompute=recompute)
    if recompute:
        run(decode)
    assert sequence.finish is (FinishReason.LENGTH if recompute else FinishReason.ERROR)
    assert decode.cache.pool.usage == 0


@given(prompts, st.data())
@settings(max_examples=30, deadline=None)
def test_an_abort_at_any_moment_frees_everything(texts, data):
    scheduler = make_scheduler(20)
    sequences = [make_sequence(str(number), text) for number, text in enumerate(texts)]
    for sequence in sequences:
        scheduler.add(sequence)
    for moment in range(data.draw(st.integers(0, 12))):
        step = scheduler.schedule(float(moment))
        victim = data.draw(st.sampled_from(sequences))
        scheduler.abort(victim)
        scheduler.complete(step, float(moment))
        check_books(scheduler, step)
    for sequence in sequences:
        scheduler.abort(sequence)
    assert scheduler.cache.pool.usage == 0
    assert not any(scheduler.sequences())
