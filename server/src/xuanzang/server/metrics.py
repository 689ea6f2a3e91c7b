"""The metrics of the server: names, help texts, buckets and labels, each written once.

The attribute `x` of a class is the metric `nmt_x`, or `nmt_x_total` if it is a counter.

Units are base units (seconds, tokens), clocks are monotonic, and label values come from bounded sets: model names and
versions, RPC names and status codes, fixed reasons. Text and language of users are never labels. Series of a model
exist at 0 from the moment it is registered, so that a rate over them is never missing.
"""

from __future__ import annotations

import math
from importlib.metadata import version as distribution_version

from prometheus_client import CollectorRegistry
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from xuanzang.server.metric_series import Counter, Families, Family, Gauge, Histogram, Metric, metric, metrics_by

FAILURE_REASONS = ("overloaded", "draining", "queue_timeout", "deadline", "cancelled", "invalid", "backend")
"""Reasons for no translation. "queue_timeout": its deadline passed while it waited; "deadline": while it ran."""

PIVOT_STEPS = ("first", "second")
"""Parts of the models of a pivoted request."""
LENGTH_CLASSES = {"short": 32, "medium": 128, "long": 512, "document": math.inf}
"""Classes of requests by their source tokens, with the maximum of each. The objective for p95 has a row for each."""

QUALITY_FLAGS = (
    *("repetition", "length_ratio", "untranslated", "truncated", "low_coverage", "number_lost", "name_lost"),
    *("wrong_language", "cut", "source_language"),
)
"""Suspicions about translations, as in `xuanzang.server.engine.types.QualityFlag`."""

UNSERVED_TEXTS = ("refused", "passed")
"""Outcomes of texts in languages that no model translates; "passed": their callers get them back unchanged."""

TIERS = ("common", "light")
"""Tiers of the scheduler by their numbers."""

STATUS_CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "RESOURCE_EXHAUSTED"),
    *("UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "UNAUTHENTICATED", "PERMISSION_DENIED"),
)

# Steps take 1 to 10 ms and single short sentences little more, hence the density of bounds there.
DURATION_BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0015, 0.0025, 0.005, 0.0075, 0.01),
    *(0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60),
)
TOKEN_BUCKETS = tuple(2**power for power in range(15))
PROBABILITY_BUCKETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
COUNT_BUCKETS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024)


_RPC = ("grpc_type", "grpc_service", "grpc_method")
_MODEL = ("model", "version")


