"""Each alert fires where it must, and is quiet where it must be."""

import pytest
import yaml
from tests.monitoring import promtool
from tests.monitoring.alert_cases import CASES

from tidegate.core.monitoring import rules


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_alert(case, tmp_path):
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

    failed = promtool.failures(
        tmp_path, case.alert, {"evaluation_interval": case.step, "tests": [test]}
    )

    assert not failed, failed


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
