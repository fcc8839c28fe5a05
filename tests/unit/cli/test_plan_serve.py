"""`tidegate plan --serve`, `--vary` and `--models`."""

import json

import pytest
from tests.unit.cli.command import EXAMPLES, H100, L40S, run

LINE = "vllm serve Qwen/Qwen3-32B -tp 2 --kv-cache-dtype fp8"
PAIR = EXAMPLES / "production" / "qwen3-32b-pair.yaml"
SPECULATIVE = EXAMPLES / "production" / "qwen3-8b-speculative.yaml"


def serve(line, *arguments):
    """Return the exit code and the JSON for a command line."""
    code, out, err = run("plan", "--serve", line, "-o", "json", *arguments)
    assert "Traceback" not in err
    return code, json.loads(out) if out else err


def test_a_command_line_is_shown_as_a_resource_is():
    code, out, err = run("plan", "--serve", LINE, "--gpu", H100, "--engine-version", "0.32.0")

    assert (code, err) == (0, "")
    assert out.startswith("Qwen/Qwen3-32B  vLLM 0.32.0, as the command line starts it")
    assert "65,536 bytes a token" in out
    assert "1 pod of 2 GPUs" in out


def test_each_class_of_gpu_is_planned_with_its_own_defaults():
    code, got = serve("vllm serve Qwen/Qwen3-8B", "--gpu", H100, "--gpu", f"{L40S}=4")

    assert code == 0
    assert [entry["gpuProduct"] for entry in got["plan"]] == [H100, L40S]
    assert got["plan"][0]["perGpu"]["activations"] != got["plan"][1]["perGpu"]["activations"]


def test_a_class_on_which_it_does_not_fit_is_excluded_with_the_reason():
    code, got = serve(LINE, "--gpu", H100, "--gpu", "NVIDIA-L4")

    assert code == 0
    assert [entry["gpuProduct"] for entry in got["plan"]] == [H100]
    assert [e["reason"] for e in got["excluded"]] == ["WeightsDoNotFit"]


def test_an_engine_that_is_larger_than_a_node_is_said_to_span_several():
    _, got = serve("vllm serve Qwen/Qwen3-32B -tp 8 -pp 2", "--gpu", H100)

    assert any("16 GPUs are more than the 8 of a node" in s for s in got["plan"][0]["because"])


@pytest.mark.parametrize(
    ("line", "reason", "part"),
    [
        ("vllm serve Qwen/Qwen3-32B --tensor-paralel 2", "FlagUnsupported", "--tensor-parallel"),
        ("vllm serve Qwen/Qwen3-32B -tp 3", "ParallelismInvalid", "3"),
        ("vllm serve Qwen/Qwen3-32B", "BudgetTooSmall", "tensorParallel 2 fits"),
    ],
)
def test_what_cannot_run_is_refused_with_exit_code_1(line, reason, part):
    code, got = serve(line, "--gpu", H100)

    assert code == 1
    assert got["fits"] is False
    assert got["refused"]["reason"] == reason
    assert part in got["refused"]["message"]


def test_a_config_file_of_the_engine_is_read(tmp_path):
    path = tmp_path / "engine.yaml"
    path.write_text("model: Qwen/Qwen3-8B\nmax-model-len: 4096\nenable-prefix-caching: false\n")
    code, got = serve(f"vllm serve --config {path}", "--gpu", H100)

    assert code == 0
    assert got["name"] == "Qwen/Qwen3-8B"
    assert "4,096" in " ".join(got["plan"][0]["because"])
    assert any("ignores `enable-prefix-caching: false`" in line for line in got["because"])


def test_the_model_may_be_a_folder_or_come_with_its_config(tmp_path):
    _, known = serve("vllm serve meta-llama/Llama-3.1-8B --max-model-len 4096", "--gpu", H100)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    _, folder = serve(f"vllm serve {tmp_path} --max-model-len 4096", "--gpu", H100)
    _, given = serve("vllm serve some/model --max-model-len 4096", "--gpu", H100, "--config", path)

    assert folder["plan"][0]["kvBlocks"] == given["plan"][0]["kvBlocks"]
    assert folder["plan"][0]["kvBlocks"] == known["plan"][0]["kvBlocks"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--serve", "ollama run x", "--gpu", H100], "must be a `vllm serve ...` command"),
        (["--serve", "vllm serve 'x", "--gpu", H100], "cannot be split"),
        (["--serve", "vllm serve nobody/nothing", "--gpu", H100], "give its config.json by"),
        (["--serve", "vllm serve m --config none.yaml", "--gpu", H100], "none.yaml cannot be read"),
        (["--serve", LINE], "give --gpu PRODUCT or --nodes FILE"),
        (["--serve", LINE, "-f", PAIR, "--gpu", H100], "not -f and --serve"),
        (["--gpu", H100], "give one of -f, --serve, --batch, --models"),
        (["-f", PAIR, "--gpu", H100, "--engine-version", "0.32.0"], "--engine-version belongs"),
        (["-f", PAIR, "--gpu", H100, "--sort", "requests"], "--sort orders the table"),
        (["-f", PAIR, "--gpu", H100, "--vary", "kvCache.dtype"], "FIELD=VALUE,VALUE"),
        (["-f", PAIR, "--gpu", H100, "--vary", "unified.replicas=1"], "no pool unified"),
        (["-f", PAIR, "--gpu", H100, "--vary", "maxModelLen=1"], "no such field"),
        (["-f", PAIR, "--gpu", H100, "--vary", "decode.replicas=x"], "spec.pools.decode.replicas"),
        (
            ["-f", PAIR, "--gpu", H100, "--vary", "kvCache.dtype=auto", "--sort", "speed"],
            "--sort: speed is none of requests",
        ),
        (
            ["--serve", LINE, "--gpu", H100, "--vary", "max-num-seqs=many"],
            "must be a whole number",
        ),
    ],
)
def test_wrong_usage_says_what_to_do_with_exit_code_2(arguments, part):
    code, out, err = run("plan", *arguments)

    assert (code, out) == (2, "")
    assert part in err
    assert "Traceback" not in err


