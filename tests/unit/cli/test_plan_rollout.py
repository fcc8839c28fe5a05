"""`tidegate plan -f` tells what the rollout of a new revision will need."""

import json
import re

import pytest
import yaml
from tests.unit.cli.command import A100, EXAMPLES, run

CANARY = EXAMPLES / "canary.yaml"
SERVE = "vllm serve Qwen/Qwen3-0.6B"


def test_each_step_is_a_row_with_pods_gpus_time_and_traffic():
    code, out, err = run("plan", "-f", CANARY, "--gpu", A100)

    assert (code, err) == (0, "")
    [first] = [line for line in out.splitlines() if line.startswith("1 analysis")]
    assert re.split(r"\s{2,}", first.strip()) == [
        "1 analysis", "10 %", "5m", f"1 pod of unified on {A100} (1 GPU)", "1", "-", "6.7",
    ]  # fmt: skip
    assert "16m of steps and warm-up (exact)" in out
    assert "(estimated)" in out


def test_as_json_it_is_the_same():
    _, out, _ = run("plan", "-f", CANARY, "--gpu", A100, "-o", "json")
    told = json.loads(out)["rollout"]

    assert (told["strategy"], told["isPossible"], told["extraGpus"]) == ("Canary", True, 1)
    first = told["steps"][0]
    assert first["canary"] == [{"pool": "unified", "gpuProduct": A100, "pods": 1, "gpus": 1}]
    assert first["requestsPerSecond"] == pytest.approx(200 / (0.1 * 300))
    assert told["stepsSeconds"]["seconds"] == 960


def test_on_a_node_without_a_gpu_to_spare_it_says_that_there_is_no_room():
    code, out, _ = run("plan", "-f", CANARY, "--gpu", f"{A100}=1")
    assert code == 0
    assert "1 (no room)" in out
    assert "0 are free" in out


def test_a_rolling_update_has_no_steps(tmp_path):
    document = yaml.safe_load(CANARY.read_text())
    document["spec"]["rollout"] = {"strategy": "RollingUpdate"}
    path = tmp_path / "llmd.yaml"
    path.write_text(yaml.safe_dump(document))
    _, out, _ = run("plan", "-f", path, "--gpu", A100)

    assert "rollout of a new revision: RollingUpdate" in out
    assert "STEP" not in out
    assert "1 GPU beside the replicas where they are free" in out


def test_a_command_line_has_no_rollout():
    _, out, _ = run("plan", "--serve", SERVE, "--gpu", A100, "-o", "json")
    assert "rollout" not in json.loads(out)
