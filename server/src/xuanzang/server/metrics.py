"""The metrics of the server: names, help texts, buckets and labels, each written once.

Units are base units (seconds, tokens), clocks are monotonic, and label values come from bounded sets: model names and
versions, RPC names and status codes, fixed reasons. Text and language of users are never labels. Series of a model
exist at 0 from the moment it is registered, so that a rate over them is never missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version as distribution_version
from typing import Annotated

from prometheus_client import CollectorRegistry
from prometheus_client import Counter as LibraryCounter
from prometheus_client import Gauge as LibraryGauge
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from xuanzang.server.metric_series import Counter, Families, Family, Gauge, Histogram, Metric

FINISH_REASONS = ("eos", "length", "deadline", "cancelled", "error")
"""How a request ended; "length" if any of its texts reached `max_target_length`, else "eos" if all were translated."""

FAILURE_REASONS = ("overloaded", "draining", "queue_timeout", "deadline", "cancelled", "invalid", "backend")
"""Why a request has no translation. "queue_timeout": its deadline passed while it waited; "deadline": while it ran."""

RETIRE_REASONS = ("eos", "length", "loop", "terms", "deadline", "cancelled", "error")
"""Why a sentence left its batch. It is translated again if its translation was a repetition ("loop") or lacked a
term ("terms")."""

LENGTH_CLASSES = {"short": 32, "medium": 128, "long": 512, "document": math.inf}
"""Classes of requests by their source tokens, with the maximum of each. The objective for p95 has a row for each."""

TERM_OUTCOMES = ("honoured", "not_writable", "no_room", "not_reached")
"""What became of the terms that a text has."""

QUALITY_FLAGS = (
    *("repetition", "length_ratio", "untranslated", "truncated", "low_coverage", "number_lost", "name_lost"),
    *("wrong_language", "cut", "source_language"),
)
"""What is suspicious about translations, as in `xuanzang.server.engine.types.QualityFlag`."""

MODEL_CHANGES = ("loaded", "unloaded", "refused")
"""What became of versions of models, at the start and while the server runs."""

ANSWERS = ("kept", "joined", "searched")
"""Where the answer of a sentence came from; "joined": from a search that was in flight."""

UNSERVED_TEXTS = ("refused", "passed")
"""What became of texts in languages that no model translates; "passed": their callers get them back as they are."""

TIERS = ("single", "light", "medium", "heavy")
"""Tiers of the scheduler by their numbers."""
PROMOTIONS = ("promoted", "forced", "refused", "rolled_back")
"""What became of versions that should go live; "forced": in spite of the gate."""

EXPLANATIONS = ("answered", "refused", "failed")
"""What became of requests for an explanation; "refused": as many as may be were being made."""

STATUS_CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "RESOURCE_EXHAUSTED"),
    *("UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "UNAUTHENTICATED", "PERMISSION_DENIED"),
)

# Steps take 1 to 10 ms and single short sentences little more, so many of the bounds lie there.
DURATION_BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0015, 0.0025, 0.005, 0.0075, 0.01),
    *(0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60),
)
TOKEN_BUCKETS = tuple(2**power for power in range(15))
PROBABILITY_BUCKETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
COUNT_BUCKETS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024)


_RPC = ("grpc_type", "grpc_service", "grpc_method")
_MODEL = ("model", "version")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetrics:
    """Series of one model. The attribute `x` is the metric `nmt_x`, or `nmt_x_total` if it is a counter."""

    requests: Annotated[
        Mapping[str, Counter],
        Metric(
            "Requests ended: one unary RPC with all its texts, or one text of a stream.",
            label="finish_reason",
            values=FINISH_REASONS,
        ),
    ]
    request_failures: Annotated[
        Mapping[str, Counter],
        Metric("Requests without a translation, by reason.", label="reason", values=FAILURE_REASONS),
    ]
    request_source_tokens: Annotated[
        Histogram, Metric("Source tokens of a request, end tokens included.", TOKEN_BUCKETS)
    ]
    request_target_tokens: Annotated[
        Histogram, Metric("Target tokens of the best hypotheses of a request, end tokens included.", TOKEN_BUCKETS)
    ]
    request_sentences: Annotated[Histogram, Metric("Sentences that a request was split into.", COUNT_BUCKETS)]
    request_beam_size: Annotated[Histogram, Metric("Beam size of a request.", COUNT_BUCKETS)]
    request_num_hypotheses: Annotated[Histogram, Metric("Hypotheses per text of a request.", COUNT_BUCKETS)]
    requests_running: Annotated[Gauge, Metric("Requests with one or more sentences in a batch.")]
    requests_waiting: Annotated[Gauge, Metric("Requests with all their sentences in the queue.")]

    request_duration_seconds: Annotated[
        Histogram, Metric("Time from accepting a request to its answer.", DURATION_BUCKETS)
    ]
    answer_duration_seconds: Annotated[
        Mapping[str, Histogram],
        Metric(
            "Time from accepting a request to its answer, of the requests that are answered, by their source tokens.",
            DURATION_BUCKETS,
            label="length",
            values=tuple(LENGTH_CLASSES),
        ),
    ]
    first_text_duration_seconds: Annotated[
        Histogram, Metric("Time from accepting a progressive request to the first part of its text.", DURATION_BUCKETS)
    ]
    queue_duration_seconds: Annotated[Histogram, Metric("Time that a sentence waited for a worker.", DURATION_BUCKETS)]
    tokenize_duration_seconds: Annotated[
        Histogram, Metric("Time to split and tokenise the texts of a request.", DURATION_BUCKETS)
    ]
    encode_duration_seconds: Annotated[
        Histogram,
        Metric(
            "Time to encode sentences that begin or join a batch together; the others of the batch wait for it.",
            DURATION_BUCKETS,
        ),
    ]
    decode_duration_seconds: Annotated[
        Histogram, Metric("Time from a sentence's start in a batch to its last step.", DURATION_BUCKETS)
    ]
    decode_step_duration_seconds: Annotated[
        Histogram, Metric("Time of one decoder step of a batch, search included.", DURATION_BUCKETS)
    ]
    detokenize_duration_seconds: Annotated[
        Histogram, Metric("Time to make the target text of a sentence.", DURATION_BUCKETS)
    ]

    batch_rows: Annotated[Histogram, Metric("Sentences decoded together, at each step.", COUNT_BUCKETS)]
    batch_source_tokens: Annotated[
        Histogram, Metric("Source tokens of the sentences that began or joined a batch together.", TOKEN_BUCKETS)
    ]
    rows_joined: Annotated[Counter, Metric("Sentences that joined a batch that was being decoded already.")]
    cache_bytes: Annotated[Gauge, Metric("Memory held for keys and values, of all workers.")]
    cache_reserved_bytes: Annotated[
        Gauge, Metric("Memory that the sentences in batches may need for keys and values, and what is held beyond it.")
    ]
    model_cache_limit_bytes: Annotated[
        Gauge, Metric("Memory for keys and values that --model-memory-mb leaves beside the weights; +Inf: no limit.")
    ]
    model_workers: Annotated[Gauge, Metric("Workers that decode with the model.")]
    model_workers_limit: Annotated[Gauge, Metric("Workers that may decode with the model at once; +Inf: no limit.")]
    source_tokens: Annotated[Counter, Metric("Source tokens encoded, end tokens included.")]
    target_tokens: Annotated[Counter, Metric("Target tokens of best hypotheses returned, end tokens included.")]
    sentences: Annotated[Counter, Metric("Sentences translated.")]
    rows_retired: Annotated[
        Mapping[str, Counter],
        Metric(
            "Sentences that left their batch, by reason; loop: a repetition, terms: one is missing, translated again.",
            label="reason",
            values=RETIRE_REASONS,
        ),
    ]
    constrained_sentences: Annotated[Counter, Metric("Sentences with terms of a glossary or protected texts.")]
    glossary_matches: Annotated[
        Mapping[str, Counter],
        Metric(
            "Terms and protected texts found in the texts of answered requests, by what became of them.",
            label="outcome",
            values=TERM_OUTCOMES,
        ),
    ]
    wasted_decode_tokens: Annotated[
        Counter, Metric("Decoder steps spent on sentences that were cancelled, ran out of time or began again.")
    ]
    queue_tokens: Annotated[Gauge, Metric("Tokens waiting in the queue: source, and expected target times beam size.")]
    estimated_queue_wait_seconds: Annotated[
        Gauge, Metric("Estimated time until the queue is empty; sent to refused callers as RetryInfo.")
    ]

    quality_probability: Annotated[
        Histogram,
        Metric(
            "Estimated probability that a translation is acceptable, of the texts whose callers asked for it.",
            PROBABILITY_BUCKETS,
        ),
    ]
    quality_flags: Annotated[
        Mapping[str, Counter],
        Metric("Flags of translations, of the texts whose callers asked for them.", label="flag", values=QUALITY_FLAGS),
    ]

    explanations: Annotated[
        Mapping[str, Counter],
        Metric(
            "Requests for the explanation of a translation; refused: --max-explanations were being made.",
            label="outcome",
            values=EXPLANATIONS,
        ),
    ]
    explanation_duration_seconds: Annotated[
        Histogram, Metric("Time to explain a translation, from when it was found.", DURATION_BUCKETS)
    ]

    model_ready: Annotated[Gauge, Metric("1 while a model is warm and answers requests, else 0.")]
    model_live: Annotated[Gauge, Metric("1 if it answers the requests that name no version, else 0.")]
    model_load_duration_seconds: Annotated[Gauge, Metric("Time to verify a bundle and open its graphs.")]
    warmup_duration_seconds: Annotated[Gauge, Metric("Time to warm a model up and replay its samples.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcMetrics:
    """Series of one RPC. Names and labels are those of go-grpc-prometheus, so dashboards made for it work here."""

    started: Annotated[Counter, Metric("RPCs started on the server.")]
    msg_received: Annotated[Counter, Metric("Messages received by the server.")]
    msg_sent: Annotated[Counter, Metric("Messages sent by the server.")]
    handling_seconds: Annotated[Histogram, Metric("Time from the start of an RPC to its status.", DURATION_BUCKETS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetrics:
    """Series of the server as a whole. The attribute `x` is the metric `nmt_x`, or `nmt_x_total` if it is a counter."""

    model_changes: Annotated[
        Mapping[str, Counter],
        Metric("Versions of models that were loaded, unloaded or refused.", label="change", values=MODEL_CHANGES),
    ]
    promotions: Annotated[
        Mapping[str, Counter],
        Metric(
            "Versions that went live by promotion or rollback, or that the gate refused.",
            label="result",
            values=PROMOTIONS,
        ),
    ]
    bundles_refused: Annotated[Gauge, Metric("Bundles in the folder of the models that are refused.")]
    workers: Annotated[Gauge, Metric("Workers that were started.")]
    workers_stopped: Annotated[Gauge, Metric("Workers whose threads have ended, none of a sound server.")]
    held_places: Annotated[
        Mapping[str, Gauge],
        Metric("Places of batches that sentences hold, all workers together.", label="tier", values=TIERS),
    ]
    waiting_places: Annotated[
        Mapping[str, Gauge],
        Metric("Places that waiting sentences will take; most sentences take one.", label="tier", values=TIERS),
    ]
    memory_limit_bytes: Annotated[
        Gauge, Metric("Memory that the server may take: the limit of its control group, or else all of the machine's.")
    ]
    cache_limit_bytes: Annotated[Gauge, Metric("Memory that the keys and values of all models may take.")]
    answers: Annotated[
        Mapping[str, Counter],
        Metric("Sentences by where their answers came from, with --answer-cache-mb.", label="source", values=ANSWERS),
    ]
    unserved_texts: Annotated[
        Mapping[str, Counter],
        Metric(
            "Texts in languages that no model translates; passed: given back as they are, as their callers asked.",
            label="outcome",
            values=UNSERVED_TEXTS,
        ),
    ]
    answer_cache_bytes: Annotated[Gauge, Metric("Memory of the kept answers, as estimated.")]
    answer_cache_entries: Annotated[Gauge, Metric("Kept answers.")]
    answer_cache_evictions: Annotated[Counter, Metric("Kept answers that made room for others.")]
    access_log_dropped: Annotated[
        LibraryCounter,
        Metric("Lines of the access log that were lost because they could not be written, or not fast enough."),
    ]


class Metrics:
    """All metrics of a server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._rpcs = Families(RpcMetrics, prefix="grpc_server", labels=_RPC, registry=registry)
        self._models = Families(ModelMetrics, prefix="nmt", labels=_MODEL, registry=registry)
        self.server = Families(ServerMetrics, prefix="nmt", labels=(), registry=registry).of(())
        """Series of the server as a whole."""
        self.grpc_server_handled = Family(
            Counter,
            "grpc_server_handled",
            "RPCs completed on the server, whatever their status.",
            (*_RPC, "grpc_code"),
            registry=registry,
        )
        self.model_info = LibraryGauge(
            "nmt_model_info",
            "1 for each model served, with the facts of its bundle.",
            (*_MODEL, "sha256", "precision", "provider"),
            registry=self.registry,
        )
        self.build_info = LibraryGauge(
            "nmt_build_info",
            "1, with the version of the server and the instruction set of its kernels, or the reason that it has none.",
            ("version", "kernels", "reason"),
            registry=self.registry,
        )
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)

    def set_build_info(self, *, kernels: str, reason: str) -> None:
        """Show the version of the server and its kernels, such as "avx2", "none" for a reason; called once."""
        version = distribution_version("xuanzang-server")
        self.build_info.labels(version=version, kernels=kernels, reason=reason).set(1)

    def of(self, labels: tuple[str, str]) -> ModelMetrics:
        """Return the series of a model by its name, such as "zh-en", and version; the first call creates them at 0."""
        return self._models.of(labels)

    def forget(self, labels: tuple[str, str]) -> None:
        """Remove the series of a model that is no longer served; what still counts into them is lost."""
        self._models.forget(labels)

    def of_rpc(self, labels: tuple[str, str, str]) -> RpcMetrics:
        """Return the series of an RPC by its shape, such as "server_stream", service and method; made at 0."""
        return self._rpcs.of(labels)

    def register_rpc(self, labels: tuple[str, str, str]) -> None:
        """Create every series of an RPC at 0, one for each status code included."""
        self.of_rpc(labels)
        for code in STATUS_CODES:
            self.grpc_server_handled.labels(*labels, code)
