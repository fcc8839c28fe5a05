"""Every number in the tables of the loop's pages is what the plan and the loop compute."""

import math
import re
from pathlib import Path

import pytest
import yaml

from tidegate.api.llmdeployment import parse_spec
from tidegate.api.overload_spec import OverloadSpec
from tidegate.core.checks import demand, speed
from tidegate.core.overload import floor, pressure
from tidegate.core.overload.decision import Tick
from tidegate.core.overload.signal import Sample, Signal

from .plans import case

DOCS = Path(__file__).resolve().parents[4] / "docs"
CONCEPT = (DOCS / "concepts" / "overload.md").read_text("utf-8")
GUIDE = (DOCS / "guides" / "choosing-thresholds.md").read_text("utf-8")
CASE = case()
(AT,) = CASE.slices_of("unified")
TOKENS, SPEED = AT.entry.sizing.pool.cache_size_tokens, AT.entry.prefill_tokens_per_second
PEAK = demand.at_peak("unified", CASE)


def table(page, head):
    """Return the rows of the table under a head line."""
    found = re.search(rf"^{re.escape(head)}\n\| ---.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert found, f"no table {head}"
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in found[1].splitlines()]


def blocks(page):
    return [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]


@pytest.mark.parametrize(
    ("signal", "value", "aim"), table(CONCEPT, "| signal | value | aimed at |")
)
def test_the_proportions(signal, value, aim):
    kind = Signal(signal.strip("`"))
    pool = "decode" if kind == Signal.KV_USAGE else "prefill"
    number = float(value.removesuffix(" s"))
    (known,) = pressure.read(OverloadSpec(), {(pool, kind): Sample(number, 0.0)}).known

    assert f"{math.floor(round(100 * known.pressure, 6))} %" == aim


def test_the_defaults_on_the_page_are_the_defaults():
    shown = blocks(CONCEPT)[0]["spec"]["overload"]
    shift = shown.pop("shift")

    parsed = OverloadSpec.model_validate(shown, by_alias=True)
    assert parsed == OverloadSpec()
    assert shift["maxPercent"] == 50


def test_the_guides_deployment_is_the_one_that_is_planned():
    assert parse_spec(blocks(GUIDE)[0]) == CASE.spec


def test_the_plan():
    assert table(GUIDE, "| of one pod | |") == [
        ["KV tokens", f"{TOKENS:,}"],
        ["prefill, tokens per second", f"{SPEED:,.0f}"],
        ["requests of p95 length", str(AT.entry.sizing.requests_at_p95)],
    ]


@pytest.mark.parametrize(
    ("enter", "left", "requests", "seconds"),
    table(GUIDE, "| enter | KV tokens left | p95 requests left | seconds to fill |"),
)
def test_what_fits_above_enter(enter, left, requests, seconds):
    spec = OverloadSpec.model_validate({"kvUsage": {"enter": float(enter), "exit": 0.5}})
    tokens = (1 - float(enter)) * TOKENS

    assert left == f"{math.floor(tokens):,}"
    assert int(requests) == int(tokens // PEAK.tokens_of_request)
    assert seconds == f"{floor.reaction(spec, CASE.plan, Tick()).fill_seconds:.1f}"


@pytest.mark.parametrize(
    ("scrape", "tick", "seconds", "enter"),
    table(GUIDE, "| scrape | tick | floor, seconds | enter that is in time |"),
)
def test_the_enter_that_is_in_time(scrape, tick, seconds, enter):
    every = Tick(float(tick.removesuffix(" s")), float(scrape.removesuffix(" s")))
    found = floor.reaction(OverloadSpec(), CASE.plan, every)

    assert seconds == f"{found.floor_seconds:.1f}"
    assert float(enter) == math.floor(100 * (1 - found.floor_seconds * SPEED / TOKENS)) / 100


def test_the_usage_at_the_peak():
    in_flight = math.ceil(PEAK.requests)
    held = in_flight * PEAK.tokens_of_request
    every = TOKENS * AT.entry.replicas

    assert table(GUIDE, "| at the peak | |") == [
        ["requests in flight", str(in_flight)],
        ["KV tokens they hold at p95", f"{held:,}"],
        ["KV tokens of all pods", f"{every:,}"],
        ["usage", f"{held / every:.2f}"],
    ]


def test_what_is_left_of_the_objective():
    objective = CASE.spec.slo.time_to_first_token
    _, longest = speed.prefill_seconds(AT, CASE.spec.workload.prompt_tokens.p95)
    left = round(objective - round(longest, 1), 1)

    assert table(GUIDE, "| | seconds |") == [
        ["objective", f"{objective:.1f}"],
        ["own prefill of a p95 prompt, at most", f"{longest:.1f}"],
        ["left for the backlog", f"{left:.1f}"],
    ]
    result = OverloadSpec.model_validate(blocks(GUIDE)[-1]["overload"])
    assert result.prefill_backlog.enter == left
    assert result.prefill_backlog.exit == left / 2
