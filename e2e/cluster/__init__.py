"""A real Kubernetes cluster on one Linux machine, without a container engine or an image registry.

Standard library only: it runs before the project's virtual environment exists.
"""

from .cluster import Cluster
from .errors import ClusterError
from .settings import Settings

__all__ = ["Cluster", "ClusterError", "Settings"]
