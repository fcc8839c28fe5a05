"""shed, shift and open say what they will do, ask, and say in one line what stands in the way."""

import json

import pytest
from tests.unit.cli import gate_pages
from tests.unit.cli.cluster import resource_path
from tests.unit.cli.terminal import Terminal

from tidegate.cli.levers import lever_wait
from tidegate.shell.api_server import ApiServer, NoAnswer

SHED = ("shed", "qwen", "30", "--for", "30m", "--reason", "INC-1")
QWEN = resource_path("qwen")


@pytest.fixture
def shedding(fake_cluster):
    """The gate applies 30 %, and an operator takes note of each lever."""
    fake_cluster.operates = True
    podz = gate_pages.podz(shedPercent=30)
    fake_cluster.gate("qwen-gate-1", podz, gate_pages.counting(shed=30))
    return fake_cluster


def override(cluster, name="qwen"):
    return cluster.objects[resource_path(name)]["spec"].get("overload", {}).get("override")


def test_it_tells_in_numbers_what_will_happen_and_how_to_undo_it(tidegate, shedding):
    code, out, errors = tidegate(*SHED, "--yes")

    assert (code, errors) == (0, "")
    for text in (
        "chat/qwen: turn away 30 % of the requests, until",
        "KV tokens reserved: 75%",
        "(30 %), the lowest class first",
        "Classes from 9 up are never turned away",
        "The gates apply it.",
        "Undo: kubectl tidegate open qwen -n chat",
    ):
        assert text in out
    assert (override(shedding)["action"], override(shedding)["percent"]) == ("Shed", 30)


def test_by_class_it_takes_from_the_lowest(tidegate, shedding):
    _, out, _ = tidegate(*SHED, "--yes", "-o", "json")
    expected = json.loads(out)["expected"]

    assert expected["takenPerSecondByClass"].keys() == {"2"}
    assert expected["takenPerSecond"] == pytest.approx(expected["requestsPerSecond"] * 0.3, rel=0.1)
    assert expected["keptClasses"] == [9]


def test_without_a_terminal_and_yes_nothing_is_written(tidegate, shedding):
    code, out, errors = tidegate(*SHED)

    assert code == 1
    assert "turn away 30 %" in out
    assert errors == "tidegate: nothing was changed: there is no terminal to ask on; give --yes\n"
    assert not shedding.called("PATCH")


@pytest.mark.parametrize(("key", "code", "is_set"), [("y\n", 0, True), ("n\n", 1, False)])
def test_on_a_terminal_it_asks(shedding, key, code, is_set):
    terminal = Terminal(*SHED)
    terminal.until(lambda: "Shed for 30 min? [y/N]" in terminal.written)
    assert override(shedding) is None
    terminal.press(key)

    assert terminal.end() == code
    assert (override(shedding) is not None) is is_set
    terminal.close()


def test_a_dry_run_is_the_api_servers_and_neither_asks_nor_waits(tidegate, shedding):
    code, out, _ = tidegate(*SHED, "--dry-run")
    [patch] = shedding.called("PATCH")

    assert code == 0
    assert "Not written, as a dry run is" in out
    assert patch.query == {
        "dryRun": "All",
        "fieldManager": "kubectl-tidegate",
        "fieldValidation": "Strict",
    }
    assert override(shedding) is None


def test_a_lever_that_no_gate_applies_is_a_no(tidegate, fake_cluster):
    code, out, _ = tidegate(*SHED, "--yes")

    assert code == 1
    assert "No gate applies it yet" in out
    assert override(fake_cluster)["percent"] == 30


def test_the_version_that_was_shown_is_the_one_that_is_changed(tidegate, shedding):
    tidegate(*SHED, "--yes")
    [patch] = shedding.called("PATCH")

    assert patch.body["metadata"]["resourceVersion"] == "7"


