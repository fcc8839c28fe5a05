"""`tidegate check` as a pipeline uses it."""

import json
import subprocess
import sys

import pytest
import yaml

H100 = "NVIDIA-H100-80GB-HBM3"
GOOD = {
    "apiVersion": "tidegate.io/v1alpha1",
    "kind": "LLMDeployment",
    "metadata": {"name": "chat"},
    "spec": {
        "model": {"id": "Qwen/Qwen3-32B"},
        "engine": {"image": "vllm/vllm-openai:v0.32.0", "maxModelLen": 32768},
        "workload": {"promptTokens": {"p95": 4000}, "outputTokens": {"p95": 1000}},
        "pools": {"unified": {"replicas": 4, "tensorParallel": 2}},
    },
}


def run(document, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "check", "-f", "-", "--gpu", H100, *arguments],
        input=yaml.safe_dump(document),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def changed(**parts):
    document = json.loads(json.dumps(GOOD))
    for name, values in parts.items():
        document["spec"].setdefault(name, {}).update(values)
    return document


def test_a_good_resource_is_allowed():
    code, out, err = run(GOOD)

    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("chat: allowed")


def test_a_refused_resource_exits_with_1_and_tells_every_fault_with_its_change():
    code, out, _ = run(changed(kvCache={"dtype": "fp3"}, pools={"unified": {"tensorParallel": 3}}))

    assert code == 1
    assert "refused: KVDtypeUnsupported (spec.kvCache.dtype = 'fp3')" in out
    assert "→ kvCache.dtype fp8 mends this one" in out
    assert "refused: ParallelismInvalid" in out
    assert out.splitlines()[-1] == "chat: refused (2 refused)"


@pytest.mark.parametrize(("arguments", "expected"), [((), 0), (("--strict",), 1)])
def test_a_warning_lets_pass_unless_strict(arguments, expected):
    code, out, _ = run(changed(engine={"maxNumSeqs": 700}), *arguments)

    assert code == expected
    assert "warning: PreemptionLikely" in out


def test_json_holds_the_numbers_and_the_changes_as_data():
    code, out, _ = run(changed(pools={"unified": {"tensorParallel": 1}}), "-o", "json")
    answer = json.loads(out)
    [verdict] = [v for v in answer["verdicts"] if v["severity"] == "refuse"]

    assert code == 1
    assert (answer["name"], answer["allowed"]) == ("chat", False)
    assert verdict["reason"] == "BudgetTooSmall"
    assert {"field": "spec.kvCache.dtype", "value": "fp8"} in [
        {key: change[key] for key in ("field", "value")} for change in verdict["changes"]
    ]


def test_a_model_that_nobody_knows_is_refused_with_the_way_out():
    code, out, _ = run(changed(model={"id": "nobody/knows"}))

    assert code == 1
    assert "ModelUnknown" in out
    assert "model.configRef" in out


def test_a_spec_of_the_wrong_form_is_refused_as_the_webhook_refuses_it():
    code, out, err = run(changed(engine={"maxModelLen": "long"}))

    assert (code, err) == (1, "")
    assert "refused: InvalidSpec (spec.engine.maxModelLen = 'long')" in out


def test_what_cannot_be_read_is_wrong_usage():
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "check", "-f", "-"],
        input="a: [",
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tidegate: -: cannot be read")
