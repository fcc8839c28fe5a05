"""The same verdict and reason in three mouths: the webhook's review, `tidegate check`, the pass.

A resource that slipped past the webhook is held by the operator, and not trusted.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from tests.corpus.admission.cases import CASES, Case
from tests.flow.world import World

from tidegate import cli
from tidegate.api.reasons import Reason
from tidegate.cli.checking import check_facts
from tidegate.cli.checking.check_sources import Source
from tidegate.core.admission import Facts, review
from tidegate.flow.ports import Ref, Settings

PAGE = (Path(__file__).parents[3] / "docs" / "concepts" / "admission.md").read_text("utf-8")
OF_ADMISSION_ALONE = (
    Reason.TRUSTS_OTHERS,
    Reason.TOKEN_MISSING,
    Reason.SHIFT_TARGET_MISSING,
    Reason.SHIFT_TARGET_DIFFERS,
    Reason.OVERLOAD_IDLE,
)
"""Warnings to whoever writes the resource; a status has nobody to tell them to."""


def told_by_the_webhook(case: Case) -> SimpleNamespace:
    source = Source("-", 0, None, case.document)
    beside = [Source("-", number, None, found) for number, found in enumerate(case.beside, 1)]
    near = check_facts.beside([source, *beside])[source.namespace]
    facts = check_facts.of(source, near, Facts(nodes=case.nodes, rules=case.rules), {})
    found = review(None, case.document, facts)
    return SimpleNamespace(
        allowed=found.allowed,
        problems={(str(one.reason), one.field) for one in found.problems},
        warnings={(str(one.reason), one.field) for one in found.warnings},
    )


def told_by_the_command(case: Case, folder, capsys) -> SimpleNamespace:
    name = case.document["metadata"]["name"]
    written = {
        "llmd.yaml": [case.document, *case.beside],
        "nodes.yml": list(case.node_documents),
        "settings.yaml": [{"admission": case.settings}],
    }
    for file, documents in written.items():
        text = yaml.dump_all(documents, Dumper=yaml.CSafeDumper)
        (folder / file).write_text(text, encoding="utf-8")
    arguments = ["check", "-f", "llmd.yaml", "--nodes", "nodes.yml", "--settings", "settings.yaml"]
    given = [str(folder / word) if word in written else word for word in arguments]
    with pytest.raises(SystemExit) as ended:
        cli.main([*given, "-o", "json"])
    out = json.loads(capsys.readouterr().out)
    answers = out if isinstance(out, list) else [out]
    assert ended.value.code == (0 if all(one["allowed"] for one in answers) else 1)
    answer = next(one for one in answers if one["name"] == name)
    verdicts = answer["verdicts"]
    return SimpleNamespace(
        allowed=answer["allowed"],
        problems={(v["reason"], v["field"]) for v in verdicts if v["severity"] == "refuse"},
        warnings={(v["reason"], v["field"]) for v in verdicts if v["severity"] == "warn"},
    )


def is_as_expected(case: Case, told: SimpleNamespace) -> bool:
    """A refusal names the reason; what is allowed has no warning; others warn by the reason."""
    if case.verdict == "refuse":
        found, is_right = told.problems, not told.allowed
    else:
        found, is_right = told.warnings, told.allowed
    if case.verdict == "allow":
        return is_right and not found
    fields = {field for reason, field in found if reason == case.reason}
    return is_right and bool(fields) and (case.field is None or case.field in fields)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_webhook_says_it(case):
    told = told_by_the_webhook(case)

    assert is_as_expected(case, told), told


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_command_says_it(case, tmp_path, capsys):
    told = told_by_the_command(case, tmp_path, capsys)

    assert is_as_expected(case, told), told
    assert told == told_by_the_webhook(case)


@pytest.mark.parametrize("case", [c for c in CASES if not c.operator], ids=lambda case: case.id)
async def test_the_operator_holds_what_slipped_past(case):
    world = World(settings=Settings(admission=case.rules))
    for document in (*case.node_documents, *case.beside, case.document):
        world.api.put({**document, "kind": document["kind"]})
    metadata = case.document["metadata"]
    ref = Ref(metadata["namespace"], metadata["name"])
    outcome = await world.reconcile(ref)
    status = world.status(ref)
    ready = next(c for c in status["conditions"] if c["type"] == "Ready")

    if case.verdict in ("refuse", "hold"):
        assert outcome.result in ("refused", "waiting"), status
        assert ready["reason"] == (case.operator_reason or case.reason)
        assert not world.deployments(), "no GPU is asked for"
    else:
        assert outcome.result not in ("refused", "waiting"), outcome
    if case.verdict == "warn" and case.reason not in OF_ADMISSION_ALONE:
        assert any(case.reason in line for line in status["warnings"])


def test_the_corpus_is_large_and_its_names_tell_cases_apart():
    assert len(CASES) >= 150
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    "reason",
    [
        Reason.SPEC_TOO_LARGE,
        Reason.LOOKALIKE_NAME,
        Reason.IMAGE_NOT_ALLOWED,
        Reason.IMAGE_NOT_PINNED,
        Reason.PRIORITY_RESERVED,
        Reason.LABEL_COLLISION,
        Reason.NOT_CHECKED,
        Reason.SHIFT_CYCLE,
        *OF_ADMISSION_ALONE,
    ],
)
def test_each_reason_of_admission_has_a_case(reason):
    assert any(case.reason == reason for case in CASES)


@pytest.mark.parametrize(
    "reason", sorted({str(c.reason) for c in CASES if c.verdict in ("refuse", "hold")})
)
def test_the_reason_of_a_refusal_is_on_the_page(reason):
    assert f"`{reason}`" in PAGE


@pytest.mark.parametrize(
    "reason",
    [
        Reason.POD_NOT_RESTRICTED,
        Reason.MODE_SWITCH_WHILE_ROLLING,
        Reason.ACCESS_DENIED,
        Reason.UPDATE_ROLLS_PODS,
        Reason.OVERRIDE_LAPSED,
        Reason.OVERRIDE_LONG,
    ],
)
def test_a_reason_that_no_resource_alone_can_have_is_on_the_page(reason):
    assert f"`{reason}`" in PAGE
