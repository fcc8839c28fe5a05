"""What a canary is judged by is what pods did first, and of older gates what there is."""

import pytest
import yaml
from tests.monitoring import promtool
from tests.monitoring.alert_cases import GATE, Series, counter

from tidegate.core.canary import questions

(REQUESTS,) = (
    question.promql
    for question in questions.of("chat", "qwen", ("new", "old"), 60)
    if question.family == "requests"
)


def ended(growth: float, revision: str, outcome: str, gate: str = GATE) -> Series:
    """Return requests that ended, so many a step."""
    of = f'class="other",reason="",outcome="{outcome}",revision="{revision}"'
    return counter("tidegate_gate_ended_total", f"{gate},{of}", growth)


def visits(growth: float, revision: str, outcome: str, attempt: str = "first") -> Series:
    """Return what pods made of requests, so many a step."""
    of = f'attempt="{attempt}",outcome="{outcome}",revision="{revision}"'
    return counter("tidegate_gate_visits_total", f"{GATE},{of}", growth)


MADE_GOOD = (
    visits(3, "new", "engine-failed")
    | visits(0, "new", "finished")
    | visits(60, "old", "finished")
    | visits(3, "old", "finished", attempt="again")
    | ended(63, "old", "finished")
    | ended(0, "new", "engine-failed")
    | ended(0, "new", "finished")
)
"""All that the new revision is asked fails, and the old one makes it good."""
OF_BEFORE = ended(5, "new", "finished") | ended(60, "old", "finished")
"""What gates of a version before tell."""
OTHER_GATE = GATE.replace("gate-1", "gate-2")
BESIDE = {
    series: values
    for of in (
        ended(5, "new", "finished", OTHER_GATE),
        ended(60, "old", "finished", OTHER_GATE),
        ended(1, "old", "client-gone", OTHER_GATE),
    )
    for series, values in of.items()
}


@pytest.mark.parametrize(
    ("series", "told"),
    [
        (MADE_GOOD, {("new", "engine-failed"): 3, ("new", "finished"): 0, ("old", "finished"): 60}),
        (OF_BEFORE, {("new", "finished"): 5, ("old", "finished"): 60}),
        (
            MADE_GOOD | BESIDE,
            {("new", "engine-failed"): 3, ("new", "finished"): 0, ("old", "finished"): 60},
        ),
        ({}, {}),
    ],
    ids=["made good elsewhere", "gates of before", "amid an upgrade", "no gate"],
)
def test_what_a_second_try_makes_good_counts_where_it_went_wrong(series, told, tmp_path):
    samples = [
        {"labels": f'{{revision="{revision}",outcome="{outcome}"}}', "value": 4 * count}
        for (revision, outcome), count in told.items()
    ]
    test = {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": REQUESTS, "eval_time": "10m", "exp_samples": samples}],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "15s", "tests": [test]}))

    done = promtool.run("test", "rules", file)

    assert done.returncode == 0, done.stdout + done.stderr
