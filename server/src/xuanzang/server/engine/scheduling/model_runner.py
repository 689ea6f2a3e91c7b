"""The sentences of one tier that one worker decodes with one model, and which of them are searched again."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xuanzang.kernels.decode import Interrupt, StepLimit
from xuanzang.server.engine.decoding.decoder import BatchShape
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.errors import DeadlineExceededError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.call import SentenceTimeline
from xuanzang.server.engine.scheduling.request import DoneSentence, QueuedSentence
from xuanzang.server.engine.types import FinishReason
from xuanzang.text.words import has_repetition

# One that is done waits a step for each so many sentences of its batch: in a large one another is done in nearly every
# step, and each return to Python costs all of them a part of a step.
_SENTENCES_PER_STEP = 4
# A search that does not find the end repeats tokens, too. Tokens are compared, as characters, before any text is made.
_REPEATED_TOKENS = re.compile(r"(.{1,60}?)\1", re.DOTALL)
# Steps of a large model take longer than a return to Python, so they save nothing.
_MAX_SECONDS_AFTER_DONE = 0.05


@dataclass(slots=True, eq=False, kw_only=True)
class _RunningSentence:
    queued: QueuedSentence
    first_step: int
    """Number of the first step of this search."""
    joined_step: int
    """Number of its first step in the batch, which is earlier if it is searched again."""
    batch_size: int
    taken_at: float
    encoded_at: float = 0.0
    reported_tokens: int = 0
    """Target tokens that the caller has already."""
    searches: int = 1
    earlier: Sequence[TargetHypothesis] = ()
    """Hypotheses of a search that did not require the terms, too few of which held them; empty for none."""

    def may_report(self, committed: Sequence[int]) -> bool:
        """Return whether no other search can take back the beginning of a translation."""
        queued = self.queued
        if queued.sentence.options.expected_phrases:
            return queued.renderer.holds_terms(committed)
        return not self.earlier

    def timeline(self, *, worker: int, step: int, ended_at: float, best: TargetHypothesis) -> SentenceTimeline:
        """Return when it was worked on, with the step that was its last, and which search found its translation."""
        is_free = bool(self.earlier) and any(best is each for each in self.earlier)
        return SentenceTimeline(
            queued_at=self.queued.queued_at,
            taken_at=self.taken_at,
            encoded_at=self.encoded_at,
            finished_at=ended_at,
            worker=worker,
            batch_size=self.batch_size,
            steps=step - self.joined_step,
            searches=self.searches,
            terms_required=bool(self.queued.sentence.options.phrases) and not is_free,
            max_target_length=self.queued.sentence.options.max_target_length,
            source_with_terms=self.queued.renderer.source_with_terms,
        )


class ModelRunner:
    """Lets sentences join and leave between steps; a sentence that leaves is answered, or its caller has gone."""

    def __init__(self, model: LoadedModel, *, worker: int, interrupt: Interrupt) -> None:
        """Start without sentences; setting `interrupt` makes the worker stop after the step that it takes."""
        self._model = model
        self._worker = worker
        self._interrupt = interrupt
        self._decoder = model.new_decoder()
        self._running: dict[Sentence, _RunningSentence] = {}
        self._steps = 0
        self._metrics = model.metrics
        self._counted_cache_bytes = 0
        self.held_bytes: dict[BatchShape, int] = {}
        """Bytes of keys and values by batch."""
        self._reported_bytes: dict[BatchShape, int] = {}

    def __len__(self) -> int:
        return len(self._running)

    def admit(self, newcomers: Sequence[QueuedSentence]) -> None:
        """Let sentences join."""
        tokens = sum([queued.source_tokens for queued in newcomers])
        self._metrics.batch_source_tokens.observe(tokens)
        self._metrics.source_tokens.inc(tokens)
        if self._running:
            self._metrics.rows_joined.inc(len(newcomers))
        now, step, batch_size = time.monotonic(), self._steps, len(self._running) + len(newcomers)
        joining = {
            queued.sentence: _RunningSentence(
                queued=queued, first_step=step, joined_step=step, batch_size=batch_size, taken_at=now
            )
            for queued in newcomers
        }
        self._running.update(joining)
        started = time.perf_counter()
        self._decoder.admit(tuple(joining))
        self._metrics.encode_duration_seconds.observe(time.perf_counter() - started)
        encoded_at = time.monotonic()
        for running in joining.values():
            running.encoded_at = encoded_at
        self._count_cache()

    def advance(self, steps: int, seconds: float = math.inf, *, has_newcomers: bool = True) -> list[DoneSentence]:
        """Extend every sentence by one token or more, after abandoned ones and those at their cutoff have left.

        There are fewer steps when a sentence is done or at its cutoff, when its caller reads along, or when somebody
        interrupts; none is begun after so many seconds. Sentences of one request, which is answered as a whole, wait
        for each other unless `has_newcomers`, which may want their places.
        """
        now, cutoff, is_read_along = time.monotonic(), math.inf, False
        leaving, requests = [], set()
        for running in self._running.values():
            request = running.queued.request
            if request.abandoned or now >= request.cutoff:
                leaving.append(running)
                continue
            is_read_along |= request.has_listener
            requests.add(request)
            cutoff = min(cutoff, request.cutoff)
        given_up = self._give_up_some(leaving, now) if leaving else []
        if not self._running:
            return given_up
        limit = step_limit(
            len(self._running),
            is_whole=len(requests) == 1 and not has_newcomers,
            steps=1 if is_read_along else steps,
            seconds=min(cutoff - now, seconds),
            interrupt=self._interrupt,
        )
        started = time.perf_counter()
        advance = self._decoder.advance(limit)
        each = (time.perf_counter() - started) / advance.steps
        self._metrics.decode_step_duration_seconds.observe(each, times=advance.steps)
        self._metrics.batch_rows.observe(len(self._running), times=advance.steps)
        self._steps += advance.steps
        done = given_up
        for (sentence, hypotheses), steps_ago in zip(advance.done, advance.steps_ago, strict=True):
            try:
                answered = self._answer(sentence, hypotheses, steps_ago, each)
            except Exception as error:  # noqa: BLE001 - what is wrong with one sentence is nothing to the others
                self._lose(self._running.pop(sentence), error)
                continue
            if answered:
                done.append(answered)
        if is_read_along:
            self._report_prefixes()
        if advance.done:
            self._count_cache()
        return done

    def release(self) -> None:
        """Free the memory for keys, values and intermediate results, if no sentence is running."""
        if not self._running:
            self._decoder = self._model.new_decoder()
            self._count_cache()
            self._decoder.shrink()

    def trim(self, *, shrinks: bool = False) -> None:
        """Give back memory of keys and values that no sentence needs; if it `shrinks`, of intermediate results, too."""
        self._decoder.trim()
        self._count_cache()
        if shrinks:
            self._decoder.shrink()

    def close(self) -> None:
        """Count the memory as free that goes with the runner; no sentence may be running."""
        self._metrics.cache_bytes.dec(self._counted_cache_bytes)
        self._counted_cache_bytes = 0

    def fail(self, error: Exception) -> None:
        """Answer every sentence with an error and begin anew."""
        failed = [running.queued for running in self._running.values()]
        self._running.clear()
        self._decoder = self._model.new_decoder()
        self._count_cache()
        for queued in failed:
            self._metrics.rows_retired["error"].inc()
            queued.request.fail(error)

    def _lose(self, running: _RunningSentence, error: Exception) -> None:
        """End the call of a sentence that cannot be answered; the other sentences go on."""
        self._metrics.rows_retired["error"].inc()
        running.queued.request.fail(error)

    def _give_up_some(self, leaving: Sequence[_RunningSentence], now: float) -> list[DoneSentence]:
        """Let sentences leave that are abandoned or at their cutoff; return them with what was worked on them."""
        for running in leaving:
            try:
                self._give_up(running)
            except Exception as error:  # noqa: BLE001 - as in `advance`
                self._lose(running, error)
            del self._running[running.queued.sentence]
        self._decoder.discard([running.queued.sentence for running in leaving])
        self._count_cache()
        return [self._part(running, now) for running in leaving]

    def _part(self, running: _RunningSentence, now: float) -> DoneSentence:
        """Return what was worked on a sentence that is given up."""
        queued, steps = running.queued, self._steps - running.first_step
        return DoneSentence(
            queued, queued.worked(steps), seconds=now - running.taken_at, target_tokens=steps, is_whole=False
        )

    def _give_up(self, running: _RunningSentence) -> None:
        queued = running.queued
        reason = queued.request.abandoned
        self._metrics.rows_retired[reason or "deadline"].inc()
        best = [] if reason else best_of(queued, running.earlier)[0] or self._decoder.partial(queued.sentence)
        if best:
            self._count_translated(best)
            ended_at = time.monotonic()
            timeline = running.timeline(worker=self._worker, step=self._steps, ended_at=ended_at, best=best[0])
            queued.request.deliver(queued.position, queued.render(best, cut=FinishReason.DEADLINE, timeline=timeline))
            return
        self._metrics.wasted_decode_tokens.inc(self._steps - running.first_step)
        if not reason:
            message = "the deadline passed before anything was translated"
            queued.request.fail(DeadlineExceededError(message, in_queue=False))

    def _answer(
        self, sentence: Sentence, hypotheses: Sequence[TargetHypothesis], steps_ago: int, step_seconds: float
    ) -> DoneSentence | None:
        """Answer a sentence that was done some steps ago; return None if it is searched again instead."""
        running = self._running[sentence]
        queued = running.queued
        if again := without_repetition(queued, hypotheses[0]):
            self._search_again(running, again, reason="loop", wasted=hypotheses[0])
            return None
        if running.earlier or queued.sentence.options.expected_phrases:
            best, are_whole = best_of(queued, [*running.earlier, *hypotheses])
            if not are_whole and not running.reported_tokens and (again := with_required_terms(queued)):
                running.earlier = hypotheses
                self._search_again(running, again, reason="terms", wasted=hypotheses[0])
                return None
            hypotheses = best
        step, ended_at = self._steps - steps_ago, time.monotonic() - steps_ago * step_seconds
        timeline = running.timeline(worker=self._worker, step=step, ended_at=ended_at, best=hypotheses[0])
        seconds = timeline.finished_at - timeline.taken_at
        self._metrics.decode_duration_seconds.observe(seconds)
        # Counted before it is delivered, so that a caller who has the answer finds it counted.
        self._count_translated(hypotheses)
        self._metrics.rows_retired["eos" if hypotheses[0].finished else "length"].inc()
        began = time.perf_counter()
        result = queued.render(hypotheses, cut=FinishReason.MAX_LENGTH, timeline=timeline)
        self._metrics.detokenize_duration_seconds.observe(time.perf_counter() - began)
        queued.request.deliver(queued.position, result)
        del self._running[sentence]
        steps = step - running.first_step
        return DoneSentence(queued, queued.worked(steps), seconds=seconds, target_tokens=steps)

    def _search_again(
        self, running: _RunningSentence, again: Sentence, *, reason: str, wasted: TargetHypothesis
    ) -> None:
        self._metrics.rows_retired[reason].inc()
        del self._running[running.queued.sentence]
        self._metrics.wasted_decode_tokens.inc(wasted.token_count)
        running.queued.sentence = again
        self._running[again] = replace(running, first_step=self._steps, searches=running.searches + 1)
        self._decoder.admit([again])

    def _report_prefixes(self) -> None:
        for running in self._running.values():
            queued = running.queued
            if queued.request.has_listener:
                committed = self._decoder.committed(queued.sentence)
                try:
                    if len(committed) > running.reported_tokens and running.may_report(committed):
                        running.reported_tokens = len(committed)
                        queued.request.report_prefix(queued.position, committed)
                except Exception as error:  # noqa: BLE001 - as in `advance`; its sentence leaves when the call closes
                    queued.request.fail(error)

    def _count_translated(self, hypotheses: Sequence[TargetHypothesis]) -> None:
        self._metrics.sentences.inc()
        self._metrics.target_tokens.inc(hypotheses[0].token_count)

    @property
    def sentences(self) -> list[QueuedSentence]:
        """Sentences that are decoded."""
        return [running.queued for running in self._running.values()]

    def changed_bytes(self) -> dict[BatchShape, int] | None:
        """Return the bytes of keys and values by batch, if they have changed since that was asked last."""
        if (held := self.held_bytes) == self._reported_bytes:
            return None
        self._reported_bytes = held
        return held

    def _count_cache(self) -> None:
        self.held_bytes = {shape: size for shape, size in self._decoder.held_bytes.items() if size}
        held = sum(self.held_bytes.values())
        self._metrics.cache_bytes.inc(held - self._counted_cache_bytes)
        self._counted_cache_bytes = held


def step_limit(sentences: int, *, is_whole: bool, steps: int, seconds: float, interrupt: Interrupt) -> StepLimit:
    """Return when steps of a batch end.

    `is_whole`: whether its sentences are one request, so that nobody is answered before the last one is done, and no
    other sentence waits for a place.
    """
    after_done = steps if is_whole else sentences // _SENTENCES_PER_STEP
    return StepLimit(steps, seconds, interrupt, after_done, _MAX_SECONDS_AFTER_DONE)


def without_repetition(queued: QueuedSentence, best: TargetHypothesis) -> Sentence | None:
    """Return the search to make instead of one whose translation is a repetition: under the model's n-gram limit.

    None if it can stand: there is no repetition, the source repeats itself as well, or the caller has chosen a limit or
    seen the beginning already.
    """
    request, options = queued.request, queued.sentence.options
    limit = request.model.repetition_retry_ngram_size
    if not limit or options.decoding.no_repeat_ngram_size or request.has_listener:
        return None
    if not _REPEATED_TOKENS.search("".join(map(chr, best.target_ids))):
        return None
    codec = request.context.codec
    if not has_repetition(codec.decode(best.target_ids)):
        return None
    if has_repetition(codec.source.decode(queued.sentence.source_ids)):
        return None
    limited = replace(options, decoding=replace(options.decoding, no_repeat_ngram_size=limit))
    return _again(queued, limited)


def with_required_terms(queued: QueuedSentence) -> Sentence | None:
    """Return the search to make besides one that left it to the model to write the terms of its source, if it did."""
    options = queued.sentence.options
    if options.expected_phrases is None:
        return None
    return _again(queued, replace(options, phrases=options.expected_phrases.compiled(), expected_phrases=None))


def best_of(queued: QueuedSentence, found: Sequence[TargetHypothesis]) -> tuple[list[TargetHypothesis], bool]:
    """Return as many hypotheses as requested: those with most terms, then of different texts, then highest scores.

    The second value says whether they hold all terms and differ.
    """
    renderer, count = queued.renderer, queued.sentence.options.decoding.num_hypotheses
    whole: dict[str, TargetHypothesis] = {}
    others: list[tuple[int, bool, TargetHypothesis]] = []
    for each in sorted(found, key=lambda each: -each.score):
        text = renderer.text_of(each.target_ids)
        missed, is_twin = renderer.missed_terms(text), text in whole
        if missed or is_twin:
            others.append((missed, is_twin, each))
        else:
            whole[text] = each
        if len(whole) == count:
            break
    others.sort(key=lambda other: other[:2])
    best = [*whole.values(), *(each for *_, each in others)][:count]
    return best, len(best) == len(whole)


def _again(queued: QueuedSentence, options: SearchOptions) -> Sentence:
    return Sentence(source_ids=queued.sentence.source_ids, options=options)