class ModelMetrics:
    """Series of one model."""

    requests = metrics_by(
        Counter,
        "Requests ended: one unary RPC with all its texts, or one text of a stream.",
        # "length" if any of its texts reached `max_target_length`, else "eos" if all were translated.
        finish_reason=("eos", "length", "deadline", "cancelled", "error"),
    )
    request_failures = metrics_by(Counter, "Requests without a translation, by reason.", reason=FAILURE_REASONS)
    request_source_tokens = metric(Histogram, "Source tokens of a request, end tokens included.", TOKEN_BUCKETS)
    request_target_tokens = metric(
        Histogram, "Target tokens of the best hypotheses of a request, end tokens included.", TOKEN_BUCKETS
    )
    request_sentences = metric(Histogram, "Sentences that a request was split into.", COUNT_BUCKETS)
    request_beam_size = metric(Histogram, "Beam size of a request.", COUNT_BUCKETS)
    request_num_hypotheses = metric(Histogram, "Hypotheses per text of a request.", COUNT_BUCKETS)
    requests_running = metric(Gauge, "Requests with one or more sentences in a batch.")
    requests_waiting = metric(Gauge, "Requests with all their sentences in the queue.")

    request_duration_seconds = metric(Histogram, "Time from accepting a request to its answer.", DURATION_BUCKETS)
    answer_duration_seconds = metrics_by(
        Histogram,
        "Time from accepting a request to its answer, of the requests that are answered, by their source tokens.",
        DURATION_BUCKETS,
        length=tuple(LENGTH_CLASSES),
    )
    first_text_duration_seconds = metric(
        Histogram, "Time from accepting a progressive request to the first part of its text.", DURATION_BUCKETS
    )
    queue_duration_seconds = metric(Histogram, "Time that a sentence waited for a worker.", DURATION_BUCKETS)
    tokenize_duration_seconds = metric(
        Histogram, "Time to split and tokenise the texts of a request.", DURATION_BUCKETS
    )
    encode_duration_seconds = metric(
        Histogram,
        "Time to encode sentences that begin or join a batch together; the others of the batch wait for it.",
        DURATION_BUCKETS,
    )
    decode_duration_seconds = metric(
        Histogram, "Time from a sentence's start in a batch to its last step.", DURATION_BUCKETS
    )
    decode_step_duration_seconds = metric(
        Histogram, "Time of one decoder step of a batch, search included.", DURATION_BUCKETS
    )
    detokenize_duration_seconds = metric(Histogram, "Time to make the target text of a sentence.", DURATION_BUCKETS)

    batch_rows = metric(Histogram, "Sentences decoded together, at each step.", COUNT_BUCKETS)
    batch_source_tokens = metric(
        Histogram, "Source tokens of the sentences that began or joined a batch together.", TOKEN_BUCKETS
    )
    rows_joined = metric(Counter, "Sentences that joined a batch that was being decoded already.")
    cache_bytes = metric(Gauge, "Memory held for keys and values, of all workers.")
    cache_reserved_bytes = metric(
        Gauge, "Memory that the sentences in batches may need for keys and values, and what is held beyond it."
    )
    model_cache_limit_bytes = metric(
        Gauge, "Memory for keys and values that --model-memory-mb leaves beside the weights; +Inf: no limit."
    )
    model_workers = metric(Gauge, "Workers that decode with the model.")
    model_workers_limit = metric(Gauge, "Workers that may decode with the model at once; +Inf: no limit.")
    source_tokens = metric(Counter, "Source tokens encoded, end tokens included.")
    target_tokens = metric(Counter, "Target tokens of best hypotheses returned, end tokens included.")
    sentences = metric(Counter, "Sentences translated.")
    rows_retired = metrics_by(
        Counter,
        "Sentences that left their batch, by reason; translated again after loop: a repetition, terms: one is "
        "missing, amounts: a number is, empty: no token.",
        reason=("eos", "length", "loop", "terms", "amounts", "empty", "deadline", "cancelled", "error"),
    )
    constrained_sentences = metric(Counter, "Sentences with terms of a glossary or protected texts.")
    pivoted_requests = metrics_by(
        Counter,
        "Answered requests that two models translated, by the model's part.",
        step=PIVOT_STEPS,
    )
    placeholder_losses = metric(Counter, "Texts answered as they were, because their translation lost a placeholder.")
    glossary_matches = metrics_by(
        Counter,
        "Terms and protected texts found in the texts of answered requests, by what became of them.",
        outcome=("honoured", "not_writable", "no_room", "not_reached"),
    )
    wasted_decode_tokens = metric(
        Counter, "Decoder steps spent on sentences that were cancelled, ran out of time or began again."
    )
    queue_tokens = metric(Gauge, "Tokens waiting in the queue: source, and expected target times beam size.")
    estimated_queue_wait_seconds = metric(
        Gauge, "Estimated time until the queue is empty; sent to refused callers as RetryInfo."
    )

    quality_probability = metric(
        Histogram,
        "Estimated probability that a translation is acceptable, of the texts whose callers asked for it.",
        PROBABILITY_BUCKETS,
    )
    quality_flags = metrics_by(
        Counter, "Flags of translations, of the texts whose callers asked for them.", flag=QUALITY_FLAGS
    )

    explanations = metrics_by(
        Counter,
        "Requests for the explanation of a translation; refused: --max-explanations were being made.",
        outcome=("answered", "refused", "failed"),
    )
    explanation_duration_seconds = metric(
        Histogram, "Time to explain a translation, from when it was found.", DURATION_BUCKETS
    )

    model_ready = metric(Gauge, "1 while a model is warm and answers requests, else 0.")
    model_live = metric(Gauge, "1 if it answers the requests that name no version, else 0.")
    model_loaded = metric(Gauge, "1 while the weights of a model are in memory, 0 while it waits for a request.")
    model_failing = metric(Gauge, "1 after a request could not load the model, until one does; else 0.")
    model_load_duration_seconds = metric(Gauge, "Time to verify a bundle and open its graphs.")
    warmup_duration_seconds = metric(Gauge, "Time to warm a model up and replay its samples.")


class RpcMetrics:
    """Series of one RPC. Names and labels are those of go-grpc-prometheus, so dashboards made for it work here."""

    started = metric(Counter, "RPCs started on the server.")
    msg_received = metric(Counter, "Messages received by the server.")
    msg_sent = metric(Counter, "Messages sent by the server.")
    handling_seconds = metric(Histogram, "Time from the start of an RPC to its status.", DURATION_BUCKETS)


