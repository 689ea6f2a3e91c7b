"""Kept answers of searches, and one search for equal sentences in flight.

The result of a search depends on the model, the source ids and the options alone, never on other sentences of
the batch. So a kept answer is the same to the last bit, and equal sentences that wait can share one search. What is
kept are ids and scores; the text of each answer is made anew for the call that gets it.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Self

from xuanzang.server.engine.calls.jobs import SentenceListener
from xuanzang.server.engine.calls.rendering import PlannedSearch, SentenceResult
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, TargetHypothesis, TokenDetails
from xuanzang.server.engine.scheduling.request import CallContext, SentenceTimeline
from xuanzang.server.engine.threads import CallerThreads
from xuanzang.server.engine.types import NO_CALLER, CallerId, FinishReason
from xuanzang.server.metrics import ServerMetrics

Found = Sequence[TargetHypothesis]
"""Hypotheses of one sentence, best first."""

# Bytes of the objects of an entry in CPython 3.11 to 3.14; a test compares the sum with what an interpreter allocates.
_ENTRY_BYTES = 700
_HYPOTHESIS_BYTES = 150
_TOKEN_BYTES = 40
_PACKED_TOKEN_BYTES = 4
_DETAIL_BYTES = 50
# So many texts are made in the time that a thread would take to begin.
_FEW_TEXTS = 8


class AnswerKey:
    """All that the answer of a search depends on, and who may have it. Its hash is computed once: it is used often."""

    __slots__ = ("_hash", "_parts", "manifest_sha256", "options", "source_tokens")

    def __init__(
        self,
        scope: CallerId,
        manifest_sha256: str,
        source_ids: Sequence[int],
        options: SearchOptions,
        *,
        is_streamed: bool = False,
    ) -> None:
        """Make a key of a sentence; `scope` is the identity of the caller, or `NO_CALLER` if callers share answers.

        Where the caller reads along, a translation that repeats itself stands, because it has been seen.
        """
        self.manifest_sha256, self.source_tokens, self.options = manifest_sha256, len(source_ids), options
        self._parts = (array("i", source_ids).tobytes(), scope, manifest_sha256, is_streamed, options)
        self._hash = hash(self._parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnswerKey) and self._parts == other._parts


class _Packed(NamedTuple):
    """A hypothesis whose ids are no objects: those of others would fill memory that the next calls want."""

    target_ids: array[int]
    score: float
    token_count: int
    finished: bool
    details: TokenDetails | None

    @classmethod
    def of(cls, hypothesis: TargetHypothesis) -> Self:
        ids = array("i", hypothesis.target_ids)
        return cls(ids, hypothesis.score, hypothesis.token_count, hypothesis.finished, hypothesis.details)

    def unpacked(self) -> TargetHypothesis:
        return TargetHypothesis(
            target_ids=self.target_ids.tolist(),
            score=self.score,
            token_count=self.token_count,
            finished=self.finished,
            details=self.details,
        )


class _Entry(NamedTuple):
    found: tuple[_Packed, ...]
    size: int


class _InFlight(NamedTuple):
    """A search that is being made."""

    caller: CallerId
    useful_until: float
    waiting: list[asyncio.Future[Found | None]]
    """A future for each other call that waits for the result; None if it is given up or cut short."""


class AnswerCache:
    """Answers of searches, the longest unused dropped first. Belongs to the event loop.

    Texts of callers live here in memory, as ids, and nowhere else.
    """

    def __init__(self, max_bytes: int, metrics: ServerMetrics, *, is_shared: bool = False) -> None:
        """Make an empty cache with a limit of bytes, at least 1.

        Callers that share answers can tell by the time of a call whether somebody else has asked for a translation of
        the same sentence.
        """
        self._max_bytes = max_bytes
        self._metrics = metrics
        self._is_shared = is_shared
        self._entries: OrderedDict[AnswerKey, _Entry] = OrderedDict()
        self.size = 0
        """Bytes of all entries together, as estimated."""
        self._in_flight: dict[AnswerKey, _InFlight] = {}
        metrics.answer_cache_bytes.set_function(lambda: self.size)
        metrics.answer_cache_entries.set_function(lambda: len(self._entries))

    def key(self, context: CallContext, search: PlannedSearch, *, is_streamed: bool = False) -> AnswerKey | None:
        """Return the key of a search; None if its answer must not be kept.

        Drawn translations are not kept, nor are searches that are recorded for an explanation, nor those for terms,
        whose phrases are compiled for one sentence.
        """
        sentence, options = search.sentence, search.sentence.options
        if options.recorder or options.phrases or options.expected_phrases or options.decoding.sampling:
            return None
        scope = NO_CALLER if self._is_shared else context.caller
        digest = context.model.bundle.manifest_sha256
        return AnswerKey(scope, digest, sentence.source_ids, options, is_streamed=is_streamed)

    def get(self, key: AnswerKey) -> Found | None:
        """Return a kept answer, which is then the last to be dropped."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._entries[key] = entry
        return [each.unpacked() for each in entry.found]

    def in_flight(self, key: AnswerKey, context: CallContext) -> asyncio.Future[Found | None] | None:
        """Return what a search will find that is as urgent as a call is; None if there is none.

        Only searches of the same caller are shared: those of others wait for their own turns. Whoever waits may stop.
        """
        search = self._in_flight.get(key)
        if search is None or context.accepts_part:
            return None
        if search.caller != context.caller or search.useful_until > context.useful_until:
            return None
        found: asyncio.Future[Found | None] = asyncio.get_running_loop().create_future()
        search.waiting.append(found)
        return found

    def begin(self, key: AnswerKey, context: CallContext) -> None:
        """Announce a search, which `end` must follow; of two for one key the first is shared."""
        self._in_flight.setdefault(key, _InFlight(context.caller, context.useful_until, []))

    def end(self, key: AnswerKey, found: Found | None) -> None:
        """Share what a search found, and keep it; None: it was given up or cut short."""
        if search := self._in_flight.pop(key, None):
            for waiting in search.waiting:
                if not waiting.done():
                    waiting.set_result(found)
        if found is not None:
            self._keep(key, found)

    def drop(self, manifest_sha256: str) -> None:
        """Drop the answers of a model."""
        for key in [key for key in self._entries if key.manifest_sha256 == manifest_sha256]:
            self.size -= self._entries.pop(key).size

    def _keep(self, key: AnswerKey, found: Found) -> None:
        size = _size_of(key, found)
        if size > self._max_bytes:
            return
        replaced = self._entries.pop(key, None)
        self.size += size - (replaced.size if replaced else 0)
        self._entries[key] = _Entry(tuple([_Packed.of(each) for each in found]), size)
        while self.size > self._max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.size -= oldest.size
            self._metrics.answer_cache_evictions.inc()

    def count(self, *, kept: int, joined: int, searched: int) -> None:
        """Count the sentences of a call by where their answers come from."""
        for source, sentences in (("kept", kept), ("joined", joined), ("searched", searched)):
            if sentences:
                self._metrics.answers[source].inc(sentences)


