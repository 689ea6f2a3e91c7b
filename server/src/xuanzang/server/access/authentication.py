"""Authentication: the caller that the metadata of an RPC proves, or an anonymous one where that is allowed."""

from __future__ import annotations

import ipaddress
import logging
import stat
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from typing_extensions import override

from xuanzang.server.access.callers import INVALID_KEY, Caller, KeyCaller
from xuanzang.server.access.errors import UnauthenticatedError, WrongRoleError
from xuanzang.server.access.keys import ApiKey, Role, id_of, new_key, read_keys
from xuanzang.server.access.metrics import AccessMetrics
from xuanzang.server.access.quota_counts import OwnCounts, QuotaCounts
from xuanzang.server.access.quotas import Clock
from xuanzang.server.engine.types import CallerId
from xuanzang.server.watched_files import ReloadedContent
from xuanzang.server.whole_files import remove_abandoned

_LOGGER = logging.getLogger(__name__)


IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class KeyRing(ReloadedContent[tuple[ApiKey, ...]]):
    """Callers by the id of their key. Belongs to the event loop."""

    def __init__(
        self,
        file: Path,
        metrics: AccessMetrics,
        *,
        counts: QuotaCounts | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        """Read the keys file, or raise KeysFileError. `counts`: those of quotas, which processes may share."""
        self._counts = counts or OwnCounts()
        self._file = file
        self._metrics = metrics
        self._clock = clock
        self._callers: dict[str, KeyCaller] = {}
        # Stands in for ids that the file does not have; its key is unknown.
        self._nobodys = new_key("nobody")[1]
        super().__init__([file], kept="the old keys stay in use", count=partial(metrics.reloaded, "keys"))
        self._use(read_keys(file))
        written = file.resolve()
        remove_abandoned(written.parent, written.name)
        metrics.watch("keys")
        self._warn_of_readers()

    @property
    def usable(self) -> int:
        """Keys that are not revoked."""
        return sum(not caller.key.revoked for caller in self._callers.values())

    def caller_of(self, presented: str) -> KeyCaller:
        """Return the holder of a key; UnauthenticatedError: there is no such key, or it is revoked.

        The work is one hash and one comparison, whether the id is unknown, the secret wrong, the key revoked or right,
        so the time of a refusal says nothing.
        """
        caller = self._callers.get(id_of(presented))
        key = self._nobodys if caller is None else caller.key
        if not key.is_of(presented) or caller is None:
            raise UnauthenticatedError(INVALID_KEY, self._metrics.refusals["invalid"])
        caller.require_valid()
        return caller

    @override
    def _read(self) -> tuple[ApiKey, ...]:
        return read_keys(self._file)

    @override
    def _take_over(self, content: tuple[ApiKey, ...]) -> None:
        self._use(content)
        _LOGGER.info("keys reloaded", extra={"keys": self.usable})
        self._warn_of_readers()

    def _use(self, keys: Iterable[ApiKey]) -> None:
        entries = {key.id: key for key in keys}
        for key_id in self._callers.keys() - entries.keys():
            # RPCs in progress still hold the caller.
            self._callers.pop(key_id).revoke()
            self._metrics.of_keys.forget((key_id,))
        for key_id, key in entries.items():
            if key_id in self._callers:
                self._callers[key_id].change(key)
            else:
                series, revoked = self._metrics.of_keys.of((key_id,)), self._metrics.refusals["revoked"]
                self._callers[key_id] = KeyCaller(
                    key, series, revoked=revoked, counts=self._counts.of(key_id), clock=self._clock
                )
        self._metrics.keys.value = self.usable

    def _warn_of_readers(self) -> None:
        if self._file.stat().st_mode & stat.S_IROTH:
            _LOGGER.warning("every user of this machine may read the keys file", extra={"file": str(self._file)})


class Authenticator:
    """Finds callers by their keys."""

    def __init__(
        self,
        keys: KeyRing | None,
        *,
        anonymous: bool,
        metrics: AccessMetrics,
        role: Role = "caller",
        trusted_proxies: str = "",
    ) -> None:
        """Connect the keys.

        Args:
            keys: Keys of callers; None for a server that asks for none.
            anonymous: Whether callers without a key are answered.
            role: Role of the keys that may call.
            trusted_proxies: Networks, with commas between, whose callers are told apart by `x-client-id`.
        """
        self._role = role
        self._proxies = [ipaddress.ip_network(part.strip()) for part in trusted_proxies.split(",") if part.strip()]
        self.keys = keys
        self._anonymous = anonymous
        self._metrics = metrics

    def keyed_caller(self, metadata: Iterable[tuple[str, str | bytes]]) -> Caller | None:
        """Return the caller whose key is in the metadata: `authorization: Bearer KEY`, or `x-api-key: KEY`.

        Raises:
            UnauthenticatedError: The key is not valid, or there is none and one is needed. A wrong key does not make
                its sender anonymous.
            WrongRoleError: The key is for another purpose.
        """
        # Without a keys file, the server leaves the header to proxies that use it.
        presented = _presented(metadata) if self.keys else set()
        if self.keys and len(presented) == 1:
            caller = self.keys.caller_of(presented.pop())
            if caller.key.role != self._role:
                message = f"the API key has the role {caller.key.role}, and {self._role} is needed here"
                raise WrongRoleError(message, self._metrics.refusals["role"])
            return caller
        if presented:
            raise UnauthenticatedError("the metadata has several API keys", self._metrics.refusals["invalid"])
        if self._anonymous:
            return None
        message = "an API key is needed: metadata authorization: Bearer KEY"
        raise UnauthenticatedError(message, self._metrics.refusals["missing"])

    def anonymous_caller(self, network: str, address: IPAddress | None, name: str) -> Caller:
        """Return a caller without a key.

        A caller can send any name, so a name counts only within the network of its sender, unless a trusted proxy sends
        it.

        Args:
            network: Network that has one share.
            address: Address of the sender; None for a socket of this machine.
            name: Name that the caller gives itself; empty for none.
        """
        if name and address is not None and any(address in proxy for proxy in self._proxies):
            return Caller(CallerId(f"{network}\0{name}"))
        return Caller(CallerId(network, name))


def _presented(metadata: Iterable[tuple[str, str | bytes]]) -> set[str]:
    keys = set()
    for name, value in metadata:
        if name == "x-api-key":
            keys.add(str(value))
        elif name == "authorization":
            scheme, _, key = str(value).partition(" ")
            # Another scheme is a key that is not valid.
            keys.add(key.strip() if scheme.lower() == "bearer" else "")
    return keys
