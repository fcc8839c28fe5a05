"""The container image of Prometheus, from the programs that the local cluster has built."""

from pathlib import Path

from e2e.cluster import binaries, images
from e2e.cluster.settings import Settings

REFERENCE = "localhost/tidegate/prometheus:dev"
DOCKERFILE = Path(__file__).with_name("images") / "prometheus" / "Dockerfile"


def prometheus_image() -> Path:
    """Build the image, if anything in it changed, and return its tar."""
    programs = binaries.folder(Settings.from_environment(), "prometheus")
    return images.build_image(REFERENCE, programs, DOCKERFILE, include=("prometheus", "promtool"))


if __name__ == "__main__":
    print(prometheus_image())
