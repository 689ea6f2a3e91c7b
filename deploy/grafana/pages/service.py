"""The service: the objective, traffic, servers."""

from __future__ import annotations

from panels import WIDTH, Graph, Page, Query, Row, Unit, Value

from pages.promql import SERVICE, quantiles, rate

_GOOD, _FAIR, _BAD = "green", "orange", "red"

_OBJECTIVE = Row(
    title="Objective: 30 days",
    panels=(
        Value(
            title="Error budget left",
            description="Share of the failures that 30 days allow; below 0 the objective is missed.",
            expr="xuanzang:error_budget:remaining_ratio",
            unit=Unit.SHARE,
            steps=((None, _BAD), (0.0, _FAIR), (0.25, _GOOD)),
        ),
        Value(
            title="Availability",
            description="Share of the requests that count which were answered.",
            expr="1 - xuanzang:request_failures:ratio_30d",
            unit=Unit.SHARE,
        ),
        Value(
            title="Objective",
            description="Of availability, in deploy/prometheus/rules/objective.yml.",
            expr="xuanzang:availability:objective",
            unit=Unit.SHARE,
        ),
        Value(
            title="Servers",
            description="Servers that answer Prometheus.",
            expr='sum(up{job="xuanzang"})',
            steps=((None, _BAD), (1.0, _GOOD)),
        ),
        Value(
            title="Models",
            description="Models with a version that is ready.",
            expr="count(max by (model) (nmt_model_ready) == 1)",
            steps=((None, _BAD), (1.0, _GOOD)),
        ),
        Value(
            title="Alerts",
            description="Alerts that fire now; docs/alerts.md says what to do.",
            expr='count(ALERTS{alertname=~"Xuanzang.*", alertstate="firing"}) or vector(0)',
            steps=((None, _GOOD), (1.0, _BAD)),
        ),
        Graph(
            title="Error budget",
            description="What is left of the failures that 30 days allow.",
            queries=(Query("xuanzang:error_budget:remaining_ratio", "left"),),
            unit=Unit.SHARE,
            minimum=None,
            maximum=1,
        ),
        Graph(
            title="Burn rate",
            description="Share of failed requests by the share that is allowed. At 1 the budget lasts 30 days. "
            "14.4 (1 h) and 6 (6 h) are for the pager, 1 (3 d) is a warning.",
            queries=tuple(
                Query(f"xuanzang:request_failures:ratio_{window} / (1 - xuanzang:availability:objective)", window)
                for window in ("1h", "6h", "3d")
            ),
        ),
        Graph(
            title="p95 by length",
            description="Time from accepting a request to its answer. Source tokens: short up to 32, medium 128, "
            "long 512, document above.",
            queries=(Query("xuanzang:answer_duration_seconds:p95_5m", "{{length}}"),),
            unit=Unit.SECONDS,
        ),
        Graph(
            title="p95 by length, of its objective",
            description="Above 1 the objective of this length is missed.",
            queries=(
                Query(
                    "xuanzang:answer_duration_seconds:p95_5m / on (length) xuanzang:answer_duration_seconds:objective",
                    "{{length}}",
                ),
            ),
            unit=Unit.SHARE,
        ),
    ),
)

PAGE = Page(
    uid="xuanzang-service",
    title="xuanzang: service",
    description="Whether callers get their translations, and in time.",
    rows=(
        _OBJECTIVE,
        Row(
            title="Traffic",
            panels=(
                Graph(
                    title="Requests that count",
                    description="Answered and failed, as the objective counts them.",
                    queries=(
                        Query("xuanzang:requests_good:rate5m", "good"),
                        Query("xuanzang:requests_failed:rate5m", "failed"),
                    ),
                    unit=Unit.PER_SECOND,
                    stacked=True,
                ),
                Graph(
                    title="RPCs by status",
                    description="RPCs as gRPC ended them; a stream is one.",
                    queries=(Query(rate("grpc_server_handled_total", SERVICE, "grpc_code"), "{{grpc_code}}"),),
                    unit=Unit.PER_SECOND,
                    stacked=True,
                ),
                Graph(
                    title="Sentences",
                    description="Sentences translated, by server.",
                    queries=(Query(rate("nmt_sentences_total", by="instance"), "{{instance}}"),),
                    unit=Unit.PER_SECOND,
                    stacked=True,
                ),
                Graph(
                    title="Time of a request",
                    description="From accepting a request to its end.",
                    queries=quantiles("nmt_request_duration_seconds"),
                    unit=Unit.SECONDS,
                ),
            ),
        ),
        Row(
            title="Servers",
            panels=(
                Graph(
                    title="CPU",
                    description="Cores in use.",
                    queries=(Query(rate("process_cpu_seconds_total", 'job="xuanzang"', "instance"), "{{instance}}"),),
                    width=WIDTH // 3,
                ),
                Graph(
                    title="Memory, of its limit",
                    description="Resident memory by the limit of the container, or by the machine's memory.",
                    queries=(
                        Query(
                            'process_resident_memory_bytes{job="xuanzang"} / on (job, instance) nmt_memory_limit_bytes',
                            "{{instance}}",
                        ),
                    ),
                    unit=Unit.SHARE,
                    width=WIDTH // 3,
                    maximum=1,
                ),
                Graph(
                    title="Time since the start",
                    description="A fall to 0 is a restart.",
                    queries=(Query('time() - process_start_time_seconds{job="xuanzang"}', "{{instance}}"),),
                    unit=Unit.SECONDS,
                    width=WIDTH // 3,
                ),
            ),
        ),
    ),
)
