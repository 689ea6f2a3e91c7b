"""The models: what each is asked for, and how its translations end."""

from __future__ import annotations

from panels import WIDTH, Graph, Page, Query, Row, Unit

from pages.promql import quantile, rate

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
            title="Promotion",
            panels=(
                Graph(
                    title="Share of the requests that name no version",
                    description="live and canary answer them; a shadow translates its share of them unseen.",
                    queries=(
                        Query(
                            f"avg by (model, version, role) (nmt_traffic_share{{{_MODEL}}}) > 0",
                            "{{role}} {{model}}/{{version}}",
                        ),
                    ),
                    unit=Unit.SHARE,
                ),
                Graph(
                    title="Versions promoted, forced, refused, rolled back",
                    description="Within an hour.",
                    queries=(Query("sum by (result) (increase(nmt_promotions_total[1h]))", "{{result}}"),),
                ),
                Graph(
                    title="chrF of a shadow, median",
                    description="Its translations against those of the live version; 100 for equal ones.",
                    queries=(
                        Query(
                            quantile(0.5, "nmt_shadow_chrf", _MODEL, "model, live, shadow"),
                            "{{model}}/{{shadow}} against {{live}}",
                        ),
                    ),
                ),
                Graph(
                    title="Texts that a shadow translates as the live version does",
                    description="Share of the texts that both translated.",
                    queries=(
                        Query(
                            f"{rate('nmt_shadow_exact_matches_total', _MODEL, 'model, live, shadow')}"
                            f" / {rate('nmt_shadow_texts_total', _MODEL, 'model, live, shadow')}",
                            "{{model}}/{{shadow}} against {{live}}",
                        ),
                    ),
                    unit=Unit.SHARE,
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
