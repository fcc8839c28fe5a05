"""The newest good configuration is in use; a bad one is refused and told."""

import pytest
from tests.unit.gate.shell.documents import config_bytes, config_map

from tidegate.gate.shell.configuration import Configuration


@pytest.fixture
def used():
    return []


@pytest.fixture
def configuration(used):
    return Configuration("chat", "qwen", used.append)


def test_a_good_one_is_used_and_told(configuration, used):
    assert configuration.offer(config_bytes(), "cluster")

    assert used == [configuration.current]
    told = configuration.told()
    assert (told.generation, told.is_valid, told.error, told.source) == (3, True, None, "cluster")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "invalid JSON"),
        (b"{", "invalid JSON"),
        (b"\xff", "invalid"),
        (b"[]", "mapping"),
        (config_bytes(generation="4"), "generation: must be a whole number"),
        (config_bytes(surprise=1), "surprise: unknown field"),
        (config_bytes(schemaVersion="tidegate.io/gate/v9"), "schemaVersion"),
        (config_bytes(namespace="other"), "for other/qwen"),
        (config_bytes(deployment="other"), "for chat/other"),
        (config_bytes(shed={"percent": 5, "until": "2026-01-01T00:00:00"}), "shed.until"),
    ],
)
def test_a_bad_one_is_refused_and_the_last_good_one_stays(configuration, used, data, said):
    configuration.offer(config_bytes(), "cluster")

    assert not configuration.offer(data, "cluster")
    assert len(used) == 1
    told = configuration.told()
    assert (told.generation, told.is_valid) == (3, False)
    assert said in told.error


def test_what_was_refused_is_forgotten_with_the_next_good_one(configuration):
    configuration.offer(b"{", "cluster")
    configuration.offer(config_bytes(generation=4), "cluster")

    assert configuration.told().error is None
    assert configuration.told().generation == 4


def test_going_back_to_the_one_in_use_clears_the_error_and_changes_nothing(configuration, used):
    configuration.offer(config_bytes(), "cluster")
    configuration.offer(b"{", "cluster")
    configuration.offer(config_bytes(), "cluster")

    assert configuration.told().is_valid
    assert len(used) == 1


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ({}, "does not exist"),
        ({"qwen-gate": {"metadata": {"name": "qwen-gate"}}}, "no key gate.json"),
        ({"qwen-gate": config_map("{}")}, "required field is missing"),
    ],
)
def test_a_config_map_without_a_good_document_is_refused(configuration, objects, said):
    configuration.offer(config_bytes(), "disk")

    assert configuration.changed(objects) is None
    assert said in configuration.told().error
    assert configuration.current.generation == 3


def test_a_share_with_an_expiry_is_read(configuration):
    configuration.offer(
        config_bytes(shed={"percent": 5, "until": "2026-01-01T00:00:00Z", "reason": "INC-1"}),
        "file",
    )
    assert configuration.current.shed.until.year == 2026
