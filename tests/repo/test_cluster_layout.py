"""The local cluster's pure parts: what it would run, where, and how its caches are keyed."""

import ast
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # `e2e` is not part of the installed package

# they need the path above
from e2e.cluster import (  # noqa: E402
    binaries,
    buildah,
    command_line,
    containerd,
    control_plane,
    hollow,
    host,
    image_archive,
    images,
    node_classes,
    processes,
)
from e2e.cluster.cluster import Cluster  # noqa: E402
from e2e.cluster.errors import ClusterError  # noqa: E402
from e2e.cluster.node import Node  # noqa: E402
from e2e.cluster.settings import Networks, Settings  # noqa: E402

SOURCES = sorted((ROOT / "e2e" / "cluster").glob("*.py"))


@pytest.fixture
def settings(tmp_path):
    return Settings(state=tmp_path / "state", cache=tmp_path / "cache")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_cluster_needs_nothing_but_the_standard_library(source):
    tree = ast.parse(source.read_text())
    imported = {
        name.name.partition(".")[0]
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Import)
        for name in statement.names
    } | {
        statement.module.partition(".")[0]
        for statement in ast.walk(tree)
        if isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module
    }
    assert imported <= set(sys.stdlib_module_names)


# settings


def test_the_cache_follows_the_xdg_convention_unless_it_is_named():
    by_home = Settings.from_environment({"HOME": "/home/a"})
    by_xdg = Settings.from_environment({"HOME": "/home/a", "XDG_CACHE_HOME": "/caches"})
    by_name = Settings.from_environment({"HOME": "/home/a", "TIDEGATE_CACHE": "/mine"})
    assert by_home.cache == Path("/home/a/.cache/tidegate")
    assert by_xdg.cache == Path("/caches/tidegate")
    assert by_name.cache == Path("/mine")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TIDEGATE_CLUSTER_STATE", "relative/path"),
        ("TIDEGATE_CACHE", "relative/path"),
        ("TIDEGATE_CLUSTER_NAME", "much-too-long-name"),
        ("TIDEGATE_CLUSTER_NAME", "Upper"),
        ("TIDEGATE_CLUSTER_LAN", "10.111"),
        ("TIDEGATE_CLUSTER_LAN", "10.111.256"),
        ("TIDEGATE_CLUSTER_PODS", "10.112.0.0/16"),
        ("TIDEGATE_CLUSTER_SERVICES", "ten.one.two"),
    ],
)
def test_a_setting_that_can_not_work_is_refused_by_its_name(variable, value):
    with pytest.raises(ClusterError, match=variable):
        Settings.from_environment({"HOME": "/home/a", variable: value})


def test_the_longest_interface_name_fits_the_kernel():
    longest = Settings.from_environment({"HOME": "/", "TIDEGATE_CLUSTER_NAME": "a" * 10})
    assert len(longest.node_namespace(200)) <= 15
    assert len(longest.bridge) <= 15


def test_addresses_of_nodes_are_apart():
    networks = Networks()
    addresses = {networks.node_address(number) for number in range(1, 201)}
    assert len(addresses | {networks.host_address}) == 201
    assert networks.node_pods_cidr(2) == "10.112.2.0/24"


# node classes


def test_the_default_nodes_are_labelled_as_gpu_feature_discovery_does():
    plan = node_classes.load()
    first, second, third = plan.of(1), plan.of(2), plan.of(3)
    assert first.labels().items() >= {
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"),
        ("nvidia.com/gpu.memory", "81920"),
        ("nvidia.com/gpu.count", "4"),
        ("nvidia.com/gpu.compute.major", "8"),
        ("nvidia.com/gpu.compute.minor", "0"),
        ("nvidia.com/gpu.family", "ampere"),
    }
    assert second.product == "NVIDIA-H100-80GB-HBM3"
    assert second.memory_mib == 81559
    assert third == first
    assert first.capacity() == {"nvidia.com/gpu": "4"}


