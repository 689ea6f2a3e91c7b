"""One call: its texts are prepared, their sentences searched, and the results joined."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from weakref import WeakValueDictionary

from xuanzang.server.engine.calls.answers import AnswerCache, AnsweredSearches, OnResult
from xuanzang.server.engine.calls.documents import with_markup
from xuanzang.server.engine.calls.expansion import continuations, draws, openings
from xuanzang.server.engine.calls.journal import Journal
from xuanzang.server.engine.calls.preparation import PreparedTexts, prepare
from xuanzang.server.engine.calls.results import joined, ranked
from xuanzang.server.engine.calls.text_quality import assessed
from xuanzang.server.engine.calls.text_streamer import TextStreamer
from xuanzang.server.engine.errors import DeadlineExceededError
from xuanzang.server.engine.scheduling.call import CallContext, CallRecord, SearchRecord
from xuanzang.server.engine.scheduling.load import predicted_cost
from xuanzang.server.engine.scheduling.request import (
    AbandonReason,
    PlannedSearch,
    Request,
    SentenceListener,
    SentenceResult,
)
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.text.language_detection import LanguageDetector
from xuanzang.server.engine.text.traditional import settled_by
from xuanzang.server.engine.types import ContentFormat, DecodingOptions, FinishReason, Hypothesis
from xuanzang.server.metrics import LENGTH_CLASSES

# Texts of so many characters are tokenised in the time that a thread would take to begin, a fraction of a millisecond.
_SHORT_CHARACTERS = 300
# Fewer than any tokeniser makes of ordinary text.
_MIN_TOKENS_PER_CHARACTER = 0.15
_UNLIMITED = nullcontext()

Emit = Callable[[str], None]
"""Receiver of what comes next of a translation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedResources:
    """Parts of the engine that all calls share."""

    scheduler: Scheduler
    tokenizing: Executor
    """Threads that split and tokenise."""
    settings: EngineSettings
    detector: LanguageDetector | None = None
    """Detector of languages, for the quality of translations; None if the server has none."""
    turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """By caller: held while texts of one of its calls are split and tokenised in a thread."""
    requests: set[Request] = field(default_factory=set)
    """Requests that are submitted and not answered yet."""
    answers: AnswerCache | None = None
    """Kept answers; None to keep none."""


