"""The list of a rollout's faults, in the docstring of tests/flow, leads to tests that are there."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FLOW = TESTS / "flow" / "__init__.py"
LISTED = re.findall(
    r"^  (\S+\.py)::(test_\w+)$", ast.get_docstring(ast.parse(FLOW.read_text())) or "", re.MULTILINE
)


def test_every_fault_of_the_list_has_a_test():
    faults = re.findall(r"^- .*:$", FLOW.read_text(), re.MULTILINE)
    assert len(faults) == len(LISTED) > 0


@pytest.mark.parametrize(("file", "name"), LISTED, ids=[name for _, name in LISTED])
def test_a_test_that_the_list_names_is_there(file, name):
    path = TESTS / file if file.startswith("flow/") else TESTS / "unit" / file
    found = {node.name for node in ast.walk(ast.parse(path.read_text())) if hasattr(node, "name")}
    assert name in found
