"""`tidegate top` as its user sees it: in a real terminal, and in a pipe."""

import io
import json
import re
import signal

import pytest
from rich.console import Console
from tests.unit.cli import gate_pages
from tests.unit.cli.terminal import CURSOR_SHOWN, GIVEN_BACK, TAKEN, Terminal

from tidegate.cli.screen import top_panels, top_read, top_view
from tidegate.cli.screen.top_read import WINDOW_SECONDS, Watched
from tidegate.core.levers.load import Load
from tidegate.core.levers.samples import Reading


@pytest.fixture
def terminal(fake_cluster):
    """Start the command in a terminal."""
    made = []

    def start(*arguments, **options):
        made.append(Terminal("top", *arguments, "--interval", "1s", **options))
        return made[-1]

    yield start
    for each in made:
        each.close()


def test_it_shows_what_the_gates_count_and_q_gives_the_terminal_back(terminal):
    top = terminal("qwen")
    top.shows("queue-full")
    seen = top.frame()

    assert TAKEN in top.written
    for text in (
        "chat/qwen  ready: True Serving  1 of 1 gates answer",
        "unified  3,000 of 4,000 KV tokens",
        "75%",
        "0.5 s",  # the backlog: 500 tokens at 1,000 a second
        "class 2",
        "shed 0 %  shift 0 %",
        "TTFT p95",
    ):
        assert text in seen
    top.press("q")
    assert top.end() == 0
    assert top.written.rindex(GIVEN_BACK) > top.written.rindex(TAKEN)
    assert CURSOR_SHOWN in top.written[top.written.rindex(GIVEN_BACK) - 40 :]
    assert top.is_as_before()


def test_it_fits_the_window_after_a_change_of_its_size(terminal):
    top = terminal("qwen", columns=120)
    top.shows("queue-full")
    assert max(map(len, top.frame().splitlines())) > 100
    top.resize(64, 30)
    top.until(lambda: top.frame() and max(map(len, top.frame().splitlines())) <= 64)
    top.shows("TTFT p50, p95")

    assert len(top.frame().splitlines()) <= 30
    top.press("q")
    assert top.end() == 0


@pytest.mark.parametrize("way", ["ctrl-c", "SIGTERM", "SIGHUP"])
def test_whatever_ends_it_the_terminal_is_as_before(terminal, way):
    top = terminal("qwen")
    top.shows("KV tokens")
    if way == "ctrl-c":
        top.press("\x03")
    else:
        top.process.send_signal(getattr(signal, way))

    assert top.end() == 0
    assert GIVEN_BACK in top.written
    assert "Traceback" not in top.written
    assert top.is_as_before()


def test_what_was_seen_stays_and_says_that_it_is_old_when_the_cluster_is_away(
    terminal, fake_cluster
):
    top = terminal("qwen")
    top.shows("KV tokens")
    told = (403, {"message": "robin may not"})
    fake_cluster.refuse[("GET", "/apis/tidegate.io")] = told
    top.shows("not newer: robin may not")

    assert "3,000 of 4,000 KV tokens" in top.frame()
    del fake_cluster.refuse[("GET", "/apis/tidegate.io")]
    top.until(lambda: "KV tokens" in top.frame() and "not newer" not in top.frame())


def test_in_the_smallest_usual_window_nothing_is_left_out(terminal, fake_cluster):
    pods = [
        gate_pages.pod(f"qwen-{pool}-a-{number}", pool=pool)
        for pool in ("prefill", "decode")
        for number in range(9)
    ]
    fake_cluster.gate("qwen-gate-1", gate_pages.podz(*pods), gate_pages.counting())
    top = terminal("qwen", columns=80, lines=24)
    top.shows("queue-full")

    for text in ("prefill  27,000", "decode  27,000", "more", "TTFT p50, p95", "class 2: 3"):
        assert text in top.frame()


def test_phases_stand_side_by_side(terminal, fake_cluster):
    pods = [
        gate_pages.pod("qwen-prefill-a-1", pool="prefill"),
        gate_pages.pod("qwen-decode-a-1", pool="decode"),
    ]
    fake_cluster.gate("qwen-gate-1", gate_pages.podz(*pods), gate_pages.counting())
    top = terminal("qwen", columns=160)
    top.shows("decode  3,000")
    [line] = [line for line in top.frame().splitlines() if "decode  3,000" in line]

    assert line.index("prefill  3,000") < line.index("decode  3,000")


def test_without_a_name_each_deployment_is_a_line(terminal, fake_cluster):
    fake_cluster.deployment("west")
    top = terminal()
    top.shows("west")

    assert "qwen" in top.frame()


def test_a_deployment_that_is_not_there_is_told_before_the_screen_is_taken(terminal):
    top = terminal("missing")

    assert top.end() == 1
    assert TAKEN not in top.written
    assert "there is no LLMDeployment missing in namespace chat" in top.written


def test_in_a_pipe_it_is_plain_tables_and_lines(tidegate, fake_cluster):
    code, out, errors = tidegate("top", "qwen")

    assert (code, errors) == (0, "")
    assert "\x1b" not in out
    assert [line.split()[0] for line in out.splitlines()] == [
        "NAME",
        "qwen",
        "POD",
        "qwen-unified-a-1",
        "state",
        "per",
        "refused",
        "TTFT",
        "TPOT",
        "queue",
    ]


