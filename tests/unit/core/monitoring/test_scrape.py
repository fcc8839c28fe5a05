"""Who is scraped, and under which labels."""

import pytest

from tidegate.core import names
from tidegate.core.monitoring import scrape
from tidegate.core.overload.queries import ENGINES_JOB, GATES_JOB

CONFIG = {entry["job_name"]: entry for entry in scrape.scrape_config()["scrape_configs"]}
EACH = pytest.mark.parametrize("job", scrape.JOBS, ids=lambda job: job.name)


def targets(job):
    """The labels that a job gives."""
    return {
        rule["target_label"]
        for rule in CONFIG[job.name]["relabel_configs"]
        if "target_label" in rule
    }


def test_engines_carry_what_the_overload_loop_asks_by():
    wanted = {"job", "namespace", "pod", "llmdeployment", "pool", "revision"}
    assert wanted <= targets(scrape.JOBS[0])
    assert scrape.JOBS[0].name == ENGINES_JOB


def test_a_gate_keeps_the_name_of_the_engines_pod_that_it_tells_of():
    (gates,) = (job for job in scrape.JOBS if job.name == GATES_JOB)

    assert CONFIG[GATES_JOB]["honor_labels"]
    assert "pod" not in targets(gates)
    assert {"namespace", "llmdeployment", "instance"} <= targets(gates)


def test_an_engine_cannot_pass_for_another():
    assert not CONFIG[ENGINES_JOB]["honor_labels"]


@EACH
def test_pods_that_have_ended_are_left_out_and_each_pod_is_scraped_once(job):
    rules = CONFIG[job.name]["relabel_configs"]
    dropped = [rule["regex"] for rule in rules if rule.get("action") == "drop"]
    ports = [
        rule["regex"]
        for rule in rules
        if rule.get("source_labels") == ["__meta_kubernetes_pod_container_port_name"]
    ]

    assert dropped == ["Failed|Succeeded"]
    assert ports == [job.port]


def test_gates_are_no_engines_though_both_carry_the_deployments_label():
    (engines,) = (job for job in scrape.JOBS if job.name == ENGINES_JOB)

    assert names.LABEL_POOL in engines.pods
    assert names.LABEL_POOL not in names.gate_labels("qwen")
