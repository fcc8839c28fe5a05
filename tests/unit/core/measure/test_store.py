"""Many measurements in one ConfigMap: found again, bounded, and safe from garbage."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.budget.measured import MeasuredTerms
from tidegate.core.measure import store
from tidegate.core.measure.measurement import Measurement
from tidegate.core.measure.store import MOST_BYTES, MOST_ENTRIES, Entry, Store

TAG = "vllm/vllm-openai:v0.32.0"
ONE, OTHER = (f"sha256:{letter * 64}" for letter in "ab")
NOW = 1_800_000_000.0
KEY = "0" * 24
MEASURED = Measurement(MeasuredTerms(weights_bytes=100_000, beside_kv_bytes=1_000_000), 4096, 256)


def entry(number=0, digest=ONE, at=NOW, image=TAG, **terms) -> Entry:
    measured = replace(MEASURED, terms=replace(MEASURED.terms, **terms))
    return Entry(f"{number:024x}", image, digest, measured, at, "a model on a card")


def stored(*entries: Entry) -> Store:
    result = Store()
    for each in entries:
        result = result.adding(each)
    return result


def test_what_is_written_is_read_again():
    wanted = stored(*(entry(number) for number in range(5)))
    assert store.decode(store.encode(wanted)) == wanted


class TestFind:
    def test_a_tag_leads_to_the_one_digest_that_it_was_seen_with(self):
        assert stored(entry()).find(KEY, TAG) == MEASURED

    def test_a_tag_that_moved_is_not_trusted(self):
        assert stored(entry(), entry(1, OTHER)).find(KEY, TAG) is None

    def test_a_digest_says_itself_which_one_is_meant(self):
        pinned = f"vllm/vllm-openai@{ONE}"
        both = stored(entry(), entry(1, OTHER), entry(0, OTHER, weights_bytes=7))
        assert both.find(KEY, pinned) == MEASURED
        assert both.find(KEY, f"mirror.local/vllm@{OTHER}").terms.weights_bytes == 7

    @pytest.mark.parametrize(
        ("key", "image"), [("1" * 24, TAG), (KEY, "other:v1"), (KEY, f"x@sha256:{'c' * 64}")]
    )
    def test_nothing_is_found_for_another_engine(self, key, image):
        assert stored(entry()).find(key, image) is None


class TestAdding:
    def test_the_same_again_is_no_news(self):
        before = stored(entry())
        assert before.adding(entry(at=NOW + 5)) is before

    def test_what_differs_no_more_than_starts_do_is_no_news(self):
        before = stored(entry())
        assert before.adding(entry(at=NOW + 5, beside_kv_bytes=1_001_000)) is before

    def test_a_change_is(self):
        after = stored(entry(), entry(at=NOW + 5, beside_kv_bytes=1_100_000))
        (one,) = after.entries.values()
        assert one.measurement.terms.beside_kv_bytes == 1_100_000
        assert one.learnt_at == NOW + 5

    def test_a_start_that_did_not_profile_takes_nothing_away(self):
        bare = Measurement(MeasuredTerms(weights_bytes=100_000), 2048, 8)
        before = stored(entry())
        assert before.adding(replace(entry(), measurement=bare)) is before

    def test_the_limits_are_of_the_start_that_profiled(self):
        now = replace(MEASURED, max_num_seqs=300)
        after = stored(entry()).adding(replace(entry(), measurement=now))
        assert after.find(KEY, TAG).max_num_seqs == 300


class TestBounds:
    @given(st.integers(0, 3 * MOST_ENTRIES))
    def test_the_newest_are_kept(self, count):
        kept = stored(*(entry(number, at=NOW - number) for number in range(count))).pruned(NOW)
        assert len(kept.entries) == min(count, MOST_ENTRIES)
        assert sum(map(len, store.encode(kept).values())) <= MOST_BYTES
        assert all(each.learnt_at > NOW - MOST_ENTRIES for each in kept.entries.values())

    def test_the_old_ones_go(self):
        old = entry(1, at=NOW - store.LONGEST_AGE_SECONDS - 1)
        assert set(stored(entry(), old).pruned(NOW).entries) == {entry().key}

    def test_a_clock_that_was_set_back_loses_nothing(self):
        assert stored(entry()).pruned(NOW - 10**9) == stored(entry())

    def test_long_names_do_not_grow_it(self):
        wide = [replace(entry(n), image=f"{n}/" + "x" * 500, about="y" * 9999) for n in range(128)]
        kept = stored(*wide).pruned(NOW)
        assert sum(map(len, store.encode(kept).values())) <= MOST_BYTES
        assert store.decode(store.encode(kept)).entries.keys() == kept.entries.keys()


VALUE = json.loads(store.encode(stored(entry()))[entry().key])


@pytest.mark.parametrize(
    "data",
    [
        None, "text", [], {"a": 1}, {1: "a"},
        {entry().key: "{"},
        {entry().key: "[]"},
        {entry(3).key.replace("a", "b"): json.dumps(VALUE)},
        {entry().key: json.dumps(VALUE | {"learntAt": -1})},
        {entry().key: json.dumps(VALUE | {"learntAt": True})},
        {entry().key: json.dumps(VALUE | {"imageDigest": "latest"})},
        {entry().key: json.dumps(VALUE | {"image": None})},
        {entry().key: json.dumps(VALUE | {"measured": {"terms": {"weights_bytes": "1"}}})},
        {entry().key: json.dumps(VALUE) + " " * 5000},
    ],
)  # fmt: skip
def test_garbage_is_passed_over(data):
    assert store.decode(data) == Store()


def test_garbage_beside_an_entry_does_not_hide_it():
    good = store.encode(stored(entry()))
    assert store.decode({"x": "y", **good}) == stored(entry())


@given(st.dictionaries(st.text(max_size=40), st.text(max_size=200), max_size=5))
def test_no_data_is_too_odd(data):
    assert store.decode(data) == Store()


@pytest.mark.parametrize(
    ("image", "digest"),
    [
        (f"docker.io/vllm/vllm-openai@{ONE}", ONE),
        (f"docker-pullable://vllm/vllm-openai@{ONE}", ONE),
        (ONE, ONE),
        (TAG, None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_a_digest_is_found_in_what_kubelets_write(image, digest):
    assert store.digest_of(image) == digest