def test_once_tells_what_the_runbooks_send_people_there_for(tidegate, fake_cluster):
    """Who is refused and why, who waits, and the lever: who set it, until when, and why."""
    lever = {
        "action": "Shed",
        "percent": 30,
        "until": "2999-01-01T00:00:00Z",
        "reason": "INC-1",
        "setBy": "robin",
    }
    overload = {"state": "Override", "message": "30 % are shed", "override": lever}
    fake_cluster.deployment(status={"observedGeneration": 1, "overload": overload})
    out = tidegate("top", "qwen", "--once")[1]

    assert re.search(r"^refused  queue-full \d", out, re.MULTILINE)
    assert re.search(r"^queue  class 2: 3$", out, re.MULTILINE)
    assert "lever: Shed 30 % until 2999-01-01T00:00:00Z by robin (INC-1)" in out


def test_pods_that_no_gate_tells_of_are_there_with_why(tidegate, fake_cluster, terminal):
    message = "unified: 0 of 2 pods are ready."
    conditions = [{"type": "Ready", "status": "False", "reason": "Starting", "message": message}]
    fake_cluster.deployment(status={"observedGeneration": 1, "conditions": conditions})
    labels = {"tidegate.io/deployment": "qwen", "tidegate.io/pool": "unified"}
    for number in range(2, 9):
        fake_cluster.pod(f"qwen-unified-a-{number}", labels)
    out = tidegate("top", "qwen", "--once")[1]
    rows = [line.rstrip() for line in out.splitlines() if line.startswith("qwen-unified-a-")]

    assert len(rows) == 8
    assert rows[0].endswith("serves")
    assert rows[1].split()[1:4] == ["unified", "-", "-"]
    assert rows[1].endswith("not ready")
    assert f"not ready: {message}" in out

    top = terminal("qwen", columns=80, lines=24)
    top.shows("queue-full")
    for text in ("qwen-unified-a-2  unified  not ready", "and 4 more", message, "class 2: 3"):
        assert text in top.frame()


def test_as_json_it_is_for_programs(tidegate, fake_cluster):
    code, out, _ = tidegate("top", "qwen", "--once", "-o", "json")
    told = json.loads(out)

    assert code == 0
    rates = told["perSecond"]
    assert rates["refused"]["queue-full"] / rates["asked"] == pytest.approx(20 / 120)
    assert told["kvUsed"] == 0.75
    assert told["queuedByClass"] == {"2": 3}
    assert told["ttftSeconds"]["p50"] == pytest.approx(0.1)
    assert told["pools"][0]["pods"][0]["requests"] == 7


def test_what_no_gate_tells_is_null_and_not_zero(tidegate, fake_cluster):
    fake_cluster.refuse[("GET", "/api/v1/namespaces/chat/pods/qwen-gate-1:")] = (503, "away")
    code, out, _ = tidegate("top", "qwen", "--once", "-o", "json")
    told = json.loads(out)

    assert code == 0
    assert told["gates"] == {"total": 1, "answering": 0}
    assert (told["perSecond"]["asked"], told["kvUsed"]) == (None, None)
    assert told["ttftSeconds"] == {"p50": None, "p95": None}


@pytest.mark.parametrize("away", [(), (0,), (3,), range(40, 80)])
def test_the_window_is_the_last_thirty_seconds_whenever_no_gate_answered(away):
    watched = Watched(None, None, "qwen")
    for number in range(200):
        watched._keep({} if number in away else {"g": Reading(2.0 * number, {})})

    first, last = (each["g"].at for each in (watched._readings[0], watched._readings[-1]))
    assert last - first == WINDOW_SECONDS
    assert len(watched._readings) == 1 + WINDOW_SECONDS / 2


def test_a_rate_is_known_also_when_reads_are_further_apart_than_the_window():
    watched = Watched(None, None, "qwen")
    for number in range(9):
        watched._keep({"g": Reading(100.0 * number, {})})

    assert [each["g"].at for each in watched._readings] == [700.0, 800.0]


def lever(until, **told):
    return {"action": "Shed", "percent": 30, "until": until, "reason": "INC-1", **told}


@pytest.mark.parametrize("where", ["spec", "status"])
@pytest.mark.parametrize(
    ("until", "holds"), [("2020-01-01T00:00:00Z", False), ("2999-01-01T00:00:00Z", True)]
)
def test_a_lever_that_has_lapsed_is_not_shown_as_holding(until, holds, where):
    resource = {"metadata": {"name": "qwen", "namespace": "chat"}, "spec": {}, "status": {}}
    overload = {"state": "Override"} if where == "status" else {}
    resource[where]["overload"] = {**overload, "override": lever(until)}

    told = top_read.document(resource, [], Load())

    assert told["overload"]["override"] == (lever(until) if holds else None)
    assert ("lever: Shed" in top_panels.shares(told).plain) is holds


def test_a_lever_that_is_refused_is_shown_as_such():
    resource = {"metadata": {"name": "qwen", "namespace": "chat"}, "spec": {}}
    refused = lever("2999-01-01T00:00:00Z", refused="gone is not there")
    resource["status"] = {"overload": {"state": "Overloaded", "override": refused}}

    shown = top_panels.shares(top_read.document(resource, [], Load())).plain

    assert "lever: Shed" in shown
    assert shown.endswith("refused: gone is not there")


@pytest.mark.parametrize("count", [0, 13])
def test_deployments_that_are_left_out_are_told(count, capsys):
    document = {"namespace": "chat", "items": [], "notShown": count}
    console = Console(file=io.StringIO(), width=100)
    console.print(top_view.now(document))
    top_view.print_plain(document)

    for seen in (console.file.getvalue(), capsys.readouterr().out):
        assert ("13 more not shown" in seen) is bool(count)
