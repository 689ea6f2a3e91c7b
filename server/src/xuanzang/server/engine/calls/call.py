"""A call in progress: its texts are prepared, their sentences searched, and the results joined."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from weakref import WeakValueDictionary

from xuanzang.server.engine.calls.answers import AnswerCache, AnsweredSearches, OnResult
from xuanzang.server.engine.calls.documents import with_markup
from xuanzang.server.engine.calls.expansion import continuations, draws, openings
from xuanzang.server.engine.calls.preparation import PreparedTexts, prepare
from xuanzang.server.engine.calls.results import joined, ranked
from xuanzang.server.engine.calls.text_quality import assessed
from xuanzang.server.engine.calls.text_streamer import TextStreamer
from xuanzang.server.engine.errors import DeadlineExceededError
from xuanzang.server.engine.scheduling.call import Call, CallContext, CallRecord, SearchRecord
from xuanzang.server.engine.scheduling.load import predicted_cost
from xuanzang.server.engine.scheduling.request import (
    AbandonReason,
    PlannedSearch,
    Request,
    SearchWatch,
    SentenceListener,
    SentenceResult,
)
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.text.language_detection import LanguageDetector
from xuanzang.server.engine.text.traditional import TraditionalWriter, settled_by
from xuanzang.server.engine.types import ContentFormat, FinishReason, HoldSentences, Hypothesis
from xuanzang.server.time_limits import TimeLimit, TimeLimits

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
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    """Deadlines of the calls."""
    requests: set[Request] = field(default_factory=set)
    """Requests that are submitted and not answered yet."""
    answers: AnswerCache | None = None
    """Kept answers; None to keep none."""


class RunningCall:
    """One call in progress. Belongs to the event loop."""

    def __init__(
        self,
        shared: SharedResources,
        call: Call,
        context: CallContext,
        record: CallRecord,
        *,
        writer: TraditionalWriter | None = None,
        hold_sentences: HoldSentences = nullcontext,
        emit: Emit | None = None,
        watch: SearchWatch | None = None,
        keeps_answers: bool = True,
    ) -> None:
        """Make a call that has not begun.

        Args:
            shared: Parts of the engine.
            call: What is asked for.
            context: By which model, for whom and until when.
            record: Record to fill in.
            writer: Writer of what the model writes; None to leave it as it is.
            hold_sentences: Places of the caller for sentences in translation.
            emit: Receiver of the translation bit by bit, for a call with one text.
            watch: Who has the searches recorded.
            keeps_answers: Whether kept answers may be taken, if the engine keeps some.
        """
        self._has_markup = call.content_format is not ContentFormat.TEXT
        self._shared, self._call, self._context, self._record = shared, call, context, record
        # Tags find their places by the alignment of tokens.
        self._options = replace(call.options, token_details=True) if self._has_markup else call.options
        self._writer, self._hold_sentences = writer, hold_sentences
        self._emit = None if self._has_markup else emit
        self._watch = watch
        self._answers = shared.answers if keeps_answers else None
        self._limit = None if context.deadline == math.inf else TimeLimit(shared.time_limits, context.deadline)

    async def run(self) -> list[list[Hypothesis]]:
        """Translate, once.

        Returns:
            Hypotheses of each text, best first.

        Raises:
            InvalidInputError: Texts are over a limit.
            OverloadedError: The queue is full.
            DrainingError: The engine is stopping.
            DeadlineExceededError: The deadline passed first.
        """
        if self._context.deadline <= time.monotonic():
            raise DeadlineExceededError("the deadline had passed before the request came", in_queue=True)
        try:
            with self._limit or _UNLIMITED:
                prepared = await self._prepare()
                with self._hold_sentences(len(prepared.searches)):
                    translated = iter(await self._search(prepared) if prepared.searches else ())
                if self._has_markup or self._options.quality:
                    work = partial(self._written, prepared, translated)
                    answer = await asyncio.get_running_loop().run_in_executor(self._shared.tokenizing, work)
                else:
                    # Most texts are one sentence, with nothing to join.
                    answer = [
                        list(next(translated))
                        if len(segments) == 1 and segments[0].source_ids
                        else joined(segments, translated, self._context.codec)
                        for segments in prepared.texts
                    ]
        except TimeoutError:
            place = "was being translated" if self._record.started else "waited in the queue"
            message = f"the deadline passed while the request {place}"
            raise DeadlineExceededError(message, in_queue=not self._record.started) from None
        return self._with_reasons(answer) if self._call.readings else answer

    def _with_reasons(self, answer: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Say of the texts that are kept why they are."""
        for index, reason in self._call.kept_texts.items():
            write = self._writer.write if self._writer and reason is FinishReason.COPIED else str
            answer[index] = [replace(each, text=write(each.text), finish_reason=reason) for each in answer[index]]
        return answer

    def _written(self, prepared: PreparedTexts, translated: Iterator[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
        """Join the sentences, put tags between them, and assess the texts, as the call asks for."""
        codec = self._context.codec
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
        return assessed(prepared.texts, answer, self._context, self._shared.detector, has_markup=self._has_markup)

    async def _prepare(self) -> PreparedTexts:
        """Refuse what is too much, then split and tokenise the texts."""
        shared, context, record = self._shared, self._context, self._record
        # Refusing takes less time before tokenising, which is what counts when there is much to refuse.
        shared.scheduler.require_admission(
            context.flow, self._min_cost(), useful_until=context.useful_until, accepts_part=context.accepts_part
        )
        work = partial(prepare, self._call, context, self._options, writer=self._writer, settings=shared.settings)
        if sum(map(len, self._call.texts)) <= _SHORT_CHARACTERS:
            prepared = work()
        else:
            # One after another, so that the texts of others find a thread.
            async with shared.turns.setdefault(context.caller, asyncio.Lock()):
                prepared = await asyncio.get_running_loop().run_in_executor(shared.tokenizing, work)
        record.tokenized_at = time.monotonic()
        record.sentences, record.source_tokens = len(prepared.searches), prepared.source_tokens
        if self._call.terms.fields:
            record.constrained_sentences = sum(1 for search in prepared.searches if search.renderer.terms)
        return prepared

    def _min_cost(self) -> int:
        """Return a number of predicted tokens that texts have at least."""
        if self._has_markup:
            # Tags have no tokens.
            return 0
        characters = tokens = 0
        for text in self._call.texts:
            if text and not text.isspace():
                characters += len(text)
                tokens += 2
        source_tokens = max(tokens, int(_MIN_TOKENS_PER_CHARACTER * characters))
        return source_tokens * (1 + self._options.beam_size) if self._options.max_target_length is None else tokens

    async def _search(self, prepared: PreparedTexts) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, at least one."""
        options, searches = self._options, prepared.searches
        if self._watch:
            self._watch.begin(searches)
        if options.return_alternatives:
            return await self._alternatives(prepared)
        planned = draws(searches) if options.sampling else list(enumerate(searches))
        is_single = len(planned) == len(searches)
        streamer = None
        # The best of several draws is known at the end only.
        if self._emit and is_single:
            settled = settled_by(self._writer, whole=bool(self._call.terms.fields or options.target_prefix))
            streamer = TextStreamer(prepared.texts[0], self._context.codec, self._emit, settled=settled)
        results = await self._find([search for _, search in planned], listener=streamer)
        if self._call.return_provenance:
            self._note(prepared, planned, results)
        if self._watch:
            self._watch.end(searches, results)
        if is_single:
            return [list(result.hypotheses) for result in results]
        owned = ((owner, result.hypotheses) for (owner, _), result in zip(planned, results, strict=True))
        return ranked(len(searches), owned)

    async def _alternatives(self, prepared: PreparedTexts) -> list[list[Hypothesis]]:
        """Find the possible openings of each sentence, then continue each."""
        cost = self._options.num_hypotheses * sum(predicted_cost(search.sentence) for search in prepared.searches)
        self._shared.scheduler.require_admission(self._context.flow, cost, useful_until=self._context.useful_until)
        # An opening that is cut short is none, so the cutoff applies to the second part only.
        context = replace(self._context, cutoff=math.inf)
        first = openings(prepared.searches)
        begun = await self._decode(Request(context, first))
        planned, ended = continuations(prepared.searches, [result.found for result in begun])
        searches = [search for _, search in planned]
        results = await self._decode(Request(self._context, searches), follows=True) if searches else []
        if self._call.return_provenance:
            self._note(prepared, list(enumerate(first)), begun)
            self._note(prepared, planned, results)
        owned = [(owner, result.hypotheses) for (owner, _), result in zip(planned, results, strict=True)]
        return ranked(len(prepared.searches), [*owned, *((owner, [hypothesis]) for owner, hypothesis in ended)])

    def _note(
        self,
        prepared: PreparedTexts,
        planned: Sequence[tuple[int, PlannedSearch]],
        results: Sequence[SentenceResult],
    ) -> None:
        """Record searches that are done."""
        counts = (sum(1 for segment in segments if segment.source_ids) for segments in prepared.texts)
        places = [(text, sentence) for text, count in enumerate(counts) for sentence in range(count)]
        for (owner, _), result in zip(planned, results, strict=True):
            self._record.found.append((*places[owner], result.timeline))

    def _find(
        self, searches: Sequence[PlannedSearch], *, listener: SentenceListener | None = None
    ) -> Awaitable[list[SentenceResult]]:
        """Take the answers that are kept or in flight, and search the other sentences."""
        context = self._context
        if self._answers is None:
            return self._decode(Request(context, searches, listener=listener))

        async def decode(
            searches: Sequence[PlannedSearch], listener: SentenceListener | None, on_result: OnResult
        ) -> list[SentenceResult]:
            return await self._decode(Request(context, searches, listener=listener, on_result=on_result))

        found = AnsweredSearches(self._answers, context, searches, listener=listener, rendering=self._shared.tokenizing)
        return found.results(decode)

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
                abandoned = "deadline" if self._limit and self._limit.is_over else "cancelled"
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
        self._record.started |= request.started
        search = SearchRecord(request.submitted_at, time.monotonic(), request.sentence_count, request.timelines)
        self._record.searches.append(search)
