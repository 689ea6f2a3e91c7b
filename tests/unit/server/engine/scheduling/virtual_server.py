"""A server in virtual time: the real scheduler, and workers whose steps take as long as a formula says."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import pytest
from search_options import search_options

from xuanzang.server.engine.decoding.hypotheses import Sentence
from xuanzang.server.engine.errors import OverloadedError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling import request as request_module
from xuanzang.server.engine.scheduling import scheduler as scheduler_module
from xuanzang.server.engine.scheduling.request import AbandonReason, CallContext, Found, QueuedSentence, Request
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.settings import UNLIMITED, EngineSettings
from xuanzang.server.engine.types import CallerId, DecodingOptions

ASKING_SECONDS = 0.02
PAUSE_SECONDS = 0.003
"""Time between an answer and the next request of a caller who asks for one sentence after the other."""
ASKED_PARTS = (0.2, 0.3, 0.4, 0.5, 0.6)
"""Deadlines for which is asked at the end, as parts of the longest one."""
GREEDY = search_options(beam_size=1).decoding


class FreeModel(LoadedModel):
    """A model without bundle, limits and memory."""

    def __init__(self) -> None:
        self.limits = UNLIMITED
        self.max_cache_bytes = None
        self._cache_shape = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Time that a step takes."""

    step: float
    """Seconds of a step, whatever its sentences."""
    sentence: float
    """Seconds for each sentence of it."""
    joining: float = 0.0
    """Seconds for which a batch stops when sentences join it, whatever they are."""
    joining_token: float = 0.0
    """Seconds more for each of their source tokens."""

    def capacity(self, *, batch: int, tokens: int, workers: int) -> float:
        """Return sentences per second of full batches."""
        return workers * batch / (tokens * (self.step + batch * self.sentence))


@dataclass(slots=True)
class Tally:
    """What became of the requests that came after a time."""

    answered: int = 0
    expired: int = 0
    refused: int = 0
    told_by_true: list[float] = field(default_factory=list)
    """Seconds that some at the end were asked to wait, by the seconds until the server would have admitted them."""

    @property
    def expired_share(self) -> float:
        """Share of the admitted requests that were not answered in time."""
        return self.expired / max(1, self.answered + self.expired)


class Unread:
    """Takes what is found, and does nothing with it."""

    def next(self, position: int, found: Found) -> Callable[[], None]:
        return lambda: None

    def on_prefix(self, position: int, target_ids: Sequence[int]) -> None: ...


def free_request(caller: str, lengths: Sequence[int]) -> Request:
    """Return greedy sentences of some source lengths, each of twice that cost, by a caller as share/name."""
    options = search_options(beam_size=1, max_target_length=10_000)
    sentences = [Sentence(source_ids=[5] * length, options=options) for length in lengths]
    return Request(CallContext(model=FreeModel(), caller=CallerId(*caller.split("/"))), sentences, Unread())