def conflicting(cluster, **changes):
    """Have somebody write the resource while the command looks at the gates."""
    conflict = (409, {"message": "the object has been modified"})

    def metrics():
        cluster.deployment(metadata={**metadata, "resourceVersion": "8", **changes})
        return gate_pages.page(1, 30)

    metadata = cluster.objects[QWEN]["metadata"]
    cluster.gate("qwen-gate-1", gate_pages.podz(shedPercent=30), metrics)
    original = cluster.answer

    def answer(call):
        stale = call.method == "PATCH" and call.body["metadata"]["resourceVersion"] == "7"
        return conflict if stale else original(call)

    cluster.answer = answer


def test_a_new_status_in_between_does_not_matter(tidegate, shedding):
    conflicting(shedding)
    assert tidegate(*SHED, "--yes")[0] == 0
    assert override(shedding)["percent"] == 30


def test_a_new_spec_in_between_does_and_nothing_is_written(tidegate, shedding):
    conflicting(shedding, generation=2)
    code, _, errors = tidegate(*SHED, "--yes")

    assert code == 1
    assert errors.startswith("tidegate: somebody changed qwen meanwhile, so nothing was written")
    assert override(shedding) is None


HELD = {
    "action": "Shed",
    "percent": 30,
    "until": "2999-01-01T00:00:00Z",
    "reason": "INC-0",
    "setBy": "robin",
}
TAKEN = {"state": "Override", "shedPercent": 30, "shiftPercent": 0, "override": HELD}


def governing(cluster, overload, lever=None):
    """Have the status of an operator, and a lever where one is set."""
    status = {**cluster.objects[QWEN]["status"], "overload": overload}
    spec = {"overload": {"override": lever}} if lever else {}
    cluster.deployment(spec=spec, status=status)


def test_letting_go_removes_the_lever_and_says_whose_it_was(tidegate, fake_cluster):
    fake_cluster.operates = True
    governing(fake_cluster, TAKEN, HELD)
    code, out, _ = tidegate("open", "qwen", "--yes")

    assert code == 0
    assert "Shed 30 % until 2999-01-01T00:00:00Z, set by robin (INC-0)" in out
    assert "Set: the lever is gone.\nThe loop decides: shed 0 %, shift 0 % now." in out
    assert override(fake_cluster) is None


def test_letting_go_that_no_operator_carries_out_is_a_no_and_so_is_the_next(tidegate, shedding):
    shedding.operates = False
    governing(shedding, {**TAKEN, "until": "2999-01-01T00:01:00Z"}, HELD)
    first = tidegate("open", "qwen", "--yes", "-o", "json")
    second = tidegate("open", "qwen", "--yes")

    assert override(shedding) is None
    assert (first[0], second[0]) == (1, 1)
    assert json.loads(first[1])["gatesApplyIt"] is False
    for told in (first[2], second[1]):
        assert "The gates still turn away 30 % until 2999-01-01T00:01:00Z." in told
    assert "The loop itself sheds" not in second[1]


def test_where_no_lever_holds_there_is_nothing_to_write(tidegate, shedding):
    governing(shedding, {"state": "Overloaded", "shedPercent": 30, "shiftPercent": 0})
    code, out, _ = tidegate("open", "qwen", "--yes")

    assert code == 0
    assert "has no lever that holds" in out
    assert "The loop itself sheds 30 %" in out
    assert not shedding.called("PATCH")


def test_a_lever_that_no_operator_takes_over_is_a_no_though_the_gates_have_its_share(
    tidegate, shedding
):
    shedding.operates = False
    governing(shedding, TAKEN, HELD)
    code, out, _ = tidegate(*SHED, "--yes")

    assert code == 1
    assert "No gate applies it yet: no operator has taken it over." in out
    assert "The gates still turn away 30 %" in out


