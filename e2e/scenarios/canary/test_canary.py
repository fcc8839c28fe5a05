"""Canaries under live streams: promoted, taken back, and whatever may happen on their way.

Real gates before engine doubles, a real Prometheus, the official client. All rollouts begin at
once, while Prometheus is away, so that their waits pass together.
"""

import contextlib
import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from e2e import image_tags, llmd, node_gpus, operator_install, prometheus
from e2e.double import image as double_image
from e2e.kube import Not, wait_until
from e2e.llmd import REVISION, env
from e2e.rollout_states import RolloutStates
from e2e.streams import Streams

FILE = Path(__file__).with_name("engine.yaml")
CHECKOUT = Path(__file__).parents[3]
NEXT_IMAGE = "localhost/tidegate/engine-double:canary"
SOON, LATER = 60.0, 180.0
"""For a change that takes seconds, and for a verdict or the pods of a promotion."""
ALL_STEPS = 360.0
"""For a Pass of each step by its own evidence; two minutes on a quiet machine."""
MOST_SECONDS_AFTER_VERDICT = 5.0
"""Until the last request to a canary that was taken back, on a busy machine; 1 s on a quiet one."""
EVIDENCE_SECONDS = 5
RATES = {"good": 4.0, "slow": 4.0, "hand": 2.0}
"""Streams a second. Twice as many starve a machine whose cores are slow: no verdict comes then."""
BY_HAND = {"steps": [{"weight": 50, "pause": "10m"}], "deadline": "10m"}
PATIENT = {"deadline": "10m"}
BESIDE = {"baseline": True, "steps": [{"weight": 50, "analysis": "10m"}]}
BRIEF = {"steps": [{"weight": 50, "pause": "1s"}], "deadline": "40s"}
ROLLOUTS = {"good": {}, "slow": PATIENT, "broken": BRIEF, "hand": BY_HAND}

pytestmark = pytest.mark.timeout(600)


# the world


@pytest.fixture(scope="module")
def watching(kube, pytestconfig):
    """A Prometheus of this scenario's own."""
    installed = prometheus.install(kube, pytestconfig.getoption("prometheus_image"))
    yield installed
    installed.remove()


@pytest.fixture(scope="module")
def judging(kube, pytestconfig, operator, watching):
    """The operator, told of that Prometheus, comparing in stretches of a few seconds."""
    image = pytestconfig.getoption("operator_image")
    told = {"tick": "1s", "evidenceInterval": f"{EVIDENCE_SECONDS}s"}
    config = {"prometheus": {**watching.config["prometheus"], **told}}
    yield operator_install.install(kube, image, config=config)
    operator_install.install(kube, image)


@pytest.fixture(scope="module")
def made(kube, local, shared_namespace, judging):
    """Four deployments on nodes with GPUs to spare, settled."""
    node_gpus.let_have(kube, 16)
    there = {
        name: llmd.apply(kube, shared_namespace, FILE, name, {"rollout": rollout})
        for name, rollout in ROLLOUTS.items()
    }
    image_tags.load_again(local, double_image.REFERENCE, NEXT_IMAGE)
    for deployment in there.values():
        deployment.wait_settled(LATER)
        deployment.wait_for("Promoted", "True", "Promoted", SOON)
    yield there
    local.up()


