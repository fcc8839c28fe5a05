"""What the API server writes down of its callers: who did what to which object, and no contents.

Only accounts outside of `kube-system` are written down: the cluster's own controllers say nothing
of Tidegate, and would fill the disk.
"""

import json
from pathlib import Path

from .settings import Settings

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}
LOG_MIB = 100
"""The log is begun anew at this size; one older file is kept."""


def log(settings: Settings) -> Path:
    """Return where the log is, a JSON object on each line."""
    return settings.logs / "audit.jsonl"


def policy_file(settings: Settings) -> Path:
    """Return where the policy is."""
    return settings.configuration / "audit-policy.json"


def policy() -> str:
    """Return the policy as the API server reads it: JSON is YAML, too."""
    return json.dumps(POLICY, indent=2) + "\n"


def arguments(settings: Settings) -> tuple[str, ...]:
    """Return the API server's flags."""
    return (
        f"--audit-policy-file={policy_file(settings)}",
        f"--audit-log-path={log(settings)}",
        f"--audit-log-maxsize={LOG_MIB}",
        "--audit-log-maxbackup=1",
    )
