"""Panels, variables and dashboards as data, and how Grafana's SDK makes JSON of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count

from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import BigValueGraphMode, LegendDisplayMode, LegendPlacement, StackingMode
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    Panel,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

TAG = "xuanzang"
WIDTH = 24
_HEIGHT, _STAT_HEIGHT = 8, 4


class Unit(Enum):
    """Units by the names that Grafana has for them."""

    NONE = "short"
    SHARE = "percentunit"
    SECONDS = "s"
    BYTES = "bytes"
    PER_SECOND = "ops"


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, and the name of its series, such as "{{model}}"."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Series over time."""

    title: str
    description: str
    queries: Sequence[Query]
    unit: Unit = Unit.NONE
    width: int = WIDTH // 2
    stacked: bool = False
    minimum: float | None = 0
    """Lower end of the axis; None to follow the values."""
    maximum: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The last value of one expression."""

    title: str
    description: str
    expr: str
    unit: Unit = Unit.NONE
    width: int = WIDTH // 6
    steps: Sequence[tuple[float | None, str]] = ((None, "text"),)
    """Colours, each from a value on; the first is from None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A heading, and the panels below it."""

    title: str
    panels: Sequence[Graph | Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One dashboard."""

    uid: str
    title: str
    description: str
    rows: Sequence[Row]
    variables: Sequence[tuple[str, str]] = ()
    """Names of variables, each with the query for its values; several or all of them may be chosen."""


def dashboard(page: Page) -> Dashboard:
    """Make the dashboard of a page.

    Returns:
        Model of the SDK, to be encoded as JSON.
    """
    built = (
        builders.Dashboard(page.title)
        .uid(page.uid)
        .description(page.description)
        .tags([TAG])
        .time("now-3h", "now")
        .timezone("browser")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(_link_to_the_others())
        .with_variable(builders.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for name, query in page.variables:
        built.with_variable(_variable(name, query))
    identities = count(1)
    for row in page.rows:
        built.with_row(builders.Row(row.title).id(next(identities)))
        for panel in row.panels:
            identity = next(identities)
            built.with_panel(_graph(panel, identity) if isinstance(panel, Graph) else _value(panel, identity))
    return built.build()


def _link_to_the_others() -> builders.DashboardLink:
    link = builders.DashboardLink("xuanzang").type(DashboardLinkType.DASHBOARDS)
    return link.tags([TAG]).as_dropdown(True).keep_time(True)


def _variable(name: str, query: str) -> builders.QueryVariable:
    everything = VariableOption(selected=True, text=["All"], value=["$__all"])
    variable = builders.QueryVariable(name).datasource(_source()).query(query).current(everything)
    variable.multi(True).include_all(True).all_format("regex").sort(VariableSort.ALPHABETICAL_ASC)
    return variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)


def _source() -> DataSourceRef:
    return DataSourceRef(type_val="prometheus", uid="${datasource}")


def _graph(graph: Graph, identity: int) -> Builder[Panel]:
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    panel = timeseries.Panel().id(identity).title(graph.title).description(graph.description).datasource(_source())
    panel.unit(graph.unit.value).height(_HEIGHT).span(graph.width)
    panel.legend(legend.show_legend(True)).line_width(1).fill_opacity(10)
    if graph.minimum is not None:
        panel.min(graph.minimum)
    if graph.maximum is not None:
        panel.max(graph.maximum)
    if graph.stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for letter, query in zip("ABCDEFGH", graph.queries, strict=False):
        panel.with_target(prometheus.Dataquery().ref_id(letter).expr(query.expr).legend_format(query.legend).range())
    return panel


def _value(value: Value, identity: int) -> Builder[Panel]:
    steps = [Threshold(value=start, color=color) for start, color in value.steps]
    panel = stat.Panel().id(identity).title(value.title).description(value.description).datasource(_source())
    panel.unit(value.unit.value).height(_STAT_HEIGHT).span(value.width).graph_mode(BigValueGraphMode.NONE)
    panel.thresholds(builders.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
    return panel.with_target(prometheus.Dataquery().ref_id("A").expr(value.expr).instant())