def test_a_plan_survives_being_written_down():
    plan = node_classes.load()
    assert node_classes.parse(plan.document(), "again") == plan


VALID_CLASS = json.dumps(
    {"product": "X", "memory_mib": 1, "gpus": 1, "compute_capability": "9.0", "family": "hopper"}
)


def class_with(**changes):
    return {"nodes": ["x"], "classes": {"x": {**json.loads(VALID_CLASS), **changes}}}


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ([], "nodes"),
        ({"nodes": [], "classes": {}}, "nodes"),
        ({"nodes": ["y"], "classes": {"x": json.loads(VALID_CLASS)}}, "'y'"),
        ({"nodes": ["x"], "classes": {"x": {"product": "X"}}}, "classes.x"),
        (class_with(extra=1), "classes.x"),
        (class_with(gpus="4"), "classes.x.gpus"),
        (class_with(gpus=True), "classes.x.gpus"),
        (class_with(memory_mib=-1), "classes.x.memory_mib"),
        (class_with(compute_capability="9"), "classes.x.compute_capability"),
    ],
)
def test_a_wrong_nodes_file_is_refused_with_the_place(document, names):
    with pytest.raises(ClusterError, match=re.escape(names)):
        node_classes.parse(document, "nodes.json")


def test_a_node_that_changes_class_keeps_no_label_of_the_old_one():
    old = {"nvidia.com/mig.strategy": "single", "kubernetes.io/hostname": "n1"}
    metadata, status = node_classes.patches(node_classes.load().of(2), old)
    labels = metadata["metadata"]["labels"]
    assert labels["nvidia.com/mig.strategy"] is None
    assert labels["nvidia.com/gpu.family"] == "hopper"
    assert "kubernetes.io/hostname" not in labels
    assert status["status"]["capacity"] == status["status"]["allocatable"]


# processes


def test_the_control_plane_starts_in_order_and_keeps_its_files_in_the_state(settings):
    started = control_plane.processes(settings)
    assert tuple(process.name for process in started) == control_plane.NAMES
    paths = [
        word.partition("=")[2] or word
        for process in started
        for word in process.command
        if "/" in word and "://" not in word
    ]
    outside = [path for path in paths if path.startswith("/") and str(settings.state) not in path]
    assert paths
    assert not outside


def test_flags_of_the_environment_come_last_and_so_win(tmp_path):
    given = {"HOME": "/", "TIDEGATE_CLUSTER_ARGS_KUBE_APISERVER": "--v=9 --audit-log-path='/a b'"}
    server = control_plane.processes(Settings.from_environment(given))[1]
    assert server.command[-2:] == ("--v=9", "--audit-log-path=/a b")


def test_two_nodes_share_no_place(settings):
    first, second = (Node(settings, number) for number in (1, 2))
    for one, other in ((first, second), (second, first)):
        text = json.dumps(
            [
                one.kubelet_configuration(),
                one.proxy_configuration(),
                [process.command for process in one.processes()],
                [process.cgroup for process in one.processes()],
            ]
        )
        assert str(one.folder) in text
        assert str(other.folder) not in text
        assert other.cgroup not in text
        assert f'"{other.address}"' not in text


@pytest.mark.parametrize("major", [1, 2])
def test_containerd_keeps_everything_on_the_node_and_never_pulls_its_pause_image(major):
    text = containerd.configuration(Path("/n/root"), Path("/n/run"), Path("/n/net"), major)
    document = tomllib.loads(text)
    assert document["root"] == "/n/root"
    assert document["grpc"]["address"].startswith("/n/run/")
    plugins = document["plugins"]
    if major == 1:
        runtime = plugins["io.containerd.grpc.v1.cri"]
        assert runtime["sandbox_image"] == containerd.PAUSE_REFERENCE
        assert runtime["cni"]["bin_dir"] == str(containerd.CNI_PROGRAMS)
    else:
        pinned = plugins["io.containerd.cri.v1.images"]["pinned_images"]
        assert pinned["sandbox"] == containerd.PAUSE_REFERENCE
        runtime = plugins["io.containerd.cri.v1.runtime"]
        assert runtime["cni"]["bin_dirs"] == [str(containerd.CNI_PROGRAMS)]
    assert runtime["restrict_oom_score_adj"] is True
    assert runtime["cni"]["conf_dir"] == "/n/net"
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["Root"] == "/n/run/runc"