@pytest.fixture(scope="module")
def streams(made):
    """Clients who come until the last test."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(Streams(made[name].address, rate))
            for name, rate in RATES.items()
        }


@pytest.fixture(scope="module")
def stable(made):
    """The revisions that serve before any change."""
    return {name: deployment.status["rollout"]["stable"] for name, deployment in made.items()}


@pytest.fixture(scope="module")
def states(made):
    """What every rollout goes through."""
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(RolloutStates(made[name])) for name in made}


@pytest.fixture(scope="module")
def begun(made, streams, stable, states, watching):
    """All rollouts, begun; Prometheus went away just before."""
    watching.stop()
    made["good"].patch({"engine": {"image": NEXT_IMAGE}})
    made["slow"].patch({"engine": {"env": env(DOUBLE_STEP_SECONDS=0.5)}})
    made["broken"].patch({"engine": {"env": env(DOUBLE_FAIL="kv-too-small")}})
    made["hand"].patch({"engine": {"maxNumSeqs": 48}})
    return made


@pytest.fixture(scope="module")
def typed(begun, kubeconfig):
    """Says something of the rollout that is left to people, as a release engineer types it."""
    path = f"{CHECKOUT / '.venv' / 'bin'}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "KUBECONFIG": str(kubeconfig)}

    def run(*words):
        command = ["kubectl", "tidegate", *words, "-n", begun["hand"].namespace]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    return run


def rollout(deployment):
    return deployment.status.get("rollout") or {}


def wait_for(deployment, what, holds, seconds=SOON):
    """Wait until the rollout is as told, and return it."""

    def probe():
        seen = rollout(deployment)
        return seen if seen and holds(seen) else Not(seen)

    return wait_until(f"{deployment.name} {what}", probe, seconds)


def wait_for_phase(deployment, *phases, seconds=SOON):
    return wait_for(deployment, f"is {phases}", lambda seen: seen["phase"] in phases, seconds)


def wait_for_weight(deployment, seconds=LATER):
    """Wait until the canary has its weight."""
    return wait_for(deployment, "has a canary", lambda s: s.get("readySince"), seconds)


def wait_served(streams, revision, since=0.0, least=3):
    """Wait until a revision has served clients who came after a moment."""
    return wait_until(
        f"revision {revision} serves",
        lambda: streams.of(revision, since)[least:] or Not(len(streams.of(revision, since))),
        SOON,
    )


def revisions(deployment):
    return {pod["metadata"]["labels"][REVISION] for pod in deployment.pods()}


def arguments(pod):
    return pod["spec"]["containers"][0]["args"]


def row(deployment):
    """Return what `kubectl get llmd` shows of a deployment, by column."""
    words = ("get", "llmd", deployment.name, "-n", deployment.namespace)
    lines = deployment.kube.kubectl(*words).splitlines()
    header, line = (re.split(r"\s{2,}", text.strip()) for text in lines)
    return dict(zip(header, line, strict=False))


# what a person says


def test_a_person_pauses_and_resumes(begun, streams, typed):
    hand = begun["hand"]
    canary = wait_for_weight(hand)["canary"]

    typed("pause", "hand", "--yes")

    hand.wait_for("Progressing", "False", "RolloutPaused", SOON)
    assert "paused" in row(hand)["ROLLOUT"]
    wait_served(streams["hand"], canary, time.monotonic())
    typed("resume", "hand", "--yes")
    wait_for(hand, "goes on", lambda seen: not seen.get("pausedSince"))
    assert rollout(hand)["phase"] == "Canary"


def test_a_person_takes_it_back(begun, streams, stable, typed):
    hand = begun["hand"]

    typed("abort", "hand", "--yes")

    seen = wait_for_phase(hand, "Aborted")
    assert seen["because"] == "aborted by command"
    since = time.monotonic()
    wait_served(streams["hand"], stable["hand"], since, least=8)
    assert not streams["hand"].of(seen["canary"], since + 1.0)


def test_a_person_tries_it_once_more_and_takes_it(begun, streams, typed):
    hand = begun["hand"]

    typed("retry", "hand", "--yes")
    canary = wait_for_phase(hand, "Canary")["canary"]
    wait_for_weight(hand)
    typed("promote", "hand", "--yes")

    hand.wait_for("Promoted", "True", "Promoted", LATER)
    assert rollout(hand)["stable"] == canary
    assert wait_served(streams["hand"], canary, time.monotonic())


# an engine that never starts


def test_an_engine_that_never_starts_is_taken_back_and_the_row_says_why(begun, states, stable):
    broken = begun["broken"]

    states["broken"].wait("taken back", lambda seen: seen["phase"].startswith("Abort"), LATER)

    wait_for_phase(broken, "Aborted")
    assert row(broken)["ROLLOUT"].startswith("Aborted: ")
    told = broken.wait_for("Promoted", "False", "RolloutAborted", SOON)["message"]
    assert "its pods are not ready" in told
    assert "KV" in told, "the cause of the pods is named"
    assert broken.condition("Available")["status"] == "True"
    assert stable["broken"] in revisions(broken)


# Prometheus is away


def test_without_prometheus_a_canary_stays_at_its_weight_and_says_so(begun, streams, states):
    good = begun["good"]
    told = states["good"].wait("inconclusive", lambda s: s.get("inconclusiveSince"), LATER)

    good.wait_for("Progressing", "False", "CanaryInconclusive", SOON)
    row_of_it = row(good)["ROLLOUT"]
    assert "inconclusive" in row_of_it
    assert told.rollout["phase"] == "Canary"
    wait_served(streams["good"], told.rollout["canary"], told.at)
    assert rollout(good)["phase"] == "Canary", "neither forward nor back on silence"


# Prometheus is back


@pytest.fixture(scope="module")
def back(begun, watching, states):
    """All rollouts, with a Prometheus that knows nothing of what was before."""
    states["good"].wait("inconclusive", lambda seen: seen.get("inconclusiveSince"), LATER)
    wait_for_weight(begun["slow"])
    watching.start()
    return begun


def test_a_slower_engine_is_taken_back_at_once(back, streams, states, stable):
    """The moment of the verdict is that of the watch; a client's that when it asked."""
    verdict = states["slow"].wait("fails", lambda seen: seen["phase"] == "Aborting", LATER)
    canary = verdict.rollout["canary"]

    wait_for_phase(back["slow"], "Aborted")
    wait_served(streams["slow"], stable["slow"], time.monotonic(), least=10)

    after = [one.begun - verdict.at for one in streams["slow"].of(canary, verdict.at)]
    last = max(after, default=0.0)
    print(f"last request to the canary {last:.2f} s after the verdict ({len(after)} of them)")
    assert last < MOST_SECONDS_AFTER_VERDICT
    shown = row(back["slow"])["ROLLOUT"]
    assert re.match(r"Aborted: (ttft|tpot)P\d\d: .*% ?.*", shown), shown
    assert "RolloutAborted" in {event["reason"] for event in back["slow"].events()}