class Call:
    """One call. Belongs to the event loop."""

    def __init__(
        self,
        shared: SharedResources,
        context: CallContext,
        options: DecodingOptions,
        *,
        emit: Emit | None = None,
        journal: Journal | None = None,
        record: CallRecord | None = None,
    ) -> None:
        """Make a call that has not begun.

        Args:
            shared: Parts of the engine.
            context: Model, caller and deadline.
            options: Options within the ranges of the API.
            emit: Receiver of the translation bit by bit, for a call with one text.
            journal: Receiver of records of the searches.
            record: Record to fill in; None if nobody asks for one.
        """
        self._has_markup = context.content_format is not ContentFormat.TEXT
        self._shared = shared
        self._context = context
        # Tags find their places by the alignment of tokens.
        self._options = replace(options, token_details=True) if self._has_markup else options
        self._emit = None if self._has_markup else emit
        self._journal = journal
        self._record = record
        self._timeout = None if context.deadline == math.inf else asyncio.Timeout(context.deadline)
        self._started = False

    async def run(self, texts: Sequence[str]) -> list[list[Hypothesis]]:
        """Translate, once.

        Returns:
            Hypotheses of each text, best first.

        Raises:
            InvalidInputError: Texts are over a limit.
            OverloadedError: The queue is full.
            DrainingError: The engine is stopping.
            DeadlineExceededError: The deadline passed first.
        """
        began = time.monotonic()
        if self._context.deadline <= began:
            raise DeadlineExceededError("the deadline had passed before the request came", in_queue=True)
        try:
            async with self._timeout or _UNLIMITED:
                prepared = await self._prepare(texts)
                with self._context.hold_sentences(len(prepared.searches)):
                    translated = iter(await self._search(prepared))
                answer = await self._joined(prepared, translated)
                if self._context.kept_texts:
                    answer = self._with_reasons(answer)
        except TimeoutError:
            place = "was being translated" if self._started else "waited in the queue"
            message = f"the deadline passed while the request {place}"
            raise DeadlineExceededError(message, in_queue=not self._started) from None
        if self._context.is_counted:
            length = next(length for length, most in LENGTH_CLASSES.items() if prepared.source_tokens <= most)
            durations = self._context.model.metrics.answer_duration_seconds
            durations[length].observe(time.monotonic() - began, self._context.exemplar)
        return answer

    def _with_reasons(self, answer: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Say of the texts that are kept why they are."""
        for index, reason in self._context.kept_texts.items():
            write = self._context.writer.write if self._context.writer and reason is FinishReason.COPIED else str
            answer[index] = [replace(each, text=write(each.text), finish_reason=reason) for each in answer[index]]
        return answer

    async def _joined(
        self, prepared: PreparedTexts, translated: Iterator[Sequence[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Join the sentences of each text, and assess the texts if that is asked for."""
        if not (self._has_markup or self._options.quality):
            # Most texts are one sentence, with nothing to join.
            return [
                list(next(translated))
                if len(segments) == 1 and segments[0].source_ids
                else joined(segments, translated, self._context.codec)
                for segments in prepared.texts
            ]
        work = partial(self._written, prepared, translated)
        return await asyncio.get_running_loop().run_in_executor(self._shared.tokenizing, work)

    def _written(self, prepared: PreparedTexts, translated: Iterator[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
        """Join the sentences, put tags between them, and assess the texts, as the call asks for."""
        context, codec = self._context, self._context.codec
        if self._has_markup:
            pairs = zip(prepared.texts, prepared.documents, strict=True)
            answer = [
                joined(segments, translated, codec) if document is None else with_markup(document, translated, codec)
                for segments, document in pairs
            ]
        else:
            answer = [joined(segments, translated, codec) for segments in prepared.texts]
        if not self._options.quality:
            return answer
        # Tags are in no language.
        return assessed(prepared.texts, answer, context, None if self._has_markup else self._shared.detector)

    async def _prepare(self, texts: Sequence[str]) -> PreparedTexts:
        shared, context = self._shared, self._context
        # Refusing takes less time before tokenising, which is what counts when there is much to refuse.
        min_cost = self._min_cost(texts)
        shared.scheduler.require_admission(
            context.flow, min_cost, useful_until=context.useful_until, accepts_part=context.accepts_part
        )
        started = time.monotonic()
        work = partial(
            prepare,
            texts,
            context=context,
            options=self._options,
            settings=shared.settings,
        )
        if sum(map(len, texts)) <= _SHORT_CHARACTERS:
            prepared = work()
        else:
            # One after another, so that the texts of others find a thread.
            async with shared.turns.setdefault(context.caller, asyncio.Lock()):
                prepared = await asyncio.get_running_loop().run_in_executor(shared.tokenizing, work)
        now = time.monotonic()
        context.model.metrics.tokenize_duration_seconds.observe(now - started)
        if self._record is not None:
            self._record.tokenized_at = now
            self._record.sentences = len(prepared.searches)
            self._record.source_tokens = prepared.source_tokens
        return prepared

    def _min_cost(self, texts: Sequence[str]) -> int:
        """Return a number of predicted tokens that texts have at least."""
        if self._has_markup:
            # Tags have no tokens.
            return 0
        characters = tokens = 0
        for text in texts:
            if text and not text.isspace():
                characters += len(text)
                tokens += 2
        source_tokens = max(tokens, int(_MIN_TOKENS_PER_CHARACTER * characters))
        return source_tokens * (1 + self._options.beam_size) if self._options.max_target_length is None else tokens

    async def _search(self, prepared: PreparedTexts) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence."""
        if not prepared.searches:
            return []
        if self._context.is_counted:
            self._count(prepared)
        if self._journal:
            self._journal.begin(prepared.texts, prepared.searches)
        if self._options.return_alternatives:
            return await self._alternatives(prepared)
        planned = draws(prepared.searches) if self._options.sampling else list(enumerate(prepared.searches))
        is_single = len(planned) == len(prepared.searches)
        streamer = None
        # The best of several draws is known at the end only.
        if self._emit and is_single:
            settled = settled_by(
                self._context.writer, whole=bool(self._context.terms.fields or self._options.target_prefix)
            )
            streamer = TextStreamer(prepared.texts[0], self._context.codec, self._emit, settled=settled)
        searches = [search for _, search in planned]
        results = await self._find(searches, listener=streamer)
        if self._journal:
            self._journal.add(planned, results)
        if is_single:
            return [list(result.hypotheses) for result in results]
        owned = ((owner, result.hypotheses) for (owner, _), result in zip(planned, results, strict=True))
        return ranked(len(prepared.searches), owned)

    async def _alternatives(self, prepared: PreparedTexts) -> list[list[Hypothesis]]:
        """Find the possible openings of each sentence, then continue each."""
        cost = self._options.num_hypotheses * sum(predicted_cost(search.sentence) for search in prepared.searches)
        self._shared.scheduler.require_admission(self._context.flow, cost, useful_until=self._context.useful_until)
        # An opening that is cut short is none, so the cutoff applies to the second part only.
        context = replace(self._context, cutoff=math.inf)
        begun = await self._decode(Request(context, openings(prepared.searches)))
        planned, ended = continuations(prepared.searches, [result.found for result in begun])
        searches = [search for _, search in planned]
        results = await self._decode(Request(self._context, searches), follows=True) if searches else []
        if self._journal:
            self._journal.add(enumerate(openings(prepared.searches)), begun)
            self._journal.add(planned, results)
        owned = [(owner, result.hypotheses) for (owner, _), result in zip(planned, results, strict=True)]
        return ranked(len(prepared.searches), [*owned, *((owner, [hypothesis]) for owner, hypothesis in ended)])

    async def _find(
        self, searches: Sequence[PlannedSearch], *, listener: SentenceListener | None = None
    ) -> list[SentenceResult]:
        """Take the answers that are kept or in flight, and search the other sentences."""
        answers, context = self._shared.answers, self._context
        if answers is None or not context.is_counted:
            return await self._decode(Request(context, searches, listener=listener))

        async def decode(
            searches: Sequence[PlannedSearch], listener: SentenceListener | None, on_result: OnResult
        ) -> list[SentenceResult]:
            return await self._decode(Request(context, searches, listener=listener, on_result=on_result))

        found = AnsweredSearches(answers, context, searches, listener=listener, rendering=self._shared.tokenizing)
        return await found.results(decode)

    async def _decode(self, request: Request, *, follows: bool = False) -> list[SentenceResult]:
        try:
            self._shared.scheduler.submit(request, follows=follows)
            self._shared.requests.add(request)
            abandoned: AbandonReason | None = "error"
            try:
                results = await request.done
                abandoned = None
            except DeadlineExceededError:
                abandoned = "deadline"
                raise
            except asyncio.CancelledError:
                abandoned = "deadline" if self._timeout and self._timeout.expired() else "cancelled"
                raise
            finally:
                self._close(request, abandoned)
        finally:
            request.close()
            # The request may hold an error, and its traceback this frame.
            del request
        return results

    def _close(self, request: Request, abandoned: AbandonReason | None) -> None:
        """Take a submitted request back, whether or not it is answered."""
        self._shared.requests.discard(request)
        self._shared.scheduler.close(request, abandoned)
        self._started |= request.started
        if self._record is not None:
            search = SearchRecord(request.submitted_at, time.monotonic(), request.sentence_count, request.timelines)
            self._record.searches.append(search)

    def _count(self, prepared: PreparedTexts) -> None:
        metrics = self._context.model.metrics
        metrics.request_source_tokens.observe(prepared.source_tokens)
        metrics.request_sentences.observe(len(prepared.searches))
        if self._context.terms.fields:
            metrics.constrained_sentences.inc(sum(1 for search in prepared.searches if search.renderer.matches))
        metrics.request_beam_size.observe(self._options.beam_size)
        metrics.request_num_hypotheses.observe(self._options.num_hypotheses)
