"""Rules, dashboards and runbooks ask for what is really exported."""

import re

import pytest
from e2e.runbook_pages import pages
from tests.monitoring import exported, promtool

from tidegate.core.monitoring import objectives, rules, scrape, signals
from tidegate.core.monitoring.boards import boards
from tidegate.gate.exchange import Outcome, Why

_NAME = re.compile(r"(?<![\w:$\"])(?:vllm|tidegate):[\w:]+|\b(?:tidegate|process)_\w+|\bup\b")
_VALUES = re.compile(r'(outcome|reason)=~?"([^"]*)"')


def asked():
    """Every query with where it stands."""
    for group in rules.groups():
        for rule in group.rules:
            yield rule.name, rule.promql
    for board in boards():
        for row in board.rows:
            for panel in row.panels:
                for query in panel.queries:
                    yield f"{board.name}: {panel.title}", query.promql
    for page in pages():
        for query in page.queries:
            yield f"runbook {page.name}", query


ASKED = list(asked())


def in_words(query):
    """A query as Prometheus takes it, with Grafana's variables filled in."""
    return query.replace("$__rate_interval", "5m")


def test_every_metric_that_is_asked_for_is_exported():
    there = exported.everything()
    missing = {
        (where, name)
        for where, query in ASKED
        for name in _NAME.findall(re.sub(r'"[^"]*"', '""', query))
        if name not in there
    }

    assert missing == set()


def test_every_query_parses(tmp_path):
    wrong = promtool.wrong_queries(tmp_path, [in_words(query) for _, query in ASKED])
    assert not wrong, wrong


def test_every_job_that_is_asked_for_is_scraped():
    jobs = {job.name for job in scrape.JOBS}
    named = {name for _, query in ASKED for name in re.findall(r'job="([^"]*)"', query)}

    assert named == jobs


def test_every_outcome_and_reason_that_is_asked_for_is_one_of_the_gates():
    outcomes = {outcome.value for outcome in Outcome} | {"refused", "answered", "shifted"}
    known = {"outcome": outcomes, "reason": {why.value for why in Why}}
    unknown = {
        (where, value)
        for where, query in ASKED
        if "tidegate_gate" in query
        for label, values in _VALUES.findall(query)
        for value in values.split("|")
        if value not in known[label]
    }

    assert unknown == set()


def test_a_refusal_is_load_or_fault_or_the_clients_doing():
    load, fault = objectives.LOAD_REASONS.split("|"), objectives.FAULT_REASONS.split("|")
    of_client = {
        *(Why.TENANT_SHARE, Why.TOO_LONG, Why.BAD_REQUEST, Why.TOO_LARGE, Why.NOT_FOUND),
        *(Why.METHOD, Why.UNAUTHENTICATED),
    }
    of_engine = {Why.ENGINE_ERROR, Why.TTFT_DEADLINE, Why.STALLED, Why.TOTAL_DEADLINE}

    assert set(Why) == {*load, *fault} | of_client | of_engine
    assert len(load) + len(fault) + len(of_client) + len(of_engine) == len(Why)


def test_an_admitted_request_ended_well_or_was_lost_or_it_was_the_users_or_clients_doing():
    lost = set(signals.LOST.split("|"))
    of_users = {Outcome.CLIENT_GONE, Outcome.ENGINE_REFUSED, Outcome.TOTAL_DEADLINE}

    assert set(Outcome) == {Outcome.FINISHED} | lost | of_users
    assert not lost & {Outcome.FINISHED, *of_users}


@pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)
def test_a_dashboard_says_what_each_panel_is_and_names_its_series(board):
    panels = [panel for row in board.rows for panel in row.panels]

    assert len({panel.title for panel in panels}) == len(panels)
    for panel in panels:
        assert panel.queries
        assert len(panel.queries) == 1 or all(query.legend for query in panel.queries)
        assert panel.by_pool == ("$pool" in panel.queries[0].promql)
