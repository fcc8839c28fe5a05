"""The command line as people and scripts use it."""

import json

import pytest
import yaml
from click.testing import CliRunner
from tests.unit.cli.command import A100, EXAMPLES, H100, run

from tidegate import cli

EXAMPLE = EXAMPLES / "unified.yaml"


@pytest.fixture
def changed(tmp_path):
    """Write the example with a change and return its path."""

    def write(change):
        document = yaml.safe_load(EXAMPLE.read_text())
        change(document["spec"])
        path = tmp_path / "llmd.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    return write


def test_a_plan_is_printed_as_a_table_with_a_bar_and_its_reasons():
    code, out, err = run("plan", "-f", EXAMPLE, "--gpu", A100)

    assert (code, err) == (0, "")
    assert "KV cache" in out
    assert "1,024 bytes a token" in out
    assert "8,192 tokens" in out
    assert "█" in out
    assert "\x1b[" not in out  # colour only on a terminal


def test_the_speed_of_prefill_that_the_guide_reckons_with_is_in_the_plan(tmp_path):
    guide = (EXAMPLES.parent / "docs/guides/choosing-thresholds.md").read_text("utf-8")
    spec = yaml.safe_load(guide.split("```yaml\n")[1].split("```")[0])["spec"]
    path = tmp_path / "llmd.yaml"
    head = {"apiVersion": "tidegate.io/v1alpha1", "kind": "LLMDeployment"}
    path.write_text(yaml.safe_dump({**head, "metadata": {"name": "guide"}, "spec": spec}))

    _, text, _ = run("plan", "-f", path, "--gpu", H100)
    _, out, _ = run("plan", "-f", path, "--gpu", H100, "-o", "json")
    serve = "vllm serve Qwen/Qwen3-32B -tp 2 --max-model-len 32768 --kv-cache-dtype fp8"
    _, of_serve, _ = run("plan", "--serve", serve, "--gpu", H100, "-o", "json")

    assert "prefill: 10,803 tokens per second of one pod, estimated" in text
    speed = {"tokensPerSecond": 10803, "how": "estimated"}
    assert json.loads(out)["plan"][0]["prefill"] == speed
    assert json.loads(of_serve)["plan"][0]["prefill"] == speed


def test_pods_that_only_decode_have_no_speed_of_prefill():
    path = EXAMPLES / "production" / "qwen3-32b-pair.yaml"
    _, out, _ = run("plan", "-f", path, "--gpu", H100, "-o", "json")

    speeds = {entry["pool"]: entry.get("prefill") for entry in json.loads(out)["plan"]}
    assert speeds["decode"] is None
    assert speeds["prefill"]["tokensPerSecond"] > 0


def test_a_plan_as_json_adds_up():
    code, out, _ = run("plan", "-f", EXAMPLE, "--gpu", A100, "-o", "json")
    [entry] = json.loads(out)["plan"]
    lines = {key: line["bytes"] for key, line in entry["perGpu"].items()}

    assert code == 0
    assert lines.pop("total") == sum(lines.values())
    assert entry["kvTokens"] == 8192


def test_each_class_of_gpu_has_its_own_entry():
    _, out, _ = run(
        "plan",
        "-f",
        EXAMPLE.with_name("mixed-classes.yaml"),
        "--gpu",
        A100,
        "--gpu",
        f"{H100}=4",
        "-o",
        "json",
    )

    assert [e["gpuProduct"] for e in json.loads(out)["plan"]] == [A100, H100]


def test_nodes_of_a_cluster_can_be_given(tmp_path):
    nodes = tmp_path / "nodes.yaml"
    labels = {"nvidia.com/gpu.product": A100, "nvidia.com/gpu.memory": "81920"}
    node = {
        "kind": "Node",
        "metadata": {"name": "n1", "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": "2"}},
    }
    nodes.write_text(yaml.safe_dump({"kind": "List", "items": [node]}))
    code, out, _ = run("plan", "-f", EXAMPLE, "--nodes", nodes, "-o", "json")

    assert code == 0
    assert json.loads(out)["plan"][0]["nodes"] == 1


def test_a_resource_comes_by_standard_input():
    code, out, _ = run("render", "-f", "-", "--gpu", A100, stdin=EXAMPLE.read_text())

    assert code == 0
    assert {d["kind"] for d in yaml.safe_load_all(out)} == {
        "ConfigMap",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    }


def test_what_does_not_fit_is_an_answer_with_exit_code_1(changed):
    path = changed(lambda spec: spec["budget"].update(kvCache="1Mi"))
    code, out, _ = run("plan", "-f", path, "--gpu", A100, "-o", "json")
    refused = json.loads(out)["refused"]

    assert code == 1
    assert refused["reason"] == "BudgetTooSmall"
    assert "992" in refused["message"]  # the maxModelLen that fits 1 MiB less the null block


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda spec: spec.update(kvcache={}), "spec.kvcache: unknown field"),
        (lambda spec: spec["pools"].update(prefill={}), "spec.pools"),
        (lambda spec: spec["engine"].update(maxModelLen="long"), "spec.engine.maxModelLen"),
        (lambda spec: spec.pop("model"), "spec.model: required"),
    ],
)
def test_a_wrong_field_is_named_in_one_line_with_exit_code_2(changed, change, message):
    code, out, err = run("plan", "-f", changed(change), "--gpu", A100)

    assert code == 2
    assert err.startswith(f"tidegate: {message}")
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "-f", "nowhere.yaml", "--gpu", A100], "nowhere.yaml: cannot be read"),
        (["plan", "-f", EXAMPLE], "--gpu PRODUCT or --nodes FILE"),
        (["plan", "-f", EXAMPLE, "--gpu", "NVIDIA-H100"], f"did you mean {H100}"),
        (["plan", "-f", EXAMPLE, "--gpu", "NVIDIA-H20"], "several memory sizes"),
        (["plan", "-f", EXAMPLE, "--gpu", f"{A100}=lots"], "must be a number"),
        (["explode"], "No such command"),
        (["run", "--config", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_wrong_usage_says_what_to_do_with_exit_code_2(arguments, message):
    code, _, err = run(*arguments)

    assert code == 2
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("text", ["", "a: [", "just text", "kind: Service", "- 1\n- 2", "\x00"])
def test_a_file_without_a_resource_is_refused(text):
    code, _, err = run("plan", "-f", "-", "--gpu", A100, stdin=text)

    assert code == 2
    assert err.startswith("tidegate: -: ")


def test_a_reason_and_a_field_are_explained():
    assert "maxModelLen" in run("explain", "BudgetTooSmall")[1]
    assert "replicas" in run("explain", "pools.decode.replicas")[1]


def test_what_is_nearly_a_reason_is_suggested():
    code, _, err = run("explain", "BudgetToSmall")

    assert code == 1
    assert "BudgetTooSmall" in err


def test_the_manifests_hold_every_permission_that_the_operator_needs():
    code, out, _ = run("manifests", "--image", "tidegate:1", "--namespace", "tg")
    kinds = [document["kind"] for document in yaml.safe_load_all(out)]

    assert code == 0
    assert kinds[0] == "Namespace"
    assert {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment"} <= set(kinds)


def test_every_command_has_help_with_an_example():
    for name in cli._COMMANDS:
        shown = CliRunner().invoke(cli._group, [name, "--help"])
        assert shown.exit_code == 0
        assert "Example" in shown.output
