"""What `tidegate check` reads, and the forms in which it answers."""

import json

import pytest
import yaml

from tidegate import cli

H100 = "NVIDIA-H100-80GB-HBM3"


def resource(name="chat", **spec):
    return {
        "apiVersion": "tidegate.io/v1alpha1",
        "kind": "LLMDeployment",
        "metadata": {"name": name},
        "spec": {
            "model": {"id": "Qwen/Qwen3-8B"},
            "engine": {"image": "vllm/vllm-openai:v0.32.0", "maxModelLen": 8192},
            "pools": {"unified": {}},
            **spec,
        },
    }


BAD = {"kvCache": {"dtype": "fp3"}}


@pytest.fixture
def check(capsys, tmp_path, monkeypatch):
    """Run the command in a folder of its own; return exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run_here(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli.main(["check", *map(str, arguments)])
        return ended.value.code, *capsys.readouterr()

    return run_here


def write(path, *documents):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")


def test_a_folder_is_read_with_all_below_it_and_foreign_kinds_are_passed_over(check, tmp_path):
    write(tmp_path / "apps" / "a" / "llmd.yaml", resource("one"), {"kind": "Service"})
    write(tmp_path / "apps" / "b.yml", resource("two"))
    (tmp_path / "apps" / "c.json").write_text(json.dumps(resource("three", **BAD)))
    write(tmp_path / "apps" / ".git" / "x.yaml", resource("hidden"))
    (tmp_path / "apps" / "README.md").write_text("a: [")
    code, out, err = check("-f", "apps", "--gpu", H100)

    assert (code, err) == (1, "")
    assert "apps/a/llmd.yaml: one: allowed" in out
    assert "apps/b.yml: two: allowed" in out
    assert "apps/c.json: three: refused (1 refused)" in out
    assert out.splitlines()[-1] == "3 resources: 2 allowed, 1 refused"


def test_the_output_of_kustomize_is_read_from_standard_input(check, tmp_path, monkeypatch):
    config = json.dumps({"hello": "world"})
    kustomized = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        {"kind": "ConfigMap", "metadata": {"name": "config"}, "data": {"config.json": config}},
        resource(model={"id": "a/b", "configRef": {"name": "config", "key": "config.json"}}),
        {"apiVersion": "other.io/v1", "kind": "LLMDeployment", "metadata": {"name": "not-ours"}},
    ]
    write(tmp_path / "stream", *kustomized)
    with (tmp_path / "stream").open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        code, out, _ = check("-f", "-", "--gpu", H100)

    assert code == 1
    assert "refused: ModelConfigInvalid" in out
    assert out.splitlines()[-1].startswith("chat: refused")


def test_a_list_is_read_as_its_items(check, tmp_path):
    write(tmp_path / "a.yaml", {"kind": "List", "items": [resource("one"), resource("two", **BAD)]})

    assert "2 resources: 1 allowed, 1 refused" in check("-f", "a.yaml", "--gpu", H100)[1]


def test_what_cannot_be_read_is_named_and_the_rest_is_checked(check, tmp_path):
    write(tmp_path / "apps" / "good.yaml", resource())
    (tmp_path / "apps" / "bad.yaml").write_text("a: [")
    code, out, err = check("-f", "apps", "--gpu", H100)

    assert code == 2
    assert "chat: allowed" in out
    assert err.startswith("tidegate: apps/bad.yaml: cannot be read")


def test_nothing_to_check_is_wrong_usage(check, tmp_path):
    write(tmp_path / "a.yaml", {"kind": "Service"})

    assert check("-f", "a.yaml")[0::2] == (2, "tidegate: a.yaml: holds no LLMDeployment\n")


def test_without_nodes_the_spec_is_checked_and_the_fit_is_unknown(check, tmp_path):
    write(tmp_path / "a.yaml", resource())

    code, out, _ = check("-f", "a.yaml")
    assert code == 0
    assert "warning: NotChecked (spec.pools)" in out
    assert check("-f", "a.yaml", "--strict")[0] == 1


def test_nodes_of_a_cluster_and_nodes_of_a_file_exclude_each_other(check, tmp_path):
    write(tmp_path / "a.yaml", resource())
    code, _, err = check("-f", "a.yaml", "--cluster", "--gpu", H100)

    assert code == 2
    assert "give --cluster, --nodes or --gpu, one of them" in err


def test_a_cluster_that_cannot_be_reached_is_told_in_one_line(check, tmp_path, monkeypatch):
    write(tmp_path / "a.yaml", resource())
    write(
        tmp_path / "kubeconfig",
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "x", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        },
    )
    monkeypatch.setattr(
        "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION",
        str(tmp_path / "kubeconfig"),
    )
    code, out, err = check("-f", "a.yaml", "--cluster")

    assert (code, out) == (2, "")
    assert err.startswith("tidegate: --cluster: ")
    assert err.count("\n") == 1


def test_the_settings_of_the_operator_are_its_rules(check, tmp_path):
    write(tmp_path / "a.yaml", resource())
    write(tmp_path / "settings.yaml", {"admission": {"registries": ["ghcr.io"]}})
    code, out, _ = check("-f", "a.yaml", "--settings", "settings.yaml", "--gpu", H100)

    assert code == 1
    assert "refused: ImageNotAllowed" in out


def test_the_classes_that_the_settings_declare_are_classes_here_too(check, tmp_path):
    write(tmp_path / "a.yaml", resource(model={"id": "Qwen/Qwen3-32B"}))
    declared = {"matchLabels": {"pool": "gpus"}, "product": "NVIDIA-L4"}
    write(tmp_path / "settings.yaml", {"nodeClasses": [declared]})
    labels = {"pool": "gpus"}
    node = {
        "metadata": {"name": "n", "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": "1"}},
    }
    write(tmp_path / "nodes.yaml", {"kind": "Node", **node})
    arguments = ["-f", "a.yaml", "--nodes", "nodes.yaml"]

    assert "warning: GPUUnknown" in check(*arguments)[1]
    assert "refused: WeightsDoNotFit" in check(*arguments, "--settings", "settings.yaml")[1]


TEXT = """\
# a comment
apiVersion: tidegate.io/v1alpha1
kind: LLMDeployment
metadata:
  name: chat
