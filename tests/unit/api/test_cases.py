"""The documents of cases.yaml, read by the models; the API server gets the same ones elsewhere."""

import pytest
from tests.unit.api import cases

from tidegate.api import llmdeployment
from tidegate.errors import Invalid


@pytest.mark.parametrize("case", cases.REFUSED, ids=lambda case: case.name)
def test_a_bad_document_is_refused_with_the_field_and_the_fix(case):
    with pytest.raises(Invalid) as refusal:
        llmdeployment.parse(case.document)

    assert [problem.field for problem in refusal.value.problems] == [case.field]
    assert case.says in refusal.value.problems[0].message


@pytest.mark.parametrize("case", cases.ACCEPTED, ids=lambda case: case.name)
def test_a_good_document_is_accepted_and_survives_the_wire(case):
    parsed = llmdeployment.parse(case.document)

    assert llmdeployment.parse(parsed.wire()) == parsed
    assert llmdeployment.parse_spec(case.document) == parsed.spec
