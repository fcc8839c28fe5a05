import pytest

from tidegate.gate.core.affinity import PrefixHits
from tidegate.gate.exchange import Scrape


def told(hits, name, *counters):
    for queries, hit in counters:
        hits.observe(name, Scrape(0.0, prefix_queries=queries, prefix_hits=hit))


def test_nothing_is_known_before_two_scrapes():
    hits = PrefixHits()
    told(hits, "a", (90_000, 80_000), (None, None), (None, 3))

    assert hits.rate("a") is None
    assert hits.pays() is None


@pytest.mark.parametrize(("hit", "pays"), [(0, False), (400, False), (1200, True), (19_000, True)])
def test_affinity_pays_when_prompts_are_found_in_the_caches(hit, pays):
    hits = PrefixHits()
    told(hits, "a", (1_000, 900), (11_000, 900 + hit))
    told(hits, "b", (0, 0), (10_000, 0))

    assert hits.rate("a") == hit / 10_000
    assert hits.rate("b") == 0
    assert hits.pays() is pays


def test_an_engine_that_restarts_begins_anew():
    hits = PrefixHits()
    told(hits, "a", (0, 0), (20_000, 10_000), (50, 0), (20_050, 10_000))

    assert hits.rate("a") == 0.5


def test_what_is_long_ago_counts_less():
    hits = PrefixHits()
    told(hits, "a", *((number * 100_000, 0) for number in range(30)))
    told(hits, "a", *((3_000_000 + n * 100_000, n * 90_000) for n in range(30)))

    assert hits.rate("a") > 0.8


def test_a_pod_that_is_gone_counts_no_more():
    hits = PrefixHits()
    told(hits, "a", (0, 0), (50_000, 50_000))
    hits.present({"b"})

    assert hits.rate("a") is None
    assert hits.pays() is None
