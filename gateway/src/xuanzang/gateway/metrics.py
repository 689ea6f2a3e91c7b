"""Prometheus metrics of the gateway. Labels are names of APIs, statuses and states: nothing that callers choose."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """All metrics."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Register the metrics."""
        self.registry = registry or CollectorRegistry()
        self._requests = Counter(
            "nmt_gateway_requests",
            "Requests answered, by API and HTTP status; hung_up if the caller was gone before.",
            ("api", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "nmt_gateway_request_seconds",
            "Time from the head of a request to the end of its answer.",
            ("api",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_progress = Gauge(
            "nmt_gateway_requests_in_progress", "Requests in progress, but for uploads.", registry=self.registry
        )
        self._documents = Gauge(
            "nmt_gateway_documents", "Documents kept, by state.", ("state",), registry=self.registry
        )

    def answered(self, api: str, status: str, *, seconds: float) -> None:
        """Count a request.

        Args:
            status: Status of the answer, or "hung_up".
        """
        self._requests.labels(api, status).inc()
        self._seconds.labels(api).observe(seconds)

    def follow_documents(self, state: str, count: Callable[[], int]) -> None:
        """Report the number of documents in a state."""
        self._documents.labels(state).set_function(count)