def test_what_was_measured_of_both_is_kept_and_told(back, typed):
    """Of the engine that was taken back: the look that decided, in the history beside it."""
    slow = back["slow"]
    wait_for_phase(slow, "Aborted", seconds=LATER)

    def decided():
        looks = json.loads(typed("status", "slow", "-o", "json"))["canary"]["looks"]
        return looks[-1] if looks and looks[-1]["verdict"] == "Fail" else Not(looks[-1:])

    look = wait_until("the look that decided is kept", decided, SOON)
    failed = [one for one in look["metrics"] if one["verdict"] == "Fail"]
    assert all(one["canary"] > one["stable"] > 0 for one in failed if one["metric"][0] == "t")
    assert all(min(one["samples"], one["stableSamples"]) > 0 for one in failed)
    assert look["revision"] == rollout(slow)["canary"]
    history = slow.kube.get("configmaps", slow.namespace, "slow-rollout")
    assert history["metadata"]["ownerReferences"][0]["name"] == "slow"


def test_the_operator_dies_and_the_rollout_goes_on(back, operator, states):
    """The next one goes on from what is stored: the evidence so far, and the clock of the step."""
    before = wait_for(back["good"], "is under way", lambda seen: seen.get("readySince"))

    if before["phase"] == "Canary":
        operator.delete_leader()
        operator.leader()

    for told in states["good"].told:
        if told.rollout["phase"] == "Canary" and told.rollout.get("readySince"):
            assert told.rollout["readySince"] == before["readySince"], "no step begins anew"


