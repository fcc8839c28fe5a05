"""The corpus through the real webhook: what a client of the API server is told of each resource.

Dry runs only. What the API server's own schema refuses is refused before the webhook sees it.
"""

import copy
import json

import pytest
from tests.corpus.admission.cases import CASES, Case
from tests.shell.webhook_world import WebhookWorld

from tidegate.cli.checking import check_facts
from tidegate.cli.checking.check_sources import Source
from tidegate.core.admission import Facts


class Asked:
    """The world of the case that is asked about at the moment."""

    case: Case
    document: dict

    def facts(self, request) -> Facts:
        sources = [Source("-", 0, None, self.document)]
        sources += [Source("-", n, None, found) for n, found in enumerate(self.case.beside, 1)]
        namespace = self.case.document["metadata"]["namespace"]
        near = check_facts.beside([Source("-", 0, None, self.case.document), *sources[1:]])
        known = Facts(nodes=self.case.nodes, rules=self.case.rules)
        return check_facts.of(sources[0], near[namespace], known, {})


@pytest.fixture
async def world(api, namespace):
    made = WebhookWorld(api, namespace)
    await made.register()
    await made.replica()
    await made.ready()
    yield made
    await made.close()


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore:Sending a large body")  # some of the corpus is
async def test_the_real_webhook_says_what_the_corpus_expects(world, namespace):
    asked, wrong, by_webhook = Asked(), [], 0
    world.replicas[0].answer_from(asked.facts)
    for case in filter(is_json, CASES):
        asked.case, asked.document = case, copy.deepcopy(case.document)
        asked.document["metadata"]["namespace"] = namespace
        status, answer, warnings = await world.told(asked.document)
        by_webhook += '"validate.tidegate.io" denied' in str(answer) or status == 201
        if not is_as_expected(case, status, answer, warnings):
            wrong.append((case.id, case.verdict, case.reason, status, answer, warnings))

    assert not wrong, "\n".join(map(str, wrong))
    assert sum(map(is_json, CASES)) > len(CASES) - 10
    assert by_webhook > len(CASES) / 2, "the webhook, and not the schema, has judged them"


def is_json(case: Case) -> bool:
    """Say whether a request can carry the document: what only YAML has becomes text on the way."""
    return json.loads(json.dumps(case.document, default=str)) == case.document


def is_as_expected(case: Case, status, answer, warnings) -> bool:
    if case.verdict != "refuse":
        is_told = any(line.startswith(f"{case.reason}: ") for line in warnings)
        return status == 201 and (is_told or case.verdict == "allow")
    if status < 400 or status >= 500:
        return False
    causes = (answer.get("details") or {}).get("causes") or ()
    return case.reason in {cause.get("reason") for cause in causes} or (
        '"validate.tidegate.io"' not in answer["message"]
    )
