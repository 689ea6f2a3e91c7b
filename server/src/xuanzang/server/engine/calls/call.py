"""The way of one call: texts are prepared, searched and put together again."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from xuanzang.server.engine.calls.assembly import assemble
from xuanzang.server.engine.calls.expansion import Search, continuations, draws, openings
from xuanzang.server.engine.calls.preparation import Prepared, prepare
from xuanzang.server.engine.calls.rendering import render
from xuanzang.server.engine.calls.text_streamer import Progress
from xuanzang.server.engine.decoding.hypotheses import TargetHypothesis
from xuanzang.server.engine.errors import DeadlineExceededError
from xuanzang.server.engine.scheduling.cost import predicted_cost
from xuanzang.server.engine.scheduling.request import Listener, Reason, Request, Terms
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import DecodingOptions, FinishReason, Hypothesis
from xuanzang.server.metrics import Metrics

T = TypeVar("T")

# Texts that are tokenised in the time that handing them to a thread and back would take, a fraction of a millisecond.
_SHORT_CHARACTERS = 300

Tell = Callable[[str], None]
"""Is given what comes next of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facilities:
    """What the calls of an engine share."""

    scheduler: Scheduler
    tokenizing: Executor
    """Whose threads split and tokenise."""
    settings: EngineSettings
    metrics: Metrics
    requests: set[Request[Any]] = field(default_factory=set)
    """Submitted and not answered yet."""


class Translation:
    """One call. Belongs to the event loop."""

    def __init__(self, facilities: Facilities, terms: Terms, options: DecodingOptions, tell: Tell | None) -> None:
        """Make a call that has not begun.

        Args:
            facilities: Of the engine.
            terms: Of the caller.
            options: Within the ranges of the API.
            tell: For a call with one text, if its caller wants to have it bit by bit.
        """
        self._shared = facilities
        self._terms = terms
        self._options = options
        self._tell = tell
        self._timeout = asyncio.Timeout(None)
        self._started = False

    async def run(self, texts: Sequence[str]) -> list[list[Hypothesis]]:
        """Translate, once.

        Args:
            texts: In the source language.

        Returns:
            Hypotheses of each text, best first.

        Raises:
            InvalidInputError: If texts are over a limit.
            OverloadedError: If the queue is full.
            DrainingError: If the engine is stopping.
            DeadlineExceededError: If the deadline passed first.
        """
        remaining = self._terms.deadline - time.monotonic()
        if remaining <= 0:
            raise DeadlineExceededError("the deadline had passed before the request came", in_queue=True)
        try:
            async with asyncio.timeout(None if remaining == math.inf else remaining) as self._timeout:
                prepared = await self._prepare(texts)
                results = iter(await self._search(prepared))
        except TimeoutError:
            place = "was being translated" if self._started else "waited in the queue"
            message = f"the deadline passed while the request {place}"
            raise DeadlineExceededError(message, in_queue=not self._started) from None
        return [assemble(pieces, results, self._terms.text) for pieces in prepared.texts]

    async def _prepare(self, texts: Sequence[str]) -> Prepared:
        model, shared = self._terms.model, self._shared
        # Every text that is not blank has an end token and at least one more.
        shared.scheduler.require_room(self._terms.caller, sum(2 for text in texts if text and not text.isspace()))
        started = time.monotonic()
        work = partial(prepare, texts, terms=self._terms, options=self._options, settings=shared.settings)
        if sum(map(len, texts)) <= _SHORT_CHARACTERS:
            prepared = work()
        else:
            prepared = await asyncio.get_running_loop().run_in_executor(shared.tokenizing, work)
        shared.metrics.of(model.labels).tokenize_duration_seconds.observe(time.monotonic() - started)
        return prepared

    async def _search(self, prepared: Prepared) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence."""
        if not prepared.sentences:
            return []
        self._observe(prepared)
        if self._options.return_alternatives:
            return await self._alternatives(prepared)
        planned = draws(prepared.sentences)
        progress = None
        # Which of several draws is the best is known at the end only.
        if self._tell and len(planned) == len(prepared.sentences):
            progress = Progress(prepared.texts[0], self._terms.text, self._tell)
        found = await self._decode(self._request(planned, prepared, progress))
        return self._ranked(prepared, planned, found)

    async def _alternatives(self, prepared: Prepared) -> list[list[Hypothesis]]:
        """Find how the translation of each sentence may begin, then continue each beginning."""
        cost = self._options.num_hypotheses * sum(predicted_cost(sentence) for sentence in prepared.sentences)
        self._shared.scheduler.require_room(self._terms.caller, cost)
        beginning = [search.sentence for search in openings(prepared.sentences)]
        # An opening that is cut short is none, so that the deadline is left to the second part.
        terms = replace(self._terms, cutoff=math.inf)
        begun = await self._decode(Request(terms, beginning, render=lambda _position, found, _cut: found))
        planned, ended = continuations(prepared.sentences, begun)
        found = await self._decode(self._request(planned, prepared), follows=True) if planned else []
        cut = FinishReason.MAX_LENGTH
        found += [[self._render(search, hypothesis, prepared, cut)] for search, hypothesis in ended]
        return self._ranked(prepared, [*planned, *(search for search, _ in ended)], found)

    def _request(
        self, planned: Sequence[Search], prepared: Prepared, listener: Listener[list[Hypothesis]] | None = None
    ) -> Request[list[Hypothesis]]:
        def rendered(position: int, found: Sequence[TargetHypothesis], cut: FinishReason) -> list[Hypothesis]:
            return [self._render(planned[position], hypothesis, prepared, cut) for hypothesis in found]

        sentences = [search.sentence for search in planned]
        return Request(self._terms, sentences, render=rendered, listener=listener)

    def _render(
        self, search: Search, hypothesis: TargetHypothesis, prepared: Prepared, cut: FinishReason
    ) -> Hypothesis:
        spans = prepared.spans[search.owner] if prepared.spans else ()
        return render(search.whole(hypothesis), self._terms.text, spans=spans, cut=cut)

    def _ranked(
        self, prepared: Prepared, planned: Iterable[Search], found: Iterable[Sequence[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Bring the hypotheses of all searches of each sentence together."""
        results: list[list[Hypothesis]] = [[] for _ in prepared.sentences]
        for search, hypotheses in zip(planned, found, strict=True):
            results[search.owner] += hypotheses
        return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in results]

    async def _decode(self, request: Request[T], *, follows: bool = False) -> list[T]:
        shared = self._shared
        shared.scheduler.submit(request, follows=follows)
        shared.requests.add(request)
        abandoned: Reason | None = "error"
        try:
            found = await request.done
            abandoned = None
        except DeadlineExceededError:
            abandoned = "deadline"
            raise
        except asyncio.CancelledError:
            abandoned = "deadline" if self._timeout.expired() else "cancelled"
            raise
        finally:
            shared.requests.discard(request)
            shared.scheduler.close(request, abandoned)
            self._started |= request.started
        return found

    def _observe(self, prepared: Prepared) -> None:
        metrics = self._shared.metrics.of(self._terms.model.labels)
        tokens = sum(len(sentence.source_ids) for sentence in prepared.sentences)
        metrics.request_source_tokens.observe(tokens)
        metrics.request_sentences.observe(len(prepared.sentences))
        metrics.request_beam_size.observe(self._options.beam_size)
        metrics.request_num_hypotheses.observe(self._options.num_hypotheses)
