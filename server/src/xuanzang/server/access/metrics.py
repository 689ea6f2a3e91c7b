"""Metrics of access: refused callers, and what each key uses. Labels are ids of the keys file, fixed reasons and files.

The attribute `x` is the metric `nmt_x`, or `nmt_x_total`; of a key, `nmt_key_x`. The series of a key exist at 0 from
its addition to the file, and end with its removal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from prometheus_client import CollectorRegistry

from xuanzang.server.metric_series import Counter, Families, Family, Gauge, Metric, metric, metrics_by

CERTIFICATES = ("server", "client_ca")

ReloadedFile = Literal["keys", "tls"]


class KeyMetrics:
    """Series of one key."""

    requests = metric(Counter, "Requests of a key.")
    characters = metric(Counter, "Characters of texts of a key.")
    sentences = metric(Gauge, "Sentences of a key in translation.")
    translated_sentences = metric(Counter, "Sentences translated for a key.")
    refusals = metrics_by(
        Counter,
        "Requests that a key does not allow, by reason.",
        reason=("requests", "characters", "sentences", "model"),
    )


class _Shared:
    access_refusals = metrics_by(
        Counter,
        "RPCs and texts without a valid key.",
        # No key, an unknown, a revoked one, or one for another purpose.
        reason=("missing", "invalid", "revoked", "role"),
    )
    keys = metric(Gauge, "API keys in use, without revoked ones.")


class _FileMetrics:
    file_reloads = metrics_by(
        Counter,
        "Files read again after a change; those that are not valid are tried every second.",
        result=("ok", "error"),
    )
    file_current = metric(Gauge, "1 if the file is in use as it is, 0 if an older state of it is.")


class AccessMetrics:
    """All metrics of access."""

    def __init__(self, registry: CollectorRegistry) -> None:
        shared = Families(_Shared, prefix="nmt", labels=(), registry=registry).of(())
        self.refusals, self.keys = shared.access_refusals, shared.keys
        self.of_keys = Families(KeyMetrics, prefix="nmt_key", labels=("key",), registry=registry)
        """Series by the id of a key."""
        self._of_files = Families(_FileMetrics, prefix="nmt", labels=("file",), registry=registry)
        expiry = "Unix time at which a certificate in use expires: the server's own, or the first authority of clients."
        name = "nmt_tls_certificate_expiry_timestamp_seconds"
        self._expiry = Family(Metric(Gauge, expiry), name, ("certificate",), registry=registry)

    def set_expiries(self, expiries: Mapping[str, float]) -> None:
        """Show when certificates expire: Unix seconds by kind, of `CERTIFICATES`."""
        for certificate, expiry in expiries.items():
            self._expiry.labels(certificate).value = expiry

    def watch(self, file: ReloadedFile) -> None:
        """Create the series of a file that has been read."""
        self._of_files.of((file,)).file_current.value = 1

    def reloaded(self, file: ReloadedFile, ok: bool) -> None:  # noqa: FBT001 - a callback with one argument more
        """Count a reload; `ok`: whether the new state is in use, and not the old one."""
        series = self._of_files.of((file,))
        series.file_reloads["ok" if ok else "error"].inc()
        series.file_current.value = ok
