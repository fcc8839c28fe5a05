"""Readings of a gate, as the tests want them."""

from tidegate.cli.cluster import gate_metrics
from tidegate.core.levers.samples import Reading


def reading(text, at=0.0):
    """Return a reading of an exposition."""
    return Reading(at, gate_metrics.parse(text))


def ended(count, number=5, outcome="finished", reason=""):
    """Return a line of the counter of requests that are over."""
    labels = f'class="{number}",outcome="{outcome}",reason="{reason}"'
    return f'tidegate_gate_requests_total{{model="m",surface="chat",{labels}}} {count}\n'


def admitted(count):
    """Return a line of the counter of requests that got a seat."""
    return f'tidegate_gate_admitted_total{{model="m"}} {count}\n'
