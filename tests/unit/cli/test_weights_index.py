"""`tidegate plan --weights-index`: what the headers of a checkpoint's files tell."""

import json
import struct

import pytest
from tests.unit.cli.command import H100, run
from tests.unit.core.budget import checkpoints

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
}
SHAPES = checkpoints.dense(CONFIG)
HALVES = tuple(
    {name: sizes for number, (name, sizes) in enumerate(SHAPES.items()) if number % 2 == half}
    for half in (0, 1)
)
ROTARY_BYTES = 4096 * 32 * 2
WEIGHTS_BYTES = 2 * sum(a * (b or 1) for a, b in ((*s, 0)[:2] for s in SHAPES.values()))


def write_safetensors(path, header, data_bytes=None, length=None):
    """Write a file whose data is a hole: it is as long as it says, and takes no room."""
    text = json.dumps(header).encode()
    end = max((t["data_offsets"][1] for t in header.values() if "data_offsets" in t), default=0)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text) if length is None else length) + text)
        stream.truncate(8 + len(text) + (end if data_bytes is None else data_bytes))
    return path


@pytest.fixture
def plan(tmp_path):
    """Return a function that plans the small model with an index and returns code and weights."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))

    def planned(index, *more):
        code, out, err = run(
            *("plan", "--serve", "vllm serve some/model", "--gpu", H100, "-o", "json"),
            *("--config", config, "--weights-index", index, *more),
        )
        assert "Traceback" not in err
        return code, json.loads(out) if out else err

    return planned


def weights_of(told):
    return told["plan"][0]["perGpu"]["weights"]


def test_a_file_a_folder_and_a_header_as_json_tell_the_same(plan, tmp_path):
    header = {"__metadata__": {"format": "pt"}, **checkpoints.header(SHAPES)}
    single = write_safetensors(tmp_path / "model.safetensors", header)
    as_json = tmp_path / "header.json"
    as_json.write_text(json.dumps(header))
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, half in enumerate(HALVES):
        write_safetensors(folder / f"model-{number}.safetensors", checkpoints.header(half))

    for index in (single, as_json, folder):
        code, told = plan(index)
        assert code == 0
        assert weights_of(told)["how"] == "exact"
        assert weights_of(told)["bytes"] == WEIGHTS_BYTES + ROTARY_BYTES


def test_of_a_folder_with_an_index_the_files_that_it_names_count(plan, tmp_path):
    write_safetensors(tmp_path / "model-1.safetensors", checkpoints.header(SHAPES))
    write_safetensors(tmp_path / "consolidated.safetensors", checkpoints.header(SHAPES))
    code, told = plan(tmp_path)
    assert code != 0
    assert "another file of the folder has too" in told

    index = {"weight_map": dict.fromkeys(SHAPES, "model-1.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    code, told = plan(tmp_path)
    assert (code, weights_of(told)["how"]) == (0, "exact")


def test_an_index_alone_gives_the_total(plan, tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(checkpoints.index(SHAPES, WEIGHTS_BYTES)))

    code, told = plan(path)
    assert (code, weights_of(told)["bytes"]) == (0, WEIGHTS_BYTES + ROTARY_BYTES)
    code, told = plan(path, "--gpu", "NVIDIA-L40S")
    assert [entry["perGpu"]["weights"]["how"] for entry in told["plan"]] == ["exact", "exact"]


def test_a_part_of_a_checkpoint_is_refused_by_the_layers_that_it_lacks(plan, tmp_path):
    some = {name: sizes for name, sizes in SHAPES.items() if ".layers.3." not in name}
    path = write_safetensors(tmp_path / "model-1.safetensors", checkpoints.header(some))
    code, told = plan(path)

    assert code == 1
    assert told["refused"]["reason"] == "ModelConfigInvalid"
    assert "lack 1 of the 4 layers" in told["refused"]["message"]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"length": 2**63}, "its header would have"),
        ({"length": 1}, "its header would have"),
        ({"length": 60}, "is no JSON"),
        ({"data_bytes": 100}, "is cut off"),
    ],
)
def test_a_file_that_is_no_safetensors_file_is_named(plan, tmp_path, written, told):
    path = tmp_path / "model.safetensors"
    write_safetensors(path, checkpoints.header(SHAPES), **written)
    code, err = plan(path)

    assert code == 2
    assert "--weights-index" in err
    assert told in err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is no JSON"),
        ('{"weight_map": {"a": "b"}}', "metadata.total_size"),
        ("{}", "neither a weight_map"),
    ],
)
def test_an_index_that_makes_no_sense_is_refused_with_why(plan, tmp_path, content, told):
    path = tmp_path / "index.json"
    path.write_text(content)
    code, got = plan(path)

    assert code == 1
    assert told in got["refused"]["message"]


def test_an_empty_folder_is_named(plan, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    code, err = plan(folder)

    assert code == 2
    assert "holds no .safetensors file" in err


def test_a_resource_takes_the_index_of_a_config_map_beside_it(tmp_path):
    index = json.dumps(checkpoints.index(SHAPES, WEIGHTS_BYTES))
    resource = {
        "apiVersion": "tidegate.io/v1alpha1",
        "kind": "LLMDeployment",
        "metadata": {"name": "small"},
        "spec": {
            "model": {
                "id": "some/model",
                "config": CONFIG,
                "weights": {"indexRef": {"name": "small-weights", "key": "index.json"}},
            },
            "engine": {"image": "vllm/vllm-openai:v0.32.0"},
            "pools": {"unified": {}},
        },
    }
    named = {"kind": "ConfigMap", "metadata": {"name": "small-weights"}}
    path = tmp_path / "all.json"

    def planned(*documents, command="plan"):
        path.write_text("\n---\n".join(map(json.dumps, documents)))
        return run(command, "-f", path, "--gpu", H100, "-o", "json")

    code, out, err = planned(resource, {**named, "data": {"index.json": index}})
    assert (code, err) == (0, "")
    assert weights_of(json.loads(out))["bytes"] == WEIGHTS_BYTES + ROTARY_BYTES
    code, out, _ = planned(resource)
    assert code == 1
    assert "small-weights" in out
    code, out, _ = planned(resource, {**named, "data": {"index.json": "{}"}}, command="check")
    assert code == 1
    assert "neither a weight_map" in out