spec:
  model: {id: Qwen/Qwen3-8B}
  engine:
    image: "vllm/vllm-openai:v0.32.0"
    maxModelLen: 8192
    env:
      - name: A
        value: b
      - name: A-B
        value: c
  pools:
    unified: {}
  kvCache:
    dtype: fp3
"""


def test_github_gets_one_command_for_each_finding_at_its_line(check, tmp_path):
    (tmp_path / "a,b.yaml").write_text(TEXT)
    code, out, _ = check("-f", "a,b.yaml", "--gpu", H100, "-o", "github")
    lines = out.splitlines()

    assert code == 1
    assert lines[0].startswith(
        "::error file=a%2Cb.yaml,line=14,title=InvalidSpec::chat: spec.engine"
    )
    assert lines[1].startswith("::error file=a%2Cb.yaml,line=19,title=KVDtypeUnsupported::chat: ")


def test_a_text_of_strangers_begins_no_command_of_its_own(check, tmp_path):
    name = "a\n::error file=x::y%0A"
    write(tmp_path / "a.yaml", resource(model={"id": "a", "servedNames": [name]}, **BAD))
    out = check("-f", "a.yaml", "--gpu", H100, "-o", "github")[1]

    assert all(
        line.startswith(("::error file=a.yaml,", "::warning file=a.yaml,"))
        for line in out.splitlines()
    )


def test_sarif_has_rules_levels_and_lines(check, tmp_path):
    (tmp_path / "a.yaml").write_text(TEXT)
    code, out, _ = check("-f", "a.yaml", "--gpu", H100, "-o", "sarif")
    log = json.loads(out)
    [run] = log["runs"]
    known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    at = {
        result["ruleId"]: (
            result["level"],
            result["locations"][0]["physicalLocation"]["region"]["startLine"],
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
        )
        for result in run["results"]
    }

    assert code == 1
    assert log["version"] == "2.1.0"
    assert at["KVDtypeUnsupported"] == ("error", 19, "a.yaml")
    assert set(at) == known


def test_json_names_field_value_and_fix(check, tmp_path):
    (tmp_path / "a.yaml").write_text(TEXT)
    answer = json.loads(check("-f", "a.yaml", "--gpu", H100, "-o", "json")[1])
    verdict = next(v for v in answer["verdicts"] if v["reason"] == "KVDtypeUnsupported")

    assert (answer["name"], answer["namespace"], answer["file"]) == ("chat", "default", "a.yaml")
    assert (verdict["field"], verdict["value"]) == ("spec.kvCache.dtype", "'fp3'")
    assert verdict["fix"]


def test_lines_are_found_in_later_documents_and_in_lists(check, tmp_path):
    second = resource("second", **BAD)
    text = "---\nkind: Service\n---\n" + yaml.safe_dump(
        {"kind": "List", "items": [resource(), second]}
    )
    (tmp_path / "a.yaml").write_text(text)
    out = check("-f", "a.yaml", "--gpu", H100, "-o", "github")[1]
    line = text.splitlines().index("      dtype: fp3") + 1

    assert f"::error file=a.yaml,line={line},title=KVDtypeUnsupported::second:" in out
