"""One RPC in the server: its caller, deadline, usage, and the receiver of its answers."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NoReturn, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message
from grpc import StatusCode

from xuanzang.server.access.authentication import Authenticator
from xuanzang.server.access.callers import Caller
from xuanzang.server.access.errors import UnauthenticatedError
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.threads import CallerThreads, Result
from xuanzang.server.engine.types import CallerId
from xuanzang.server.metric_series import Counter
from xuanzang.server.observation.callers import Sender
from xuanzang.server.observation.rpc_record import RpcRecord
from xuanzang.server.rpc.limits import SMALL_BYTES
from xuanzang.serving.networks import ip_of

ServicerContext: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
Trailers: TypeAlias = tuple[tuple[str, str], ...]

CLIENT_ID = "x-client-id"
MAX_CLIENT_ID_CHARACTERS = 128
PROCESSES = "x-processes"
"""Name of the number of processes that share the address, in the metadata of an answer."""
USAGE_CHARACTERS = "x-usage-characters"
USAGE_SENTENCES = "x-usage-sentences"

REQUEST_ID = "x-request-id"
"""Name of the id in the metadata of the caller and of the answer."""
_VALID_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")

AnyMessage = TypeVar("AnyMessage", bound=Message)

_NO_CALLER = Caller(CallerId())


@dataclass(slots=True, eq=False)
class RpcContext:
    """One RPC: made when it arrives, filled in as it passes the entry, read by the services."""

    grpc: ServicerContext
    """gRPC's context, where answers are written."""
    _: KW_ONLY
    sender: Sender
    caller: Caller = _NO_CALLER
    refusal: Exception | None = None
    """Why the caller may not call; None if it may."""
    metadata: Mapping[str, str | bytes] = field(default_factory=dict)
    place: Any = None
    """Place at the gate, once it was looked for."""
    active_at: float = field(default_factory=time.monotonic)
    """Time of the last message in either direction, seconds on the monotonic clock."""
    deadline: float | None = field(init=False)
    """Deadline of the caller, seconds on the monotonic clock; None without one."""
    request_id: str | None = None
    """Id for the caller and the operator; None unless it is observed."""
    record: RpcRecord | None = None
    """Receiver of the records of its calls; None if they are not needed."""
    sent: Counter | None = None
    """Counter of the messages that are written."""
    log_text: Callable[..., None] | None = None
    """Logs the end of a single text, as `RpcLog.write` does but for its method; None if it is not needed."""
    offloader: CallerThreads | None = None
    """Pool for work that its messages make; None if none is large."""
    message_bytes: int = 0
    """Size of the last message of the caller."""
    fault: InvalidInputError | None = None
    """Reason that the last message of a stream was not decoded."""
    owed: int = 0
    """Messages of the caller that are not answered yet."""
    has_calls: bool = False
    """True if it has translated anything, so that the answer says how much."""
    used_characters: int = 0
    """Characters of the texts that it has translated."""
    used_sentences: int = 0
    """Sentences of those texts."""

    def __post_init__(self) -> None:
        left: float | None = self.grpc.time_remaining()
        # gRPC rounds timeouts up, by at most 1%, to send them: the caller gives up before the server's clock says so.
        self.deadline = None if left is None else self.active_at + 0.99 * left

    @property
    def has_expired(self) -> bool:
        """True if the caller's time is over, by a clock that runs as fast as the caller's."""
        return self.deadline is not None and time.monotonic() >= self.deadline - 0.02

    async def compute(self, work: Callable[[], Result], *, size: int | None = None) -> Result:
        """Do work that grows with a message of `size` bytes, by default the last one; a pool does it if it is large.

        Raises:
            DrainingError: The work is large, and the server is stopping.
        """
        if self.offloader is None or (self.message_bytes if size is None else size) <= SMALL_BYTES:
            return work()
        return await self.offload(work)

    async def offload(self, work: Callable[[], Result]) -> Result:
        """Do work in a pool, when it is the turn of its caller; raise DrainingError as `compute` does."""
        if self.offloader is None:
            return work()
        return await self.offloader.run(work, caller=self.caller.identity)

    async def answer(self, build: Callable[[], AnyMessage], *, size: int) -> AnyMessage | bytes:
        """Build an answer; one of more than a few kilobytes is built and encoded in the pool, if there is one."""
        if self.offloader is None or size <= SMALL_BYTES:
            return build()
        return await self.offload(lambda: build().SerializeToString())

    async def write(self, message: Any) -> None:
        """Send one answer of a stream."""
        await self.grpc.write(message)
        if self.sent is not None:
            self.sent.value += 1
        self.owed -= 1
        self.active_at = time.monotonic()

    async def abort(self, code: StatusCode, details: str = "") -> NoReturn:
        """End the RPC with a status, as services of gRPC's own packages do."""
        await self.grpc.abort(code, details)

    @property
    def id_trailers(self) -> Trailers:
        """Metadata that follow every answer, also a refusal."""
        return () if self.request_id is None else ((REQUEST_ID, self.request_id),)

    @property
    def trailers(self) -> Trailers:
        """Metadata that follow the answer: the id and the usage."""
        if not self.has_calls:
            return self.id_trailers
        own = () if self.request_id is None else ((REQUEST_ID, self.request_id),)
        return *own, (USAGE_CHARACTERS, str(self.used_characters)), (USAGE_SENTENCES, str(self.used_sentences))


def identify(context: ServicerContext, sender: Sender, authenticator: Authenticator | None) -> RpcContext:
    """Identify the sender of an RPC; unauthorised ones are refused once the RPC is counted.

    A caller without a key is identified by its network address and by the name in its metadata `x-client-id`.
    """
    if authenticator is None:
        return RpcContext(context, sender=sender)
    metadata = tuple(context.invocation_metadata() or ())
    rpc = RpcContext(context, sender=sender, metadata=dict(metadata))
    try:
        caller = authenticator.keyed_caller(metadata)
    except UnauthenticatedError as refusal:
        rpc.refusal = refusal
        return rpc
    name = "" if caller else str(rpc.metadata.get(CLIENT_ID, ""))
    if len(name) > MAX_CLIENT_ID_CHARACTERS:
        description = f"must have at most {MAX_CLIENT_ID_CHARACTERS} characters, has {len(name)}"
        rpc.refusal = InvalidInputError([FieldViolation(field=CLIENT_ID, description=description)])
    else:
        rpc.caller = caller or authenticator.anonymous_caller(sender.network, ip_of(sender.host), name)
    return rpc


def chosen_id(metadata: Mapping[str, str | bytes]) -> str:
    """Return the caller's id, or a new one if it has none or an invalid one."""
    chosen = metadata.get(REQUEST_ID)
    if isinstance(chosen, str) and _VALID_ID.fullmatch(chosen):
        return chosen
    # An id is no secret. `secrets` asks the system for each, and gives the interpreter away meanwhile.
    return f"{random.getrandbits(128):032x}"
