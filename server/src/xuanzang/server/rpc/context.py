"""One RPC as the server sees it: who calls, until when, what it uses, and where its answers go."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, NoReturn, TypeAlias

import grpc

from xuanzang.server.access.authentication import Authenticator
from xuanzang.server.access.callers import Caller
from xuanzang.server.access.errors import UnauthenticatedError
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.scheduling.call import Call, CallRecord
from xuanzang.server.metric_series import Counter
from xuanzang.server.observation.rpc_record import RpcRecord

ServicerContext: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
Trailers: TypeAlias = tuple[tuple[str, str], ...]

CLIENT_ID = "x-client-id"
MAX_CLIENT_ID_CHARACTERS = 128
USAGE_CHARACTERS = "x-usage-characters"
USAGE_SENTENCES = "x-usage-sentences"

REQUEST_ID: Final = "x-request-id"
"""Name of the id in the metadata of the caller and of the answer."""
MAX_REQUEST_ID_CHARACTERS: Final = 128
_ID_BITS = 128
_VALID_ID = re.compile(rf"[A-Za-z0-9._:/+=-]{{1,{MAX_REQUEST_ID_CHARACTERS}}}")

_NOBODY = Caller("")


class RpcContext:
    """One RPC: made when it arrives, filled in as it passes the entry, read by the services."""

    def __init__(
        self, context: ServicerContext, *, caller: Caller, refusal: Exception | None = None, metadata: Metadata = ()
    ) -> None:
        self.grpc = context
        """gRPC's context, where answers are written."""
        self.caller = caller
        self.refusal = refusal
        self.metadata: Mapping[str, str | bytes] = dict(metadata)
        self.peer: str = context.peer()
        """Peer in gRPC's form, with its port."""
        self.host: str = self.peer.rpartition(":")[0]
        """The same without the port, of which every connection has another."""
        self.place: Any = None
        """Place at the gate, once it was looked for."""
        left: float | None = context.time_remaining()
        self.active_at = time.monotonic()
        """Time of the last message in either direction, seconds on the monotonic clock."""
        # gRPC rounds timeouts up, by at most 1%, to send them: the caller gives up before the server's clock says so.
        self.deadline = None if left is None else self.active_at + 0.99 * left
        """Time by which the caller wants its answer, seconds on the monotonic clock; None without a deadline."""
        self.request_id: str | None = None
        """Id by which the caller and the operator speak of it; None unless it is observed."""
        self.record: RpcRecord | None = None
        """Receiver of the records of its calls; None if nobody wants them."""
        self.sent: Counter | None = None
        """Counter of the messages that are written."""
        self.log_text: Callable[..., None] | None = None
        """Logs the end of a single text, as `RpcLog.write` does but for its method; None if nobody wants it."""
        self.owed = 0
        """Messages of the caller that are not answered yet."""
        self.has_calls = False
        """True if it has translated anything, so that the answer says how much."""
        self.used_characters = self.used_sentences = 0
        """Characters of the texts that it has translated, and their sentences."""

    @property
    def has_expired(self) -> bool:
        """True if the caller's time is over, by a clock that runs as fast as the caller's."""
        return self.deadline is not None and time.monotonic() >= self.deadline - 0.02

    async def write(self, message: Any) -> None:
        """Send one answer of a stream."""
        await self.grpc.write(message)
        if self.sent is not None:
            self.sent.value += 1
        self.owed -= 1
        self.active_at = time.monotonic()

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        """End the RPC with a status, as services of gRPC's own packages do."""
        await self.grpc.abort(code, details)

    def charged(self, call: Call) -> ChargedCall:
        """Charge a call to the caller, and count it once it is answered.

        Returns:
            The call's record and the places of its sentences; to enter it raises the errors of `Caller.charged`.
        """
        self.has_calls = True
        return ChargedCall(self, call)

    @property
    def id_trailers(self) -> Trailers:
        """Metadata that follow every answer, also a refusal."""
        return () if self.request_id is None else ((REQUEST_ID, self.request_id),)

    @property
    def trailers(self) -> Trailers:
        """Metadata that follow the answer: the id, and what has been used."""
        own = self.id_trailers
        if not self.has_calls:
            return own
        return *own, (USAGE_CHARACTERS, str(self.used_characters)), (USAGE_SENTENCES, str(self.used_sentences))


def identify(context: ServicerContext, authenticator: Authenticator | None) -> RpcContext:
    """Find out who sends an RPC; those who may not call are refused once the RPC is counted.

    A caller without a key has the name that its metadata `x-client-id` gives, else that of its network address; a busy
    server shares its time by it, and it is never logged and no label.
    """
    if authenticator is None:
        return RpcContext(context, caller=_NOBODY)
    metadata = tuple(context.invocation_metadata() or ())
    rpc = RpcContext(context, caller=_NOBODY, metadata=metadata)
    try:
        caller = authenticator.keyed_caller(metadata)
        if caller is None:
            name = str(rpc.metadata.get(CLIENT_ID, ""))
            if len(name) > MAX_CLIENT_ID_CHARACTERS:
                description = f"must have at most {MAX_CLIENT_ID_CHARACTERS} characters, has {len(name)}"
                raise InvalidInputError([FieldViolation(field=CLIENT_ID, description=description)])  # noqa: TRY301
            caller = Caller(name or rpc.host)
        rpc.caller = caller
    except (InvalidInputError, UnauthenticatedError) as refusal:
        rpc.refusal = refusal
    return rpc


def chosen_id(metadata: Mapping[str, str | bytes]) -> str:
    """Return the id that a caller chose, or a new one if it chose none or one that is not valid.

    Returns:
        1 to 128 characters: letters, digits and "._:/+=-".
    """
    chosen = metadata.get(REQUEST_ID)
    if isinstance(chosen, str) and _VALID_ID.fullmatch(chosen):
        return chosen
    # An id is no secret. `secrets` asks the system for each, and gives the interpreter away meanwhile.
    return f"{random.getrandbits(_ID_BITS):032x}"


class ChargedCall:
    """A call of an RPC while it is translated: what it is charged, and its record."""

    def __init__(self, rpc: RpcContext, call: Call) -> None:
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
