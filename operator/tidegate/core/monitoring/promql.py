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


def held(selector: str) -> str:
    """Return a metric of deployments, by deployment alone, that bridges scrapes that were missed.

    What has not been told for up to five minutes holds on, unless the operator tells of the
    deployment and this no more.
    """
    told = operators("tidegate_deployment_condition")
    missed = f"last_over_time({selector}[5m]) unless on ({DEPLOYMENT}) {told}"
    return most(DEPLOYMENT, f"{selector} or {missed}")


def condition(matchers: str) -> str:
    """Return whether a deployment has a condition, for whatever reasons one after another."""
    return f"{held(operators('tidegate_deployment_condition', matchers))} == 1"


def by_reason(matchers: str) -> str:
    """Return what an alert's text says of a condition's reason now: ` for Reason`, or nothing."""
    return label_now(operators("tidegate_deployment_condition", matchers), "reason", " for {}")


def label_now(selector: str, label: str, text: str) -> str:
    """Return the template of a label that an alert of a deployment does not have itself.

    An alert with such a label would begin anew with each of its values.

    Args:
        selector: The series that has it.
        label: Its name.
        text: What is written, with `{}` for the value; nothing where there is no such series.
    """
    of_it = selector.removesuffix("}") + ",namespace=%q,llmdeployment=%q}"
    asked = f"printf `{of_it}` $labels.namespace $labels.llmdeployment | query"
    value = f'{{{{ . | first | label "{label}" }}}}'
    return f"{{{{ with {asked} }}}}{text.format(value)}{{{{ end }}}}"


def _matchers(job: str, more: str) -> str:
    return f'job="{job}"' + (f", {more}" if more else "")
