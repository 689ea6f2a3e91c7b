"""The event loop of the server and the gateway, which reads several of gRPC's wake-ups at once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, TypeVarTuple

from typing_extensions import override

from xuanzang.serving.memory import end_without_memory, watch_memory

# Events of a call. A server at 13 times its capacity refuses calls twice as late if all bytes are read at once.
_MAX_BYTES: Final = 4

Result = TypeVar("Result")
_Arguments = TypeVarTuple("_Arguments")


class _WakeUps(socket.socket):
    """The socket to which gRPC's thread writes a byte for each event.

    grpc.aio reads one byte and then handles all events, so the bytes of the others wake the loop in vain, up to three
    times a call. Here a few bytes are read at once, before the events are handled, so no event is missed.
    """

    __slots__ = ()

    @override
    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        return super().recv(max(bufsize, _MAX_BYTES), flags)


class EventLoop(asyncio.SelectorEventLoop):
    """A loop that reads several wake-ups at once from the socket of gRPC, the only one that `add_reader` gets.

    An error in a callback ends a process without memory: the callback's call would never end.
    """

    @override
    def call_exception_handler(self, context: dict[str, Any]) -> None:
        end_without_memory()
        super().call_exception_handler(context)

    @override
    def add_reader(self, fd: Any, callback: Callable[[*_Arguments], Any], *args: *_Arguments) -> None:
        if isinstance(fd, socket.socket):
            fd.__class__ = _WakeUps
        super().add_reader(fd, callback, *args)


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in such a loop until it ends, as `asyncio.run` does; the process is the loop's from then on."""
    watch_memory()
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        try:
            return runner.run(main)
        except Exception:
            end_without_memory()  # before the runner cancels the calls in progress
            raise
