"""Whatever a file or an option holds, the answer is one line that names it, and exit code 2."""

import os
import threading

import pytest
import yaml
from tests.unit.cli.command import A100, EXAMPLES, H100, run

from tidegate import cli
from tidegate.cli.inputs import files

EXAMPLE = EXAMPLES / "unified.yaml"
SERVE = "vllm serve Qwen/Qwen3-8B --max-model-len 4096"
NODE = {
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": H100}},
    "status": {"allocatable": {"nvidia.com/gpu": "8"}},
}


@pytest.fixture
def call(capsys):
    """Run the command in this process; return exit code, output and errors."""

    def run_here(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        return ended.value.code, *capsys.readouterr()

    return run_here


def with_node(**changes):
    return {**NODE, **changes}


def labelled(**labels):
    product = NODE["metadata"]["labels"]
    return with_node(metadata={"name": "n1", "labels": {**product, **labels}})


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["a", 3], "items[0]: holds something that is not an object"),
        ([NODE, 3], "items[1]: holds something that is not an object"),
        (3, "items: must be a list"),
        ([with_node(metadata={})], "items[0]: metadata.name: must be"),
        ([with_node(metadata=[])], "items[0]: metadata: must be an object"),
        ([with_node(metadata={"name": "a", "labels": ["x"]})], "items[0]: metadata.labels: must"),
        ([labelled(x=1)], "items[0]: metadata.labels[x]: must be a string"),
        ([NODE, with_node(status=None)], "items[1]: status: must be an object"),
        ([with_node(status={"allocatable": "8"})], "items[0]: status.allocatable: must be"),
        ([with_node(spec={"taints": "x"})], "items[0]: spec.taints: must be a list"),
        ([with_node(spec={"taints": ["x"]})], "items[0]: spec.taints: must hold objects"),
        ([NODE, NODE], "items[1]: metadata.name: n1 is the name of"),
        ([labelled(**{"nvidia.com/gpu.memory": "abc"})], "must be a number of MiB, not abc"),
        ([labelled(**{"nvidia.com/gpu.memory": "-5"})], "must be a number of MiB, not -5"),
        ([labelled(**{"nvidia.com/gpu.memory": "9" * 30})], "must be a number of MiB, not 999"),
    ],
)
def test_nodes_that_are_none_are_named(call, tmp_path, items, message):
    path = tmp_path / "nodes.yaml"
    path.write_text(yaml.safe_dump({"kind": "List", "items": items}))
    code, out, err = call("plan", "-f", EXAMPLE, "--nodes", path)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def referring(data):
    document = yaml.safe_load(EXAMPLE.read_text())
    document["spec"]["model"].pop("config", None)
    document["spec"]["model"]["configRef"] = {"name": "config", "key": "config.json"}
    beside = {"kind": "ConfigMap", "metadata": {"name": "config"}, "data": data}
    return yaml.safe_dump_all([document, beside]).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00", "is no UTF-8 at byte 0"),
        (b"kind: List\nitems: [3]", "items[0]: holds something that is not an object"),
        (b"kind: LLMDeployment\nx: " + b"9" * 6000, "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"kind: A\nspec:\n  a: 1\n  a: 2\n", "line 4: the key a stands twice"),
        (b'{"kind": "A", "kind": "B"}', "line 1: the key kind stands twice"),
        (referring(["x"]), "ConfigMap config: data: must be an object"),
        (referring({"config.json": {"a": 1}}), "data[config.json]: must be a string"),
    ],
)
def test_a_resource_that_cannot_be_read_is_told(call, tmp_path, content, message):
    path = tmp_path / "llmd.yaml"
    path.write_bytes(content)
    code, out, err = call("plan", "-f", path, "--gpu", H100)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_merged_key_is_no_key_that_stands_twice(tmp_path, call):
    path = tmp_path / "all.yaml"
    path.write_text("kind: A\na: {b: &b {<<: &c {x: 1}, x: 2}}\nd: {<<: *b, x: 3}\n")

    assert "holds no LLMDeployment" in call("plan", "-f", path, "--gpu", H100)[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "-f", "/dev/zero", "--gpu", H100),
        ("plan", "-f", EXAMPLE, "--nodes", "/dev/zero"),
        ("plan", "-f", EXAMPLE, "--config", "/dev/zero", "--gpu", H100),
        ("plan", "--serve", "vllm serve x --config /dev/zero", "--gpu", H100),
        ("plan", "--batch", "/dev/zero"),
    ],
)
def test_a_device_that_never_ends_is_not_read(call, arguments):
    code, _, err = call(*arguments)

    assert code == 2
    assert "is neither a file nor a pipe" in err


