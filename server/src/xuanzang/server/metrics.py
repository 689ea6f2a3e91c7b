"""Everything the server counts, in one place: names, help texts, buckets and labels.

Units are base units (seconds, tokens), clocks are monotonic, and label values come from bounded sets: model names and
versions, RPC names and status codes, fixed reasons. Text and language of users are never labels. Series of a model
exist at 0 from the moment it is registered, so that a rate over them is never missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version as distribution_version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

FINISH_REASONS = ("eos", "length", "deadline", "cancelled", "error")
"""How a request ended; "length" if any of its texts reached `max_target_length`, else "eos" if all were translated."""

FAILURE_REASONS = ("overloaded", "draining", "queue_timeout", "deadline", "cancelled", "invalid", "backend")
"""Why a request has no translation. "queue_timeout": its deadline passed while it waited; "deadline": while it ran."""

RETIRE_REASONS = ("eos", "length", "deadline", "cancelled", "error")
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
RATIO_BUCKETS = (0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1)

_RPC = ("grpc_type", "grpc_service", "grpc_method")
_MODEL = ("model", "version")


class Metrics:
    """The server's metrics; each attribute is the metric of that name without its `nmt_` prefix and `_total` suffix."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Declare every metric in a registry of the caller's.

        Args:
            registry: Where the metrics are collected; one `Metrics` per registry.
        """
        self.registry = registry
        self._of_models: list[Counter | Gauge | Histogram] = []
        self._by_reason: list[tuple[Counter, Sequence[str]]] = []
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

    def register_model(self, name: str, version: int | str) -> None:
        """Create every series of a model at 0.

        Args:
            name: Model name, such as "zh-en".
            version: Its version.
        """
        labels = {"model": name, "version": str(version)}
        for metric in self._of_models:
            metric.labels(**labels)
        for counter, reasons in self._by_reason:
            for reason in reasons:
                counter.labels(*labels.values(), reason)

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
        self.requests = self._reasons(
            "requests_total",
            "Requests ended: one unary RPC with all its texts, or one text of a stream.",
            "finish_reason",
            FINISH_REASONS,
        )
        self.request_failures = self._reasons(
            "request_failures_total", "Requests without a translation, by reason.", "reason", FAILURE_REASONS
        )
        self.request_source_tokens = self._tokens(
            "request_source_tokens", "Source tokens of a request, end tokens counted."
        )
        self.request_target_tokens = self._tokens(
            "request_target_tokens", "Target tokens of the best hypotheses of a request, end tokens counted."
        )
        self.request_sentences = self._count("request_sentences", "Sentences that a request was split into.")
        self.request_beam_size = self._count("request_beam_size", "Beam size of a request.")
        self.request_num_hypotheses = self._count("request_num_hypotheses", "Hypotheses per text of a request.")
        self.requests_running = self._gauge("requests_running", "Requests with at least one sentence in a batch.")
        self.requests_waiting = self._gauge("requests_waiting", "Requests with all their sentences in the queue.")

    def _declare_stages(self) -> None:
        self.request_duration_seconds = self._duration(
            "request_duration_seconds", "Time from accepting a request to its answer."
        )
        self.queue_duration_seconds = self._duration(
            "queue_duration_seconds", "Time that a sentence waited for a worker."
        )
        self.tokenize_duration_seconds = self._duration(
            "tokenize_duration_seconds", "Time to split and tokenise the texts of a request."
        )
        self.encode_duration_seconds = self._duration("encode_duration_seconds", "Time of one run of the encoder.")
        self.decode_duration_seconds = self._duration(
            "decode_duration_seconds", "Time from a sentence's first decoder step to its last."
        )
        self.decode_step_duration_seconds = self._duration(
            "decode_step_duration_seconds", "Time of one decoder step of a batch, search included."
        )
        self.detokenize_duration_seconds = self._duration(
            "detokenize_duration_seconds", "Time to make the target text of a sentence."
        )

    def _declare_batches(self) -> None:
        self.batch_rows = self._count("batch_rows", "Sentences in a batch when it was formed.")
        self.batch_beam_rows = self._count("batch_beam_rows", "Live hypotheses in a batch when it was formed.")
        self.batch_source_tokens = self._tokens(
            "batch_source_tokens", "Source tokens in a batch when it was formed, padding not counted."
        )
        self.batch_padding_ratio = self._histogram(
            "batch_padding_ratio", "Share of a batch's source positions that is padding, 0 to 1.", RATIO_BUCKETS
        )
        self.source_tokens = self._counter("source_tokens_total", "Source tokens encoded, end tokens counted.")
        self.target_tokens = self._counter(
            "target_tokens_total", "Target tokens of best hypotheses returned, end tokens counted."
        )
        self.sentences = self._counter("sentences_total", "Sentences translated.")
        self.rows_retired = self._reasons(
            "rows_retired_total", "Sentences that left their batch, by reason.", "reason", RETIRE_REASONS
        )
        self.wasted_decode_tokens = self._counter(
            "wasted_decode_tokens_total", "Decoder steps spent on sentences that were cancelled or ran out of time."
        )
        self.queue_source_tokens = self._gauge("queue_source_tokens", "Source tokens waiting in the queue.")
        self.estimated_queue_wait_seconds = self._gauge(
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
            "nmt_build_info", "1, with the version of the server.", ("version",), registry=self.registry
        )
        self.build_info.labels(version=distribution_version("xuanzang-server")).set(1)
        self.model_ready = self._gauge("model_ready", "1 while a model is warm and answers requests, else 0.")
        self.model_load_duration_seconds = self._gauge(
            "model_load_duration_seconds", "Time to verify a bundle and open its graphs."
        )
        self.warmup_duration_seconds = self._gauge(
            "warmup_duration_seconds", "Time to warm a model up and replay its samples."
        )

    def _counter(self, name: str, documentation: str) -> Counter:
        counter = Counter(f"nmt_{name}", documentation, _MODEL, registry=self.registry)
        self._of_models.append(counter)
        return counter

    def _reasons(self, name: str, documentation: str, label: str, reasons: Sequence[str]) -> Counter:
        counter = Counter(f"nmt_{name}", documentation, (*_MODEL, label), registry=self.registry)
        self._by_reason.append((counter, reasons))
        return counter

    def _gauge(self, name: str, documentation: str) -> Gauge:
        gauge = Gauge(f"nmt_{name}", documentation, _MODEL, registry=self.registry)
        self._of_models.append(gauge)
        return gauge

    def _histogram(self, name: str, documentation: str, buckets: Sequence[float]) -> Histogram:
        histogram = Histogram(f"nmt_{name}", documentation, _MODEL, buckets=buckets, registry=self.registry)
        self._of_models.append(histogram)
        return histogram

    def _duration(self, name: str, documentation: str) -> Histogram:
        return self._histogram(name, documentation, DURATION_BUCKETS)

    def _tokens(self, name: str, documentation: str) -> Histogram:
        return self._histogram(name, documentation, TOKEN_BUCKETS)

    def _count(self, name: str, documentation: str) -> Histogram:
        return self._histogram(name, documentation, COUNT_BUCKETS)


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
