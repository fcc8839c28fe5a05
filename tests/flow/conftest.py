"""What makes the flow tests quick: passes of the same histories fill the same templates."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from tidegate.core.render import templates


@pytest.fixture(autouse=True, scope="session")
def templates_filled_once() -> Iterator[None]:
    """Fill a template with equal values once; each caller gets a document of its own."""
    fill = templates.fill
    filled: dict[tuple[str, bytes], bytes] = {}

    def remembered(template: str, values: dict[str, Any]) -> dict[str, Any]:
        key = template, pickle.dumps(values)
        if key not in filled:
            filled[key] = pickle.dumps(fill(template, values))
        document: dict[str, Any] = pickle.loads(filled[key])
        return document

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(templates, "fill", remembered)
        yield
