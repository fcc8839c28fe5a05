from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import uvloop
from e2e.double.process import Double
from e2e.engine import tiny_model
from tests.gate.whole_gate import FLAGS


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], AbstractEventLoop]]:
    """Run on the loop that the gate runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def doubles(model: Path) -> Iterator[tuple[Double, Double]]:
    with Double(model, *FLAGS) as one, Double(model, *FLAGS) as two:
        yield one.wait_healthy(), two.wait_healthy()
