"""Callers of a soak: open and closed loops, and what became of their calls."""

from __future__ import annotations

import asyncio
import collections
import hashlib
import operator
import random
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import grpc

from benchmarks.soak.traffic import Job, LengthClass, jobs, require_translations, signature
from xuanzang.loadtest.loops import closed_loop, due_times

SERVICE = "/xuanzang.translation.v1.TranslationService/"
METHODS = {
    "unary": f"{SERVICE}TranslateText",
    "stream": f"{SERVICE}StreamTranslateText",
    "progressive": f"{SERVICE}TranslateTextProgressively",
}
CONNECTIONS = 4
TIMEOUT_SECONDS = 60.0
"""Time limit of calls whose deadline must not pass."""
CANCEL_SECONDS = 0.2
"""Calls of the kind that is cancelled are cancelled within this time."""
_SHOWN_FAILURES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One call."""

    kind: str
    length: LengthClass
    code: str
    """Name of the status code."""
    seconds: float
    """Time from when it was due to its end."""
    late: float
    """Delay of sending, in seconds."""


@dataclass(slots=True)
class Record:
    """Results of all calls so far."""

    ended: list[Ended] = field(default_factory=list)
    """Calls since the last `take`."""
    codes: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    """Calls by kind and status code."""
    failures: collections.Counter[str] = field(default_factory=collections.Counter)
    """Calls that ended as none may, by reason."""
    withheld: int = 0
    """Calls of open loops that were not made, because too many were under way."""
    compared: int = 0
    """Answers that were compared with an earlier one to the same request."""

    def take(self) -> list[Ended]:
        """Return the calls that have ended since the last time."""
        taken, self.ended = self.ended, []
        return taken

    def fail(self, reason: str) -> None:
        """Count a failure."""
        key = reason if reason in self.failures or len(self.failures) < _SHOWN_FAILURES else "others"
        self.failures[key] += 1


class Callers:
    """Callers of one server, over a few connections."""

    def __init__(self, address: str, texts: Sequence[str], seed: int) -> None:
        self.record = Record()
        self._random = random.Random(seed)
        self._open: set[asyncio.Task[None]] = set()
        self._jobs = jobs(texts, seed)
        self._shares = [each[0].kind.share for each in self._jobs]
        self._answers: dict[int, bytes] = {}
        options = (("grpc.use_local_subchannel_pool", 1),)
        self._channels = [grpc.aio.insecure_channel(address, options) for _ in range(CONNECTIONS)]

    async def close(self) -> None:
        """Close the connections."""
        for channel in self._channels:
            await channel.close()

    async def warm_up(self) -> None:
        """Make one call of each kind, one after another."""
        for variants in self._jobs:
            await self._call(variants[0], time.perf_counter(), self._random)
        self.record.take()

    async def fill(self, callers: int) -> None:
        """Make all requests of each kind, kind by kind and as many at a time as there are callers.

        Each shape of request comes now, in its largest batches, to allocate what a first one needs.
        """
        for variants in self._jobs:
            waiting = deque(variants * -(-callers // len(variants)))

            async def call(due: float, waiting: deque[Job] = waiting) -> None:
                await self._call(waiting.popleft(), due, self._random)

            await closed_loop(call, callers=callers, is_over=partial(operator.not_, waiting))
        self.record.take()

    async def capacity(self, seconds: float, callers: int) -> float:
        """Return the calls per second of a closed loop that keeps the server busy; it counts as no soak.

        Args:
            seconds: Length of the loop.
        """
        started, done = time.perf_counter(), 0
        warm, ends = started + 0.3 * seconds, started + seconds

        async def call(due: float) -> None:
            nonlocal done
            await self._call(self._next(self._random), due, self._random)
            done += warm < time.perf_counter() < ends

        await closed_loop(call, callers=callers, is_over=lambda: time.perf_counter() >= ends)
        self.record.take()
        return done / (ends - warm)

    async def open_loop(self, rate: float, seconds: float, *, most: int, seed: int) -> None:
        """Send calls at random times, whether or not earlier ones have been answered; do not wait for the last answers.

        Args:
            rate: Mean calls per second.
            most: Calls that may be under way; beyond, calls are left out.
            seed: Seed of the times, the calls, their deadlines and cancellations.
        """
        chance = random.Random(seed)
        async for due in due_times(rate, seconds, random.Random(seed)):
            job, own = self._next(chance), random.Random(chance.getrandbits(32))
            if len(self._open) >= most:
                self.record.withheld += 1
                continue
            call = asyncio.create_task(self._call(job, due, own))
            self._open.add(call)
            call.add_done_callback(self._open.discard)

    async def join(self) -> None:
        """Wait for the answers to all calls."""
        await asyncio.gather(*self._open)

    def _next(self, chance: random.Random) -> Job:
        return chance.choice(chance.choices(self._jobs, self._shares)[0])

    async def _call(self, job: Job, due: float, chance: random.Random) -> None:
        late = time.perf_counter() - due
        seconds = TIMEOUT_SECONDS if job.kind.deadlines is None else chance.uniform(*job.kind.deadlines)
        try:
            answers = await self._answers_to(job, seconds, chance)
        except grpc.aio.AioRpcError as error:
            code, details = error.code().name, error.details()
        except asyncio.CancelledError:
            # Raised by our own `cancel`; a task that is cancelled from outside would be lost here, and none is.
            code, details = "CANCELLED", "by the caller"
        else:
            code, details = "OK", None
            self._compare(job, answers)
        if code not in _permitted(job):
            self.record.fail(f"{job.kind.name}: {code}: {details}")
        self.record.codes[job.kind.name, code] += 1
        spent = time.perf_counter() - due
        self.record.ended.append(Ended(kind=job.kind.name, length=job.length, code=code, seconds=spent, late=late))

    async def _answers_to(self, job: Job, seconds: float, chance: random.Random) -> list[bytes]:
        """Return the messages that answer a request."""
        channel = chance.choice(self._channels)
        method = METHODS[job.kind.shape]
        if job.kind.shape == "stream":
            converse: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(method)
            return [answer async for answer in converse(iter(job.messages), timeout=seconds)]
        if job.kind.shape == "progressive":
            follow: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(method)
            return [part async for part in follow(job.messages[0], timeout=seconds)]
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        call = ask(job.messages[0], timeout=seconds)
        if job.kind.cancels:
            asyncio.get_running_loop().call_later(chance.uniform(0, CANCEL_SECONDS), call.cancel)
        return [await call]

    def _compare(self, job: Job, answers: Sequence[bytes]) -> None:
        """Check that an answer equals the earlier one of the same request."""
        if job.kind.deadlines is not None:
            return
        try:
            answer = hashlib.sha256(signature(job, answers)).digest()
            if job.number not in self._answers:
                require_translations(job, answers)
        except ValueError as error:
            self.record.fail(f"{job.kind.name}: {error}")
            return
        self.record.compared += job.number in self._answers
        if self._answers.setdefault(job.number, answer) != answer:
            self.record.fail(f"{job.kind.name}: another answer than before")


def _permitted(job: Job) -> set[str]:
    if job.kind.cancels:
        return {"OK", "CANCELLED"}
    if job.kind.deadlines is not None:
        # A deadline that is known to be too near is refused at once.
        return {"OK", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}
    return {"OK"}
