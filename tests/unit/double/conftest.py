"""What the tests of the engine double share."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))  # `e2e` is not part of the installed package

from e2e.double.process import Double  # noqa: E402  # needs the path above
from e2e.engine import tiny_model  # noqa: E402

FLAGS = (
    *("--served-model-name", "tiny", "--max-model-len", "2048", "--block-size", "32"),
    *("--kv-cache-memory-bytes", "4M"),
)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def double(model: Path) -> Iterator[Double]:
    with Double(model, *FLAGS) as running:
        yield running.wait_healthy()
