"""The metrics of the server: names, help texts, buckets and labels, each written once.

Units are base units (seconds, tokens), clocks are monotonic, and label values come from bounded sets: model names and
versions, RPC names and status codes, fixed reasons. Text and language of users are never labels. Series of a model
exist at 0 from the moment it is registered, so that a rate over them is never missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version as distribution_version
from typing import Annotated, Any, Generic, TypeVar, get_args, get_type_hints

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

Series = TypeVar("Series")

FINISH_REASONS = ("eos", "length", "deadline", "cancelled", "error")
"""How a request ended; "length" if any of its texts reached `max_target_length`, else "eos" if all were translated."""

FAILURE_REASONS = ("overloaded", "draining", "queue_timeout", "deadline", "cancelled", "invalid", "backend")
"""Why a request has no translation. "queue_timeout": its deadline passed while it waited; "deadline": while it ran."""

RETIRE_REASONS = ("eos", "length", "loop", "deadline", "cancelled", "error")
"""Why a sentence left its batch. "loop": its translation was a repetition, and it is translated again."""

LENGTH_CLASSES = {"short": 32, "medium": 128, "long": 512, "document": math.inf}
"""Classes of requests by their source tokens, with the maximum of each. The objective for p95 has a row for each."""

TERM_OUTCOMES = ("honoured", "not_writable", "no_room", "not_reached")
"""What became of the terms that a text has."""
QUALITY_FLAGS = (
    *("repetition", "length_ratio", "untranslated", "truncated", "low_coverage", "number_lost", "name_lost"),
    *("wrong_language", "cut"),
)
"""What is suspicious about translations, as in `xuanzang.server.engine.types.QualityFlag`."""

MODEL_CHANGES = ("loaded", "unloaded", "refused")
"""What became of versions of models, at the start and while the server runs."""

TRAFFIC_ROLES = ("live", "canary", "shadow")
"""Parts that a version has in the requests of its model that name no version."""

PROMOTIONS = ("promoted", "forced", "refused", "rolled_back")
"""What became of versions that should go live; "forced": in spite of the gate."""

SHADOW_RESULTS = ("compared", "dropped", "failed")
"""What became of a copy of a request; "dropped": the server had better things to do."""

EXPLANATIONS = ("answered", "refused", "failed")
"""What became of requests for an explanation; "refused": as many as may be were being made."""

STATUS_CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "RESOURCE_EXHAUSTED"),
    *("UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "UNAUTHENTICATED", "PERMISSION_DENIED"),
)
"""Status codes of the RPCs."""

# Steps take 1 to 10 ms and single short sentences little more, so many of the bounds lie there.
DURATION_BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0015, 0.0025, 0.005, 0.0075, 0.01),
    *(0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60),
)
TOKEN_BUCKETS = tuple(2**power for power in range(15))
CHRF_BUCKETS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100)
RATIO_BUCKETS = (0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.5, 2, 4, 10)
GAP_BUCKETS = (-5, -2, -1, -0.5, -0.25, -0.1, -0.05, 0, 0.05, 0.1, 0.25, 0.5, 1, 2, 5)
PROBABILITY_BUCKETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
COUNT_BUCKETS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024)

_RPC = ("grpc_type", "grpc_service", "grpc_method")
_MODEL = ("model", "version")
_SHADOW = ("model", "live", "shadow")


@dataclass(frozen=True, slots=True)
class _Metric:
    """Declaration of a metric, in the annotation of an attribute that holds its series."""

    documentation: str
    buckets: Sequence[float] = ()
    """Upper bounds of a histogram's buckets."""
    label: str = ""
    """Label of a mapping with one series per value, in addition to the labels of all series."""
    values: Sequence[str] = ()

    def declare(self, kind: Any, name: str, labels: tuple[str, ...], registry: CollectorRegistry) -> Any:
        if self.label:
            kind, labels = get_args(kind)[-1], (*labels, self.label)
        options = {"buckets": self.buckets} if self.buckets else {}
        return kind(name, self.documentation, labels, registry=registry, **options)

    def series(self, family: Any, labels: tuple[str, ...]) -> object:
        if self.label:
            return {value: family.labels(*labels, value) for value in self.values}
        return family.labels(*labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetrics:
    """Series of one model. The attribute `x` is the metric `nmt_x`, or `nmt_x_total` if it is a counter."""

    requests: Annotated[
        Mapping[str, Counter],
        _Metric(
            "Requests ended: one unary RPC with all its texts, or one text of a stream.",
            label="finish_reason",
            values=FINISH_REASONS,
        ),
    ]
    request_failures: Annotated[
        Mapping[str, Counter],
        _Metric("Requests without a translation, by reason.", label="reason", values=FAILURE_REASONS),
    ]
    request_source_tokens: Annotated[
        Histogram, _Metric("Source tokens of a request, end tokens included.", TOKEN_BUCKETS)
    ]
    request_target_tokens: Annotated[
        Histogram, _Metric("Target tokens of the best hypotheses of a request, end tokens included.", TOKEN_BUCKETS)
    ]
    request_sentences: Annotated[Histogram, _Metric("Sentences that a request was split into.", COUNT_BUCKETS)]
    request_beam_size: Annotated[Histogram, _Metric("Beam size of a request.", COUNT_BUCKETS)]
    request_num_hypotheses: Annotated[Histogram, _Metric("Hypotheses per text of a request.", COUNT_BUCKETS)]
    requests_running: Annotated[Gauge, _Metric("Requests with one or more sentences in a batch.")]
    requests_waiting: Annotated[Gauge, _Metric("Requests with all their sentences in the queue.")]

    request_duration_seconds: Annotated[
        Histogram, _Metric("Time from accepting a request to its answer.", DURATION_BUCKETS)
    ]
    answer_duration_seconds: Annotated[
        Mapping[str, Histogram],
        _Metric(
            "Time from accepting a request to its answer, of the requests that are answered, by their source tokens.",
            DURATION_BUCKETS,
            label="length",
            values=tuple(LENGTH_CLASSES),
        ),
    ]
    first_text_duration_seconds: Annotated[
        Histogram, _Metric("Time from accepting a progressive request to the first part of its text.", DURATION_BUCKETS)
    ]
    queue_duration_seconds: Annotated[Histogram, _Metric("Time that a sentence waited for a worker.", DURATION_BUCKETS)]
    tokenize_duration_seconds: Annotated[
        Histogram, _Metric("Time to split and tokenise the texts of a request.", DURATION_BUCKETS)
    ]
    encode_duration_seconds: Annotated[
        Histogram,
        _Metric(
            "Time to encode sentences that begin or join a batch together; the others of the batch wait for it.",
            DURATION_BUCKETS,
        ),
    ]
    decode_duration_seconds: Annotated[
        Histogram, _Metric("Time from a sentence's start in a batch to its last step.", DURATION_BUCKETS)
    ]
    decode_step_duration_seconds: Annotated[
        Histogram, _Metric("Time of one decoder step of a batch, search included.", DURATION_BUCKETS)
    ]
    detokenize_duration_seconds: Annotated[
        Histogram, _Metric("Time to make the target text of a sentence.", DURATION_BUCKETS)
    ]

    batch_rows: Annotated[Histogram, _Metric("Sentences decoded together, at each step.", COUNT_BUCKETS)]
    batch_source_tokens: Annotated[
        Histogram, _Metric("Source tokens of the sentences that began or joined a batch together.", TOKEN_BUCKETS)
    ]
    rows_joined: Annotated[Counter, _Metric("Sentences that joined a batch that was being decoded already.")]
    cache_bytes: Annotated[Gauge, _Metric("Memory held for keys and values, of all workers.")]
    cache_reserved_bytes: Annotated[
        Gauge, _Metric("Memory that the sentences in batches may need for keys and values, and what is held beyond it.")
    ]
    model_cache_limit_bytes: Annotated[
        Gauge, _Metric("Memory for keys and values that --model-memory-mb leaves beside the weights; +Inf: no limit.")
    ]
    model_workers: Annotated[Gauge, _Metric("Workers that decode with the model.")]
    model_workers_limit: Annotated[Gauge, _Metric("Workers that may decode with the model at once; +Inf: no limit.")]
    source_tokens: Annotated[Counter, _Metric("Source tokens encoded, end tokens included.")]
    target_tokens: Annotated[Counter, _Metric("Target tokens of best hypotheses returned, end tokens included.")]
    sentences: Annotated[Counter, _Metric("Sentences translated.")]
    rows_retired: Annotated[
        Mapping[str, Counter],
        _Metric(
            "Sentences that left their batch, by reason; loop: a repetition, translated again.",
            label="reason",
            values=RETIRE_REASONS,
        ),
    ]
    constrained_sentences: Annotated[
        Counter, _Metric("Sentences whose search required terms of a glossary or protected texts.")
    ]
    glossary_matches: Annotated[
        Mapping[str, Counter],
        _Metric(
            "Terms and protected texts found in the texts of answered requests, by what became of them.",
            label="outcome",
            values=TERM_OUTCOMES,
        ),
    ]
    wasted_decode_tokens: Annotated[
        Counter, _Metric("Decoder steps spent on sentences that were cancelled, ran out of time or began again.")
    ]
    queue_tokens: Annotated[Gauge, _Metric("Tokens waiting in the queue: source, and expected target times beam size.")]
    estimated_queue_wait_seconds: Annotated[
        Gauge, _Metric("Estimated time until the queue is empty; sent to refused callers as RetryInfo.")
    ]

    quality_probability: Annotated[
        Histogram,
        _Metric(
            "Estimated probability that a translation is acceptable, of the texts whose callers asked for it.",
            PROBABILITY_BUCKETS,
        ),
    ]
    quality_flags: Annotated[
        Mapping[str, Counter],
        _Metric(
            "Flags of translations, of the texts whose callers asked for them.", label="flag", values=QUALITY_FLAGS
        ),
    ]

    explanations: Annotated[
        Mapping[str, Counter],
        _Metric(
            "Requests for the explanation of a translation; refused: --max-explanations were being made.",
            label="outcome",
            values=EXPLANATIONS,
        ),
    ]
    explanation_duration_seconds: Annotated[
        Histogram, _Metric("Time to explain a translation, from when it was found.", DURATION_BUCKETS)
    ]

    model_ready: Annotated[Gauge, _Metric("1 while a model is warm and answers requests, else 0.")]
    traffic_share: Annotated[
        Mapping[str, Gauge],
        _Metric(
            "Share of the requests of the model that name no version, by what the version does with them.",
            label="role",
            values=TRAFFIC_ROLES,
        ),
    ]
    model_load_duration_seconds: Annotated[Gauge, _Metric("Time to verify a bundle and open its graphs.")]
    warmup_duration_seconds: Annotated[Gauge, _Metric("Time to warm a model up and replay its samples.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowMetrics:
    """Series of the comparison of a shadow with a live version. The attribute `x` is the metric `nmt_shadow_x`."""

    requests: Annotated[
        Mapping[str, Counter],
        _Metric(
            "Requests of the live version that were to be translated by the shadow, too.", (), "result", SHADOW_RESULTS
        ),
    ]
    texts: Annotated[Counter, _Metric("Texts translated by both versions.")]
    exact_matches: Annotated[Counter, _Metric("Texts that both versions translated alike.")]
    chrf: Annotated[
        Histogram, _Metric("chrF of the shadow's translation of a text with the live one as reference.", CHRF_BUCKETS)
    ]
    length_ratio: Annotated[
        Histogram, _Metric("Characters of the shadow's translation of a text by those of the live one.", RATIO_BUCKETS)
    ]
    score_gap: Annotated[
        Histogram, _Metric("Score of the shadow's translation of a text less that of the live one, nats.", GAP_BUCKETS)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcMetrics:
    """Series of one RPC. Names and labels are those of go-grpc-prometheus, so dashboards made for it work here."""

    started: Annotated[Counter, _Metric("RPCs started on the server.")]
    msg_received: Annotated[Counter, _Metric("Messages received by the server.")]
    msg_sent: Annotated[Counter, _Metric("Messages sent by the server.")]
    handling_seconds: Annotated[Histogram, _Metric("Time from the start of an RPC to its status.", DURATION_BUCKETS)]


class _Families(Generic[Series]):
    """The metrics that the annotations of a class declare, and instances of the class by labels."""

    def __init__(
        self, series: type[Series], *, prefix: str, labels: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        self._series = series
        self._families: dict[str, tuple[_Metric, Any]] = {}
        for name, annotation in get_type_hints(series, include_extras=True).items():
            kind, metric = get_args(annotation)
            self._families[name] = metric, metric.declare(kind, f"{prefix}_{name}", labels, registry)
        self._of: dict[tuple[str, ...], Series] = {}

    def of(self, labels: tuple[str, ...]) -> Series:
        # Finding a series by its labels takes as long as counting, so it is done once.
        if labels not in self._of:
            series = {name: metric.series(family, labels) for name, (metric, family) in self._families.items()}
            self._of[labels] = self._series(**series)
        return self._of[labels]

    def labels(self) -> tuple[tuple[str, ...], ...]:
        return tuple(self._of)

    def forget(self, labels: tuple[str, ...]) -> None:
        if self._of.pop(labels, None) is not None:
            for metric, family in self._families.values():
                for value in metric.values or ("",):
                    family.remove(*labels, *([value] if value else []))


class Metrics:
    """All metrics of a server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Declare every metric in a registry.

        Args:
            registry: Registry that collects the metrics; one `Metrics` per registry.
        """
        self.registry = registry
        self._rpcs = _Families(RpcMetrics, prefix="grpc_server", labels=_RPC, registry=registry)
        self._models = _Families(ModelMetrics, prefix="nmt", labels=_MODEL, registry=registry)
        self._shadows = _Families(ShadowMetrics, prefix="nmt_shadow", labels=_SHADOW, registry=registry)
        self.grpc_server_handled = Counter(
            "grpc_server_handled_total",
            "RPCs completed on the server, whatever their status.",
            (*_RPC, "grpc_code"),
            registry=registry,
        )
        self.model_info = Gauge(
            "nmt_model_info",
            "1 for each model served, with the facts of its bundle.",
            (*_MODEL, "sha256", "precision", "provider"),
            registry=self.registry,
        )
        changes = Counter(
            "nmt_model_changes_total",
            "Versions of models that were loaded, unloaded or refused.",
            ("change",),
            registry=self.registry,
        )
        self.model_changes = {change: changes.labels(change) for change in MODEL_CHANGES}
        promotions = Counter(
            "nmt_promotions_total",
            "Versions that went live by promotion or rollback, or that the gate refused.",
            ("result",),
            registry=self.registry,
        )
        self.promotions = {result: promotions.labels(result) for result in PROMOTIONS}
        self.bundles_refused = Gauge(
            "nmt_bundles_refused",
            "Bundles in the folder of the models that are refused.",
            registry=self.registry,
        )
        self.build_info = Gauge(
            "nmt_build_info",
            "1, with the version of the server and the instruction set of its kernels, or the reason that it has none.",
            ("version", "kernels", "reason"),
            registry=self.registry,
        )
        self.workers = Gauge("nmt_workers", "Workers that were started.", registry=registry)
        self.workers_stopped = Gauge(
            "nmt_workers_stopped", "Workers whose threads have ended, none of a sound server.", registry=registry
        )
        self.memory_limit_bytes = Gauge(
            "nmt_memory_limit_bytes",
            "Memory that the server may take: the limit of its control group, or else all of the machine's.",
            registry=registry,
        )
        self.access_log_dropped = Counter(
            "nmt_access_log_dropped",
            "Lines of the access log that were lost because they could not be written, or not fast enough.",
            registry=registry,
        )
        self.cache_limit_bytes = Gauge(
            "nmt_cache_limit_bytes", "Memory that the keys and values of all models may take.", registry=registry
        )
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)

    def set_build_info(self, *, kernels: str, reason: str) -> None:
        """Show the version of the server and its kernels; called once.

        Args:
            kernels: Instruction set of the kernels, such as "avx2"; "none" without kernels.
            reason: Why there are no kernels, one of `xuanzang.kernels.Reason`; empty with kernels.
        """
        version = distribution_version("xuanzang-server")
        self.build_info.labels(version=version, kernels=kernels, reason=reason).set(1)

    def of(self, labels: tuple[str, str]) -> ModelMetrics:
        """Return the series of a model; the first call creates them at 0.

        Args:
            labels: Name of the model, such as "zh-en", and its version.
        """
        return self._models.of(labels)

    def forget(self, labels: tuple[str, str]) -> None:
        """Remove the series of a model that is served no more; what still counts into them is lost.

        Args:
            labels: Name of the model and its version.
        """
        self._models.forget(labels)
        name, version = labels
        for pair in self._shadows.labels():
            if pair[0] == name and version in pair[1:]:
                self._shadows.forget(pair)

    def of_shadow(self, labels: tuple[str, str, str]) -> ShadowMetrics:
        """Return the series of a comparison; the first call creates them at 0.

        Args:
            labels: Name of the model, live version, and version of the shadow.
        """
        return self._shadows.of(labels)

    def of_rpc(self, labels: tuple[str, str, str]) -> RpcMetrics:
        """Return the series of an RPC; the first call creates them at 0.

        Args:
            labels: Shape of the RPC ("unary", "client_stream", "server_stream" or "bidi_stream"), full name of its
                service, and name of its method.
        """
        return self._rpcs.of(labels)

    def register_rpc(self, labels: tuple[str, str, str]) -> None:
        """Create every series of an RPC at 0, one for each status code included.

        Args:
            labels: Labels as for `of_rpc`.
        """
        self.of_rpc(labels)
        for code in STATUS_CODES:
            self.grpc_server_handled.labels(*labels, code)
