"""Callers of the overload benchmark: light ones, which are frames on sockets, and the SDK."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import grpc

from benchmarks.harness.light_calls import LightConnection, body_of, headers_of
from benchmarks.harness.processes import METHOD
from xuanzang.client import AsyncTranslationClient, OverloadedError, TranslationError
from xuanzang.translation.v1 import translation_pb2

CONNECTIONS = 4
NOT_SENT = "NOT_SENT"
"""Code of calls that the SDK's throttle holds back."""
_NAMES: Mapping[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """End of a call."""

    code: str
    """Name of the status code, or NOT_SENT."""
    seconds: float
    """Time from when it was due."""
    timeout: float
    """Seconds that it had."""
    advised: float | None = None
    """Seconds that the server asks to wait before a retry."""


class Callers(Protocol):
    """Callers of one server."""

    async def open(self, address: str) -> None:
        """Connect."""

    async def close(self) -> None:
        """Close the connections."""

    async def call(self, sentences: int, timeout: float, due: float) -> Result:  # noqa: ASYNC109 - sent as a deadline
        """Translate random texts."""


class LightCallers:
    """Callers that take little of the processor, over a few connections, without retries."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._random = random.Random(2)
        self._texts = texts
        self._bodies: dict[int, list[bytes]] = {}
        self._blocks: dict[float, bytes] = {}

    async def open(self, address: str) -> None:
        """Connect."""
        self._connections = [await LightConnection.open(address) for _ in range(CONNECTIONS)]

    async def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()

    async def call(self, sentences: int, timeout: float, due: float) -> Result:  # noqa: ASYNC109 - sent as a deadline
        """Translate random texts."""
        if sentences not in self._bodies:
            self._bodies[sentences] = [self._body(sentences) for _ in range(500)]
        if timeout not in self._blocks:
            # Encoded once: it takes longer than all else that is done for a call.
            self._blocks[timeout] = headers_of(METHOD, timeout)
        connection = self._random.choice(self._connections)
        ended = await connection.call(
            self._blocks[timeout], self._random.choice(self._bodies[sentences]), timeout=timeout, due=due
        )
        return Result(code=_NAMES[ended.code], seconds=ended.seconds, timeout=timeout, advised=ended.advised)

    def _body(self, sentences: int) -> bytes:
        contents = self._random.choices(self._texts, k=sentences)
        return body_of(translation_pb2.TranslateTextRequest(contents=contents).SerializeToString())


class SdkCallers:
    """Callers with the SDK: one client, with its retries, and with or without its throttle.

    Args:
        throttle: Whether calls are held back that the server would refuse.
    """

    def __init__(self, texts: Sequence[str], *, throttle: bool) -> None:
        self._random = random.Random(2)
        self._texts = texts
        self._throttle = throttle

    async def open(self, address: str) -> None:
        """Connect."""
        self._client = AsyncTranslationClient(address, throttle=self._throttle)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def call(self, sentences: int, timeout: float, due: float) -> Result:  # noqa: ASYNC109 - sent as a deadline
        """Translate random texts."""
        code, advised = "OK", None
        try:
            await self._client.translate(self._random.choices(self._texts, k=sentences), timeout=timeout)
        except OverloadedError as error:
            code, advised = NOT_SENT if error.__cause__ is None else error.code.name, error.retry_after
        except TranslationError as error:
            code = error.code.name
        return Result(code=code, seconds=time.perf_counter() - due, timeout=timeout, advised=advised)


async def admitted_after(callers: Callers, sentences: int, refused: Result, *, interval: float) -> float | None:
    """Ask again and again, and return when a call like a refused one is admitted.

    Args:
        refused: Refused call, of this moment.
        interval: Seconds between two tries.

    Returns:
        Seconds; None if none was admitted in three times the advised time and a second.
    """
    started = time.perf_counter()
    limit = started + 3 * (refused.advised or 0.0) + 1.0
    while (now := time.perf_counter()) < limit:
        trying = asyncio.ensure_future(callers.call(sentences, refused.timeout, now))
        await asyncio.sleep(interval)
        if not trying.done() or trying.result().code == "OK":
            await trying
            return max(now - started, interval)
    return None
