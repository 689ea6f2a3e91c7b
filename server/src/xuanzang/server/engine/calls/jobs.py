"""The sentences of a call as jobs: one or more searches for each, and the use of their results."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Protocol

from xuanzang.server.engine.calls.kept_amounts import is_better, phrases_for_lost
from xuanzang.server.engine.calls.rendering import PlannedSearch, SentenceResult
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.errors import DeadlineExceededError
from xuanzang.server.engine.scheduling.request import CallContext, Found, SentenceTimeline
from xuanzang.server.engine.types import FinishReason
from xuanzang.text.words import has_repetition

# A search that does not find the end repeats tokens, too. Tokens are compared, as characters, before any text is made.
_REPEATED_TOKENS = re.compile(r"(.{1,60}?)\1", re.DOTALL)

# Log-probability that a translation may lose by keeping ordered placeholders in their order. In sentences that lose
# more, most values change their parts: "Could not read %s from %d bytes" for "无法从 %s 读取 %d 个字节".
_MAX_ORDER_COST = 2.5
# The same for each of them that a more probable translation leaves out.
_MAX_TERM_COST = 5.0
# The same for the amounts that it has lost; at a higher cost most sentences are built around a bare number.
_MAX_AMOUNTS_COST = 8.0


class SearchWatch(Protocol):
    """Has the searches of a call recorded, for an explanation."""

    def begin(self, searches: Sequence[PlannedSearch]) -> None:
        """Look at the sentences before they are searched.

        Raises:
            InvalidInputError: They cannot be explained.
        """

    def end(self, searches: Sequence[PlannedSearch], results: Sequence[SentenceResult]) -> None:
        """Take the results, in the same order."""


class SentenceListener(Protocol):
    """Receives the results of single sentences in the event loop."""

    @property
    def reads_along(self) -> bool:
        """True if it takes the beginnings of sentences as well, which makes steps single ones."""

    def on_prefix(self, position: int, text: str) -> None:
        """Take the beginning of a sentence that will not change, more than the last time."""

    def on_result(self, position: int, result: SentenceResult) -> None:
        """Take the result of a sentence."""


class SentenceJob:
    """One sentence of a call, until it has a result."""

    def __init__(self, search: PlannedSearch, context: CallContext, *, is_read_along: bool) -> None:
        """Begin with the planned search; text already emitted is not taken back."""
        self.sentence, self._renderer = search.sentence, search.renderer
        self._context, self._is_read_along = context, is_read_along
        self.takes_long = bool(search.renderer.assessor or search.renderer.source_spans or search.renderer.writer)
        """True if its text comes with more than can be made at once: quality, token details, other characters."""
        self._timelines: list[SentenceTimeline] = []
        self._reported_tokens = 0
        # Hypotheses of a search that did not require the terms; too few held them.
        self._earlier: Sequence[TargetHypothesis] = ()
        # Hypotheses of a search whose best one has lost amounts.
        self._lossy: Sequence[TargetHypothesis] = ()

    def next(self, found: Found) -> SentenceResult | None:
        """Return the result of a search; None if `sentence` needs a search now.

        Raises:
            DeadlineExceededError: Time ended before anything was found.
        """
        self._timelines.append(found.timeline)
        if found.is_cut:
            best = self._lossy or self._best_of(self._earlier)[0] or found.hypotheses
            if not best or self._is_refused(best):
                raise DeadlineExceededError("the deadline passed before anything was translated", in_queue=False)
            return self._result(best, cut=FinishReason.DEADLINE)
        best = found.hypotheses
        if self._lossy:
            best = self._with_amounts(best)
        elif again := self._again(best):
            options, reason = again
            self._search_again(options, reason=reason, wasted=best[0])
            return None
        elif self._earlier or self.sentence.options.expected_phrases:
            best, are_whole = self._best_of([*self._earlier, *best])
            if not are_whole and not self._reported_tokens and (required := self._with_required_terms()):
                self._earlier = found.hypotheses
                self._search_again(required, reason="terms", wasted=found.hypotheses[0])
                return None
        return self._result(best, cut=FinishReason.MAX_LENGTH)

    def _again(self, best: Sequence[TargetHypothesis]) -> tuple[SearchOptions, str] | None:
        """Return the search to make instead of one whose translation is none, or has lost amounts, and why."""
        if self._is_refused(best):
            return self._with_a_token(), "empty"
        if again := self._without_repetition(best[0]):
            return again, "loop"
        if self._renderer.looks_at_amounts and (again := self._with_required_amounts(best[0])):
            self._lossy = best
            return again, "amounts"
        return None

    def prefix(self, target_ids: Sequence[int]) -> str | None:
        """Return the text of a beginning that no other search can take back; None if there is nothing new."""
        if len(target_ids) <= self._reported_tokens or self._earlier:
            return None
        if self.sentence.options.expected_phrases and not self._renderer.holds_terms(target_ids):
            return None
        self._reported_tokens = len(target_ids)
        return self._context.codec.decode(target_ids)

    def _search_again(self, options: SearchOptions, *, reason: str, wasted: TargetHypothesis) -> None:
        metrics = self._context.model.metrics
        metrics.rows_retired[reason].inc()
        metrics.wasted_decode_tokens.inc(wasted.token_count)
        self.sentence = Sentence(source_ids=self.sentence.source_ids, options=options)

    def _result(self, best: Sequence[TargetHypothesis], *, cut: FinishReason) -> SentenceResult:
        metrics, began = self._context.model.metrics, time.perf_counter()
        if cut is not FinishReason.DEADLINE:
            metrics.rows_retired["eos" if best[0].finished else "length"].inc()
        hypotheses = [self._renderer.render(self.sentence, each, cut=cut) for each in best]
        metrics.detokenize_duration_seconds.observe(time.perf_counter() - began)
        metrics.sentences.inc()
        metrics.target_tokens.inc(best[0].token_count)
        return SentenceResult(best, hypotheses, self._timeline(best[0]))

    def _timeline(self, best: TargetHypothesis) -> SentenceTimeline:
        """Return when it was worked on, all searches together, and which of them found its translation."""
        first, with_terms = self._timelines[0], self._renderer.source_with_terms
        if len(self._timelines) == 1 and not (with_terms or self.sentence.options.phrases):
            # Most sentences are searched once, and read as they are.
            return first
        is_free = any(best is each for each in self._earlier)
        return replace(
            first,
            finished_at=self._timelines[-1].finished_at,
            steps=sum([each.steps for each in self._timelines]),
            searches=len(self._timelines),
            terms_required=bool(self.sentence.options.phrases) and not (is_free or self._lossy),
            max_target_length=self.sentence.options.max_target_length,
            source_with_terms=with_terms,
        )

    def _without_repetition(self, best: TargetHypothesis) -> SearchOptions | None:
        """Return the search to make instead of one whose translation is a repetition: under the model's n-gram limit.

        None if it can stand: there is no repetition, the source repeats itself as well, or the caller has chosen a
        limit or seen the beginning already.
        """
        options, limit = self.sentence.options, self._context.model.repetition_retry_ngram_size
        if not limit or options.decoding.no_repeat_ngram_size or self._is_read_along:
            return None
        if not _REPEATED_TOKENS.search("".join(map(chr, best.target_ids))):
            return None
        codec = self._context.codec
        if not has_repetition(codec.decode(best.target_ids)):
            return None
        if has_repetition(codec.source.decode(self.sentence.source_ids)):
            return None
        return replace(options, decoding=replace(options.decoding, no_repeat_ngram_size=limit))

    def _is_refused(self, found: Sequence[TargetHypothesis]) -> bool:
        """Return whether a hypothesis to return is empty, and must not be."""
        options = self.sentence.options
        return options.is_never_empty and any(not each.target_ids for each in found[: options.decoding.num_hypotheses])

    def _with_a_token(self) -> SearchOptions:
        """Return the search to make instead of one that found an empty translation."""
        options = self.sentence.options
        return replace(options, decoding=replace(options.decoding, min_target_length=1), is_never_empty=False)

    def _with_required_terms(self) -> SearchOptions | None:
        """Return the further search after one that left the terms of its source to the model, if needed."""
        options = self.sentence.options
        if options.expected_phrases is None:
            return None
        return replace(options, phrases=options.expected_phrases.compiled(), expected_phrases=None)

    def _with_required_amounts(self, best: TargetHypothesis) -> SearchOptions | None:
        """Return the search to make instead of one whose translation has lost amounts, if it can be made."""
        options, codec = self.sentence.options, self._context.codec
        if self._is_read_along or options.recorder or options.expected_phrases or options.phrases:
            return None
        phrases = phrases_for_lost(
            codec.source.decode(self.sentence.source_ids),
            codec.decode(best.target_ids),
            codec,
            max_tokens=options.max_target_length,
        )
        return replace(options, phrases=phrases.compiled()) if phrases else None

    def _with_amounts(self, found: Sequence[TargetHypothesis]) -> Sequence[TargetHypothesis]:
        """Return the hypotheses of a search that required amounts, or of that before, which is more probable.

        The latter stay if the amounts are not all there, or only at the cost of the sense.
        """
        first, codec = self._lossy, self._context.codec
        if not found or self._log_probability(found[0]) < self._log_probability(first[0]) - _MAX_AMOUNTS_COST:
            return first
        before, after = (codec.decode(each[0].target_ids) for each in (first, found))
        return found if is_better(codec.source.decode(self.sentence.source_ids), before, after, codec) else first

    def _best_of(self, found: Sequence[TargetHypothesis]) -> tuple[list[TargetHypothesis], bool]:
        """Return as many hypotheses as requested: those with most terms, then of different texts, then highest scores.

        The second value says whether they hold all terms, in their order, and differ. A hypothesis that keeps the order
        at the cost of the sense, so that it is far less probable than one in another order, does not count.
        """
        renderer, count = self._renderer, self.sentence.options.decoding.num_hypotheses
        whole: dict[str, TargetHypothesis] = {}
        others: list[tuple[int, bool, TargetHypothesis]] = []
        least_log_probability = -math.inf
        for each in sorted(found, key=lambda each: -each.score):
            text = renderer.text_of(each.target_ids)
            missed, is_early, is_twin = renderer.missed_terms(text), not renderer.is_in_order(text), text in whole
            if renderer.has_order and (missed or is_early):
                cost = is_early * _MAX_ORDER_COST + missed * _MAX_TERM_COST
                least_log_probability = max(least_log_probability, self._log_probability(each) - cost)
            if missed or is_early or is_twin:
                others.append((missed + is_early, is_twin, each))
            elif self._log_probability(each) >= least_log_probability:
                whole[text] = each
            if len(whole) == count:
                break
        others.sort(key=lambda other: other[:2])
        best = [*whole.values(), *(each for *_, each in others)][:count]
        return best, len(best) == len(whole)

    def _log_probability(self, found: TargetHypothesis) -> float:
        return found.score * math.pow(found.token_count, self.sentence.options.decoding.length_penalty)


class SentenceJobs:
    """Jobs that are submitted together, again and again until each has its result. Belongs to the event loop."""

    def __init__(
        self,
        searches: Sequence[PlannedSearch],
        context: CallContext,
        *,
        listener: SentenceListener | None = None,
    ) -> None:
        """Begin without results.

        Args:
            searches: Sentences with their renderers, at least one.
            context: Context of the call.
            listener: Receiver of the results of single sentences; None for none.
        """
        self.is_read_along = listener is not None and listener.reads_along
        """True if the listener takes the beginnings of sentences."""
        self._jobs = [SentenceJob(search, context, is_read_along=self.is_read_along) for search in searches]
        self._listener = listener
        self.takes_long = not self.is_read_along and any(map(attrgetter("takes_long"), self._jobs))
        """True if results take longer to make than the event loop should stop for; never while text is emitted."""
        self._results: dict[int, SentenceResult] = {}
        # Positions of the jobs whose sentences are searched.
        self._searched = list(range(len(searches)))
        self.timelines: dict[int, SentenceTimeline] = {}
        """Timelines of the searches that are made now and have found something, by position among them."""

    @property
    def results(self) -> list[SentenceResult]:
        """Results of all sentences, in their order."""
        return list(map(self._results.__getitem__, range(len(self._jobs))))

    def left(self) -> list[Sentence]:
        """Return the sentences to search now; none when all have results."""
        if len(self._results) == len(self._jobs):
            return []
        if self._results:
            self._searched = [position for position in self._searched if position not in self._results]
        self.timelines = {}
        return [self._jobs[position].sentence for position in self._searched]

    def next(self, position: int, found: Found) -> Callable[[], None]:
        """Make the result of a sentence, or plan its next search; return the remaining work for the event loop."""
        self.timelines[position] = found.timeline
        position = self._searched[position]
        return partial(self._keep, position, self._jobs[position].next(found))

    def _keep(self, position: int, result: SentenceResult | None) -> None:
        if result is None:
            return
        self._results[position] = result
        if self._listener:
            self._listener.on_result(position, result)

    def on_prefix(self, position: int, target_ids: Sequence[int]) -> None:
        """Pass the final part of a sentence to the listener."""
        position = self._searched[position]
        if self._listener and (text := self._jobs[position].prefix(target_ids)):
            self._listener.on_prefix(position, text)
