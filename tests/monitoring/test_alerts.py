"""Each alert fires where it must, and is quiet where it must be."""

import pytest
import yaml
from tests.monitoring import promtool
from tests.monitoring.alert_cases import CASES, WHERE_A_TENTH_MAY_FAIL, condition, lever

from tidegate.core.monitoring import objectives, promql, rules

SAID = (
    ("MetricsStale", condition("MetricsAvailable", "False", "NoData"), "9m", " for NoData"),
    ("BudgetDrift", condition("BudgetDrift", "True", "KVSmall"), "20m", " for KVSmall"),
    ("OverrideActive", lever("Shed", "172800x3000"), "90m", " (Shed)"),
    ("OverrideActive", lever("Shed", "172800x88 stale"), "89m", ""),
)


def failed(case, folder, recorded=None):
    """What promtool finds wrong with a case."""
    wanted = {"alertname": case.alert, "alertstate": "firing"} | case.labels
    matchers = ",".join(f'{name}="{value}"' for name, value in wanted.items())
    expected = [{"labels": "{}", "value": 1}] if case.fires else []
    test = {
        "interval": case.step,
        "input_series": [{"series": key, "values": text} for key, text in case.series.items()],
        "promql_expr_test": [
            {
                "expr": f"sgn(count(last_over_time(ALERTS{{{matchers}}}[{case.step}1s])))",
                "eval_time": case.at,
                "exp_samples": expected,
            }
        ],
    }

    tests = {"evaluation_interval": case.step, "tests": [test]}
    return promtool.failures(folder, case.alert, tests, recorded)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_alert(case, tmp_path):
    wrong = failed(case, tmp_path)
    assert not wrong, wrong


@pytest.mark.parametrize("case", WHERE_A_TENTH_MAY_FAIL, ids=lambda case: case.what)
def test_no_objective_is_so_low_that_nobody_is_woken(case, tmp_path):
    budget = {objectives.AVAILABILITY_BUDGET: objectives.availability_budget(90)}

    wrong = failed(case, tmp_path, budget)
    assert not wrong, wrong


@pytest.mark.parametrize(("alert", "series", "at", "said"), SAID, ids=lambda text: str(text)[:20])
def test_what_an_alert_has_not_in_its_labels_is_in_its_text(alert, series, at, said, tmp_path):
    (rule,) = [rule for rule in rules.alerts() if rule.name == alert]
    head, rest = rule.description.partition("{{ with")[0], rule.description.partition("end }}")[2]
    expected = {
        "exp_labels": {"namespace": "chat", "llmdeployment": "qwen", "severity": rule.severity},
        "exp_annotations": {
            "summary": rule.summary.replace(promql.NAME, "chat/qwen"),
            "description": f"{head}{said}{rest}",
            "runbook": f"kubectl tidegate runbook {alert}",
        },
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": key, "values": text} for key, text in series.items()],
        "alert_rule_test": [{"eval_time": at, "alertname": alert, "exp_alerts": [expected]}],
    }

    wrong = promtool.failures(tmp_path, alert, {"evaluation_interval": "1m", "tests": [test]})
    assert not wrong, wrong


def test_each_alert_is_seen_firing_and_not_firing():
    names = {alert.name for alert in rules.alerts()}

    assert {case.alert for case in CASES if case.fires} == names
    assert {case.alert for case in CASES if not case.fires} == names


def test_prometheus_takes_the_files():
    taken = promtool.run("check", "rules", "--lint=all", "--lint-fatal", promtool.RULES)
    config = promtool.run("check", "config", "--syntax-only", promtool.FILES / "scrape-config.yaml")

    assert taken.returncode == 0, taken.stderr + taken.stdout
    assert config.returncode == 0, config.stderr + config.stdout


@pytest.mark.parametrize("alert", rules.alerts(), ids=lambda alert: f"{alert.name}{alert.burn}")
def test_an_alert_says_what_to_do_and_does_not_flap(alert):
    assert alert.for_seconds > 0 or alert.keep_seconds > 0
    assert alert.summary
    assert "$value" in alert.description or "ondition" in alert.description or not alert.burn


def test_every_alert_has_its_runbook_severity_and_summary():
    document = yaml.safe_load(promtool.RULES.read_text(encoding="utf-8"))
    alerts = [r for group in document["groups"] for r in group["rules"] if "alert" in r]

    assert alerts
    for alert in alerts:
        assert alert["labels"]["severity"] in {"critical", "warning"}
        assert alert["annotations"]["runbook"] == f"kubectl tidegate runbook {alert['alert']}"
        assert alert["annotations"].keys() == {"summary", "description", "runbook"}
