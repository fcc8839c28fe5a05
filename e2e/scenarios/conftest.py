"""What scenarios of several folders share."""

from collections.abc import Callable
from pathlib import Path

import pytest
from e2e import llmd
from e2e.kube import Kube
from e2e.llmd import Llmd

HUNG = Path(__file__).with_name("liveness") / "hung.yaml"


@pytest.fixture(scope="session")
def hung_engine(kube: Kube, make_namespace: Callable[[str], str]) -> Llmd:
    """An engine that hangs soon after its start."""
    return llmd.apply(kube, make_namespace("hung"), HUNG)


@pytest.fixture(scope="session", autouse=True)
def _hangs_from_the_start(request: pytest.FixtureRequest) -> None:
    """Its liveness probe waits for three minutes: they pass while other scenarios run."""
    if any("hung_engine" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("hung_engine")
