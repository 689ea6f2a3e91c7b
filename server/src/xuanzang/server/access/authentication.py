"""Authentication: the caller that the metadata of an RPC proves, or an anonymous one where that is allowed."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xuanzang.server.access.callers import Caller, KeyCaller
from xuanzang.server.access.errors import UnauthenticatedError, WrongRoleError
from xuanzang.server.access.key_ring import KeyRing
from xuanzang.server.access.keys import Role
from xuanzang.server.access.metrics import AccessMetrics


class Authenticator:
    """Finds callers by their keys."""

    def __init__(
        self,
        keys: KeyRing | None,
        *,
        anonymous: bool,
        metrics: AccessMetrics,
        role: Role = "caller",
        key_names: Collection[str] = ("x-api-key",),
    ) -> None:
        """Connect the keys.

        Args:
            keys: Keys in use; None on a server that asks for none.
            anonymous: Whether callers without a key are answered.
            metrics: Metrics of access.
            role: Role that keys must have.
            key_names: Names in the metadata that have a key as their value, besides `authorization`.
        """
        self._key_names = frozenset(key_names)
        self._role = role
        self.keys = keys
        self._anonymous = anonymous
        self._metrics = metrics

    def keyed_caller(self, metadata: Iterable[tuple[str, str | bytes]]) -> Caller | None:
        """Return the caller whose key is in the metadata of an RPC.

        Args:
            metadata: Names and values; `authorization: Bearer KEY`, or a name for keys such as `x-api-key: KEY`.

        Returns:
            The holder of the key; None for a caller that may be anonymous.

        Raises:
            UnauthenticatedError: The key is not valid, or there is none and one is needed. A wrong key does not make
                its sender anonymous.
            WrongRoleError: The key is for another purpose.
        """
        # Without keys of its own, the server leaves the header to proxies that have a use for it.
        presented = self._presented(metadata) if self.keys else set()
        if self.keys and len(presented) == 1:
            return self._in_role(self.keys.caller_of(presented.pop()))
        if presented:
            raise UnauthenticatedError("the metadata has several API keys", self._metrics.refusals["invalid"])
        if self._anonymous:
            return None
        message = "an API key is needed: metadata authorization: Bearer KEY"
        raise UnauthenticatedError(message, self._metrics.refusals["missing"])

    def _in_role(self, caller: KeyCaller) -> KeyCaller:
        if caller.role != self._role:
            message = f"the API key has the role {caller.role}, and {self._role} is needed here"
            raise WrongRoleError(message, self._metrics.refusals["role"])
        return caller

    def _presented(self, metadata: Iterable[tuple[str, str | bytes]]) -> set[str]:
        keys = set()
        for name, value in metadata:
            if name in self._key_names:
                keys.add(str(value))
            elif name == "authorization":
                scheme, _, key = str(value).partition(" ")
                # Another scheme is a key that is not valid.
                keys.add(key.strip() if scheme.lower() == "bearer" else "")
        return keys
