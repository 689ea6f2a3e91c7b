"""Clients as users make them: their settings, the connections that follow, and other callers on them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Self

from xuanzang.client._calls import channel
from xuanzang.client._calls.calls import Calls
from xuanzang.client._calls.diagnosis import first_contact
from xuanzang.client._calls.metadata import checked_key
from xuanzang.client._calls.targets import targets
from xuanzang.client._calls.waits import Waits
from xuanzang.client._values.options import TLSConfig
from xuanzang.client._values.results import OnUsage


class ConnectedClient:
    """Client over its calls, blocking or not; `TranslationClient` describes the arguments."""

    _waits: ClassVar[type[Waits]]

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        connections: int | None = None,
        tls: TLSConfig | None = None,
        timeout: float = 60.0,
        client_id: str | None = None,
        api_key: str | None = None,
        allow_insecure_key: bool = False,
        max_message_bytes: int = channel.MAX_MESSAGE_BYTES,
        on_usage: OnUsage | None = None,
        throttle: bool = True,
        uses_proxy: bool = True,
        wait_for_server: bool = False,
    ) -> None:
        self._timeout = channel.positive_timeout(timeout)
        names = targets(address)
        self._checked_key = partial(
            checked_key, targets=names, has_tls=tls is not None, allow_insecure_key=allow_insecure_key
        )
        key = self._checked_key(api_key)
        metadata = channel.metadata(client_id, key)
        self._hides_keys = tls is not None or bool(key) or not uses_proxy
        proxied = uses_proxy and (tls is not None or not key)
        options = partial(channel.options, max_message_bytes=max_message_bytes, tls=tls, uses_proxy=proxied)
        # Channels of the process to the same address share the first connection, unless several are asked for.
        shares = connections is None or connections == 1
        waits = self._waits()
        opened = channel.opener(waits.library, tls)
        channels = {
            name: opened(each, options=options(is_shared=shares and name == each))
            for name, each in channel.connections(names, connections)
        }
        used = len(names) if connections is None else None
        contact = first_contact(names, tls, uses_proxy=proxied, waits=wait_for_server)
        self._calls = Calls(waits, channels, metadata, used=used, throttled=throttle, first_contact=contact)
        self._calls.on_usage = on_usage

    def for_caller(
        self, *, api_key: str | None = None, client_id: str | None = None, request_id: str | None = None
    ) -> Self:
        """Return a client that calls on behalf of someone else, over the same connections.

        Everything but the arguments is that of this client; closing either closes both.

        Args:
            api_key: Key of the caller; None: none.
            client_id: Name of the caller, as the constructor takes it; None: none.
            request_id: Id of every call of the returned client, for the server's operator: 1 to
                128 letters, digits and "._:/+=-"; None: a random one for each call.

        Raises:
            ValueError: An argument is invalid, or the key would cross a network or a proxy in plain text.
        """
        key = self._checked_key(api_key or "")
        if key and not self._hides_keys:
            raise ValueError("an API key is not sent through a proxy in plain text: use TLS, or uses_proxy=False")
        twin = copy.copy(self)
        twin._calls = self._calls.carrying(channel.metadata(client_id, key, request_id))  # noqa: SLF001 - its own class
        return twin

    @property
    def _open_calls(self) -> Calls:
        if self._calls.closed:
            raise RuntimeError("the client is closed")
        return self._calls

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else channel.positive_timeout(timeout)
