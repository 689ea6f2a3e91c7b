"""A call in progress: its texts are prepared, their sentences searched, and the results joined."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter

from xuanzang.server.engine.calls.answers import AnswerCache, AnsweredSearches, Search
from xuanzang.server.engine.calls.expansion import Expansion, continuations, draws, lexicon_first, openings
from xuanzang.server.engine.calls.jobs import SearchWatch, SentenceJobs, SentenceListener
from xuanzang.server.engine.calls.preparation import Onward, PreparedTexts, has_plain_faults, prepare
from xuanzang.server.engine.calls.record import Call, CallRecord, SearchRecord
from xuanzang.server.engine.calls.rendering import PlannedSearch, SentenceResult
from xuanzang.server.engine.calls.results import TextStreamer, joined, ranked, with_markup
from xuanzang.server.engine.calls.text_quality import assessed
from xuanzang.server.engine.errors import DeadlineExceededError
from xuanzang.server.engine.scheduling.decide import Asked
from xuanzang.server.engine.scheduling.forecast import predicted_cost
from xuanzang.server.engine.scheduling.request import AbandonReason, CallContext, Request
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.threads import CallerThreads
from xuanzang.server.engine.types import FinishReason, Hypothesis
from xuanzang.server.time_limits import TimeLimit, TimeLimits
from xuanzang.text.language_detection import LanguageDetector
from xuanzang.text.traditional import TraditionalWriter, settled_by
from xuanzang.text.types import ContentFormat

# Characters that are tokenised in the time that a thread takes to start, a fraction of a millisecond.
SHORT_CHARACTERS = 300
# Fewer than any tokeniser makes of ordinary text.
_MIN_TOKENS_PER_CHARACTER = 0.15
# Characters at the beginning of a text that tell whether it is only white space.
_LOOKED_AT = 100
_UNLIMITED = nullcontext()

Emit = Callable[[str], None]
"""Receiver of the next part of a translation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedResources:
    """Parts of the engine that all calls share."""

    scheduler: Scheduler
    tokenizing: Executor
    """Threads that split and tokenise."""
    turns: CallerThreads
    """The same threads, one for a share of callers at a time."""
    settings: EngineSettings
    detector: LanguageDetector | None = None
    """Detector of languages, for the quality of translations; None if the server has none."""
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
        emit: Emit | None = None,
        watch: SearchWatch | None = None,
        keeps_answers: bool = True,
    ) -> None:
        """Make a call that has not begun.

        Args:
            writer: Converter of the model's output; None for none.
            emit: Receiver of the translation bit by bit, for a call with one text.
            watch: Watch that has the searches recorded.
            keeps_answers: True if kept answers may be taken, if the engine keeps some.
        """
        self._has_markup = call.content_format is not ContentFormat.TEXT
        self._shared, self._call, self._context, self._record = shared, call, context, record
        self._codec = context.codec
        # Tags find their places by the alignment of tokens.
        self._options = replace(call.options, token_details=True) if self._has_markup else call.options
        self._languages = context
        self._writer = writer
        self._emit = None if self._has_markup else emit
        self._watch = watch
        self._answers = shared.answers if keeps_answers else None
        self._limit = None if context.deadline == math.inf else TimeLimit(shared.time_limits, context.deadline)

    async def run(self) -> list[list[Hypothesis]]:
        """Translate, once, and return the hypotheses of each text, best first.

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
                prepared = self._prepared() if self._is_short() else await self._prepared_in_turn()
                self._note_prepared(prepared)
                search = self._search if self._record.hold_sentences is None else self._held_search
                translated = iter(await search(prepared) if prepared.searches else ())
                if self._options.quality or any(prepared.documents):
                    work = partial(self._joined, prepared, translated)
                    answer = await self._shared.turns.run(work, caller=self._context.caller)
                else:
                    answer = self._joined(prepared, translated)
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

    def _joined(self, prepared: PreparedTexts, translated: Iterator[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
        """Join the sentences, put tags between them, and assess the texts, as the call asks for."""
        codec = self._codec
        answer = [
            joined(segments, translated, codec) if document is None else with_markup(document, translated, codec)
            for segments, document in zip(prepared.texts, prepared.documents, strict=True)
        ]
        if not self._options.quality:
            return answer
        return assessed(prepared.texts, answer, self._languages, self._shared.detector, has_markup=self._has_markup)

    def _is_short(self) -> bool:
        """Return whether the texts are prepared at once; refuse excessive texts that are not."""
        if sum(map(len, self._call.texts)) <= SHORT_CHARACTERS:
            return True
        # A refusal before tokenising takes less time, which is what counts when there is much to refuse. But faults are
        # named first, for another try would not help: all those of short texts, and of others those seen at once.
        shared, context = self._shared, self._context
        if not has_plain_faults(self._call, context.model, self._options, shared.settings):
            asked = Asked(context.flow, self._min_cost(), accepts_part=context.accepts_part)
            shared.scheduler.require_admission(asked, useful_until=context.useful_until)
        return False

    async def _prepared_in_turn(self) -> PreparedTexts:
        """Split and tokenise the texts in a thread, after other texts of the caller: so those of others find one."""
        return await self._shared.turns.run(self._prepared, caller=self._context.caller)

    def _prepared(self) -> PreparedTexts:
        # An explanation, details of tokens and a prefix refer to the unchanged text.
        carries = not (self._watch or self._call.options.token_details or self._options.target_prefix)
        return self._split(carries=carries)

    def _split(self, *, carries: bool, onward: Onward | None = None) -> PreparedTexts:
        """Split and tokenise the texts, as `prepare` does."""
        return prepare(
            self._call,
            self._context,
            self._options,
            codec=self._codec,
            writer=self._writer,
            settings=self._shared.settings,
            carries=carries,
            onward=onward,
        )

    def _note_prepared(self, prepared: PreparedTexts) -> None:
        record = self._record
        record.tokenized_at = time.monotonic()
        record.sentences, record.source_tokens = len(prepared.searches), prepared.source_tokens
        if self._call.terms.fields:
            record.constrained_sentences = sum(1 for search in prepared.searches if search.renderer.terms)

    def _min_cost(self) -> int:
        """Return a number of predicted tokens that texts have at least."""
        if self._has_markup:
            # Tags have no tokens.
            return 0
        characters = tokens = 0
        for text in self._call.texts:
            if text and not text[:_LOOKED_AT].isspace():
                characters += len(text)
                tokens += 2
        source_tokens = max(tokens, int(_MIN_TOKENS_PER_CHARACTER * characters))
        return source_tokens * (1 + self._options.beam_size) if self._options.max_target_length is None else tokens

    async def _held_search(self, prepared: PreparedTexts) -> Sequence[Sequence[Hypothesis]]:
        """Search with places of the caller held."""
        hold = self._record.hold_sentences or nullcontext
        with hold(len(prepared.searches)):
            return await self._search(prepared)

    async def _search(self, prepared: PreparedTexts) -> Sequence[Sequence[Hypothesis]]:
        """Return the hypotheses of each sentence, at least one."""
        options, searches = self._options, prepared.searches
        if self._watch:
            self._watch.begin(searches)
        if options.return_alternatives:
            return await self._alternatives(prepared)
        planned = lexicon_first(searches)
        if options.sampling:
            planned = draws(searches, options.sampling)
        is_single = len(planned.searches) == len(searches)
        streamer = None
        # The best of several draws is known at the end only.
        if self._emit and is_single and prepared.documents[0] is None:
            settled = settled_by(self._writer, whole=bool(self._call.terms.fields or options.target_prefix))
            streamer = TextStreamer(prepared.texts[0], self._codec, self._emit, settled=settled)
        search: Search = self._decode
        if self._answers is not None:
            rendering = self._shared.turns
            search = AnsweredSearches(search, self._answers, self._context, rendering=rendering).search
        results = await search(planned.searches, streamer)
        if self._call.return_provenance:
            self._note(prepared, planned, results)
        if self._watch:
            self._watch.end(searches, results)
        hypotheses = list(map(attrgetter("hypotheses"), results))
        return hypotheses if is_single else ranked(len(searches), planned.owners, hypotheses)

    async def _alternatives(self, prepared: PreparedTexts) -> list[list[Hypothesis]]:
        """Find the possible openings of each sentence, then continue each."""
        searches = prepared.searches
        cost = self._options.num_hypotheses * sum(predicted_cost(search.sentence) for search in searches)
        asked = Asked(self._context.flow, cost)
        self._shared.scheduler.require_admission(asked, useful_until=self._context.useful_until)
        # An opening that is cut short is none, so the cutoff applies to the second part only.
        beginnings = openings(searches)
        begun = await self._decode(beginnings, context=replace(self._context, cutoff=math.inf))
        planned, ended = continuations(searches, [result.found for result in begun])
        results = await self._decode(planned.searches, follows=True) if planned.searches else []
        if self._call.return_provenance:
            self._note(prepared, Expansion(range(len(searches)), beginnings), begun)
            self._note(prepared, planned, results)
        hypotheses = [*(result.hypotheses for result in results), *([each] for _, each in ended)]
        return ranked(len(searches), [*planned.owners, *(owner for owner, _ in ended)], hypotheses)

    def _note(self, prepared: PreparedTexts, planned: Expansion, results: Iterable[SentenceResult]) -> None:
        """Record searches that are done, of the sentences that own them."""
        counts = (sum(1 for segment in segments if segment.source_ids) for segments in prepared.texts)
        places = [(text, sentence) for text, count in enumerate(counts) for sentence in range(count)]
        for owner, search, result in zip(*planned, results, strict=True):
            timeline = replace(result.timeline, from_lexicon=bool(search.lexicon_ids))
            self._record.found.append((*places[owner], timeline))

    async def _decode(
        self,
        searches: Sequence[PlannedSearch],
        listener: SentenceListener | None = None,
        *,
        context: CallContext | None = None,
        follows: bool = False,
    ) -> list[SentenceResult]:
        """Let the workers search; `follows`: whether these are the second part of an accepted request."""
        context = context or self._context
        jobs = SentenceJobs(searches, context, listener=listener)
        while sentences := jobs.left():
            pool = self._shared.tokenizing if jobs.takes_long else None
            request = Request(context, sentences, jobs, reads_along=jobs.is_read_along, pool=pool)
            try:
                await self._found(request, jobs, follows=follows)
            finally:
                request.close()
                # The request may hold an error, and its traceback this frame.
                del request
            follows = True
        return jobs.results

    async def _found(self, request: Request, jobs: SentenceJobs, *, follows: bool) -> None:
        """Submit a request, wait until all is found, and record that."""
        shared, record, sentences = self._shared, self._record, len(request.sentences)
        shared.scheduler.submit(request, follows=follows)
        shared.requests.add(request)
        abandoned: AbandonReason | None = "error"
        try:
            await request.done
            abandoned = None
        except DeadlineExceededError:
            abandoned = "deadline"
            raise
        except asyncio.CancelledError:
            abandoned = "deadline" if self._limit and self._limit.is_over else "cancelled"
            raise
        finally:
            shared.requests.discard(request)
            shared.scheduler.close(request, abandoned)
            record.started |= request.started
            timelines = list(map(jobs.timelines.__getitem__, sorted(jobs.timelines)))
            record.searches.append(SearchRecord(request.submitted_at, time.monotonic(), sentences, timelines))
            # Its future holds the error that the workers have set, and the traceback of that this frame.
            del request
