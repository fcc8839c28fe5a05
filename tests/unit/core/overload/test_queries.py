"""What is asked: one question a signal, of metrics that exist, for all deployments at once."""

import re
from pathlib import Path

import pytest

from tidegate.core.overload import queries
from tidegate.facts import engines

METRIC = re.compile(r"(?<![\"\w])((?:vllm|tidegate_gate)[\w:]+)\{")
ASKED = queries.all_of(15.0)


@pytest.mark.parametrize("query", ASKED, ids=lambda query: query.name)
def test_no_question_names_a_deployment_and_each_asks_for_the_time_of_its_samples(query):
    assert "llmdeployment=" not in query.promql
    assert "namespace=" not in query.promql
    assert '"stat", "at"' in query.promql
    assert "timestamp(" in query.promql


@pytest.mark.parametrize("version", engines.versions())
def test_every_metric_of_an_engine_is_one_that_it_exports_or_did(version):
    facts = engines.engine(version)
    for query in ASKED:
        for name in METRIC.findall(query.promql):
            family = re.sub(r"_(sum|count|bucket)$", "", name)
            if name.startswith("vllm:"):
                assert family in facts.metrics or facts.renamed_metric(name), name


def test_older_names_are_asked_in_the_same_question():
    usage = next(query for query in ASKED if query.name == "kv").promql

    for name in ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"):
        assert f'timestamp({name}{{job="tidegate-engines"}})' in usage


@pytest.mark.parametrize(("scrape_seconds", "window"), [(1, 60), (15, 60), (30, 120), (60, 240)])
def test_a_rate_looks_back_four_scrapes_or_a_minute(scrape_seconds, window):
    preemptions = queries.all_of(scrape_seconds)[2].promql

    assert f"[{window}s]" in preemptions
    assert f"* 60 / {window}" in preemptions


def test_every_metric_of_a_gate_is_one_that_it_exports():
    listed = (Path(__file__).parents[4] / "docs/reference/gate-metrics.md").read_text()
    for query in ASKED:
        for name in METRIC.findall(query.promql):
            family = re.sub(r"_(count|bucket)$", "", name)
            assert name.startswith("vllm:") or f"`{family}`" in listed, name
