"""Metadata of one call: those of the client, an id, and the trace that the caller is in."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from xuanzang.client._errors import TranslationError

REQUEST_ID = "x-request-id"
"""Name in the metadata of call and answer."""

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMetadata:
    """Metadata of one call, the same for all its tries."""

    request_id: str
    """Id of the call for the server's operator: random, unless the client is for a caller who has one."""
    pairs: Metadata
    """Names and values to send."""

    @classmethod
    def of(cls, metadata: Metadata) -> Self:
        """Return the metadata of a new call."""
        chosen = next((value for name, value in metadata if name == REQUEST_ID), None)
        request_id = chosen or secrets.token_hex(16)
        own = () if chosen else ((REQUEST_ID, request_id),)
        return cls(request_id=request_id, pairs=(*metadata, *own, *_trace_headers()))

    @contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Give errors of the call its id, unless the server, or a proxy, has given it another."""
        try:
            yield
        except TranslationError as error:
            error.request_id = error.request_id or self.request_id
            raise


def without_request_id(metadata: Metadata) -> Metadata:
    """Return what tells a caller apart: its name and its key.

    Args:
        metadata: Metadata of every call of a client.
    """
    return tuple(each for each in metadata if each[0] != REQUEST_ID)


def _trace_headers() -> Metadata:
    """Return the headers of the current trace, in the formats that the program has chosen; none outside of traces."""
    # A program that traces has imported OpenTelemetry; others need not have it.
    if "opentelemetry.trace" not in sys.modules:
        return ()
    from opentelemetry import propagate, trace  # noqa: PLC0415

    if not trace.get_current_span().get_span_context().is_valid:
        return ()
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return tuple((name.lower(), value) for name, value in headers.items())
