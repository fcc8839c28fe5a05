"""A real Prometheus scrapes real gates and the engine double, by the chart's own files.

What is recorded has data, no panel is empty, and what runbooks say to type works.
"""

import concurrent.futures
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from e2e import llmd, runbook_pages
from e2e.kube import Not, wait_until

from tidegate.core.monitoring import objectives, rules
from tidegate.core.monitoring.boards import boards

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[2]
MODEL = "tiny"
POOLS = {"tiny": {"unified"}, "tiny-pair": {"prefill", "decode"}}
FILES = {"tiny": "unified.yaml", "tiny-pair": "pair.yaml"}
LOAD_SECONDS = 15.0
CLIENTS = 4
DATA_SECONDS = 30.0
READY_SECONDS = 180.0
"""Six pods at once, beside Prometheus."""
OWN_LABELS = (llmd.POOL, llmd.REVISION)
ONLY_IN_MOTION = {"tidegate:share:direction"}
"""Recorded only while a share moves."""
OF_NO_DEPLOYMENT = {objectives.AVAILABILITY_BUDGET}
"""What the installation promises."""
ONLY_WITH_A_CANARY = ("rollout_step", "rollout_weight_ratio", "rollout_looks")
"""The canary's scenario asks for them."""
PAGES = runbook_pages.pages()
LEVERS = ("shed", "shift", "open", "drain")
SET = {"SHARE": "20", "POOL": "decode", "REPLICAS": "2", "LONGER": "2m"}
"""What a reader has set by an `export` before: each line is typed in a shell of its own."""
VERBS = tuple(f"kubectl tidegate {verb} " for verb in ("promote", "abort", "retry", "resume"))
"""What ends a rollout: without one they say so."""
CHANGES = ("patch", "delete", "label", "rollout restart")


@pytest.fixture(scope="module")
def served(kube, shared_namespace, local, watching):
    """A unified deployment and a pair that have served for a while, and Prometheus saw it."""
    made = {name: llmd.apply(kube, shared_namespace, HERE / FILES[name]) for name in FILES}
    for deployment in made.values():
        deployment.wait_ready(READY_SECONDS)
    with concurrent.futures.ThreadPoolExecutor(2 * CLIENTS) as pool:
        for done in [pool.submit(_load, d) for d in made.values() for _ in range(CLIENTS)]:
            done.result()
    watching.wait_for(f'tidegate:ttft_seconds:p95_5m{{namespace="{shared_namespace}"}}')
    return made


def _load(deployment):
    """Requests with a common beginning, one after another; now and then one that is too long."""
    end = time.monotonic() + LOAD_SECONDS
    number = 0
    while time.monotonic() < end:
        number += 1
        words = 4000 if number % 10 == 0 else 40 + number % 3
        _complete(deployment, " hello" * words)


