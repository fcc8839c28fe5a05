"""Programs built from Go modules, with versions pinned by `bins/<name>/go.mod` and `go.sum`.

They are kept in the cache, in a folder named after everything that decides what they are, so a
changed pin builds anew and an old checkout finds its own again.
"""

import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from . import host
from .errors import ClusterError
from .settings import Settings

MODULES = Path(__file__).with_name("bins")
BUILD_ENVIRONMENT = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
BUILD_FLAGS = ("-trimpath", "-buildvcs=false")


@dataclass(frozen=True)
class Recipe:
    """How to build the programs of one module.

    Attributes:
        packages: Main packages; `.` is the folder's own, and its program has the recipe's name.
        cold_minutes: How long it takes on two cores with nothing cached, for the progress line.
        stamps: Linker variables; `{version}`, `{major}`, `{minor}` are those of `module`.
        module: The module whose version is stamped.
        tags: Build tags.
    """

    packages: tuple[str, ...]
    cold_minutes: int
    stamps: tuple[str, ...] = ()
    module: str = ""
    tags: tuple[str, ...] = ()

    def programs(self, name: str) -> dict[str, str]:
        """Package of each program, by the program's name."""
        return {
            name if package == "." else package.rpartition("/")[2]: package
            for package in self.packages
        }


KUBE_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)
RECIPES = {
    "kube": Recipe(
        packages=tuple(f"k8s.io/kubernetes/cmd/{program}" for program in KUBE_PROGRAMS),
        cold_minutes=10,
        stamps=(
            "k8s.io/component-base/version.gitVersion={version}",
            "k8s.io/component-base/version.gitMajor={major}",
            "k8s.io/component-base/version.gitMinor={minor}",
        ),
        module="k8s.io/kubernetes",
    ),
    "etcd": Recipe(packages=(".",), cold_minutes=1),
    "coredns": Recipe(packages=(".",), cold_minutes=2),
    "helm": Recipe(
        packages=("helm.sh/helm/v3/cmd/helm",),
        cold_minutes=3,
        stamps=("helm.sh/helm/v3/internal/version.version={version}",),
        module="helm.sh/helm/v3",
    ),
    "kwok": Recipe(packages=("sigs.k8s.io/kwok/cmd/kwok",), cold_minutes=5),
    "prometheus": Recipe(
        packages=(
            "github.com/prometheus/prometheus/cmd/prometheus",
            "github.com/prometheus/prometheus/cmd/promtool",
        ),
        cold_minutes=15,
        tags=("remove_all_sd", "enable_kubernetes_sd"),  # without the clouds' SDKs
    ),
}
REQUIRED = ("kube", "etcd", "coredns")
"""What a cluster can't run without."""


def folder(settings: Settings, name: str) -> Path:
    """Where the programs of a recipe are kept."""
    return settings.cache / "bin" / f"{name}-{_key(name)}"


def search_path(settings: Settings) -> str:
    """A PATH with every program of the recipes before the machine's own."""
    ours = [str(folder(settings, name)) for name in RECIPES]
    return ":".join([*ours, os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def build(settings: Settings, names: tuple[str, ...] = REQUIRED) -> None:
    """Build what is missing; an interrupted build goes on with the program it was at.

    Raises:
        ClusterError: A name is not in `RECIPES`, Go is missing, or it failed.
    """
    for name in names:
        if name not in RECIPES:
            raise ClusterError(f"no recipe for {name!r}; there are: {', '.join(RECIPES)}")
    for name in names:
        target = folder(settings, name)
        if not _missing(name, target):
            continue
        with host.locked(target.with_name(f"{name}.lock")):
            _build(name, target)


def _missing(name: str, target: Path) -> dict[str, str]:
    programs = RECIPES[name].programs(name)
    return {
        program: package for program, package in programs.items() if not (target / program).exists()
    }


def _build(name: str, target: Path) -> None:
    missing = _missing(name, target)
    if not missing:
        return
    if not shutil.which("go"):
        needed = _go_version(name)
        raise ClusterError(
            f"Go {needed} or later is needed to build {name}: install it on the PATH"
        )
    minutes = RECIPES[name].cold_minutes
    host.say(
        f"building {name} ({', '.join(missing)}): about {minutes} min the first time, "
        "less with Go's build cache; kept for later"
    )
    target.mkdir(parents=True, exist_ok=True)
    for count, (program, package) in enumerate(missing.items(), 1):
        started = time.monotonic()
        new = target / f".{program}.new"  # renamed when it is complete
        host.run(
            "go",
            "build",
            *build_flags(name),
            "-o",
            new,
            package,
            environ=BUILD_ENVIRONMENT,
            directory=MODULES / name,
        )
        new.replace(target / program)
        seconds = time.monotonic() - started
        host.say(f"built {program} in {seconds:.0f} s ({count} of {len(missing)})")


def build_flags(name: str) -> list[str]:
    """The flags of `go build` that decide what comes out."""
    recipe = RECIPES[name]
    linker = ["-s", "-w"]
    if recipe.module:
        version = _module_version(name, recipe.module)
        major, minor = version.lstrip("v").split(".")[:2]
        for stamp in recipe.stamps:
            linker += ["-X", stamp.format(version=version, major=major, minor=minor)]
    return [*BUILD_FLAGS, f"-tags={','.join(recipe.tags)}", f"-ldflags={' '.join(linker)}"]


def _key(name: str) -> str:
    """A hash of the module's files and the flags."""
    digest = hashlib.sha256(json.dumps([BUILD_ENVIRONMENT, build_flags(name)]).encode())
    for file in sorted((MODULES / name).iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _module_version(name: str, module: str) -> str:
    for line in (MODULES / name / "go.mod").read_text().splitlines():
        words = line.removeprefix("require").split()
        if words[:1] == [module]:
            return words[1]
    raise ClusterError(f"bins/{name}/go.mod does not require {module}")


def _go_version(name: str) -> str:
    for line in (MODULES / name / "go.mod").read_text().splitlines():
        if line.startswith("go "):
            return line.split()[1]
    raise ClusterError(f"bins/{name}/go.mod has no go line")
