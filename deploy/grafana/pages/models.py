"""The models: what each is asked for, and how its translations end."""

from __future__ import annotations

from panels import WIDTH, Graph, Page, Query, Row, Unit

from pages.promql import quantile, quantiles, rate

_MODEL = 'model=~"$model"'

PAGE = Page(
    uid="xuanzang-models",
    title="xuanzang: models",
    description="What each model is asked for, and how its translations end.",
    variables=(("model", "label_values(nmt_model_ready, model)"),),
    rows=(
        Row(
            title="Served",
            panels=(
                Graph(
                    title="Servers that have it ready",
                    description="By model and version.",
                    queries=(Query(f"sum by (model, version) (nmt_model_ready{{{_MODEL}}})", "{{model}}/{{version}}"),),
                    width=WIDTH // 3,
                ),
                Graph(
                    title="Refused bundles",
                    description="Found at the start and not served; the log has the reasons.",
                    queries=(Query("nmt_bundles_refused", "{{instance}}"),),
                    width=WIDTH // 3,
                ),
                Graph(
                    title="Loading and warming up",
                    description="At the last start.",
                    queries=(
                        Query(f"max by (model) (nmt_model_load_duration_seconds{{{_MODEL}}})", "load {{model}}"),
                        Query(f"max by (model) (nmt_warmup_duration_seconds{{{_MODEL}}})", "warm up {{model}}"),
                    ),
                    unit=Unit.SECONDS,
                    width=WIDTH // 3,
                ),
            ),
        ),
        Row(
            title="On demand",
            panels=(
                Graph(
                    title="Models in memory, failing",
                    description="With --model-memory or --idle-minutes; a failing model could not be loaded by its "
                    "last request.",
                    queries=(
                        Query(f"sum by (instance) (nmt_model_loaded{{{_MODEL}}})", "in memory {{instance}}"),
                        Query(f"sum by (instance) (nmt_model_failing{{{_MODEL}}})", "failing {{instance}}"),
                    ),
                    width=WIDTH // 3,
                ),
                Graph(
                    title="Memory, of its limit",
                    description="Memory of the loaded models, as estimated, by --model-memory.",
                    queries=(
                        Query(
                            "sum by (instance) (nmt_model_memory_bytes)"
                            " / sum by (instance) (nmt_model_memory_limit_bytes)",
                            "{{instance}}",
                        ),
                    ),
                    unit=Unit.SHARE,
                    width=WIDTH // 3,
                    maximum=1,
                ),
                Graph(
                    title="Loads and evictions",
                    description="Loads by requests, and models that left for another (memory) or unused (idle).",
                    queries=(
                        Query(rate("nmt_model_loads_total", by="result"), "load {{result}}"),
                        Query(rate("nmt_model_evictions_total", by="reason"), "eviction {{reason}}"),
                    ),
                    unit=Unit.PER_SECOND,
                    width=WIDTH // 3,
                ),
                Graph(
                    title="Time to load a model",
                    description="From room for it in memory to its first translation.",
                    queries=quantiles("nmt_model_load_seconds"),
                    unit=Unit.SECONDS,
                    width=WIDTH // 3,
                ),
                Graph(
                    title="Wait of a request for its model",
                    description="Of the requests that waited: for room in memory, for other loads, and for the load.",
                    queries=quantiles("nmt_model_load_wait_seconds"),
                    unit=Unit.SECONDS,
                    width=WIDTH // 3,
                ),
                Graph(
                    title="Requests that wait for their model",
                    description="Now; and the share of all requests that waited.",
                    queries=(
                        Query("sum by (instance) (nmt_model_load_waiting)", "{{instance}}"),
                        Query(
                            f"{rate('nmt_model_load_wait_seconds_count')} / {rate('nmt_requests_total')}",
                            "share that waited",
                        ),
                    ),
                    width=WIDTH // 3,
                ),
            ),
        ),
        Row(
            title="Promotion",
            panels=(
                Graph(
                    title="Live versions",
                    description="Servers on which a version answers the requests that name none.",
                    queries=(
                        Query(f"sum by (model, version) (nmt_model_live{{{_MODEL}}}) > 0", "{{model}}/{{version}}"),
                    ),
                ),
                Graph(
                    title="Versions promoted, forced, refused, rolled back",
                    description="Within an hour.",
                    queries=(Query("sum by (result) (increase(nmt_promotions_total[1h]))", "{{result}}"),),
                ),
            ),
        ),
        Row(
            title="Work",
            panels=(
                Graph(
                    title="Sentences",
                    description="Sentences translated.",
                    queries=(Query(rate("nmt_sentences_total", _MODEL, "model, version"), "{{model}}/{{version}}"),),
                    unit=Unit.PER_SECOND,
                ),
                Graph(
                    title="Tokens",
                    description="Encoded source tokens, and target tokens of the best hypotheses.",
                    queries=(
                        Query(rate("nmt_source_tokens_total", _MODEL, "model"), "source {{model}}"),
                        Query(rate("nmt_target_tokens_total", _MODEL, "model"), "target {{model}}"),
                    ),
                    unit=Unit.PER_SECOND,
                ),
                Graph(
                    title="p95 of a request",
                    description="From accepting a request to its end.",
                    queries=(Query(quantile(0.95, "nmt_request_duration_seconds", _MODEL, "model"), "{{model}}"),),
                    unit=Unit.SECONDS,
                ),
                Graph(
                    title="Target tokens per source token",
                    description="A change means other texts, or a model that says too little or too much.",
                    queries=(
                        Query(
                            f"{rate('nmt_target_tokens_total', _MODEL, 'model')}"
                            f" / {rate('nmt_source_tokens_total', _MODEL, 'model')}",
                            "{{model}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            title="Ends",
            panels=(
                Graph(
                    title="How sentences left their batch",
                    description="eos: at their end. length: cut. loop: a repetition, translated again.",
                    queries=(Query(rate("nmt_rows_retired_total", _MODEL, "reason"), "{{reason}}"),),
                    unit=Unit.PER_SECOND,
                    stacked=True,
                ),
                Graph(
                    title="Repetitions",
                    description="Share of the sentences whose first translation repeated itself.",
                    queries=(
                        Query(
                            f"""{rate("nmt_rows_retired_total", f'{_MODEL}, reason="loop"', "model")}"""
                            f" / {rate('nmt_sentences_total', _MODEL, 'model')}",
                            "{{model}}",
                        ),
                    ),
                    unit=Unit.SHARE,
                ),
            ),
        ),
    ),
)