def test_a_daemon_writes_its_pid_and_then_becomes_the_program(tmp_path):
    process = processes.Process("p", ("program", "--a b", "$HOME"), "space")
    script = processes.launch_script(process, tmp_path / "p.pid", [Path("/groups/x")])
    assert script.index("cgroup.procs") < script.index("p.pid") < script.index("exec ")
    assert script.endswith("exec nsenter --net=/run/netns/space program '--a b' '$HOME'")


def test_a_pid_counts_only_for_the_process_that_the_cluster_started(settings):
    supervisor = processes.Supervisor(settings, os.environ["PATH"])
    settings.run.mkdir(parents=True)
    mark = {processes.MARK: f"{settings.state}:ours"}
    with subprocess.Popen(["sleep", "60"], env={**os.environ, **mark}) as child:
        (settings.run / "ours.pid").write_text(str(child.pid))
        (settings.run / "stranger.pid").write_text(str(child.pid))
        host.wait_until(lambda: supervisor.pid("ours") == child.pid, "sleep", 5, "the test")
        assert supervisor.pid("stranger") is None
        supervisor.stop("stranger")
        assert supervisor.pid("ours") == child.pid
        supervisor.stop("ours")
        assert supervisor.pid("ours") is None
    assert supervisor.names() == []


# images


def test_a_packed_folder_is_read_back_with_its_reference(tmp_path):
    root, tar = tmp_path / "root", tmp_path / "image.tar"
    root.mkdir()
    (root / "hello").write_text("world")
    image_archive.pack("localhost/x:1", root, tar, {"Cmd": ["/hello"]}, "x86_64")
    archive = image_archive.read(tar)
    assert list(archive.images) == ["localhost/x:1"]
    assert archive.transport == "oci-archive"
    assert image_names(tar) >= {"index.json", "oci-layout"}


def image_names(tar):
    with tarfile.open(tar) as archive:
        return set(archive.getnames())


def write_tar(path, **texts):
    with tarfile.open(path, "w") as archive:
        for name, text in texts.items():
            info = tarfile.TarInfo(name.replace("_", "."))
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def test_a_docker_archive_is_known_by_its_manifest(tmp_path):
    manifest = json.dumps([{"Config": "abc.json", "RepoTags": ["a:1", "b:2"], "Layers": []}])
    archive = image_archive.read(write_tar(tmp_path / "a.tar", manifest_json=manifest))
    assert archive.images == {"a:1": "abc.json", "b:2": "abc.json"}


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ({"other_json": "{}"}, "neither"),
        ({"manifest_json": '[{"Config": "a", "RepoTags": null}]'}, "no reference"),
        ({"index_json": '{"manifests": [{"digest": "sha256:a"}]}'}, "no reference"),
    ],
)
def test_a_tar_without_a_usable_image_is_refused(tmp_path, texts, says):
    with pytest.raises(ClusterError, match=says):
        image_archive.read(write_tar(tmp_path / "a.tar", **texts))


def test_a_file_that_is_no_tar_is_refused(tmp_path):
    (tmp_path / "a.tar").write_text("no tar")
    with pytest.raises(ClusterError, match=r"a\.tar"):
        image_archive.read(tmp_path / "a.tar")


@pytest.fixture
def context(tmp_path):
    folder = tmp_path / "context"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "a.py").write_text("a")
    (folder / "note.txt").write_text("n")
    return folder


