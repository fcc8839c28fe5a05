"""Deployments under more load than they can bear: what is told, what protects, what lets go.

Real gates before engine doubles, a real Prometheus, real clients.
"""

import contextlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from e2e import llmd, operator_install, prometheus, runbook_pages
from e2e.kube import Not, wait_until
from e2e.load import LOW, TOP, Load, told

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[2]
ADMIN_PORT = 9090
PER_SECOND = 4.2
"""Times 3 s for each, of 17 that the KV cache holds: about 0.7 of it without the loop."""
SCRAPE_SECONDS = 2
"""A scrape that takes longer than its interval fails; three of them, and nothing is known."""
ALERTS_AFTER_SECONDS = 3
"""In place of half an hour; `tests/monitoring` holds alerts to their real times."""
SOON, LATER = 60.0, 120.0
"""For a change that takes seconds, and for one that takes a minute: machines are busy."""
GIVEN_BACK = 300.0
"""For shares to go: first the load must have left the window of its rate, which is a minute."""
COMMAND_SECONDS = 180.0
MOST_PERCENT = 40
SHIFTS = {"overload": {"actions": ["Shift"], "shift": {"to": "spare", "maxPercent": MOST_PERCENT}}}


# the world


@pytest.fixture(scope="module")
def watching(kube, pytestconfig):
    """A Prometheus whose alerts are in a hurry."""
    image = pytestconfig.getoption("prometheus_image")
    installed = prometheus.install(kube, image, SCRAPE_SECONDS, ALERTS_AFTER_SECONDS)
    yield installed
    installed.remove()


@pytest.fixture(scope="module")
def overseer(kube, pytestconfig, operator, watching):
    """The operator, told of that Prometheus, and looking once a second."""
    image = pytestconfig.getoption("operator_image")
    config = {"prometheus": {**watching.config["prometheus"], "tick": "1s"}}
    yield operator_install.install(kube, image, config=config)
    operator_install.install(kube, image)


@pytest.fixture(scope="module")
def made(kube, local, shared_namespace, overseer):
    """Three deployments: one may shed, one may shift to the third, which has nothing to do."""
    changes = {"busy": {}, "full": SHIFTS, "spare": {}}
    file = HERE / "engine.yaml"
    there = {n: llmd.apply(kube, shared_namespace, file, n, changes[n]) for n in changes}
    for deployment in there.values():
        deployment.wait_ready()
    for deployment in there.values():
        deployment.wait_for("MetricsAvailable", "True", seconds=SOON)
    return there


