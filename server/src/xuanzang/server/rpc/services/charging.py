"""Calls that RPCs are charged for."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from xuanzang.server.engine.scheduling.call import Call, CallRecord
from xuanzang.server.rpc.context import RpcContext


class ChargedCall:
    """A call of an RPC while it is translated: what it is charged, and its record."""

    def __init__(self, rpc: RpcContext, call: Call) -> None:
        rpc.has_calls = True
        self._rpc, self._forced_tokens = rpc, call.forced_tokens
        self._characters, self._sentences = sum(map(len, call.texts)), 0
        self._charge = rpc.caller.charged(call.texts)
        self.record = CallRecord(exemplar=None if rpc.record is None else rpc.record.exemplar)
        """Record for the engine to fill in."""

    def __enter__(self) -> ChargedCall:
        """Charge the texts; raises the errors of `Caller.charged`."""
        self._charge.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Count the texts, or let the caller have back what is not charged for those with an error."""
        if self._rpc.record is not None:
            self._rpc.record.call_ended(self.record)
        self._charge.__exit__(kind, error, traceback)
        if error is None:
            self._rpc.used_characters += self._characters
            self._rpc.used_sentences += self._sentences

    def hold_sentences(self, count: int) -> AbstractContextManager[None]:
        """Count sentences and hold places for them, as `Caller.hold_sentences` does.

        Target tokens that are forced count as characters where they are more than those of the texts.
        """
        self._sentences += count
        more = max(0, count * self._forced_tokens - self._characters)
        self._characters += more
        return self._rpc.caller.hold_sentences(count, more_characters=more)
