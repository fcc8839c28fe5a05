"""Every file of the repository that is made from the API: its path and its text."""

from tidegate.api import crd, reference


def files() -> dict[str, str]:
    """Return the generated files by their path from the top of the repository."""
    return {
        f"crds/{crd.FILE_NAME}": crd.generate(),
        "docs/reference/llmdeployment.md": reference.field_page(),
        "docs/reference/reasons.md": reference.reason_page(),
    }
