"""The values: all are told, all are checked, and their defaults are the operator's own."""

import json

import jsonschema
import pytest
import yaml
from tests.chart import helm
from tests.chart.helm import CHART, IMAGE

from tidegate.shell.chart import generated
from tidegate.shell.chart.fields import all_fields
from tidegate.shell.chart.values import CHART_OWNED, ChartValues
from tidegate.shell.settings import OperatorSettings

VALUES = (CHART / "values.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", generated.files())
def test_each_generated_file_of_the_chart_is_current(path):
    assert (helm.TOP / path).read_text(encoding="utf-8") == generated.files()[path], (
        f"{path} is not current; run scripts/generate"
    )


def test_the_defaults_are_those_of_the_model():
    wanted = ChartValues().model_dump(mode="json", by_alias=True)
    for name in CHART_OWNED:
        del wanted["config"][name]

    assert yaml.safe_load(VALUES) == wanted


def test_every_setting_of_the_operator_is_a_value_or_the_charts_own():
    names = {str(field.alias) for field in OperatorSettings.model_fields.values()}

    assert names == {*yaml.safe_load(VALUES)["config"], *CHART_OWNED}


def test_every_value_has_a_meaning_and_a_comment_above_it():
    assert all(field.meaning for field in all_fields())
    lines = VALUES.splitlines()
    keys = [number for number, line in enumerate(lines) if line and line.lstrip()[0] != "#"]

    assert len(keys) == len(all_fields())
    for number in keys:
        indent = len(lines[number]) - len(lines[number].lstrip())
        assert lines[number - 1].startswith(" " * indent + "# "), lines[number]


def test_the_schema_takes_the_defaults_and_leaves_no_reference_open():
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    checker = jsonschema.Draft7Validator(schema)

    jsonschema.Draft7Validator.check_schema(schema)
    assert list(checker.iter_errors(yaml.safe_load(VALUES))) == []


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replica": 3}, "replica"),
        ({"replicas": "3"}, "replicas"),
        ({"config": {"resinc": "5s"}}, "resinc"),
        ({"config": {"resync": "5 s"}}, "resync"),
        ({"config": {"namespace": "elsewhere"}}, "namespace"),
        ({"config": {"webhook": {"port": 1}}}, "webhook"),
        ({"config": {"httpPort": 99999}}, "httpPort"),
        ({"config": {"nodeClasses": [{"matchLabels": {"a": "b"}}]}}, "product"),
        ({"config": {"nodeClasses": [{"matchLabels": {"a b": "c"}, "product": "x"}]}}, "a b"),
        ({"config": {"admission": {"enforcement": "warn"}}}, "enforcement"),
        ({"image": {"repository": "x", "digest": "sha256:abc"}}, "digest"),
        ({"webhook": {"certManager": {"issuer": {"kind": "ClusterIssuer"}}}}, "name"),
        ({"resources": {"limits": {"memory": "lots"}}}, "memory"),
    ],
)
def test_helm_refuses_a_typo_and_names_it(values, named):
    done = helm.template(values)

    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
    assert named in done.stderr


def test_an_installation_without_an_image_is_told_what_to_do():
    done = helm.template({"image": IMAGE | {"repository": ""}})

    assert done.returncode != 0
    assert "build operator/Dockerfile" in done.stderr


def test_as_a_part_of_another_chart_it_takes_the_values_of_all():
    assert helm.template({"global": {"region": "x"}}).returncode == 0


def test_an_entry_of_a_default_can_be_taken_away():
    documents = helm.render(
        {"config": {"scraper": {"podLabels": {"app.kubernetes.io/name": None}}}}
    )
    text = helm.one(documents, "ConfigMap")["data"]["settings.yaml"]

    assert yaml.safe_load(text)["scraper"]["podLabels"] == {}
