"""The dashboards as Grafana reads them, made by Grafana's own library from the values in core."""

import itertools

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, VisibilityMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    VariableRefresh,
    VariableSort,
)

from tidegate.core.monitoring.board import Board, Panel, Row
from tidegate.core.monitoring.boards import boards

FOLDER = "charts/tidegate/files/monitoring/dashboards"
COLUMNS = 24
HEIGHT = 8
SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
_CHOICES = {
    "namespace": "label_values(tidegate_gate_gates, namespace)",
    "llmdeployment": 'label_values(tidegate_gate_gates{namespace=~"$namespace"}, llmdeployment)',
    "pool": (
        'label_values(tidegate:kv_usage:max{namespace=~"$namespace",'
        'llmdeployment=~"$llmdeployment"}, pool)'
    ),
}


def files() -> dict[str, str]:
    """Return the files by their path from the top of the repository."""
    return {f"{FOLDER}/{board.name}.json": text(board) for board in boards()}


def text(board: Board) -> str:
    """Return a dashboard in Grafana's JSON."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(f"tidegate-{board.name}")
        .description(board.about)
        .tags(["tidegate"])
        .timezone("utc")
        .time("now-1h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .editable()
        .link(_links())
        .with_variable(
            dashboard.DatasourceVariable("source").label("Prometheus").type("prometheus")
        )
    )
    for label in board.variables:
        made.with_variable(_variable(label))
    numbers = itertools.count(1)
    for row in board.rows:
        made.with_row(dashboard.Row(row.title).id(next(numbers)))
        for panel in _placed(row):
            made.with_panel(panel.id(next(numbers)))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


def _links() -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink("Tidegate")
        .type(DashboardLinkType.DASHBOARDS)
        .tags(["tidegate"])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )


def _variable(label: str) -> dashboard.QueryVariable:
    """A label to choose; of pools, all are shown at first."""
    made = (
        dashboard.QueryVariable(label)
        .label(label)
        .query(_CHOICES[label])
        .datasource(SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    return made.multi(True).include_all(True).all_value(".+") if label == "pool" else made


def _placed(row: Row) -> list[timeseries.Panel | stat.Panel]:
    """A row's panels, as wide as it lets them be; one for each pool takes the whole width."""
    alone = [panel for panel in row.panels if not panel.by_pool]
    width = COLUMNS // max(1, len(alone))
    return [_panel(panel).span(COLUMNS if panel.by_pool else width) for panel in row.panels]


def _panel(panel: Panel) -> timeseries.Panel | stat.Panel:
    made = stat.Panel() if panel.is_number else _graph()
    made.title(panel.title).description(panel.about).datasource(SOURCE).height(HEIGHT)
    made.unit(panel.unit).min(0)
    if panel.top is not None:
        made.max(panel.top)
    if panel.by_pool:
        made.repeat("pool").repeat_direction("h")
    for number, query in enumerate(panel.queries):
        made.with_target(
            prometheus.Dataquery()
            .ref_id(chr(ord("A") + number))
            .expr(query.promql)
            .legend_format(query.legend)
            .datasource(SOURCE)
        )
    return made


def _graph() -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).show_legend(True)
    return timeseries.Panel().legend(legend).show_points(VisibilityMode.NEVER).fill_opacity(8)
