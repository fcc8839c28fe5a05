"""What Helm says after an installation or an upgrade: what comes next, and what the values mean."""

import json
import shutil
import subprocess

import pytest
import yaml
from tests.chart import helm
from tests.chart.test_render import CERT_MANAGER, NO_WEBHOOK

AS_AN_OBJECT = '{{ dict "notes" (tpl (.Files.Get "NOTES.txt") .) | toYaml }}\n'
"""Without a cluster Helm shows no notes; as a part of an object it does."""


@pytest.fixture(scope="module")
def chart(tmp_path_factory):
    """A copy of the chart that renders its notes, too."""
    copy = tmp_path_factory.mktemp("chart") / "tidegate"
    shutil.copytree(helm.CHART, copy)
    shutil.move(copy / "templates" / "NOTES.txt", copy / "NOTES.txt")
    (copy / "templates" / "notes.yaml").write_text(AS_AN_OBJECT)
    return copy


@pytest.fixture
def notes(chart):
    """Returns the notes for some values."""

    def render(values, *words):
        done = subprocess.run(
            [
                *(helm.program(), "template", "tidegate", str(chart), "--namespace", "tg"),
                *("--kube-version", helm.KUBERNETES, "--values", "-", *words),
                *("--show-only", "templates/notes.yaml"),
            ],
            input=json.dumps({"image": helm.IMAGE} | values),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return yaml.safe_load(done.stdout)["notes"]

    return render


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "helm test tidegate -n tg --logs"),
        ({}, "config.prometheus.url is not set"),
        ({"config": {"watchNamespaces": ["chat", "code"]}}, "only, which must exist: chat, code."),
        (CERT_MANAGER, "kubectl -n tg wait --for=condition=Ready certificate/tidegate-webhook"),
        (NO_WEBHOOK, "The webhook is off"),
        ({"crds": {"install": False}}, "crds.install is off"),
        ({"replicas": 1}, "With fewer than two replicas"),
    ],
)
def test_they_fit_the_values(notes, values, said):
    assert said in notes(values)


def test_of_the_defaults_they_are_short(notes):
    told = notes({})

    unsaid = ("must exist", "certificate/", "webhook is off", "crds.install", "fewer", "restarted")
    assert [words for words in unsaid if words in told] == []


def test_a_prometheus_is_not_missed_where_one_is_named(notes):
    there = {"config": {"prometheus": {"url": "http://prometheus.monitoring:9090"}}}

    assert "config.prometheus.url" not in notes(there)


def test_an_upgrade_says_that_no_engine_was_restarted_and_where_to_look(notes):
    told = notes({}, "--is-upgrade")

    assert "No engine was restarted." in told
    assert "RenderingCurrent" in told
