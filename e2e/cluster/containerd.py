"""The container runtime of a node: configuration, image import, and removal of old containers."""

from pathlib import Path

from . import host
from .image_archive import Archive, read

CNI_PROGRAMS = Path("/usr/lib/cni")
PAUSE_REFERENCE = "localhost/tidegate/pause:1"
READY_SECONDS = 30.0
IMPORTED = "tidegate-imported"
"""Folder below containerd's root: which image each reference has; gone when the images are."""


def major_version() -> int:
    """Major version of the machine's containerd; its configuration differs between 1 and 2."""
    return int(host.run("containerd", "--version").split()[2].lstrip("v").split(".")[0])


def configuration(root: Path, state: Path, networks: Path, major: int) -> str:
    """The text of config.toml.

    Args:
        root: Images and containers.
        state: Sockets and mounts; also holds the API's socket.
        networks: Folder with the CNI configuration.
        major: Version of containerd, 1 or later.
    """
    if major == 1:
        images = runtime = 'plugins."io.containerd.grpc.v1.cri"'
        sandbox = f'[{images}]\n  sandbox_image = "{PAUSE_REFERENCE}"'
        programs = f'bin_dir = "{CNI_PROGRAMS}"'
    else:
        images = 'plugins."io.containerd.cri.v1.images"'
        runtime = 'plugins."io.containerd.cri.v1.runtime"'
        sandbox = f'[{images}.pinned_images]\n  sandbox = "{PAUSE_REFERENCE}"\n[{runtime}]'
        programs = f'bin_dirs = ["{CNI_PROGRAMS}"]'
    return f"""version = {2 if major == 1 else 3}
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "{socket(state)}"
{sandbox}
  restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE no process may lower its own
  netns_mounts_under_state_dir = true
[{runtime}.cni]
  {programs}
  conf_dir = "{networks}"
[{runtime}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[{runtime}.containerd.runtimes.runc.options]
  SystemdCgroup = false
  Root = "{state}/runc"
"""


def network_configuration(name: str, pods_cidr: str, addresses: Path) -> dict[str, object]:
    """The CNI configuration of a node.

    Plugin `ptp`, not `bridge`: every packet of a pod is routed, so that kube-proxy's rules see it.
    """
    return {
        "cniVersion": "1.0.0",
        "name": name,
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(addresses),
                    "ranges": [[{"subnet": pods_cidr}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True},
        ],
    }


def socket(state: Path) -> Path:
    """The socket of the containerd with this state folder."""
    return state / "containerd.sock"


def wait_for(state: Path, log: Path) -> None:
    """Wait until containerd answers."""
    host.wait_until(
        lambda: host.succeeds("ctr", "-a", socket(state), "version"),
        "answer of containerd",
        READY_SECONDS,
        log,
    )


def import_images(root: Path, state: Path, tars: list[Path]) -> None:
    """Import the images of tars that the node does not have yet, in place of older ones."""
    command = ("ctr", "-a", str(socket(state)), "-n", "k8s.io", "images")
    is_new = False
    for tar in tars:
        archive = read(tar)
        if not _has(root, archive):
            host.run(*command, "import", tar)
            is_new = True
            for reference, identity in archive.images.items():
                host.write_if_changed(_record(root, reference), identity)
    if is_new and (old := nameless(host.run(*command, "list"))):
        host.run(*command, "rm", *old)


def nameless(listing: str) -> list[str]:
    """Images in a listing of `ctr` that no name refers to any more, as after a newer import.

    The runtime keeps an entry by digest for each image that it ever had, and so its content.
    """
    entries = [line.split()[:3] for line in listing.splitlines()[1:]]
    named = {digest for name, _, digest in entries if not name.startswith("sha256:")}
    return [name for name, _, digest in entries if digest not in named]


def _has(root: Path, archive: Archive) -> bool:
    records = {_record(root, reference): image for reference, image in archive.images.items()}
    return all(file.exists() and file.read_text() == image for file, image in records.items())


def _record(root: Path, reference: str) -> Path:
    return root / IMPORTED / reference.replace("/", "_")


def remove_containers(state: Path) -> None:
    """Remove every container and its disk; the images stay.

    Raises:
        ClusterError: containerd does not answer, or refuses.
    """
    command = ("ctr", "-a", str(socket(state)), "-n", "k8s.io")
    names = host.run(*command, "containers", "list", "-q").split()
    if names:
        host.run(*command, "containers", "rm", *names)
