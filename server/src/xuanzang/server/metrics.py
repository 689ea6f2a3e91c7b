"""Everything the server counts, in one place: names, help texts, buckets and labels.

Units are base units (seconds, tokens), clocks are monotonic, and label values come from bounded sets: model names and
versions, RPC names and status codes, fixed reasons. Text and language of users are never labels. Series of a model
exist at 0 from the moment it is registered, so that a rate over them is never missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version as distribution_version
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

FINISH_REASONS = ("eos", "length", "deadline", "cancelled", "error")
"""How a request ended; "length" if any of its texts reached `max_target_length`, else "eos" if all were translated."""

FAILURE_REASONS = ("overloaded", "draining", "queue_timeout", "deadline", "cancelled", "invalid", "backend")
"""Why a request has no translation. "queue_timeout": its deadline passed while it waited; "deadline": while it ran."""

RETIRE_REASONS = ("eos", "length", "loop", "deadline", "cancelled", "error")
"""Why a sentence left its batch."""

STATUS_CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "RESOURCE_EXHAUSTED"),
    *("UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE"),
)
"""The codes that RPCs end with here."""

# Steps take 1 to 10 ms and single short sentences little more, so half of the bounds lie there.
DURATION_BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0015, 0.0025, 0.005, 0.0075, 0.01),
    *(0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60),
)
TOKEN_BUCKETS = tuple(2**power for power in range(15))
COUNT_BUCKETS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024)

_RPC = ("grpc_type", "grpc_service", "grpc_method")
_MODEL = ("model", "version")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetrics:
    """The series of one model. Looking them up by their labels takes as long as counting, so it is done once."""

    requests: Mapping[str, Counter]
    """By finish reason."""
    request_failures: Mapping[str, Counter]
    """By reason."""
    request_source_tokens: Histogram
    request_target_tokens: Histogram
    request_sentences: Histogram
    request_beam_size: Histogram
    request_num_hypotheses: Histogram
    requests_running: Gauge
    requests_waiting: Gauge
    request_duration_seconds: Histogram
    first_text_duration_seconds: Histogram
    queue_duration_seconds: Histogram
    tokenize_duration_seconds: Histogram
    encode_duration_seconds: Histogram
    decode_duration_seconds: Histogram
    decode_step_duration_seconds: Histogram
    detokenize_duration_seconds: Histogram
    batch_rows: Histogram
    batch_source_tokens: Histogram
    rows_joined: Counter
    rows_retired: Mapping[str, Counter]
    """By reason."""
    cache_bytes: Gauge
    source_tokens: Counter
    target_tokens: Counter
    sentences: Counter
    wasted_decode_tokens: Counter
    queue_tokens: Gauge
    estimated_queue_wait_seconds: Gauge
    model_ready: Gauge
    model_load_duration_seconds: Gauge
    warmup_duration_seconds: Gauge


class Metrics:
    """The server's metrics. Names are those of the metrics, without the prefix `nmt_` and the suffix `_total`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Declare every metric in a registry of the caller's.

        Args:
            registry: Where the metrics are collected; one `Metrics` per registry.
        """
        self.registry = registry
        self._of_models: dict[str, Counter | Gauge | Histogram] = {}
        self._by_reason: dict[str, tuple[Counter, Sequence[str]]] = {}
        self._models: dict[tuple[str, str], ModelMetrics] = {}
        self._declare_rpcs()
        self._declare_requests()
        self._declare_stages()
        self._declare_batches()
        self._declare_models()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)

    def register_rpc(self, *, grpc_type: str, grpc_service: str, grpc_method: str) -> None:
        """Create every series of an RPC at 0.

        Args:
            grpc_type: "unary", "client_stream", "server_stream" or "bidi_stream".
            grpc_service: Full name of its service.
            grpc_method: Its name.
        """
        rpc = (grpc_type, grpc_service, grpc_method)
        for metric in self._of_rpcs:
            metric.labels(*rpc)
        for code in STATUS_CODES:
            self.grpc_server_handled.labels(*rpc, code)

    def of(self, labels: tuple[str, str]) -> ModelMetrics:
        """Return the series of a model; the first time creates them at 0.

        Args:
            labels: Name of the model, such as "zh-en", and its version.
        """
        if labels not in self._models:
            series: dict[str, Any] = {name: family.labels(*labels) for name, family in self._of_models.items()}
            for name, (family, reasons) in self._by_reason.items():
                series[name] = {reason: family.labels(*labels, reason) for reason in reasons}
            self._models[labels] = ModelMetrics(**series)
        return self._models[labels]

    def set_build_info(self, *, kernels: str, reason: str) -> None:
        """Show what the server was built with; called once.

        Args:
            kernels: Instruction set of the kernels, such as "avx2"; "none" without kernels.
            reason: Why there are no kernels, one of `xuanzang.kernels.Reason`; empty with kernels.
        """
        version = distribution_version("xuanzang-server")
        self.build_info.labels(version=version, kernels=kernels, reason=reason).set(1)

    def _declare_rpcs(self) -> None:
        # Names and labels of go-grpc-prometheus, so that dashboards made for it work here.
        registry = self.registry
        self.grpc_server_started = Counter(
            "grpc_server_started_total", "RPCs started on the server.", _RPC, registry=registry
        )
        self.grpc_server_handled = Counter(
            "grpc_server_handled_total",
            "RPCs completed on the server, whatever their status.",
            (*_RPC, "grpc_code"),
            registry=registry,
        )
        self.grpc_server_msg_received = Counter(
            "grpc_server_msg_received_total", "Messages received by the server.", _RPC, registry=registry
        )
        self.grpc_server_msg_sent = Counter(
            "grpc_server_msg_sent_total", "Messages sent by the server.", _RPC, registry=registry
        )
        self.grpc_server_handling_seconds = Histogram(
            "grpc_server_handling_seconds",
            "Time from the start of an RPC to its status.",
            _RPC,
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._of_rpcs = (
            self.grpc_server_started,
            self.grpc_server_msg_received,
            self.grpc_server_msg_sent,
            self.grpc_server_handling_seconds,
        )

    def _declare_requests(self) -> None:
        self._reasons(
            "requests_total",
            "Requests ended: one unary RPC with all its texts, or one text of a stream.",
            "finish_reason",
            FINISH_REASONS,
        )
        self._reasons("request_failures_total", "Requests without a translation, by reason.", "reason", FAILURE_REASONS)
        self._tokens("request_source_tokens", "Source tokens of a request, end tokens counted.")
        self._tokens("request_target_tokens", "Target tokens of the best hypotheses of a request, end tokens counted.")
        self._count("request_sentences", "Sentences that a request was split into.")
        self._count("request_beam_size", "Beam size of a request.")
        self._count("request_num_hypotheses", "Hypotheses per text of a request.")
        self._gauge("requests_running", "Requests with at least one sentence in a batch.")
        self._gauge("requests_waiting", "Requests with all their sentences in the queue.")

    def _declare_stages(self) -> None:
        self._duration("request_duration_seconds", "Time from accepting a request to its answer.")
        self._duration(
            "first_text_duration_seconds", "Time from accepting a progressive request to the first of its text."
        )
        self._duration("queue_duration_seconds", "Time that a sentence waited for a worker.")
        self._duration("tokenize_duration_seconds", "Time to split and tokenise the texts of a request.")
        self._duration(
            "encode_duration_seconds", "Time to encode sentences that begin or join together; others wait for it."
        )
        self._duration("decode_duration_seconds", "Time from letting a sentence join a batch to its last step.")
        self._duration("decode_step_duration_seconds", "Time of one decoder step of a batch, search included.")
        self._duration("detokenize_duration_seconds", "Time to make the target text of a sentence.")

    def _declare_batches(self) -> None:
        self._count("batch_rows", "Sentences decoded together, at each step.")
        self._tokens("batch_source_tokens", "Source tokens of the sentences that began or joined a batch together.")
        self._counter("rows_joined_total", "Sentences that joined others that were being decoded already.")
        self._gauge("cache_bytes", "Memory held for keys and values, of all workers.")
        self._counter("source_tokens_total", "Source tokens encoded, end tokens counted.")
        self._counter("target_tokens_total", "Target tokens of best hypotheses returned, end tokens counted.")
        self._counter("sentences_total", "Sentences translated.")
        self._reasons("rows_retired_total", "Sentences that left their batch, by reason.", "reason", RETIRE_REASONS)
        self._counter(
            "wasted_decode_tokens_total",
            "Decoder steps spent on sentences that were cancelled, ran out of time or began again.",
        )
        self._gauge("queue_tokens", "Tokens waiting in the queue: source, and expected target times beam size.")
        self._gauge(
            "estimated_queue_wait_seconds", "Estimated time until the queue is empty; RetryInfo tells it to callers."
        )

    def _declare_models(self) -> None:
        self.model_info = Gauge(
            "nmt_model_info",
            "1 for each model served, with the facts of its bundle.",
            (*_MODEL, "sha256", "precision", "provider"),
            registry=self.registry,
        )
        self.build_info = Gauge(
            "nmt_build_info",
            "1, with the version of the server and the instruction set of its kernels, or the reason that it has none.",
            ("version", "kernels", "reason"),
            registry=self.registry,
        )
        self._gauge("model_ready", "1 while a model is warm and answers requests, else 0.")
        self._gauge("model_load_duration_seconds", "Time to verify a bundle and open its graphs.")
        self._gauge("warmup_duration_seconds", "Time to warm a model up and replay its samples.")

    def _counter(self, name: str, documentation: str) -> None:
        counter = Counter(f"nmt_{name}", documentation, _MODEL, registry=self.registry)
        self._of_models[name.removesuffix("_total")] = counter

    def _reasons(self, name: str, documentation: str, label: str, reasons: Sequence[str]) -> None:
        counter = Counter(f"nmt_{name}", documentation, (*_MODEL, label), registry=self.registry)
        self._by_reason[name.removesuffix("_total")] = counter, reasons

    def _gauge(self, name: str, documentation: str) -> None:
        gauge = Gauge(f"nmt_{name}", documentation, _MODEL, registry=self.registry)
        self._of_models[name] = gauge

    def _histogram(self, name: str, documentation: str, buckets: Sequence[float]) -> None:
        histogram = Histogram(f"nmt_{name}", documentation, _MODEL, buckets=buckets, registry=self.registry)
        self._of_models[name] = histogram

    def _duration(self, name: str, documentation: str) -> None:
        self._histogram(name, documentation, DURATION_BUCKETS)

    def _tokens(self, name: str, documentation: str) -> None:
        self._histogram(name, documentation, TOKEN_BUCKETS)

    def _count(self, name: str, documentation: str) -> None:
        self._histogram(name, documentation, COUNT_BUCKETS)


class MetricsEndpoint:
    """Answers Prometheus over HTTP, on threads of its own."""

    def __init__(self, registry: CollectorRegistry, *, host: str, port: int) -> None:
        """Bind the address and answer from now on.

        Args:
            registry: What to answer.
            host: Name or number to bind.
            port: 0 for any free one.

        Raises:
            OSError: The address cannot be bound.
        """
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=registry)
        except OSError as error:
            raise OSError(f"cannot serve metrics on {host}:{port}: {error.strerror}") from error
        self.port = self._server.server_port

    def stop(self) -> None:
        """Answer no more; the port is free afterwards."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
