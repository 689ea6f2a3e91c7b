"""The screen: RPCs that cannot be answered in time are refused before they are read."""

from __future__ import annotations

import dataclasses
import math
import time

from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import OverloadedError
from xuanzang.server.rpc.context import RpcContext
from xuanzang.server.rpc.errors import Refusal, refusal_of
from xuanzang.server.rpc.gate import RpcGate

# Beyond this share of the RPCs that a caller or a connection may have, an RPC must be answered in a part of its time:
# least when the next one would be refused or have to wait in the client.
_BUSY_SHARE = 0.5
_LEAST_PART = 1 / 64
# Time that counts for those with more, or without a deadline, when places are scarce.
_PATIENCE_SECONDS = 3600.0
# A refusal is given again for so long; a server answers few requests in this time.
_REFUSING_SECONDS = 0.01
# RPCs with at most so many times as much time as a refused one are taken to be like it.
_SAME_TIME = 1.1
# For so long after a refusal the RPCs like it are read only as the caller's requests are answered: so many for each,
# because some turn out too large, and so many at a time.
_SCARCE_SECONDS = 1.0
_READ_PER_ANSWER = 2
_MAX_PERMITS = 32
_MAX_CALLERS = 1024
_MAX_REFUSALS = 64


@dataclasses.dataclass(slots=True, kw_only=True)
class _Scarcity:
    """What is known of a caller that has lately been refused."""

    refusal: Refusal
    connection: str
    """Connection that was refused; empty for any."""
    seconds: float
    """Time that the refused RPC had until its deadline."""
    refused_at: float
    permits: int = 0
    """RPCs that may be read."""
    refusals: dict[float, Refusal] = dataclasses.field(default_factory=dict)
    """Refusals of RPCs with less time, which have to wait longer, by their time in tenths of a second."""

    def holds(self, connection: str, seconds: float, now: float) -> bool:
        """Return whether the refusal stands for another RPC, so that the queue need not be asked."""
        is_fresh = now < self.refused_at + _REFUSING_SECONDS
        return is_fresh and seconds <= _SAME_TIME * self.seconds and self.connection in ("", connection)

    def allows(self, seconds: float, now: float) -> bool:
        """Take a permit to read an RPC that the queue has time for, if it needs one; return whether it may be read."""
        if now >= self.refused_at + _SCARCE_SECONDS or seconds > _SAME_TIME * self.seconds:
            return True
        self.permits -= 1
        return self.permits >= 0


class Screen:
    """Refuses RPCs of one message before they are read, if one as small as any of late would be refused afterwards.

    Under overload there are more refusals than answers, and a refusal after reading takes several times as long. Nor
    may refusals wait in the client, which has no more RPCs in progress on a connection than the server allows: the last
    of these are left to requests that, measured by the time they have, are answered soon.
    """

    def __init__(self, gate: RpcGate, engine: Engine) -> None:
        self._gate = gate
        self._engine = engine
        # By caller; those refused longest ago are forgotten first.
        self._scarcities: dict[str, _Scarcity] = {}

    def refusal(self, rpc: RpcContext) -> Refusal | None:
        """Decide whether to refuse an RPC.

        Args:
            rpc: RPC that has just arrived, of a caller who may call.
        """
        if not self._gate.is_open:
            return None
        now, caller, seconds = time.monotonic(), rpc.caller.name, _seconds_left(rpc)
        scarcity = self._scarcities.get(caller)
        if scarcity is not None and scarcity.holds(rpc.peer, seconds, now):
            return self._repeated(scarcity, rpc, seconds)
        try:
            self._require_time(rpc, seconds)
        except OverloadedError as error:
            return self._keep(caller, error, connection=rpc.peer, seconds=seconds)
        if scarcity is None or scarcity.allows(seconds, now):
            return None
        return self._repeated(scarcity, rpc, seconds)

    def learn_refusal(self, rpc: RpcContext, error: OverloadedError) -> None:
        """Take note of the refusal of an RPC that was read: the next ones need not be."""
        self._keep(rpc.caller.name, error, connection="", seconds=_seconds_left(rpc))

    def learn_answer(self, rpc: RpcContext) -> None:
        """Take note of an answer: there is room for another request."""
        scarcity = self._scarcities.get(rpc.caller.name) if self._scarcities else None
        if scarcity is not None:
            scarcity.permits = min(max(0, scarcity.permits) + _READ_PER_ANSWER, _MAX_PERMITS)

    def _repeated(self, scarcity: _Scarcity, rpc: RpcContext, seconds: float) -> Refusal:
        """Return the refusal of an RPC that has as much time as a refused one, or less and a longer wait before it."""
        refusals, tenths = scarcity.refusals, round(seconds, 1)
        if _SAME_TIME * seconds >= scarcity.seconds or (tenths not in refusals and len(refusals) >= _MAX_REFUSALS):
            return scarcity.refusal
        if tenths not in refusals:
            refusals[tenths] = scarcity.refusal
            try:
                self._require_time(rpc, seconds)
            except OverloadedError as error:
                refusals[tenths] = refusal_of(error)
        return refusals[tenths]

    def _keep(self, caller: str, error: OverloadedError, *, connection: str, seconds: float) -> Refusal:
        refusal = refusal_of(error)
        known = self._scarcities.pop(caller, None)
        if len(self._scarcities) >= _MAX_CALLERS:
            del self._scarcities[next(iter(self._scarcities))]
        self._scarcities[caller] = _Scarcity(
            refusal=refusal,
            connection=connection,
            seconds=seconds,
            refused_at=time.monotonic(),
            permits=max(0, known.permits) if known else 0,
        )
        return refusal

    def _require_time(self, rpc: RpcContext, seconds: float) -> None:
        share, caller = self._gate.share(rpc), rpc.caller.name
        if share <= _BUSY_SHARE:
            self._engine.require_time(caller, seconds)
            return
        part = _LEAST_PART ** ((share - _BUSY_SHARE) / (1 - _BUSY_SHARE))
        seconds = min(seconds, _PATIENCE_SECONDS)
        try:
            self._engine.require_time(caller, part * seconds)
        except OverloadedError as error:
            message = (
                f"{share:.0%} of the RPCs that may be in progress are, and the answer would take more than {part:.0%} "
                "of the time until the deadline"
            )
            # Places become free as what waits is done: then there are as many as in quiet times, and all of the time.
            until_done = error.retry_after_seconds + part * seconds
            until_room = max(until_done - seconds, (1 - _BUSY_SHARE / share) * until_done)
            wait = min(error.retry_after_seconds, until_room)
            raise OverloadedError(message, retry_after_seconds=wait, reason="places") from None


def _seconds_left(rpc: RpcContext) -> float:
    return math.inf if rpc.deadline is None else rpc.deadline - time.monotonic()
