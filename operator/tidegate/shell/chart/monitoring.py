"""The chart's files for Prometheus: rules, scrape configuration and PodMonitors.

They are plain files as well: whoever runs a Prometheus without its operator takes them as they are.
"""

from typing import Any

import yaml

from tidegate.core.monitoring import rules, scrape

FOLDER = "files/monitoring"
_RULES = (
    "# Recording rules and alerts: a rule file of Prometheus, and the spec of a PrometheusRule.\n"
)
_SCRAPE = (
    "# Who is scraped, and under which labels. Join it to your prometheus.yml; keep\n"
    "# scrape_interval equal to the operator's setting prometheus.scrapeInterval.\n"
)


def files() -> dict[str, str]:
    """Return the files by their path from the top of the chart."""
    return {
        f"{FOLDER}/rules.yaml": _RULES + _yaml(rules.document()),
        f"{FOLDER}/scrape-config.yaml": _SCRAPE + _yaml(scrape.scrape_config()),
        **{
            f"{FOLDER}/pod-monitors/{name}.yaml": _yaml(spec)
            for name, spec in scrape.pod_monitors().items()
        },
    }


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=10_000)
