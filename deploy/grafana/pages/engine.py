"""The engine: queue, batches, times, memory."""

from __future__ import annotations

from panels import Graph, Page, Query, Row, Unit

from pages.promql import mean, quantiles, rate

_HERE = 'instance=~"$instance"'

PAGE = Page(
    uid="xuanzang-engine",
    title="xuanzang: engine",
    description="Queue, batches, decoder and memory of the servers.",
    variables=(("instance", 'label_values(up{job="xuanzang"}, instance)'),),
    rows=(
        Row(
            title="Queue",
            panels=(
                Graph(
                    title="Wait for a worker",
                    description="Time that sentences wait in the queue.",
                    queries=quantiles("nmt_queue_duration_seconds", _HERE),
                    unit=Unit.SECONDS,
                ),
                Graph(
                    title="Estimated wait",
                    description="Until the queue is empty; refused callers get it as RetryInfo.",
                    queries=(
                        Query(f"max by (instance) (nmt_estimated_queue_wait_seconds{{{_HERE}}})", "{{instance}}"),
                    ),
                    unit=Unit.SECONDS,
                ),
                Graph(
                    title="Requests",
                    description="With sentences in a batch, and with all sentences in the queue.",
                    queries=(
                        Query(f"sum(nmt_requests_running{{{_HERE}}})", "running"),
                        Query(f"sum(nmt_requests_waiting{{{_HERE}}})", "waiting"),
                    ),
                    stacked=True,
                ),
                Graph(
                    title="Tokens in the queue",
                    description="Source tokens, and expected target tokens times beam size.",
                    queries=(Query(f"sum by (instance) (nmt_queue_tokens{{{_HERE}}})", "{{instance}}"),),
                ),
            ),
        ),
        Row(
            title="Batches",
            panels=(
                Graph(
                    title="Sentences decoded together",
                    description="Mean over decoder steps.",
                    queries=(Query(mean("nmt_batch_rows", _HERE, "instance"), "{{instance}}"),),
                ),
                Graph(
                    title="Sentences that joined a running batch",
                    description="Share of all sentences.",
                    queries=(
                        Query(
                            f"{rate('nmt_rows_joined_total', _HERE, 'instance')}"
                            f" / {rate('nmt_sentences_total', _HERE, 'instance')}",
                            "{{instance}}",
                        ),
                    ),
                    unit=Unit.SHARE,
                ),
                Graph(
                    title="Workers",
                    description="Workers that were started, and those that have stopped, which is a fault.",
                    queries=(
                        Query(f"sum(nmt_workers{{{_HERE}}})", "started"),
                        Query(f"sum(nmt_workers_stopped{{{_HERE}}})", "stopped"),
                    ),
                ),
                Graph(
                    title="Decoder steps spent for nothing",
                    description="On sentences that were cancelled, ran out of time or began again, per second.",
                    queries=(Query(rate("nmt_wasted_decode_tokens_total", _HERE, "instance"), "{{instance}}"),),
                    unit=Unit.PER_SECOND,
                ),
            ),
        ),
        Row(
            title="Time",
            panels=(
                Graph(
                    title="Where the time goes",
                    description="Means: of a request (tokenise), of newcomers (encode), of a sentence (others).",
                    queries=tuple(
                        Query(
                            mean(f"nmt_{part}_duration_seconds", _HERE),
                            part,
                        )
                        for part in ("tokenize", "queue", "encode", "decode", "detokenize")
                    ),
                    unit=Unit.SECONDS,
                ),
                Graph(
                    title="Decoder step",
                    description="One step of a batch, search included.",
                    queries=quantiles("nmt_decode_step_duration_seconds", _HERE),
                    unit=Unit.SECONDS,
                ),
            ),
        ),
        Row(
            title="Memory",
            panels=(
                Graph(
                    title="Resident memory",
                    description="Weights that are mapped count once in each process that has read them.",
                    queries=(
                        Query(f'process_resident_memory_bytes{{job="xuanzang", {_HERE}}}', "{{instance}}"),
                        Query(f"nmt_memory_limit_bytes{{{_HERE}}}", "limit of {{instance}}"),
                    ),
                    unit=Unit.BYTES,
                ),
                Graph(
                    title="Keys and values",
                    description="Memory held by the caches of all workers, what their sentences need at most, and its "
                    "limit.",
                    queries=(
                        Query(f"sum by (instance) (nmt_cache_bytes{{{_HERE}}})", "{{instance}} held"),
                        Query(f"sum by (instance) (nmt_cache_reserved_bytes{{{_HERE}}})", "{{instance}} reserved"),
                        Query(f"nmt_cache_limit_bytes{{{_HERE}}}", "{{instance}} limit"),
                    ),
                    unit=Unit.BYTES,
                ),
                Graph(
                    title="Limits of models",
                    description="Workers that decode with a model, of those that may; only of models with a limit.",
                    queries=(
                        Query(
                            f"nmt_model_workers{{{_HERE}}} / nmt_model_workers_limit > 0",
                            "{{model}}/{{version}}",
                        ),
                    ),
                    unit=Unit.SHARE,
                ),
            ),
        ),
    ),
)
