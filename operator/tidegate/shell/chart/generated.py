"""Every file of the chart that is made from code: its path and its text."""

from typing import Any

import yaml

from tidegate import __version__
from tidegate.api import crd
from tidegate.shell.chart import monitoring, page, schema, values_file
from tidegate.shell.chart.permissions import permissions

CHART = "charts/tidegate"
_HEADER = "# Generated from operator/tidegate/shell by scripts/generate; do not edit.\n"
_METADATA = f"metadata:\n  name: {crd.definition()['metadata']['name']}\n"
_KEEP = "  annotations:\n    helm.sh/resource-policy: keep\n"


def files() -> dict[str, str]:
    """Return the generated files by their path from the top of the repository."""
    return {
        f"{CHART}/Chart.yaml": _chart(),
        f"{CHART}/values.yaml": values_file.text(),
        f"{CHART}/values.schema.json": schema.text(),
        f"{CHART}/files/crds/{crd.FILE_NAME}": _kept(crd.generate()),
        **{
            f"{CHART}/files/permissions/{name}.yaml": _HEADER
            + yaml.safe_dump(rules, default_flow_style=None, width=100)
            for name, rules in permissions().items()
        },
        **{f"{CHART}/{name}": _HEADER + text for name, text in monitoring.files().items()},
        "docs/reference/chart.md": page.text(),
    }


def _chart() -> str:
    document: dict[str, Any] = {
        "apiVersion": "v2",
        "name": "tidegate",
        "description": "A Kubernetes operator that keeps vLLM inside its memory.",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.30.0-0",
        "keywords": ["llm", "vllm", "inference", "gpu", "operator"],
    }
    return _HEADER + yaml.safe_dump(document, sort_keys=False)


def _kept(text: str) -> str:
    """Have Helm leave the definition in place when the release goes."""
    before, found, after = text.partition(_METADATA)
    if not found:
        raise ValueError(f"the definition does not have the lines {_METADATA!r}")
    return f"{before}{_METADATA}{_KEEP}{after}"