@pytest.fixture(scope="module")
def loads(made):
    """Clients of the two, who come until the last test."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(Load(made[name].address, PER_SECOND))
            for name in ("busy", "full")
        }


@pytest.fixture(scope="module")
def busy(made, loads):
    """A deployment that sheds."""
    made["busy"].wait_for("Overloaded", "True", "OverThreshold", LATER)
    wait_for_share(made["busy"], "shedPercent", lambda percent: percent > 0)
    return made["busy"]


@pytest.fixture(scope="module")
def full(made, loads):
    """A deployment that shifts."""
    made["full"].wait_for("TrafficShifted", "True", seconds=LATER)
    wait_for_share(made["full"], "shiftPercent", lambda percent: percent > 0)
    return made["full"]


@pytest.fixture(scope="module")
def typed(made, kubeconfig, tmp_path_factory):
    """Types a command as the one on call does, and returns what it prints."""
    folder = tmp_path_factory.mktemp("typed")
    path = f"{CHECKOUT / '.venv' / 'bin'}:{os.environ['PATH']}"
    names = {"NAME": "busy", "OTHER": "spare", "NAMESPACE": made["busy"].namespace}

    def run(command, **others):
        environment = os.environ | names | others | {"PATH": path, "KUBECONFIG": str(kubeconfig)}
        words = {"env": environment, "cwd": folder, "capture_output": True, "text": True}
        done = subprocess.run(
            ["bash", "-c", command], timeout=COMMAND_SECONDS, check=False, **words
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    return run


def overload(deployment):
    return deployment.status.get("overload") or {}


def at_gates(deployment):
    """Return the shares that every gate of a deployment applies now."""
    found = []
    for gate in deployment.gates():
        name = f"{gate['metadata']['name']}:{ADMIN_PORT}"
        place = f"/api/v1/namespaces/{deployment.namespace}/pods/{name}/proxy/podz"
        shown = json.loads(deployment.kube.text(place))
        found.append({key: shown[key] for key in ("shedPercent", "shiftPercent")})
    return found


def wait_for_share(deployment, key, is_right, seconds=SOON):
    """Wait until every gate has a share that is right."""

    def probe():
        shares = at_gates(deployment)
        fits = shares and all(is_right(share[key]) for share in shares)
        return shares if fits else Not(f"{shares}; {overload(deployment)}")

    return wait_until(f"{key} at the gates of {deployment.name}", probe, seconds)


def wait_for_state(deployment, state, seconds=SOON):
    def probe():
        seen = overload(deployment)
        return seen if seen.get("state") == state else Not(seen)

    return wait_until(f"{deployment.name} is {state}", probe, seconds)


def events(deployment, reason):
    return [event for event in deployment.events() if event["reason"] == reason]


# what is told of an overload


def test_the_resource_says_what_is_done_and_why(kube, busy):
    seen = overload(busy)

    assert seen["state"] == "Overloaded"
    assert 0 < seen["shedPercent"] <= MOST_PERCENT
    assert (seen["signal"], seen["pool"]) == ("kvUsage", "unified")
    assert float(seen["value"]) > 0.4
    assert all(seen[field] for field in ("because", "since", "until"))
    row = kube.kubectl("get", "llmd", busy.name, "-n", busy.namespace)
    assert "shed " in row


def test_an_event_tells_of_it(busy):
    (event, *_) = wait_until("an Event", lambda: events(busy, "OverThreshold") or Not("none"), SOON)

    assert event["type"] == "Warning"
    assert "kvUsage of pool unified" in event["message"]


def test_gates_turn_the_low_class_away_and_never_the_top_one(busy, loads):
    answers = loads["busy"].answers

    def both_were_seen():
        shed = [answer for answer in answers if answer.reason == "shed"]
        served = [a for a in answers if a.priority == TOP and a.status == 200]
        return (len(shed) > 2 and served) or Not(told(answers))

    wait_until("some are turned away, and the top class is served", both_were_seen, LATER)

    shed = [answer for answer in answers if answer.reason == "shed"]
    assert {(answer.priority, answer.status) for answer in shed} == {(LOW, 429)}


def test_the_alert_fires_in_prometheus(busy, watching):
    watching.wait_firing("Shedding", busy.namespace, SOON)


# another deployment serves a share


def test_clients_are_told_who_served_them(full, loads):
    def probe():
        got = [a for a in loads["full"].answers if a.served_by == "spare"]
        return got if len(got) > 2 else Not(told(loads["full"].answers))

    shifted = wait_until("spare serves some of full's requests", probe, LATER)

    assert {answer.status for answer in shifted} == {200}
    assert 0 < overload(full)["shiftPercent"] <= MOST_PERCENT
    assert overload(full)["shiftTo"] == "spare"


def test_a_shift_back_is_refused_as_it_would_be_a_circle(made, full):
    with pytest.raises(AssertionError, match="in a circle"):
        made["spare"].patch(
            {"overload": {"actions": ["Shift"], "shift": {"to": "full", "maxPercent": 10}}}
        )


def test_a_request_that_was_here_before_is_not_sent_round_again(full):
    request = [
        *("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20"),
        *("-H", f"x-tidegate-shifted: {full.namespace}/{full.name}"),
        *("-H", "Content-Type: application/json"),
        *("-d", json.dumps({"model": "tiny", "prompt": "a", "max_tokens": 1})),
        f"{full.address}/v1/completions",
    ]

    done = subprocess.run(request, capture_output=True, text=True, check=True)

    assert done.stdout == "508"


# a person's levers


def test_the_command_of_the_runbook_ends_the_alert(busy, made, watching, typed):
    (page,) = [page for page in runbook_pages.pages() if page.name == "Shedding"]
    (command,) = [line for line in page.commands if " shift " in line]

    said = typed(f"{command} --yes")

    assert "The gates apply it." in said
    wait_for_share(busy, "shiftPercent", lambda percent: percent > 5)  # what was shed, and 5 points
    seen = wait_for_state(busy, "Override")
    assert (seen["shedPercent"], seen["shiftTo"]) == (0, "spare")
    wait_until(
        "Prometheus sees no shed any more",
        lambda: not watching.query(shed_now(busy)) or Not(watching.query(shed_now(busy))),
        SOON,
    )
    typed('kubectl tidegate open "$NAME" -n "$NAMESPACE" --yes')
    wait_for_share(busy, "shiftPercent", lambda percent: percent == 0)


def shed_now(deployment):
    of_it = f'namespace="{deployment.namespace}", llmdeployment="{deployment.name}"'
    return f'tidegate:share:percent{{{of_it}, lever="shed"}} > 0'


def test_a_lever_has_an_author_and_an_end(made, typed):
    spare = made["spare"]

    typed('kubectl tidegate shed spare 10 -n "$NAMESPACE" --for 20s --reason INC-7 --yes')

    lever = wait_for_state(spare, "Override")["override"]
    assert (lever["action"], lever["reason"]) == ("Shed", "INC-7")
    assert lever["setBy"] == kubectl_user(spare)
    assert lever["until"]
    told_of = wait_until("an Event", lambda: events(spare, "OverrideActive") or Not("none"), SOON)
    assert lever["setBy"] in told_of[0]["message"]
    wait_for_share(spare, "shedPercent", lambda percent: percent == 0, LATER)
    assert wait_for_state(spare, "Normal")["shedPercent"] == 0


def kubectl_user(deployment):
    answer = json.loads(deployment.kube.kubectl("auth", "whoami", "-o", "json"))
    return answer["status"]["userInfo"]["username"]


# Prometheus is away


def test_without_prometheus_shares_hold_and_then_the_cap_alone_protects(busy, made, watching):
    wait_for_share(busy, "shedPercent", lambda percent: percent > 0, LATER)
    untouched = made["spare"]
    before = gate_document(untouched)

    watching.stop()
    try:
        lost = busy.wait_for("MetricsAvailable", "False", "MetricsUnreachable", SOON)
        held = overload(busy)["shedPercent"]
        assert held > 0
        assert "hold" in lost["message"]
        untouched.wait_for("MetricsAvailable", "False", "MetricsUnreachable", SOON)
        serves_a_change(untouched)
        untouched.patch({"gate": {"maxQueue": None}})
        wait_for_share(busy, "shedPercent", lambda percent: percent < held, LATER)
        assert overload(busy)["reason"] == "MetricsUnreachable"
    finally:
        watching.start()
    busy.wait_for("MetricsAvailable", "True", seconds=LATER)
    untouched.wait_for("MetricsAvailable", "True", seconds=LATER)

    assert without_generation(gate_document(untouched)) == without_generation(before)


def serves_a_change(deployment):
    """The operator does its other work: a change of the spec reaches the gate."""
    deployment.patch({"gate": {"maxQueue": 7}})
    deployment.wait_ready()
    assert gate_document(deployment)["limits"]["maxQueue"] == 7


def gate_document(deployment):
    name = f"{deployment.name}-gate"
    data = deployment.kube.get("configmaps", deployment.namespace, name)["data"]
    return json.loads(data["gate.json"])


def without_generation(document):
    return {key: value for key, value in document.items() if key != "generation"}


# the operator is away


def test_when_the_operator_dies_shares_lapse_at_the_gates(kube, overseer, busy, full):
    """It says beforehand until when they hold; no gate needs it to let go."""
    wait_for_share(full, "shiftPercent", lambda percent: percent > 0, LATER)
    scale = ("-n", operator_install.NAMESPACE, "scale", f"deployment/{operator_install.NAME}")

    kube.kubectl(*scale, "--replicas=0")
    try:
        wait_until("the operator is gone", lambda: overseer.pods() == [], LATER)
        assert any(share["shiftPercent"] for share in at_gates(full))
        for deployment, key in ((full, "shiftPercent"), (busy, "shedPercent")):
            wait_for_share(deployment, key, lambda percent: percent == 0, LATER)
    finally:
        kube.kubectl(*scale, "--replicas=2")
        overseer.wait_ready()

    wait_for_share(full, "shiftPercent", lambda percent: percent > 0, LATER)


# the load ends


def test_shares_go_back_to_zero_by_themselves(busy, full, loads, watching):
    for load in loads.values():
        load.stop()

    wait_for_share(busy, "shedPercent", lambda percent: percent == 0, GIVEN_BACK)
    wait_for_share(full, "shiftPercent", lambda percent: percent == 0, GIVEN_BACK)

    busy.wait_for("Overloaded", "False", "WithinThresholds", LATER)
    full.wait_for("TrafficShifted", "False", seconds=SOON)
    assert events(busy, "LettingGo")
    wait_until(
        "the alert ends",
        lambda: "Shedding" not in watching.firing(busy.namespace) or Not("it fires"),
        LATER,
    )


def test_nobody_of_the_top_class_was_lost_to_the_loop(loads):
    for load in loads.values():
        lost = [a for a in load.answers if a.priority == TOP and a.status != 200]
        assert not [answer for answer in lost if answer.reason == "shed"], told(load.answers)
        assert not [answer for answer in load.answers if answer.fault], told(load.answers)