def test_gates_that_give_no_answer_are_named_and_not_counted(tidegate, shedding):
    labels = {"app.kubernetes.io/component": "gate", "tidegate.io/deployment": "qwen"}
    shedding.pod("qwen-gate-2", labels)
    shedding.pod("qwen-gate-3", labels)
    code, out, errors = tidegate(*SHED, "--yes", "-o", "json")
    told = json.loads(out)

    assert code == 0
    assert "Requests per second now, by 1 of 3 gates: at least" in errors
    assert "1 of 3 gates apply it; 2 give no answer (qwen-gate-2, qwen-gate-3)." in errors
    assert told["expected"]["gates"] == {"total": 3, "answering": 1}
    assert told["gatesApplyIt"] is None
    assert told["gates"] == {
        "total": 3,
        "applying": 1,
        "silent": ["qwen-gate-2", "qwen-gate-3"],
    }


def test_a_lever_milder_than_the_loop_is_warned_of_before_anything_is_written(tidegate, shedding):
    governing(shedding, {"state": "Overloaded", "shedPercent": 30, "shiftPercent": 0})
    shed = ("shed", "qwen", "10", "--for", "30m", "--reason", "INC-1", "--dry-run")
    _, out, errors = tidegate(*shed, "-o", "json")
    told = json.loads(out)["expected"]

    assert "Warning: the loop sheds 30 % now; that ends. About" in errors
    assert told["now"] == {"shedPercent": 30, "shiftPercent": 0, "by": "loop"}
    assert told["morePerSecond"] == pytest.approx(told["requestsPerSecond"] * 0.2, rel=0.01)


def test_a_lever_that_has_lapsed_holds_nothing(tidegate, shedding):
    lapsed = {**HELD, "until": "2020-01-01T00:00:00Z"}
    governing(shedding, {"state": "Normal"}, lapsed)
    _, out, errors = tidegate(*SHED, "--dry-run", "-o", "json")

    assert "In its place until now" not in errors
    assert json.loads(out)["replaced"] is None
    governing(shedding, {"state": "Overloaded", "shedPercent": 30}, lapsed)
    code, out, _ = tidegate("open", "qwen", "--yes")
    assert code == 0
    assert "has no lever that holds; the last one lapsed at 2020-01-01T00:00:00Z." in out


def test_a_shift_tells_the_room_of_the_other_deployment(tidegate, fake_cluster):
    fake_cluster.deployment("west")
    fake_cluster.gate("west-gate-1", gate_pages.podz(), gate_pages.counting(), deployment="west")
    shift = ("shift", "qwen", "20", "--to", "west", "--for", "1h", "--reason", "INC-1")
    code, out, _ = tidegate(*shift, "--dry-run")

    assert code == 0
    assert "move 20 % of the requests to west" in out
    assert "Room at west: about" in out
    assert "75% of its KV is reserved" in out


WEBHOOK_DOWN = (
    500,
    {"message": 'Internal error occurred: failed calling webhook "x.tidegate.io": no endpoints'},
)
FORBIDDEN = (403, {"message": 'User "robin" cannot patch resource "llmdeployments"'})
REFUSED = (
    403,
    {"message": 'admission webhook "x.tidegate.io" denied the request: override.until: is past'},
)
NO_KIND = (404, "404 page not found")


@pytest.mark.parametrize(
    ("method", "answer", "told"),
    [
        ("PATCH", FORBIDDEN, 'User "robin" cannot patch resource "llmdeployments"; docs/guides/'),
        ("PATCH", WEBHOOK_DOWN, "the operator does not answer reviews, so nothing can be changed"),
        ("PATCH", REFUSED, "override.until: is past"),
        ("PATCH", (401, {"message": "Unauthorized"}), "the cluster does not know this user"),
        ("GET", NO_KIND, "the cluster does not know the kind LLMDeployment; install Tidegate"),
    ],
)
def test_what_stands_in_the_way_is_one_line_with_the_fix(tidegate, shedding, method, answer, told):
    shedding.refuse[(method, "/apis/tidegate.io")] = answer
    code, _, errors = tidegate(*SHED, "--yes")

    assert code == 1
    assert errors.startswith(f"tidegate: {told}")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"spec": {"gate": {"enabled": False}}}, "has no gate (spec.gate.enabled is false)"),
        ({"status": {}}, "no operator has looked at qwen yet"),
    ],
)
def test_where_a_lever_would_do_nothing_it_is_not_pulled(tidegate, fake_cluster, changes, told):
    fake_cluster.deployment(**changes)
    code, _, errors = tidegate(*SHED, "--yes")

    assert code == 1
    assert told in errors
    assert not fake_cluster.called("PATCH")


