"""Which layers have experts, and how large a feed-forward block is, by the keys of each family."""

import pytest

from tidegate.core.budget import draft, shape
from tidegate.core.budget.engine_config import EngineConfig, Speculative
from tidegate.core.budget.feed_forward import Dense, Experts
from tidegate.errors import Refused

BASE = {
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "hidden_size": 512,
    "intermediate_size": 1024,
}
EXPERTS = {"num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 256}


@pytest.mark.parametrize(
    ("extra", "sparse"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"first_k_dense_replace": 2}, [2, 3, 4, 5]),
        ({"decoder_sparse_step": 2}, [1, 3, 5]),
        ({"interleave_moe_layer_step": 3}, [2, 5]),
        ({"mlp_only_layers": [0, 5]}, [1, 2, 3, 4]),
        ({"moe_layer_freq": [0, 1, 1, 0, 0, 1]}, [1, 2, 5]),
        ({"decoder_sparse_step": 0}, []),
    ],
)
def test_the_layers_with_experts_are_those_that_the_config_says(extra, sparse):
    layers = shape.read(BASE | EXPERTS | extra).layers

    assert [index for index, layer in enumerate(layers) if isinstance(layer.mlp, Experts)] == sparse


@pytest.mark.parametrize(
    ("extra", "mlp"),
    [
        ({}, Dense(1024, 3)),
        ({"model_type": "starcoder2", "num_key_value_heads": 8}, Dense(1024, 2)),
        ({"model_type": "gpt2", "intermediate_size": None}, Dense(2048, 2)),
        ({"num_local_experts": 8, "num_experts_per_tok": 2}, Experts(8, 2, 1024)),
        (EXPERTS | {"shared_expert_intermediate_size": 512}, Experts(16, 2, 256, 512)),
        (EXPERTS | {"n_shared_experts": 2}, Experts(16, 2, 256, 512)),
        ({"intermediate_size": None}, None),
    ],
)
def test_a_block_has_the_size_that_its_family_spells(extra, mlp):
    assert shape.read(BASE | extra).layers[0].mlp == mlp


def test_a_draft_whose_config_makes_no_sense_is_named_as_the_draft():
    engine = EngineConfig("0.32.0", 4096, 256, 2048, speculative=Speculative("eagle", 3, {}))
    with pytest.raises(Refused, match=r"the draft: .*num_hidden_layers") as refused:
        draft.read(shape.read(BASE), engine)

    assert refused.value.field == "spec.engine.speculative.config"
