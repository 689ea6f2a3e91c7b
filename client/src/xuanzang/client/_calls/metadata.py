"""Metadata of one call: the key, where it may be sent; an id, and the trace that the caller is in."""

from __future__ import annotations

import ipaddress
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from xuanzang.client._calls.targets import endpoints
from xuanzang.client._errors import TranslationError

VARIABLE = "XUANZANG_API_KEY"

_MAX_CHARACTERS = 4096


def checked_key(api_key: str | None, targets: Iterable[str], *, has_tls: bool, allow_insecure_key: bool) -> str | None:
    """Return the key to send.

    Args:
        api_key: The key; None: that of the environment, if there is one; empty: none.
        allow_insecure_key: Whether the key may cross a network in plain text.

    Raises:
        ValueError: The key cannot be a header, or would cross a network in plain text. The message does not hold it.
    """
    key = os.environ.get(VARIABLE, "") if api_key is None else api_key
    if not key:
        return None
    if len(key) > _MAX_CHARACTERS or not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError(f"api_key must be at most {_MAX_CHARACTERS} printable ASCII characters without spaces")
    if not (has_tls or allow_insecure_key):
        exposed = [target for target in targets if not is_local(target)]
        if exposed:
            raise ValueError(
                f"an API key is not sent to {exposed[0]} in plain text: use TLS, or allow_insecure_key "
                "(--allow-insecure-key) if the network is trusted"
            )
    return key


def is_local(target: str) -> bool:
    """Return whether a gRPC target cannot be anywhere but on this machine.

    Args:
        target: Target such as "localhost:50051", "dns:///127.0.0.1:1", "[::1]:1" or "unix:/path", with its port.
    """
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    # A caller's own name server may map "localhost" anywhere.
    has_name_server = target.startswith("dns://") and not target.startswith("dns:///")
    hosts = endpoints(target) or []
    return bool(hosts) and all(
        _is_loopback(host) and not (has_name_server and host.lower() == "localhost") for host, _ in hosts
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


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
