"""shed, shift and open say what they will do, ask, and say in one line what stands in the way."""

import json

import pytest
from tests.unit.cli import gate_pages
from tests.unit.cli.cluster import resource_path
from tests.unit.cli.terminal import Terminal

SHED = ("shed", "qwen", "30", "--for", "30m", "--reason", "INC-1")
QWEN = resource_path("qwen")


@pytest.fixture
def shedding(fake_cluster):
    """The gate applies 30 % already, as it will once the operator has told it."""
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


def test_letting_go_removes_the_lever_and_says_whose_it_was(tidegate, fake_cluster):
    held = {"action": "Shed", "percent": 30, "until": "2999-01-01T00:00:00Z", "reason": "INC-1"}
    spec = {"overload": {"override": {**held, "setBy": "robin"}}}
    fake_cluster.deployment(spec=spec)
    code, out, _ = tidegate("open", "qwen", "--yes")

    assert code == 0
    assert "Shed 30 % until 2999-01-01T00:00:00Z, set by robin (INC-1)" in out
    assert override(fake_cluster) is None


def test_where_no_lever_holds_there_is_nothing_to_write(tidegate, shedding):
    code, out, _ = tidegate("open", "qwen", "--yes")

    assert code == 0
    assert "has no lever that holds" in out
    assert "The loop itself sheds 30 %" in out
    assert not shedding.called("PATCH")


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
    assert "Whether the gates apply it is unknown" in out
    assert "Undo: kubectl tidegate open qwen" in out
    assert override(shedding)["percent"] == 30


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
