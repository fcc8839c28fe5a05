"""Pieces of queries: selectors on our own scrape jobs, and sums by our own labels."""

from tidegate.core.overload.queries import ENGINES_JOB, GATES_JOB
from tidegate.facts import engines

OPERATOR_JOB = "tidegate-operator"
DEPLOYMENT = "namespace, llmdeployment"
POOL = f"{DEPLOYMENT}, pool"
POD = f"{POOL}, pod"
NAME = "{{ $labels.namespace }}/{{ $labels.llmdeployment }}"
"""How an alert's text names a deployment."""


def gates(metric: str, matchers: str = "") -> str:
    """Return the selector of a metric of the gates."""
    return f"{metric}{{{_matchers(GATES_JOB, matchers)}}}"


def operators(metric: str, matchers: str = "") -> str:
    """Return the selector of a metric of the operator."""
    return f"{metric}{{{_matchers(OPERATOR_JOB, matchers)}}}"


def engine(metric: str, window: str = "", function: str = "", matchers: str = "") -> str:
    """Return a metric of the engines under every name that their versions give it.

    Args:
        metric: Its present name.
        window: Window of a range, as `5m`; an instant selector when empty.
        function: What is applied to each name, as `rate`.
        matchers: More matchers.
    """
    own = _matchers(ENGINES_JOB, matchers)
    selectors = [f"{name}{{{own}}}" for name in engines.metric_generations(metric)]
    if window:
        selectors = [f"{function}({selector}[{window}])" for selector in selectors]
    return " or ".join(selectors)


def total(by: str, expression: str) -> str:
    """Return a sum by labels."""
    return f"sum by ({by}) ({expression})"


def most(by: str, expression: str) -> str:
    """Return a maximum by labels."""
    return f"max by ({by}) ({expression})"


def _matchers(job: str, more: str) -> str:
    return f'job="{job}"' + (f", {more}" if more else "")