def test_a_deployment_does_not_shift_to_itself(tidegate, fake_cluster):
    shift = ("shift", "qwen", "20", "--to", "qwen", "--for", "1h", "--reason", "INC-1")
    code, _, errors = tidegate(*shift, "--yes")

    assert code == 1
    assert "--to qwen is the deployment itself" in errors


def test_who_may_not_ask_the_gates_may_pull_a_lever_all_the_same(tidegate, shedding):
    shedding.refuse[("GET", "/api/v1/namespaces/chat/pods")] = (403, {"message": "no pods"})
    code, out, errors = tidegate(*SHED, "--yes")

    assert (code, errors) == (0, "")
    assert "Requests per second now: unknown" in out
    assert "Whether the gates apply it is unknown: no pods; docs/guides/levers.md" in out
    assert "Undo: kubectl tidegate open qwen" in out
    assert override(shedding)["percent"] == 30


def failing(cluster, method, path_end, times):
    """Have the API server fail so many times once a lever was written."""
    original, left = cluster.answer, iter(range(times))

    def answer(call):
        is_it = call.method == method and call.path.endswith(path_end)
        if is_it and cluster.called("PATCH") and next(left, None) is not None:
            if method == "PATCH":
                original(call)
            return 503, {"message": "apiserver is shutting down"}
        return original(call)

    cluster.answer = answer


def test_a_hiccup_after_the_write_is_waited_out(tidegate, shedding, monkeypatch):
    monkeypatch.setattr(lever_wait, "_HOLD_SECONDS", 60.0)
    failing(shedding, "GET", "/pods", 2)
    code, out, errors = tidegate(*SHED, "--yes")

    assert (code, errors) == (0, "")
    assert "The gates apply it." in out


@pytest.mark.parametrize("path", ["/pods", "/qwen"])
def test_trouble_after_the_write_does_not_hide_that_the_lever_is_set(tidegate, shedding, path):
    failing(shedding, "GET", path, 10**6)
    code, out, errors = tidegate(*SHED, "--yes")

    assert (code, errors) == (0, "")
    assert out.index("Set: by") < out.index("Undo: kubectl tidegate open qwen")
    assert "hether the gates apply it is unknown: apiserver is shutting down" in out


def test_a_patch_whose_answer_is_lost_is_looked_up(tidegate, shedding):
    failing(shedding, "PATCH", "/qwen", 1)
    code, out, errors = tidegate(*SHED, "--yes")

    assert (code, errors) == (0, "")
    assert "Warning: the API server's answer was lost (apiserver is shutting down), but" in out
    assert "Undo: kubectl tidegate open qwen" in out


@pytest.mark.parametrize(("is_done", "code"), [(True, 0), (False, 1)])
def test_a_patch_without_any_answer_is_looked_up(tidegate, shedding, monkeypatch, is_done, code):
    original = ApiServer.call

    async def call(self, method, path, **options):
        if method != "PATCH":
            return await original(self, method, path, **options)
        if is_done:
            await original(self, method, path, **options)
        raise NoAnswer("TimeoutError: ")

    monkeypatch.setattr(ApiServer, "call", call)
    ended, _, errors = tidegate(*SHED, "--yes")

    assert ended == code
    assert is_done or errors.startswith("tidegate: nothing is written, for there was no answer")


WARNING = r'299 - "ShiftTargetDiffers: west serves \"another\" model"'