def test_too_many_combinations_are_refused_with_their_number():
    lengths = ",".join(str(1024 * n) for n in range(1, 21))
    code, _, err = run(
        *("plan", "-f", PAIR, "--gpu", H100),
        *("--vary", f"engine.maxModelLen={lengths}"),
        *("--vary", f"workload.promptTokens.p95={lengths}"),
    )

    assert code == 2
    assert "20 x 20 = 400 combinations are above 200" in err


def test_what_ifs_of_a_resource_are_sorted_and_the_refused_stand_last_with_their_reason():
    code, out, _ = run(
        *("plan", "-f", PAIR, "--gpu", H100, "-o", "json", "--sort", "requests"),
        *("--vary", "kvCache.dtype=auto,fp8", "--vary", "decode.tensorParallel=1,2,4"),
    )
    got = json.loads(out)
    held = [row for row in got["rows"] if row["fits"]]
    counts = [row["concurrentRequests"]["atMaxModelLen"] for row in held]

    assert code == 0
    assert got["vary"] == ["kvCache.dtype", "decode.tensorParallel"]
    assert counts == sorted(counts, reverse=True)
    assert held[0]["values"] == {"kvCache.dtype": "fp8", "decode.tensorParallel": 4}
    assert got["rows"][-1]["values"] == {"kvCache.dtype": "auto", "decode.tensorParallel": 1}
    assert got["rows"][-1]["refused"]["reason"] == "BudgetTooSmall"


def test_what_ifs_of_a_command_line_are_aligned_columns():
    code, out, _ = run(
        *("plan", "--serve", LINE, "--gpu", H100, "--gpu", L40S, "--sort", "kvTokens"),
        *("--vary", "kv-cache-dtype=auto,fp8", "--vary", "--tensor-parallel-size=1,2"),
    )
    lines = out.splitlines()
    heading = lines[1]
    rows = [line for line in lines[2:] if not line.startswith("  · ")]

    assert code == 0
    assert heading.split()[:3] == ["kv-cache-dtype", "--tensor-parallel-size", "GPU"]
    assert len(rows) == 8
    column = heading.index("verdict")
    assert {row[column - 1] for row in rows} == {" "}
    assert all(row[column] != " " for row in rows)
    assert all("…" not in row for row in rows)
    assert sum("WeightsDoNotFit" in row for row in rows) == 2


def test_nothing_that_fits_is_exit_code_1():
    code, _, _ = run(
        *("plan", "--serve", LINE, "--gpu", "NVIDIA-L4", "--vary", "kv-cache-dtype=auto,fp8")
    )

    assert code == 1


def test_an_unknown_flag_to_vary_is_refused_with_the_closest():
    code, _, err = run("plan", "--serve", LINE, "--gpu", H100, "--vary", "kv-cache-dtyp=auto,fp8")

    assert code == 1
    assert "did you mean kv-cache-dtype?" in err


def test_the_catalogue_is_listed_with_what_is_sized():
    code, out, _ = run("plan", "--models", "-o", "json")
    models = {row["id"]: row for row in json.loads(out)}

    assert code == 0
    assert models["Qwen/Qwen3-32B"] == {
        "id": "Qwen/Qwen3-32B",
        "layers": 64,
        "maxModelLen": 40960,
        "standing": models["Qwen/Qwen3-32B"]["standing"],
        "poolOnly": False,
        "sized": True,
        "whyNot": None,
    }
    assert all(row["sized"] or row["whyNot"] for row in models.values())
    of_another = models["sgl-project/DeepSeek-V4-Flash-FP8"]
    assert (of_another["sized"], of_another["poolOnly"]) == (False, False)
    assert "model_type" in of_another["whyNot"]
    assert list(models) == sorted(models)
    assert "Qwen/Qwen3-32B" in run("plan", "--models")[1]


def test_a_speculative_resource_keeps_its_draft_in_what_ifs():
    code, out, _ = run(
        *("plan", "-f", SPECULATIVE, "--gpu", L40S, "-o", "json"),
        *("--vary", "engine.speculative.tokens=1,3"),
    )

    assert code == 0
    assert {row["values"]["engine.speculative.tokens"] for row in json.loads(out)["rows"]} == {1, 3}