def _complete(deployment, prompt):
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 8, "stream": True}
    request = urllib.request.Request(
        f"{deployment.address}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
    except urllib.error.HTTPError as refused:
        if refused.code not in (400, 429):  # too long, or too much at once, as it is meant to be
            raise


def in_scope(query, namespace, name):
    """A panel's query for one deployment."""
    for variable, value in {
        "$__rate_interval": "15m",  # the load is behind us, on a busy machine for long
        "$namespace": namespace,
        "$llmdeployment": name,
        "$pool": ".+",
    }.items():
        query = query.replace(variable, value)
    return query


def every_one_has_data(watching, queries):
    """Wait until all have had an answer: on a busy machine a scrape may come too late."""
    left = set(queries)

    def probe():
        left.difference_update({query for query in left if watching.known(query)})
        return not left or Not(sorted(left))

    wait_until("every query has an answer with a number in it", probe, DATA_SECONDS)


# who is scraped


def test_all_pods_are_scraped_under_the_labels_that_queries_rely_on(
    operator, watching, served, shared_namespace
):
    deployment = served["tiny-pair"]
    of_it = f'namespace="{shared_namespace}", llmdeployment="tiny-pair"'
    names = ("pod", "pool", "revision")
    engines = {
        (pod["metadata"]["name"], *(pod["metadata"]["labels"][own] for own in OWN_LABELS))
        for pod in deployment.pods()
    }
    gates = {(pod["metadata"]["name"],) for pod in deployment.gates()}
    operators = {(pod["metadata"]["name"],) for pod in operator.pods()}

    all_are_up(watching, f'up{{job="tidegate-engines", {of_it}}}', names, engines)
    all_are_up(watching, f'up{{job="tidegate-gates", {of_it}}}', ("instance",), gates)
    all_are_up(watching, 'up{job="tidegate-operator"}', ("instance",), operators)


def all_are_up(watching, targets, names, wanted):
    """Wait until these targets, and no others, have been read under these labels."""

    def probe():
        told = watching.query(f"{targets} == 1")
        found = {tuple(sample.labels.get(name) for name in names) for sample in told}
        return found == wanted or Not(sorted(found))

    wait_until(f"{targets} are {sorted(wanted)}", probe, DATA_SECONDS)


def test_what_gates_tell_of_an_engine_has_the_engines_name(watching, served, shared_namespace):
    told = watching.wait_for(f'tidegate_gate_seats{{namespace="{shared_namespace}"}}')
    pods = {pod["metadata"]["name"] for d in served.values() for pod in d.pods()}

    assert {sample.labels["pod"] for sample in told} == pods


# rules


def test_every_rule_is_loaded_and_healthy(watching, served):
    wanted = {alert.name for alert in rules.alerts()} | {r.name for r in rules.recordings()}

    def all_evaluated():
        loaded = watching.rules()
        return loaded if all(rule["health"] != "unknown" for rule in loaded) else Not("unknown")

    loaded = wait_until("every rule was evaluated", all_evaluated, 30)

    assert {rule["name"] for rule in loaded} == wanted
    assert [(r["name"], r["lastError"]) for r in loaded if r["health"] != "ok"] == []
    assert "SUCCESS" in watching.check_rules()


def test_everything_that_is_recorded_has_data(watching, served, shared_namespace):
    names = {recording.name for recording in rules.recordings()} - ONLY_IN_MOTION
    of_it = f'{{namespace="{shared_namespace}"}}'
    every_one_has_data(
        watching, [name + (of_it if name not in OF_NO_DEPLOYMENT else "") for name in names]
    )


def test_pools_are_told_apart(watching, served, shared_namespace):
    for name, pools in POOLS.items():
        of_it = f'namespace="{shared_namespace}", llmdeployment="{name}"'
        told = watching.wait_for(f"tidegate:kv_usage:max{{{of_it}}}")
        assert {sample.labels["pool"] for sample in told} == pools


def test_a_healthy_deployment_wakes_nobody(watching, served, shared_namespace):
    assert watching.firing(shared_namespace) == set()
    assert "OperatorDown" not in watching.firing()


# dashboards


@pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)
def test_no_panel_is_empty(board, watching, served, shared_namespace):
    queries = [
        in_scope(query.promql, shared_namespace, name)
        for row in board.rows
        for panel in row.panels
        for query in panel.queries
        if not any(word in query.promql for word in ONLY_WITH_A_CANARY)
        for name in served
    ]

    every_one_has_data(watching, queries)


# runbooks


@pytest.fixture(scope="module")
def typed(served, shared_namespace, kubeconfig, tmp_path_factory):
    """What came of every command of the runbooks; each was typed once."""
    pod = served["tiny-pair"].pods("decode")[0]["metadata"]["name"]
    names = {"NAMESPACE": shared_namespace, "NAME": "tiny-pair", "OTHER": "tiny", "POD": pod}
    path = f"{CHECKOUT / '.venv' / 'bin'}:{os.environ['PATH']}"
    environment = os.environ | SET | names | {"PATH": path, "KUBECONFIG": str(kubeconfig)}

    def run(command, folder):
        return subprocess.run(
            ["bash", "-c", _harmless(command)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=folder,
        )

    commands = sorted({line for page in PAGES for line in page.commands})
    folders = [tmp_path_factory.mktemp("typed") for _ in commands]
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        return dict(zip(commands, pool.map(run, commands, folders), strict=True))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_runbook_says_to_type_works(page, typed):
    for command in page.commands:
        done = typed[command]
        is_at_rest = command.startswith(VERBS) and "nothing to" in done.stderr
        assert done.returncode == 0 or is_at_rest, f"{command}: {done.stderr}\n{done.stdout}"
        if command.startswith("export "):
            assert not done.stderr, f"{command}: {done.stderr}"  # $(( $(...) + 1 )) hides a failure


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_runbook_asks_has_an_answer_or_none_but_no_error(page, watching, served):
    for query in page.queries:
        watching.query(query)


def _harmless(command):
    """The command without its effect: a dry run of what would change something."""
    if command.startswith("export "):
        return command.removeprefix("export ")  # which would hide that a $(...) failed
    if command.startswith(tuple(f"kubectl tidegate {lever} " for lever in LEVERS)):
        return f"{command} --dry-run --yes"
    if command.startswith(tuple(f"kubectl {change} " for change in CHANGES)):
        return "true" if "rollout restart" in command else f"{command} --dry-run=server"
    return command