@pytest.mark.parametrize("more", [["--dry-run"], ["--yes"]])
def test_what_the_webhook_warns_of_is_told_before_the_conclusion(tidegate, shedding, more):
    shedding.warnings = [WARNING]
    _, out, errors = tidegate(*SHED, *more, "-o", "json")

    told = 'ShiftTargetDiffers: west serves "another" model'
    conclusion = "Not written" if more == ["--dry-run"] else "Set: by"
    assert errors.index(f"Warning: {told}") < errors.index(conclusion)
    assert json.loads(out)["warnings"] == [told]


@pytest.mark.parametrize(
    "arguments",
    [
        ("shed", "", "30", "--for", "1h", "--reason", "x"),
        ("shift", "qwen", "30", "--to", "", "--for", "1h", "--reason", "x"),
        ("open", ""),
        ("open", "a/b"),
        ("status", ""),
        ("drain", "", "pod"),
        ("drain", "qwen", ""),
        ("pause", ""),
        ("bundle", ""),
    ],
)
def test_a_name_that_is_none_is_a_wrong_use(tidegate, fake_cluster, arguments):
    code, _, errors = tidegate(*arguments)

    assert code == 2
    assert "is no name: it must be lower-case letters, digits" in errors
    assert fake_cluster.calls == []


@pytest.mark.parametrize("text", ["a: [1\n b: {", "[]", "clusters: 7", "\x00", "contexts: [{}]"])
def test_a_kubeconfig_that_is_none_is_one_line(tidegate, tmp_path, monkeypatch, text):
    path = tmp_path / "odd"
    path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))
    code, _, errors = tidegate(*SHED)

    assert code == 2
    assert errors.startswith("tidegate: the cluster: no kubeconfig that can be used")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("shed", "qwen", "0", "--for", "1h", "--reason", "x"), "whole percent from 1 to 100"),
        (("shed", "qwen", "0.5", "--for", "1h", "--reason", "x"), "such as 50 for one half"),
        (("shed", "qwen", "2.5", "--for", "1h", "--reason", "x"), "whole percent from 1 to 100"),
        (("shed", "qwen", "1_0", "--for", "1h", "--reason", "x"), "whole percent from 1 to 100"),
        (("shed", "qwen", "1e1", "--for", "1h", "--reason", "x"), "whole percent from 1 to 100"),
        (("shed", "qwen", "101", "--for", "1h", "--reason", "x"), "whole percent from 1 to 100"),
        (("shed", "qwen", "\u0665", "--for", "1h", "--reason", "x"), "whole percent from 1 to"),
        (("shed", "qwen", "nan", "--for", "1h", "--reason", "x"), "whole percent from 1 to 100"),
        (("shed", "qwen", "many", "--for", "1h", "--reason", "x"), "whole percent from 1 to 100"),
        (("shed", "qwen", "5", "--for", "10", "--reason", "x"), "--for"),
        (("shed", "qwen", "5", "--for", "25h", "--reason", "x"), "must be from 0s to 24h"),
        (("shed", "qwen", "5", "--for", "0s", "--reason", "x"), "too short: at least 1s"),
        (("shed", "qwen", "5", "--for", "1h"), "--reason"),
        (("open", "qwen", "--for", "1h"), "go with --hold"),
        (("open", "qwen", "--hold", "--for", "1h"), "--hold needs --for and --reason"),
        (("shed", "qwen", "5", "--for", "1h", "--reason", " "), "say why"),
        (("shed", "qwen", "5", "--for", "1h", "--reason", "x" * 257), "at most 256 characters"),
        (("open", "qwen", "--hold", "--for", "1h", "--reason", ""), "say why"),
    ],
)
def test_a_wrong_use_names_the_option_and_the_fix(tidegate, arguments, told):
    code, _, errors = tidegate(*arguments)

    assert code == 2
    assert told in errors


def test_without_a_cluster_it_is_one_line(tidegate, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    code, _, errors = tidegate(*SHED)

    assert code == 2
    assert errors.startswith("tidegate: the cluster: no kubeconfig that can be used")
    assert errors.count("\n") == 1