def test_a_file_that_is_too_large_is_not_read(monkeypatch, tmp_path, call):
    monkeypatch.setattr(files, "LARGEST_BYTES", 2**20)
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (2**20 + 1))

    assert "it is larger than 1 MiB" in call("plan", "-f", path, "--gpu", H100)[2]


def test_a_pipe_is_read_as_a_file_is(tmp_path, call):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[EXAMPLE.read_bytes()])
    writer.start()
    code, _, err = call("check", "-f", pipe, "--gpu", A100)
    writer.join()

    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("gpu", "message"),
    [
        ("NVIDIA-X900@81559", "such as @81559/9.0"),
        ("H100@1", "not in the catalogue; did you mean NVIDIA-H100"),
        ("NVIDIA-X900@81559/nine", "the compute capability must be as 9.0"),
        (f"{H100}@81559/9.0", "leave out /9.0"),
        (f"{H100}=８", "must be a number from 1 to 64"),
        (f"{H100}=", "must be a number from 1 to 64"),
        (f"{H100}@８１５５９", "must be a number of MiB"),
        (f"{H100}@{'9' * 30}", "must be a number of MiB"),
        (f"{H100}@-5", "must be a number of MiB"),
    ],
)
def test_a_gpu_that_cannot_be_imagined_is_told(call, gpu, message):
    code, out, err = call("plan", "-f", EXAMPLE, "--gpu", gpu)

    assert (code, out) == (2, "")
    assert message in err


def test_an_unknown_card_is_sized_by_its_memory_and_compute_capability(call):
    code, out, err = call("plan", "--serve", SERVE, "--gpu", "NVIDIA-X900@81559/9.0=2")

    assert (code, err) == (0, "")
    assert "NVIDIA-X900" in out


def test_a_known_card_of_another_size_has_its_compute_capability(call):
    code, out, err = call("plan", "--serve", SERVE, "--gpu", f"{H100}@60000")

    assert (code, err) == (0, "")
    assert "compute capability" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["manifests", "--image", ""], "must be an image"),
        (["manifests", "--image", "a b"], "must be an image"),
        (["manifests", "--image", "a\nb"], "must be an image"),
        (["manifests", "--image", "a", "--namespace", "A_b"], "must be a DNS label"),
        (["manifests", "--image", "a", "--namespace", "-a"], "must be a DNS label"),
        (["manifests", "--image", "a", "--namespace", "a" * 64], "must be a DNS label"),
        (["manifests", "--image", "a", "--namespace", "a\n"], "must be a DNS label"),
        (["plan", "--batch", "-", "--vary", "a=1"], "--batch takes no --vary"),
        (["plan", "--batch", "-", "--gpu", H100, "-o", "json"], "--gpu or --output"),
        (["plan", "--models", "--gpu", H100], "--models takes no --gpu"),
    ],
)
def test_an_option_that_makes_no_sense_is_told(call, arguments, message):
    code, out, err = call(*arguments)

    assert (code, out) == (2, "")
    assert message in err


def test_bytes_on_standard_input_that_are_no_text_are_told(monkeypatch, tmp_path, call):
    path = tmp_path / "bytes"
    path.write_bytes(b"\xff\xfe\x00")
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        code, _, err = call("plan", "-f", "-", "--gpu", H100)

    assert (code, err) == (2, "tidegate: -: cannot be read: it is no UTF-8 at byte 0\n")


def test_a_bug_is_one_line_and_its_trace_is_there_with_debug(monkeypatch, call):
    def broken(path):
        raise KeyError("x")

    monkeypatch.setattr("tidegate.cli.inputs.documents.deployments", broken)
    arguments = ["render", "-f", EXAMPLE, "--gpu", H100]
    told = "tidegate: a bug of Tidegate: KeyError: 'x'; run with --debug for the trace\n"

    assert call(*arguments) == (2, "", told)
    with pytest.raises(KeyError):
        cli.main(["--debug", *map(str, arguments)])


def test_each_data_parallel_engine_needs_its_gpus():
    line = "vllm serve Qwen/Qwen3-32B -tp 2 --data-parallel-size 2"
    code, out, _ = run("plan", "--serve", line, "--gpu", H100)

    assert code == 0
    assert "1 pod of 4 GPUs" in out
    assert "each of 2 engines needs 2 of the 4 GPUs" in out
