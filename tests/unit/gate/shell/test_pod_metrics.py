"""What is shown of pods is what the core sees now."""

import pytest
from prometheus_client import CollectorRegistry

from tidegate.gate.exchange import Pod, PodView, View
from tidegate.gate.shell import pod_metrics
from tidegate.gate.shell.pod_metrics import PodMetrics


def pod_view(name="engine-1", **changes) -> PodView:
    told = {
        "pod": Pod(name, "10.0.0.1", 8000, "unified", "aaaa", "s"),
        "reserved_tokens": 100,
        "capacity_tokens": 800,
        "reserved_blocks": 7,
        "capacity_blocks": 50,
        "seated": 2,
        "prefill_backlog_tokens": 30,
        "prefill_tokens_per_second": 9000.0,
        "ejected": False,
        "scrape_age_seconds": 0.4,
        "kv_usage": 0.55,
    }
    return PodView(**{**told, **changes})


class Affinity:
    """What is known of the pods' prefix caches."""

    def __init__(self, pays=None, **rates) -> None:
        self._pays, self._rates = pays, rates

    def hit_rate(self, pod):
        return self._rates.get(pod)

    def affinity_pays(self):
        return self._pays


def view(*pods) -> View:
    return View(pods, 3, {9: 1, 5: 2}, {"unified": 700}, 12.5, 0.0)


def test_a_pod_that_is_gone_leaves_no_series():
    registry, shown = CollectorRegistry(), [view(pod_view("a"), pod_view("b"))]
    registry.register(PodMetrics(lambda: shown[0], Affinity()))

    def value(name, pod):
        return registry.get_sample_value(f"tidegate_gate_{name}", {"pod": pod, "pool": "unified"})

    assert value("tokens_reserved", "b") == 100
    assert value("tokens_capacity", "b") == 800
    shown[0] = view(pod_view("a"))
    assert value("tokens_reserved", "b") is None
    assert value("tokens_reserved", "a") == 100


def test_what_is_not_known_is_absent_and_not_zero():
    registry = CollectorRegistry()
    unknown = pod_view(prefill_tokens_per_second=None, scrape_age_seconds=None, kv_usage=None)
    registry.register(PodMetrics(lambda: view(unknown), Affinity()))

    names = {sample.name for family in registry.collect() for sample in family.samples}
    assert "tidegate_gate_scrape_age_seconds" not in names
    assert "tidegate_gate_kv_usage" not in names
    assert "tidegate_gate_prefill_tokens_per_second" not in names
    assert "tidegate_gate_seats" in names


def test_the_queue_is_shown_by_class_and_the_shares_as_they_are_now():
    registry = CollectorRegistry()
    registry.register(PodMetrics(lambda: view(), Affinity()))

    assert registry.get_sample_value("tidegate_gate_queue_length", {"class": "9"}) == 1
    of_pool = {"pool": "unified"}
    assert registry.get_sample_value("tidegate_gate_queued_prompt_tokens", of_pool) == 700
    assert registry.get_sample_value("tidegate_gate_shed_percent") == 12.5


@pytest.mark.parametrize(("pays", "expected"), [(None, None), (False, 0), (True, 1)])
def test_whether_affinity_pays_is_told_where_it_is_known(pays, expected):
    registry = CollectorRegistry()
    registry.register(PodMetrics(lambda: view(pod_view("a"), pod_view("b")), Affinity(pays, a=0.2)))

    def rate(pod):
        labels = {"pod": pod, "pool": "unified"}
        return registry.get_sample_value("tidegate_gate_prefix_hit_ratio", labels)

    assert registry.get_sample_value("tidegate_gate_affinity_pays") == expected
    assert (rate("a"), rate("b")) == (0.2, None)


def test_the_document_tells_the_same():
    told = pod_metrics.document(view(pod_view()))

    assert (told["queued"], told["queuedByClass"]) == (3, {"9": 1, "5": 2})
    assert (told["queuedPromptTokens"], told["shedPercent"]) == ({"unified": 700}, 12.5)
    [pod] = told["pods"]
    assert (pod["name"], pod["reservedTokens"], pod["capacityTokens"]) == ("engine-1", 100, 800)
    assert (pod["requests"], pod["scrapeAgeSeconds"], pod["pool"]) == (2, 0.4, "unified")
