"""Callers: their requests, and the answers."""

from __future__ import annotations

from panels import WIDTH, Graph, Page, Query, Row, Unit

from pages.promql import SERVICE, mean, quantile, rate

PAGE = Page(
    uid="xuanzang-callers",
    title="xuanzang: callers",
    description="What callers ask for and what they are told. Of who they are only the ids of API keys are labels.",
    rows=(
        Row(
            title="RPCs",
            panels=(
                Graph(
                    title="By method",
                    description="RPCs started.",
                    queries=(Query(rate("grpc_server_started_total", SERVICE, "grpc_method"), "{{grpc_method}}"),),
                    unit=Unit.PER_SECOND,
                    stacked=True,
                ),
                Graph(
                    title="In progress",
                    description="Started and not ended, by method.",
                    queries=(
                        Query(
                            f"sum by (grpc_method) (grpc_server_started_total{{{SERVICE}}})"
                            f" - sum by (grpc_method) (grpc_server_handled_total{{{SERVICE}}})",
                            "{{grpc_method}}",
                        ),
                    ),
                ),
                Graph(
                    title="Not OK, by status",
                    description="RPCs that ended with another status than OK.",
                    queries=(
                        Query(
                            rate("grpc_server_handled_total", f'{SERVICE}, grpc_code!="OK"', "grpc_code"),
                            "{{grpc_code}}",
                        ),
                    ),
                    unit=Unit.PER_SECOND,
                ),
                Graph(
                    title="Requests without a translation, by reason",
                    description="queue_timeout: the deadline passed in the queue. deadline: it passed afterwards.",
                    queries=(Query(rate("nmt_request_failures_total", by="reason"), "{{reason}}"),),
                    unit=Unit.PER_SECOND,
                ),
            ),
        ),
        Row(
            title="Requests",
            panels=(
                Graph(
                    title="By length",
                    description="Answered requests by source tokens: up to 32, 128, 512, and above.",
                    queries=(Query(rate("nmt_answer_duration_seconds_count", by="length"), "{{length}}"),),
                    unit=Unit.PER_SECOND,
                    stacked=True,
                ),
                Graph(
                    title="Source tokens of a request",
                    description="Quantiles within the bounds of the histogram, which are powers of 2.",
                    queries=(
                        Query(quantile(0.5, "nmt_request_source_tokens"), "p50"),
                        Query(quantile(0.95, "nmt_request_source_tokens"), "p95"),
                    ),
                ),
                Graph(
                    title="Sentences, beam size and hypotheses",
                    description="Means over requests.",
                    queries=tuple(
                        Query(
                            mean(f"nmt_request_{what}"),
                            what,
                        )
                        for what in ("sentences", "beam_size", "num_hypotheses")
                    ),
                ),
                Graph(
                    title="First text of progressive requests",
                    description="From accepting a request to the first part of its text.",
                    queries=(
                        Query(quantile(0.5, "nmt_first_text_duration_seconds"), "p50"),
                        Query(quantile(0.95, "nmt_first_text_duration_seconds"), "p95"),
                    ),
                    unit=Unit.SECONDS,
                ),
            ),
        ),
        Row(
            title="API keys and certificates",
            panels=(
                Graph(
                    title="Requests by key",
                    description="Keys by their ids.",
                    queries=(Query(rate("nmt_key_requests_total", by="key"), "{{key}}"),),
                    unit=Unit.PER_SECOND,
                    width=WIDTH // 4,
                    stacked=True,
                ),
                Graph(
                    title="Refusals by quotas",
                    description="What the key does not allow: requests, characters, sentences, model.",
                    queries=(Query(rate("nmt_key_refusals_total", by="key, reason"), "{{key}} {{reason}}"),),
                    unit=Unit.PER_SECOND,
                    width=WIDTH // 4,
                ),
                Graph(
                    title="Without a valid key",
                    description="RPCs and texts, by reason.",
                    queries=(Query(rate("nmt_access_refusals_total", by="reason"), "{{reason}}"),),
                    unit=Unit.PER_SECOND,
                    width=WIDTH // 4,
                ),
                Graph(
                    title="Life of certificates",
                    description="Time until the server's own, or the first authority of clients, expires.",
                    queries=(
                        Query(
                            "min by (certificate) (nmt_tls_certificate_expiry_timestamp_seconds) - time()",
                            "{{certificate}}",
                        ),
                    ),
                    unit=Unit.SECONDS,
                    width=WIDTH // 4,
                ),
            ),
        ),
    ),
)
