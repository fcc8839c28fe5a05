"""A draft is priced only where the engine could run it beside its target."""

from dataclasses import replace

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.budget import draft, shape
from tidegate.core.budget.engine_config import Speculative
from tidegate.errors import Refused

ONE = {"num_hidden_layers": 1}


def read(target, engine, method, change):
    flags = replace(engine, speculative=Speculative(method, 3, target | change))
    return draft.read(shape.read(target), flags)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("draft_model", {"num_hidden_layers": 16, "hidden_size": 2048}),
        ("eagle", ONE),
        ("eagle3", ONE | {"draft_vocab_size": 32000}),
        ("eagle3", ONE | {"hidden_size": 2048, "target_hidden_size": 4096}),
        ("eagle3", {"num_hidden_layers": 6, "architectures": ["LlamaForCausalLMEagle3"]}),
    ],
)
def test_a_draft_that_goes_with_its_target_is_read(llama_8b, engine, method, change):
    assert read(llama_8b, engine, method, change).layers


@pytest.mark.parametrize(
    ("method", "change", "part"),
    [
        ("draft_model", {"vocab_size": 32000}, "vocabulary of 32000 and the model one of 128256"),
        ("eagle", ONE | {"hidden_size": 2048}, "hidden states of 2048 and the model's have 4096"),
        ("eagle3", ONE | {"hidden_size": 5120}, "hidden states of 5120"),
        ("eagle3", {}, "32 layers is no EAGLE draft"),
    ],
)
def test_a_draft_that_cannot_work_is_refused(llama_8b, engine, method, change, part):
    with pytest.raises(Refused, match=part) as refused:
        read(llama_8b, engine, method, change)

    assert refused.value.reason == Reason.SPECULATION_INVALID