def test_the_good_one_is_promoted_by_itself(back, streams, states):
    good = back["good"]
    canary = (
        states["good"].wait("a canary", lambda s: s["phase"] == "Canary", SOON).rollout["canary"]
    )

    good.wait_for("Promoted", "True", "Promoted", ALL_STEPS)

    assert row(good)["ROLLOUT"] == "Settled"
    assert revisions(good) == {canary}
    images = {pod["spec"]["containers"][0]["image"] for pod in good.pods()}
    assert images == {NEXT_IMAGE}
    wait_served(streams["good"], canary, time.monotonic())


# changes of mind


def test_of_three_changes_in_ten_seconds_the_last_is_tried(back, stable):
    hand = back["hand"]
    before = hand.wait_for("Promoted", "True", "Promoted", LATER) and rollout(hand)["stable"]

    for count in (16, 24, 32):
        hand.patch({"engine": {"maxNumSeqs": count}})
        time.sleep(3)  # the three changes come within ten seconds

    hand.wait_for("Promoted", "False", "CanaryRunning", SOON)
    seen = wait_for_weight(hand)
    assert seen["stable"] == before, "what it is compared with is still the one that serves"
    wait_until(
        "only the last and stable have pods",
        lambda: revisions(hand) == {before, seen["canary"]} or Not(revisions(hand)),
        LATER,
    )
    flags = next(
        pod["spec"]["containers"][0]["args"]
        for pod in hand.pods()
        if pod["metadata"]["labels"][REVISION] == seen["canary"]
    )
    assert "--max-num-seqs=32" in flags


def test_the_former_spec_is_a_rollback_at_once(back, streams, states):
    hand = back["hand"]
    canary, before = rollout(hand)["canary"], rollout(hand)["stable"]

    hand.patch({"engine": {"maxNumSeqs": 48}})

    hand.wait_for("Promoted", "True", "Promoted", LATER)
    since = time.monotonic()
    wait_served(streams["hand"], before, since, least=8)
    assert not streams["hand"].of(canary, since)
    assert rollout(hand)["stable"] == before


# fresh pods of stable


def test_fresh_pods_of_stable_serve_beside_a_canary_and_go_with_it(back, streams, watching):
    """Both get half of the requests, and the pod that has served for long stands by."""
    hand = back["hand"]
    before = rollout(hand)["stable"]
    of_stable = [arguments(pod) for pod in hand.pods()]  # they differ by class of node
    hand.patch({"rollout": BESIDE, "engine": {"maxNumSeqs": 36}})
    seen = wait_for_weight(hand)
    fresh, since = seen["baseline"], time.monotonic()
    assert revisions(hand) == {before, seen["canary"], fresh}
    for revision in (seen["canary"], fresh):
        wait_served(streams["hand"], revision, since)
    made = [pod for pod in hand.pods() if pod["metadata"]["labels"][REVISION] == fresh]
    assert all(arguments(pod) in of_stable for pod in made)
    for name in ("step", "weight_ratio", "looks"):
        watching.wait_for(f'tidegate_rollout_{name}{{revision="{seen["canary"]}"}}')

    hand.patch({"rollout": BY_HAND | {"baseline": False}, "engine": {"maxNumSeqs": 48}})

    wait_until(
        "only stable is left",
        lambda: revisions(hand) == {before} or Not(revisions(hand)),
        LATER,
    )
    hand.wait_for("Promoted", "True", "Promoted", SOON)


# nobody noticed


@pytest.mark.parametrize("name", list(RATES))
def test_nobody_who_was_let_in_lost_anything(back, streams, name):
    """Who is told to come back was not let in: a slow engine or machine has room for fewer."""
    served = streams[name].done
    assert len(served) > 20
    assert not streams[name].lost_when_let_in(), f"of {len(served)}"


def test_a_deletion_in_mid_rollout_leaves_nothing(back, streams):
    hand = back["hand"]
    hand.patch({"engine": {"maxNumSeqs": 40}})
    wait_for_weight(hand)
    streams["hand"].stop()

    hand.delete()

    wait_until("its objects are gone", lambda: not hand.children() or Not("some are there"), SOON)
    wait_until("its pods are gone", lambda: not hand.pods() or Not(hand.uids()), SOON)