def _size_of(key: AnswerKey, found: Found) -> int:
    """Estimate the bytes that an entry takes."""
    size = _ENTRY_BYTES + _PACKED_TOKEN_BYTES * key.source_tokens + _TOKEN_BYTES * len(key.options.prefix_ids)
    for hypothesis in found:
        size += _HYPOTHESIS_BYTES + _PACKED_TOKEN_BYTES * len(hypothesis.target_ids)
        if details := hypothesis.details:
            size += _HYPOTHESIS_BYTES + _DETAIL_BYTES * len(details.scores) + _TOKEN_BYTES * len(details.attention)
    return size


Search = Callable[[Sequence[PlannedSearch], SentenceListener | None], Awaitable[list[SentenceResult]]]
"""Searches sentences, and tells a listener of each that is done."""


class AnsweredSearches:
    """A search for one call that takes kept answers, shares running searches, and leaves the rest to another search."""

    def __init__(self, search: Search, cache: AnswerCache, context: CallContext, *, rendering: CallerThreads) -> None:
        """Wrap a search; `rendering`: threads that make the texts of many kept answers."""
        self._search, self._cache, self._context, self._rendering = search, cache, context, rendering

    async def search(
        self, searches: Sequence[PlannedSearch], listener: SentenceListener | None = None
    ) -> list[SentenceResult]:
        """Return the results of all sentences."""
        cache, results = self._cache, dict[int, SentenceResult]()
        is_streamed = listener is not None and listener.reads_along
        keys = [cache.key(self._context, search, is_streamed=is_streamed) for search in searches]
        kept, joined, own = self._divided(keys)
        cache.count(kept=len(kept), joined=len(joined), searched=len(own))
        sharing = _Sharing(cache, keys, listener, is_streamed=is_streamed)

        async def take(answers: Sequence[tuple[int, Found]]) -> None:
            for (position, _), result in zip(answers, await self._rendered(searches, answers), strict=True):
                results[position] = result
                if listener:
                    listener.on_result(position, result)

        async def find(positions: Sequence[int]) -> None:
            sharing.positions = positions
            found = await self._search([searches[position] for position in positions], sharing)
            results.update(zip(positions, found, strict=True))

        try:
            if kept:
                await take(kept)
            if own:
                await find(own)
        finally:
            sharing.end(own)
        given_up = []
        for position, in_flight in joined:
            found = await in_flight
            if found is None:
                given_up.append(position)
            else:
                await take([(position, found)])
        if given_up:
            await find(given_up)
        return [results[position] for position in range(len(searches))]

    def _divided(
        self, keys: Sequence[AnswerKey | None]
    ) -> tuple[list[tuple[int, Found]], list[tuple[int, asyncio.Future[Found | None]]], list[int]]:
        """Return kept answers, searches in flight and searches to make, by position; announce the last."""
        kept: list[tuple[int, Found]] = []
        joined: list[tuple[int, asyncio.Future[Found | None]]] = []
        own: list[int] = []
        for position, key in enumerate(keys):
            found = None if key is None else self._cache.get(key)
            if found is not None:
                kept.append((position, found))
            elif key is not None and (in_flight := self._cache.in_flight(key, self._context)):
                joined.append((position, in_flight))
            else:
                own.append(position)
                if key is not None:
                    self._cache.begin(key, self._context)
        return kept, joined, own

    async def _rendered(
        self, searches: Sequence[PlannedSearch], answers: Sequence[tuple[int, Found]]
    ) -> list[SentenceResult]:
        """Make the results of answers that were searched for others, in a thread if they are many."""
        if len(answers) <= _FEW_TEXTS:
            return [_rendered(searches[position], found) for position, found in answers]

        def render() -> list[SentenceResult]:
            return [_rendered(searches[position], found) for position, found in answers]

        return await self._rendering.run(render, caller=self._context.caller)