class VirtualServer:
    """Requests of equal sentences arrive at random times; a caller whose deadline passes hangs up."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, model: LoadedModel, speed: Speed, *, workers: int = 2, batch: int = 32
    ) -> None:
        self.now = 1000.0
        self.tally = Tally()
        self.rows: list[int] = []
        """Places of the batch of each step."""
        self.joinings = 0
        """Times that sentences joined a batch or began one."""
        self.taken: list[float] = []
        """Seconds from each arrival to its answer, of requests that `arrivals` brings."""
        clock = SimpleNamespace(monotonic=lambda: self.now)
        for module in (request_module, scheduler_module):
            monkeypatch.setattr(module, "time", clock)
        self.scheduler = Scheduler(EngineSettings(max_batch_sentences=batch), workers=workers)
        self._speed = speed
        self._model = model
        self._running: list[list[QueuedSentence]] = [[] for _ in range(workers)]
        self._left_worker: list[list[QueuedSentence]] = [[] for _ in range(workers)]
        self._busy_since = [0.0] * workers
        self._stepping = [False] * workers
        self._left: dict[Request, int] = {}
        self._then: dict[Request, Callable[[], None]] = {}
        self._counts_from = 0.0
        self._tallied: set[Request] = set()
        self.steps_of: Callable[[QueuedSentence], int] = lambda queued: queued.target_tokens
        """Steps that a sentence takes; other than predicted only where a test says so."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, time: float, event: Callable[[], None]) -> None:
        """Let something happen."""
        heapq.heappush(self._events, (time, next(self._order), event))

    def run(
        self, *, rate: float, sentences: int, tokens: int, deadlines: Sequence[float], seconds: float, warm: float
    ) -> Tally:
        """Serve requests, and count those that come after the first seconds."""
        draw, due, start = random.Random(1), self.now, self.now
        self._counts_from = start + warm
        while (due := due + draw.expovariate(rate)) < start + seconds:
            seconds_left = draw.choice(deadlines)
            self.at(due, partial(self._arrive, [tokens] * sentences, seconds_left))
        for part in ASKED_PARTS:
            self.at(start + seconds, partial(self._ask, [tokens] * sentences, part * max(deadlines)))
        self.go_on()
        return self.tally

    def attack(self, caller: str, lengths: Sequence[int], *, until: float, options: DecodingOptions = GREEDY) -> None:
        """Let a caller ask for sentences, and for the same again whenever it has them."""
        if self.now >= until:
            return
        request = self._request(lengths, math.inf, caller=caller, options=options)
        try:
            self.scheduler.submit(request)
        except OverloadedError as refusal:
            again = partial(self.attack, caller, lengths, until=until, options=options)
            self.at(self.now + refusal.retry_after_seconds, again)
            return
        self._left[request] = len(lengths)
        self._then[request] = partial(self.attack, caller, lengths, until=until, options=options)

    def hang_up(self, caller: str, length: int, *, after: float) -> None:
        """Let a caller ask for a sentence without a deadline, and hang up after some seconds."""
        request = self._request([length], math.inf, caller=caller)
        self.scheduler.submit(request)
        self._left[request] = 1
        self.at(self.now + after, lambda: self._close(request, "cancelled"))

    def serial(self, caller: str, length: int, *, deadline: float, until: float) -> list[float]:
        """Let a caller ask for one sentence after the other; return the seconds that each takes, to be filled."""
        taken: list[float] = []

        def ask() -> None:
            if self.now >= until:
                return
            began = self.now

            def answered() -> None:
                taken.append(self.now - began)
                self.at(self.now + PAUSE_SECONDS, ask)

            request = self._request([length], deadline, caller=caller)
            self.scheduler.submit(request)
            request.done.add_done_callback(asyncio.Future.exception)
            self._left[request], self._then[request] = 1, answered
            self.at(request.context.deadline, lambda: self._close(request, "deadline"))

        self.at(self.now, ask)
        return taken

    def arrivals(self, lengths: Sequence[int], *, rate: float) -> None:
        """Let requests of one sentence come at random times, and note how long each takes."""
        draw, due = random.Random(1), self.now

        def arrive(length: int, came: float) -> None:
            request = self._request([length], math.inf)
            self.scheduler.submit(request)
            self._left[request], self._then[request] = 1, lambda: self.taken.append(self.now - came)

        for length in lengths:
            due += draw.expovariate(rate)
            self.at(due, partial(arrive, length, due))

    def go_on(self) -> None:
        """Let everything happen that is to happen."""
        while self._events:
            self.now, _, event = heapq.heappop(self._events)
            event()
            for worker, is_stepping in enumerate(self._stepping):
                if not is_stepping:
                    self._step(worker)

    def _arrive(self, lengths: Sequence[int], seconds: float) -> None:
        counts = self.now >= self._counts_from
        request = self._request(lengths, seconds)
        try:
            self.scheduler.submit(request)
        except OverloadedError:
            self.tally.refused += counts
            return
        self._left[request] = len(lengths)
        self._tallied.add(request)
        # The error of one that is given up has no reader.
        request.done.add_done_callback(asyncio.Future.exception)
        self.at(request.context.deadline, lambda: self._close(request, "deadline"))

    def _ask(self, lengths: Sequence[int], seconds: float, first: tuple[float, float] | None = None) -> None:
        """Ask again and again for a request; note how long that took, and how long the first answer said."""
        request = self._request(lengths, seconds)
        try:
            self.scheduler.submit(request)
        except OverloadedError as refusal:
            first = first or (self.now, refusal.retry_after_seconds)
            self.at(self.now + ASKING_SECONDS, partial(self._ask, lengths, seconds, first))
            return
        self.scheduler.close(request, "cancelled")
        if first:
            asked_at, told = first
            self.tally.told_by_true.append(told / (self.now - asked_at))

    def _request(
        self, lengths: Sequence[int], seconds: float, *, caller: str = "", options: DecodingOptions = GREEDY
    ) -> Request:
        context = CallContext(model=self._model, deadline=self.now + seconds, caller=CallerId(*caller.split("/")))
        return Request(context, [self._model.sentence((5,) * length, options) for length in lengths], Unread())

    def _close(self, request: Request, reason: AbandonReason | None) -> None:
        if self._left.pop(request, None) is None:
            return
        if request in self._tallied and request.submitted_at >= self._counts_from:
            self.tally.answered += reason is None
            self.tally.expired += reason is not None
        self.scheduler.close(request, reason)
        if reason is None and request in self._then:
            self._then.pop(request)()

    def _step(self, worker: int) -> None:
        running = self._running[worker]
        was_idle = not running
        decision = self.scheduler.take(worker, idle_seconds=0)
        assert decision is not None
        for queued in [queued for queued in running if queued.request.abandoned]:
            self._leave(worker, queued, is_whole=False)
        if was_idle:
            self._busy_since[worker] = self.now
        seconds = 0.0
        for tier, joining in decision.joins.items():
            for queued in joining:
                queued.taken_at, queued.steps = self.now, 0
            running += joining
            tokens = sum(queued.source_tokens for queued in joining)
            joined = self._speed.joining + tokens * self._speed.joining_token
            self.joinings += 1
            seconds += joined
            self.at(self.now + seconds, partial(self.scheduler.charge, worker, tier, joined, is_joining=True))
        self._report(worker)
        if running:
            tiers = {queued.tier for queued in running}
            tier = decision.step if decision.step in tiers else tiers.pop()
            rows = sum(queued.places for queued in running if queued.tier == tier)
            self._stepping[worker] = True
            step = self._speed.step + rows * self._speed.sentence
            self.scheduler.charge(worker, tier, step)
            self.rows.append(rows)
            self.at(self.now + seconds + step, lambda: self._end_step(worker, tier))

    def _end_step(self, worker: int, tier: int) -> None:
        self._stepping[worker] = False
        for queued in [queued for queued in self._running[worker] if queued.tier == tier]:
            queued.steps += 1
            if queued.steps >= self.steps_of(queued):
                self._leave(worker, queued, is_whole=True)
                self._answer(queued.request)
        self._report(worker)

    def _leave(self, worker: int, queued: QueuedSentence, *, is_whole: bool) -> None:
        queued.finished_at, queued.is_whole = self.now, is_whole
        self._running[worker].remove(queued)
        self._left_worker[worker].append(queued)

    def _report(self, worker: int) -> None:
        if left := self._left_worker[worker]:
            self.scheduler.leave(worker, left, seconds=self.now - self._busy_since[worker])
            self._left_worker[worker] = []
            self._busy_since[worker] = self.now

    def _answer(self, request: Request) -> None:
        if request in self._left:
            self._left[request] -= 1
            if not self._left[request]:
                self._left[request] = 0
                self._close(request, None)