def parts(context, include=()):
    return list(images.context_parts(context, include))


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        (lambda folder: (folder / "package" / "a.py").write_text("b"), True),
        (lambda folder: (folder / "package" / "a.py").chmod(0o755), True),
        (lambda folder: (folder / "package" / "a.py").rename(folder / "package" / "b.py"), True),
        (lambda folder: (folder / "link").symlink_to("note.txt"), True),
        (lambda folder: os.utime(folder / "note.txt", (1, 1)), False),
        (lambda folder: (folder / "__pycache__").mkdir(), False),
        (lambda folder: (folder / "package" / "empty").mkdir(), False),
    ],
)
def test_an_image_is_built_again_exactly_when_its_context_differs(context, change, matters):
    before = parts(context)
    change(context)
    assert (parts(context) != before) is matters


def test_only_what_is_included_belongs_to_the_context(context):
    staged = context.parent / "staged"
    images.stage(context, ["package"], staged)
    assert [path.name for path in images.files(context, ["package"])] == ["a.py"]
    assert [path.relative_to(staged).as_posix() for path in images.files(staged)] == [
        "package/a.py"
    ]


def test_the_cache_keeps_the_newest_versions_of_an_image_and_other_images(tmp_path):
    names = [f"a-{number:016x}.tar" for number in range(images.KEPT_VERSIONS + 2)]
    for age, name in enumerate([*names, f"a-b-{0:016x}.tar"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    assert [tar.name for tar in images.outdated(tmp_path, "a")] == names[images.KEPT_VERSIONS :]


def test_an_image_that_lost_its_name_to_a_newer_one_is_removed():
    listing = "\n".join(
        [
            "REF TYPE DIGEST SIZE PLATFORMS LABELS",
            "localhost/a:1 application/x sha256:new 1 MiB linux/amd64 -",
            "sha256:config-of-new application/x sha256:new 1 MiB linux/amd64 -",
            "sha256:config-of-old application/x sha256:old 1 MiB linux/amd64 -",
        ]
    )
    assert containerd.nameless(listing) == ["sha256:config-of-old"]


def test_docker_and_the_cluster_build_the_operator_from_the_same_files():
    ignore = (ROOT / "operator" / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = [line.removeprefix("!") for line in ignore if line.startswith("!")]
    assert allowed == list(images.OPERATOR_CONTEXT)
    copied = re.findall(r"^COPY (?!--from)(\S+)", images_dockerfile(), re.MULTILINE)
    assert set(copied) - {"."} <= set(images.OPERATOR_CONTEXT)


def images_dockerfile():
    return (ROOT / "operator" / "Dockerfile").read_text()


def test_the_operator_does_not_run_as_root():
    user = re.findall(r"^USER (\S+)", images_dockerfile(), re.MULTILINE)[-1]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_pip_in_a_build_uses_the_index_of_the_machine(tmp_path):
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = file:///first\nretries = 7\n")
    environ = {"PIP_CONFIG_FILE": str(file), "PIP_INDEX_URL": "file:///second"}
    text = buildah.pip_configuration(environ, Path("/bundle.pem"))
    assert "index-url = file:///second" in text
    assert "retries = 7" in text
    assert "cert = /bundle.pem" in text


# binaries


@pytest.mark.parametrize("name", binaries.RECIPES)
def test_every_program_is_pinned_by_checksum_and_names_no_registry(name):
    folder = binaries.MODULES / name
    files = {path.name: path.read_text() for path in folder.iterdir()}
    assert files["go.sum"].count("h1:") > 1
    assert not any("://" in text for text in files.values())
    assert ("main.go" in files) == (binaries.RECIPES[name].packages == (".",))


def test_the_version_of_kubernetes_is_stamped_from_its_pin():
    flags = " ".join(binaries.build_flags("kube"))
    pin = (binaries.MODULES / "kube" / "go.mod").read_text()
    version = re.search(r"k8s\.io/kubernetes (v1\.(\d+)\.\d+)", pin)
    assert version
    assert f"gitVersion={version[1]}" in flags
    assert f"gitMinor={version[2]}" in flags


def test_a_changed_pin_or_flag_is_another_place_in_the_cache(settings, tmp_path, monkeypatch):
    before = binaries.folder(settings, "etcd")
    monkeypatch.setattr(binaries, "BUILD_FLAGS", ("-race",))
    assert binaries.folder(settings, "etcd") != before
    monkeypatch.undo()
    copy = tmp_path / "bins" / "etcd"
    copy.mkdir(parents=True)
    for file in (binaries.MODULES / "etcd").iterdir():
        (copy / file.name).write_text(file.read_text())
    monkeypatch.setattr(binaries, "MODULES", tmp_path / "bins")
    assert binaries.folder(settings, "etcd") == before
    (copy / "go.sum").write_text((copy / "go.sum").read_text() + "\n")
    assert binaries.folder(settings, "etcd") != before


def test_an_unknown_program_is_refused_with_those_that_there_are(settings):
    with pytest.raises(ClusterError, match=r"'nothing'.*prometheus"):
        binaries.build(settings, ("nothing",))


# hollow nodes


def test_a_pod_on_a_hollow_node_is_ready_with_every_container():
    pod = {
        "metadata": {"namespace": "a", "name": "b", "uid": "u"},
        "spec": {"containers": [{"name": "x", "image": "i"}, {"name": "y", "image": "j"}]},
    }
    status = hollow.running(pod, "198.18.0.1")["status"]
    ready = {entry["type"]: entry["status"] for entry in status["conditions"]}
    assert ready["Ready"] == ready["ContainersReady"] == "True"
    assert [entry["name"] for entry in status["containerStatuses"]] == ["x", "y"]
    assert all(entry["ready"] for entry in status["containerStatuses"])
    assert hollow.pod_path(pod) == "/api/v1/namespaces/a/pods/b"


def test_a_hollow_node_offers_the_gpus_of_its_class():
    node_class = node_classes.load().named("h200-141gb")
    assert hollow.node_object("hollow-1", node_class)["metadata"]["labels"].items() >= (
        node_class.labels().items()
    )
    assert hollow.node_status(node_class)["allocatable"]["nvidia.com/gpu"] == "8"


# files and the command line


def test_a_file_with_the_same_text_is_not_touched(tmp_path):
    file = tmp_path / "a" / "b.json"
    host.write_if_changed(file, {"a": 1})
    first = file.stat().st_ino
    host.write_if_changed(file, {"a": 1})
    assert file.stat().st_ino == first
    host.write_if_changed(file, {"a": 2})
    assert json.loads(file.read_text()) == {"a": 2}
    assert file.stat().st_mode & 0o077 == 0


def test_a_failed_command_tells_its_last_messages():
    with pytest.raises(ClusterError, match=r"failed \(3\)(.|\n)*broken"):
        host.run("sh", "-c", "echo broken >&2; exit 3")


def test_a_missing_program_tells_what_to_run():
    with pytest.raises(ClusterError, match="scripts/cluster up"):
        host.run("program-that-nobody-has")


def test_options_after_exec_belong_to_the_command():
    words = ["exec", "kubectl", "get", "pods", "-A", "--help"]
    assert command_line.parser().parse_args(words).words == words[1:]


def test_kubectl_tidegate_is_there_inside_the_cluster(settings):
    env = command_line.exec_environment(Cluster(settings))

    first, *others = env["PATH"].split(":")
    assert first == str(ROOT / ".venv" / "bin")
    assert str(binaries.folder(settings, "kube")) in others
    assert env["KUBECONFIG"] == str(settings.kubeconfig)


@pytest.mark.parametrize(
    "words", [[], ["fly"], ["up", "--nodes", "many"], ["build-image", "other"], ["load-image"]]
)
def test_a_wrong_command_is_a_usage_error(words):
    with pytest.raises(SystemExit) as ended:
        command_line.main(words)
    assert ended.value.code == 2


def test_too_many_nodes_are_refused_before_anything_starts(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TIDEGATE_CLUSTER_STATE", str(tmp_path / "state"))
    assert command_line.main(["up", "--nodes", "201"]) == 1
    assert "--nodes 201" in capsys.readouterr().err
    assert not (tmp_path / "state").exists()