class _Sharing:
    """The listener of a wrapped search: shares each result at once, and passes it on under its position in the call."""

    def __init__(
        self,
        cache: AnswerCache,
        keys: list[AnswerKey | None],
        listener: SentenceListener | None,
        *,
        is_streamed: bool,
    ) -> None:
        self._cache, self._keys, self._listener = cache, keys, listener
        self.reads_along = is_streamed
        self.positions: Sequence[int] = ()
        """Positions in the call of the sentences that are searched."""

    def on_prefix(self, position: int, text: str) -> None:
        if self._listener:
            self._listener.on_prefix(self.positions[position], text)

    def on_result(self, position: int, result: SentenceResult) -> None:
        position = self.positions[position]
        if not any(each.finish_reason is FinishReason.DEADLINE for each in result.hypotheses):
            self._end(position, result.found)
        if self._listener:
            self._listener.on_result(position, result)

    def end(self, positions: Iterable[int]) -> None:
        """Notify waiting calls of searches without a result to keep."""
        for position in positions:
            self._end(position, None)

    def _end(self, position: int, found: Found | None) -> None:
        key, self._keys[position] = self._keys[position], None
        if key is not None:
            self._cache.end(key, found)


def _rendered(search: PlannedSearch, found: Found) -> SentenceResult:
    sentence, renderer, *_ = search
    hypotheses = [renderer.render(sentence, each, cut=FinishReason.MAX_LENGTH) for each in found]
    now = time.monotonic()
    timeline = SentenceTimeline(
        queued_at=now,
        taken_at=now,
        encoded_at=now,
        finished_at=now,
        worker=0,
        batch_size=0,
        steps=0,
        searches=0,
        is_kept=True,
        max_target_length=sentence.options.max_target_length,
        source_with_terms=renderer.source_with_terms,
    )
    return SentenceResult(found, hypotheses, timeline)
