"""What the chart gives to Prometheus and Grafana, only where it is asked for."""

import json

import pytest
import yaml
from tests.chart.helm import CHART, one, render, template

from tidegate.core.monitoring import rules, scrape

FILES = CHART / "files" / "monitoring"
KINDS = {"PodMonitor", "PrometheusRule"}
BUDGET = "tidegate:availability_budget:ratio"


def monitored(**parts):
    return render({"monitoring": parts})


def test_nothing_is_made_by_default():
    documents = render({})

    assert not KINDS & {document["kind"] for document in documents}
    assert not [d for d in documents if "dashboard" in d["metadata"]["name"]]


def test_each_job_has_a_pod_monitor_at_the_interval_that_the_operator_goes_by():
    documents = render(
        {
            "monitoring": {"podMonitors": {"enabled": True, "labels": {"release": "prom"}}},
            "config": {"prometheus": {"scrapeInterval": "5s"}},
        }
    )

    for job in scrape.JOBS:
        monitor = one(documents, "PodMonitor", job.name)
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["interval"] == "5s"
        assert monitor["metadata"]["labels"]["release"] == "prom"


@pytest.mark.parametrize("interval", ["7.5s", "0.5m", "500.5ms", "15s1m", "10s10s"])
def test_an_interval_that_prometheus_does_not_take_is_refused_with_what_to_write(interval):
    settings = {"config": {"prometheus": {"scrapeInterval": interval}}}
    done = template({"monitoring": {"podMonitors": {"enabled": True}}} | settings)

    assert done.returncode != 0
    assert f"config.prometheus.scrapeInterval is {interval}" in done.stderr
    assert "such as 7s500ms" in done.stderr
    assert template(settings).returncode == 0, "the operator itself takes it"


@pytest.mark.parametrize("interval", ["7s500ms", "7500ms", "1m30s", "1m"])
def test_an_interval_in_whole_units_is_taken(interval):
    documents = render(
        {
            "monitoring": {"podMonitors": {"enabled": True}},
            "config": {"prometheus": {"scrapeInterval": interval}},
        }
    )
    (endpoint,) = one(documents, "PodMonitor", scrape.JOBS[0].name)["spec"]["podMetricsEndpoints"]

    assert endpoint["interval"] == interval


def test_a_pod_monitor_and_the_plain_configuration_name_series_alike():
    plain = yaml.safe_load((FILES / "scrape-config.yaml").read_text(encoding="utf-8"))
    documents = monitored(podMonitors={"enabled": True})

    for entry in plain["scrape_configs"]:
        (endpoint,) = one(documents, "PodMonitor", entry["job_name"])["spec"]["podMetricsEndpoints"]
        ours = {
            (rule.get("targetLabel"), *rule.get("sourceLabels", ()), rule.get("replacement"))
            for rule in endpoint["relabelings"]
        }
        theirs = {
            (rule.get("target_label"), *rule.get("source_labels", ()), rule.get("replacement"))
            for rule in entry["relabel_configs"]
            if rule.get("action") in (None, "labeldrop")
        }
        assert ours == theirs
        assert endpoint["honorLabels"] == entry["honor_labels"]


def test_the_rule_object_has_the_rules_of_the_plain_file():
    plain = yaml.safe_load((FILES / "rules.yaml").read_text(encoding="utf-8"))
    rule = one(monitored(rules={"enabled": True}), "PrometheusRule")

    assert rule["spec"] == plain == rules.document()


def every_rule(**values):
    made = one(monitored(rules={"enabled": True}, **values), "PrometheusRule")
    return [entry for group in made["spec"]["groups"] for entry in group["rules"]]


def test_alerts_link_to_where_the_runbooks_are_served():
    there = "https://docs.example.com/runbooks"
    alerts = [rule for rule in every_rule(runbookBaseUrl=there) if "alert" in rule]

    links = {alert["annotations"]["runbook_url"] for alert in alerts}
    assert links == {f"{there}/{alert.name}.md" for alert in rules.alerts()}


def test_without_such_a_place_alerts_name_the_command_that_prints_the_runbook():
    for alert in (rule for rule in every_rule() if "alert" in rule):
        assert "runbook_url" not in alert["annotations"]
        assert alert["annotations"]["runbook"] == f"kubectl tidegate runbook {alert['alert']}"


@pytest.mark.parametrize(
    ("percent", "budget"),
    [(99.9, 0.001), (99.95, 0.0005), (99, 0.01), (99.999, 0.00001), (50, 0.5)],
)
def test_the_objective_of_availability_sets_what_may_fail_and_nothing_else(percent, budget):
    made = every_rule(availabilityObjectivePercent=percent)

    differing = [rule for rule, default in zip(made, every_rule(), strict=True) if rule != default]
    assert [rule["record"] for rule in differing] == [BUDGET] * (percent != 99.9)
    (rule,) = [rule for rule in made if rule.get("record") == BUDGET]
    assert float(rule["expr"].removeprefix("vector(").removesuffix(")")) == pytest.approx(budget)


@pytest.mark.parametrize("percent", [0, 100, 101, "99"])
def test_an_objective_that_is_none_is_refused(percent):
    done = template({"monitoring": {"availabilityObjectivePercent": percent}})

    assert done.returncode != 0
    assert "availabilityObjectivePercent" in done.stderr


@pytest.mark.parametrize("address", ["docs.example.com", "https://docs.example.com/", "ftp://a.b"])
def test_an_address_that_links_cannot_start_with_is_refused(address):
    done = template({"monitoring": {"runbookBaseUrl": address}})

    assert done.returncode != 0
    assert "runbookBaseUrl" in done.stderr


def test_each_dashboard_is_a_config_map_that_grafanas_sidecar_finds():
    documents = monitored(dashboards={"enabled": True, "annotations": {"folder": "Tidegate"}})
    files = sorted((FILES / "dashboards").glob("*.json"))

    assert files
    for file in files:
        found = one(documents, "ConfigMap", f"tidegate-dashboard-{file.stem}")
        assert json.loads(found["data"][file.name]) == json.loads(file.read_text(encoding="utf-8"))
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert found["metadata"]["annotations"] == {"folder": "Tidegate"}
