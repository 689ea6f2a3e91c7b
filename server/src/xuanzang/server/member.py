"""A server's line to the parent of several: its place among them, and the messages that both exchange."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "XUANZANG_MEMBER"
"""Environment variable that makes a server one of several, set by the parent alone."""
_MAX_LINE_BYTES = 1 << 16

Message = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The place of a server among several, as the parent tells it."""

    process: int
    """Number of the process, from 0."""
    processes: int
    line: int
    """Descriptor of the socket to the parent."""
    quotas: Path
    """File with the counts of quotas."""

    @classmethod
    def of(cls, variable: str) -> Membership:
        """Read the environment variable `VARIABLE`."""
        facts = json.loads(variable)
        return cls(**{**facts, "quotas": Path(facts["quotas"])})


class Line:
    """One end of the line between the parent and a server: messages in JSON, one in each line of text."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def over(cls, end: socket.socket) -> Line:
        """Open the end of a pair of sockets."""
        return cls(*await asyncio.open_unix_connection(sock=end, limit=_MAX_LINE_BYTES))

    def send(self, **message: object) -> None:
        """Send a message; one to an end that is gone is lost."""
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> Message | None:
        """Wait for a message; None if the other end is gone."""
        with suppress(OSError, ValueError):
            if line := await self._reader.readline():
                message: Message = json.loads(line)
                return message
        return None

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


class Member:
    """A server's line to its parent."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self._may_open = asyncio.Event()
        self._line: Line | None = None
        self._unsent: list[Message] = []
        self._answers: dict[int, asyncio.Future[list[str]]] = {}

    async def run(self, apply: Callable[[Message], Awaitable[None]], on_orphaned: Callable[[], None]) -> None:
        """Follow the parent until it is gone; `apply` makes a change of the models that another server was asked for.

        Args:
            apply: Function that makes the change, and raises what the asking server is to say.
            on_orphaned: Function to call when the parent is gone.
        """
        line = self._line = await Line.over(socket.socket(fileno=self.membership.line))
        for message in self._unsent:
            line.send(**message)
        while (received := await line.receive()) is not None:
            if received["kind"] == "open":
                self._may_open.set()
            elif received["kind"] == "change":
                fault = await _fault_of(apply(received["asked"]))
                line.send(kind="changed", change=received["change"], fault=fault)
            elif received["kind"] == "changed" and (answer := self._answers.pop(received["change"], None)):
                answer.set_result(received["faults"])
        on_orphaned()

    async def may_open(self) -> None:
        """Say that the models are loaded, and wait until all servers may answer."""
        self._send(kind="loaded")
        await self._may_open.wait()

    def show_serving(self) -> None:
        """Tell the parent that requests are answered."""
        self._send(kind="serving")

    def show_ports(self, *, metrics: int) -> None:
        """Tell the parent where metrics are served."""
        self._send(kind="listening", metrics=metrics)

    async def share(self, asked: Message) -> list[str]:
        """Let the other servers make a change that this one has made; return why some did not."""
        change = len(self._answers) + time.monotonic_ns()
        answer: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._answers[change] = answer
        self._send(kind="change", change=change, asked=asked)
        return await answer

    def _send(self, **message: object) -> None:
        """Send a message, once the line is open."""
        if self._line:
            self._line.send(**message)
        else:
            self._unsent.append(message)


async def _fault_of(change: Awaitable[None]) -> str | None:
    try:
        await change
    except Exception as error:  # noqa: BLE001 - it is reported to the server that was asked
        return str(error) or type(error).__name__
    return None