class ServerMetrics:
    """Series of the server as a whole."""

    model_changes = metrics_by(
        Counter,
        "Versions of models that were loaded, unloaded or refused.",
        change=("loaded", "unloaded", "refused"),
    )
    model_loads = metrics_by(Counter, "Loads of models by their first requests.", result=("ok", "error"))
    model_evictions = metrics_by(
        Counter,
        "Models that left the memory until their next request; memory: another model needed it, idle: no request.",
        reason=("memory", "idle"),
    )
    model_load_seconds = metric(Histogram, "Time to load a model on demand.", DURATION_BUCKETS)
    model_load_wait_seconds = metric(
        Histogram, "Time that a request waited for its model to be loaded, of those that did.", DURATION_BUCKETS
    )
    model_load_waiting = metric(Gauge, "Requests that wait for their model to be loaded.")
    model_memory_bytes = metric(Gauge, "Memory of the models that were loaded on demand, as estimated.")
    model_memory_limit_bytes = metric(Gauge, "Memory that --model-memory allows; +Inf: no limit.")
    promotions = metrics_by(
        Counter,
        "Versions that went live by promotion or rollback, or that the gate refused.",
        # "forced": in spite of the gate.
        result=("promoted", "forced", "refused", "rolled_back"),
    )
    bundles_refused = metric(Gauge, "Bundles in the folder of the models that are refused.")
    workers = metric(Gauge, "Workers that were started.")
    workers_stopped = metric(Gauge, "Workers whose threads have ended, none of a sound server.")
    held_places = metrics_by(Gauge, "Places of batches that sentences hold, all workers together.", tier=TIERS)
    waiting_places = metrics_by(Gauge, "Places that waiting sentences will take; most sentences take one.", tier=TIERS)
    memory_limit_bytes = metric(
        Gauge, "Memory that the server may take: the limit of its control group, or else all of the machine's."
    )
    cache_limit_bytes = metric(Gauge, "Memory that the keys and values of all models may take.")
    answers = metrics_by(
        Counter,
        "Sentences by where their answers came from, with --answer-cache-mb.",
        # "joined": from a search that was in flight.
        source=("kept", "joined", "searched"),
    )
    unserved_texts = metrics_by(
        Counter,
        "Texts in languages that no model translates; passed: given back as they are, as their callers asked.",
        outcome=UNSERVED_TEXTS,
    )
    answer_cache_bytes = metric(Gauge, "Memory of the kept answers, as estimated.")
    answer_cache_entries = metric(Gauge, "Kept answers.")
    answer_cache_evictions = metric(Counter, "Kept answers that made room for others.")
    glossary_reads = metrics_by(
        Counter,
        "Files of glossaries read after a change; those that cannot be read are tried every second.",
        result=("ok", "error"),
    )
    access_log_dropped = metric(
        Counter, "Lines of the access log that were lost because they could not be written, or not fast enough."
    )


class Metrics:
    """All metrics of a server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.rpcs = Families(RpcMetrics, prefix="grpc_server", labels=_RPC, registry=registry)
        """Series of an RPC by its shape, such as "server_stream", service and method."""
        self.models = Families(ModelMetrics, prefix="nmt", labels=_MODEL, registry=registry)
        """Series of a model by its name, such as "zh-en", and version."""
        self.server = Families(ServerMetrics, prefix="nmt", labels=(), registry=registry).of(())
        """Series of the server as a whole."""
        handled = Metric(Counter, "RPCs completed on the server, whatever their status.")
        self.grpc_server_handled = Family(handled, "grpc_server_handled", (*_RPC, "grpc_code"), registry=registry)
        info = Metric(Gauge, "1 for each model served, with the facts of its bundle.")
        facts = (*_MODEL, "sha256", "precision", "provider")
        self.model_info = Family(info, "nmt_model_info", facts, registry=registry)
        build = Metric(
            Gauge,
            "1, with the version of the server and the instruction set of its kernels, or the reason that it has none.",
        )
        labels = ("version", "kernels", "reason")
        self._build_info = Family(build, "nmt_build_info", labels, registry=registry)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)

    def set_build_info(self, *, kernels: str, reason: str) -> None:
        """Show the version of the server and its kernels, such as "avx2", "none" for a reason; called once."""
        version = distribution_version("xuanzang-server")
        self._build_info.labels(version, kernels, reason).value = 1

    def register_rpc(self, labels: tuple[str, str, str]) -> None:
        """Create every series of an RPC at 0, one for each status code included."""
        self.rpcs.of(labels)
        for code in STATUS_CODES:
            self.grpc_server_handled.labels(*labels, code)
