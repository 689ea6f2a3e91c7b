"""Metrics of access: refused callers, and what each key uses. Labels are ids of the keys file, fixed reasons and files.

The series of a key exist at 0 from the moment at which the file has it, and end when it no longer does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from prometheus_client import CollectorRegistry

from xuanzang.server.metric_series import Counter, Families, Family, Gauge, Metric

ACCESS_REFUSALS = ("missing", "invalid", "revoked", "role")
"""Why a caller was refused: no key, none that is known, a right one that is revoked, or one for another purpose."""

CERTIFICATES = ("server", "client_ca")

QUOTA_REFUSALS = ("requests", "characters", "sentences", "model")
"""What the key of a refused request does not allow."""

ReloadedFile = Literal["keys", "tls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMetrics:
    """Series of one key. The attribute `x` is the metric `nmt_key_x`, or `nmt_key_x_total` if it is a counter."""

    requests: Annotated[Counter, Metric("Requests of a key.")]
    characters: Annotated[Counter, Metric("Characters of texts of a key.")]
    sentences: Annotated[Gauge, Metric("Sentences of a key in translation.")]
    translated_sentences: Annotated[Counter, Metric("Sentences translated for a key.")]
    refusals: Annotated[
        Mapping[str, Counter],
        Metric("Requests that a key does not allow, by reason.", label="reason", values=QUOTA_REFUSALS),
    ]


class AccessMetrics:
    """All metrics of access."""

    def __init__(self, registry: CollectorRegistry) -> None:
        refusals = Family(
            Counter, "nmt_access_refusals", "RPCs and texts without a valid key.", ("reason",), registry=registry
        )
        self.refusals = {reason: refusals.labels(reason) for reason in ACCESS_REFUSALS}
        self.keys = Family(Gauge, "nmt_keys", "API keys in use, without revoked ones.", (), registry=registry).labels()
        self.of_keys = Families(KeyMetrics, prefix="nmt_key", labels=("key",), registry=registry)
        """Series by the id of a key."""
        self._reloads = Family(
            Counter, "nmt_file_reloads", "Files read again after a change.", ("file", "result"), registry=registry
        )
        self._expiry = Family(
            Gauge,
            "nmt_tls_certificate_expiry_timestamp_seconds",
            "Unix time at which a certificate in use expires: the server's own, or the first authority of clients.",
            ("certificate",),
            registry=registry,
        )
        self._current = Family(
            Gauge,
            "nmt_file_current",
            "1 if the file is in use as it is, 0 if an older state of it is.",
            ("file",),
            registry=registry,
        )

    def set_expiries(self, expiries: Mapping[str, float]) -> None:
        """Show when certificates expire: Unix seconds by kind, of `CERTIFICATES`."""
        for certificate, expiry in expiries.items():
            self._expiry.labels(certificate).value = expiry

    def watch(self, file: ReloadedFile) -> None:
        """Create the series of a file that has been read."""
        self._current.labels(file).value = 1
        for result in ("ok", "error"):
            self._reloads.labels(file, result)

    def reloaded(self, file: ReloadedFile, ok: bool) -> None:  # noqa: FBT001 - a callback with one argument more
        """Count a reload; `ok`: whether the new state is in use, and not the old one."""
        self._reloads.labels(file, "ok" if ok else "error").inc()
        self._current.labels(file).value = ok
