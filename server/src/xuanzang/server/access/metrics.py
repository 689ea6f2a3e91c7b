"""Metrics of access: refused callers, and what each key uses. Labels are ids of the keys file, fixed reasons and files.

The series of a key exist at 0 from the moment at which the file has it, and end when it no longer does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge

ACCESS_REFUSALS = ("missing", "invalid", "revoked", "role")
"""Why a caller was refused: no key, none that is known, a right one that is revoked, or one for another purpose."""

CERTIFICATES = ("server", "client_ca")

QUOTA_REFUSALS = ("requests", "characters", "sentences", "model")
"""What the key of a refused request does not allow."""

ReloadedFile = Literal["keys", "tls"]


class KeyMetrics:
    """Series of one key, and the number of refusals of revoked ones."""

    def __init__(self, families: AccessMetrics, key_id: str) -> None:
        self.revoked = families.refusals["revoked"]
        self.requests = families.requests.labels(key_id)
        self.characters = families.characters.labels(key_id)
        self.sentences = families.sentences.labels(key_id)
        self.translated_sentences = families.translated_sentences.labels(key_id)
        self.refusals = {reason: families.quota_refusals.labels(key_id, reason) for reason in QUOTA_REFUSALS}


class AccessMetrics:
    """All metrics of access."""

    def __init__(self, registry: CollectorRegistry) -> None:
        refusals = Counter("nmt_access_refusals", "RPCs and texts without a valid key.", ("reason",), registry=registry)
        self.refusals = {reason: refusals.labels(reason) for reason in ACCESS_REFUSALS}
        self.keys = Gauge("nmt_keys", "API keys in use, without revoked ones.", registry=registry)
        self.requests = Counter("nmt_key_requests", "Requests of a key.", ("key",), registry=registry)
        self.characters = Counter("nmt_key_characters", "Characters of texts of a key.", ("key",), registry=registry)
        self.sentences = Gauge("nmt_key_sentences", "Sentences of a key in translation.", ("key",), registry=registry)
        self.translated_sentences = Counter(
            "nmt_key_translated_sentences", "Sentences translated for a key.", ("key",), registry=registry
        )
        self.quota_refusals = Counter(
            "nmt_key_refusals", "Requests that a key does not allow, by reason.", ("key", "reason"), registry=registry
        )
        self._reloads = Counter(
            "nmt_file_reloads", "Files read again after a change.", ("file", "result"), registry=registry
        )
        self._expiry = Gauge(
            "nmt_tls_certificate_expiry_timestamp_seconds",
            "Unix time at which a certificate in use expires: the server's own, or the first authority of clients.",
            ("certificate",),
            registry=registry,
        )
        help_text = "1 if the file is in use as it is, 0 if an older state of it is."
        self._current = Gauge("nmt_file_current", help_text, ("file",), registry=registry)

    def set_expiries(self, expiries: Mapping[str, float]) -> None:
        """Show when certificates expire: Unix seconds by kind, of `CERTIFICATES`."""
        for certificate, expiry in expiries.items():
            self._expiry.labels(certificate).set(expiry)

    def of(self, key_id: str) -> KeyMetrics:
        """Return the series of a key; the first call creates them at 0."""
        return KeyMetrics(self, key_id)

    def forget(self, key_id: str) -> None:
        """End the series of a key."""
        for family in (self.requests, self.characters, self.sentences, self.translated_sentences):
            family.remove(key_id)
        for reason in QUOTA_REFUSALS:
            self.quota_refusals.remove(key_id, reason)

    def watch(self, file: ReloadedFile) -> None:
        """Create the series of a file that has been read."""
        self._current.labels(file).set(1)
        for result in ("ok", "error"):
            self._reloads.labels(file, result)

    def reloaded(self, file: ReloadedFile, ok: bool) -> None:  # noqa: FBT001 - a callback with one argument more
        """Count a reload; `ok`: whether the new state is in use, and not the old one."""
        self._reloads.labels(file, "ok" if ok else "error").inc()
        self._current.labels(file).set(ok)
