"""What one worker decodes of one model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.errors import DeadlineExceededError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.repetition import retry_of
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.engine.types import FinishReason
from xuanzang.server.metrics import Metrics

NewDecoder = Callable[[], Decoder]
"""Makes an empty decoder over graphs that are open."""


@dataclass(slots=True, eq=False)
class _Running:
    queued: QueuedSentence
    first_step: int
    since: float = field(default_factory=time.monotonic)
    told: int = 0
    """Target tokens that the caller has been told already."""


class Lane:
    """Sentences join and leave between steps; every one that leaves has been answered, or its caller has gone."""

    def __init__(self, model: LoadedModel, new_decoder: NewDecoder, *, metrics: Metrics) -> None:
        """Start without sentences.

        Args:
            model: That translates.
            new_decoder: Over its graphs.
            metrics: That count the work.
        """
        self._new_decoder = new_decoder
        self._decoder = new_decoder()
        self._running: dict[Sentence, _Running] = {}
        self._steps = 0
        self._metrics = metrics.of(model.labels)
        self._told_cache_bytes = 0

    def __len__(self) -> int:
        """Return the number of sentences that are being decoded."""
        return len(self._running)

    def admit(self, newcomers: Sequence[QueuedSentence]) -> None:
        """Let sentences join.

        Args:
            newcomers: At least one.
        """
        tokens = sum(queued.source_tokens for queued in newcomers)
        self._metrics.batch_source_tokens.observe(tokens)
        self._metrics.source_tokens.inc(tokens)
        if self._running:
            self._metrics.rows_joined.inc(len(newcomers))
        self._running.update({queued.sentence: _Running(queued, self._steps) for queued in newcomers})
        with self._metrics.encode_duration_seconds.time():
            self._decoder.admit([queued.sentence for queued in newcomers])
        self._tell_cache()

    def step(self) -> int:
        """Extend every sentence by one token; before that, those whose callers have gone or want what there is leave.

        Returns:
            Predicted cost of the sentences that are done.
        """
        self._interrupt()
        if not self._running:
            return 0
        started = time.perf_counter()
        finished = self._decoder.step()
        self._metrics.decode_step_duration_seconds.observe(time.perf_counter() - started)
        self._metrics.batch_rows.observe(len(self._running))
        self._steps += 1
        cost = sum(self._answer(sentence, hypotheses) for sentence, hypotheses in finished)
        self._tell_progress()
        if finished:
            self._tell_cache()
        return cost

    def fail(self, error: Exception) -> None:
        """Answer every sentence with an error and begin anew.

        Args:
            error: That a step ended in.
        """
        failed = [running.queued for running in self._running.values()]
        self._running.clear()
        self._decoder = self._new_decoder()
        self._tell_cache()
        for queued in failed:
            self._retire("error")
            queued.request.fail(error)

    def _interrupt(self) -> None:
        now = time.monotonic()
        interrupted = [
            running
            for running in self._running.values()
            if running.queued.request.abandoned or now >= running.queued.request.terms.cutoff
        ]
        if interrupted:
            for running in interrupted:
                self._give_up(running)
                del self._running[running.queued.sentence]
            self._decoder.discard([running.queued.sentence for running in interrupted])
            self._tell_cache()

    def _give_up(self, running: _Running) -> None:
        queued = running.queued
        reason = queued.request.abandoned
        self._retire(reason or "deadline")
        best = [] if reason else self._decoder.partial(queued.sentence)
        if best:
            self._count(best)
            queued.request.deliver(queued.position, best, cut=FinishReason.DEADLINE)
            return
        self._metrics.wasted_decode_tokens.inc(self._steps - running.first_step)
        if not reason:
            message = "the deadline passed before anything was translated"
            queued.request.fail(DeadlineExceededError(message, in_queue=False))

    def _answer(self, sentence: Sentence, hypotheses: Sequence[TargetHypothesis]) -> int:
        running = self._running[sentence]
        again = retry_of(running.queued, hypotheses[0])
        if again:
            self._begin_again(running, again, hypotheses[0])
            return 0
        self._metrics.decode_duration_seconds.observe(time.monotonic() - running.since)
        # Counted before it is delivered, so that whoever has the answer finds it counted.
        self._count(hypotheses)
        self._retire("eos" if hypotheses[0].finished else "length")
        with self._metrics.detokenize_duration_seconds.time():
            running.queued.request.deliver(running.queued.position, hypotheses, cut=FinishReason.MAX_LENGTH)
        del self._running[sentence]
        return running.queued.cost

    def _begin_again(self, running: _Running, sentence: Sentence, loop: TargetHypothesis) -> None:
        self._retire("loop")
        del self._running[running.queued.sentence]
        self._metrics.wasted_decode_tokens.inc(loop.token_count)
        running.queued.sentence = sentence
        self._running[sentence] = _Running(running.queued, self._steps, running.since)
        self._decoder.admit([sentence])

    def _count(self, hypotheses: Sequence[TargetHypothesis]) -> None:
        self._metrics.sentences.inc()
        self._metrics.target_tokens.inc(hypotheses[0].token_count)

    def _retire(self, reason: str) -> None:
        self._metrics.rows_retired[reason].inc()

    def _tell_progress(self) -> None:
        for running in self._running.values():
            queued = running.queued
            if queued.request.followed:
                committed = self._decoder.committed(queued.sentence)
                if len(committed) > running.told:
                    running.told = len(committed)
                    queued.request.tell(queued.position, committed)

    def _tell_cache(self) -> None:
        held = self._decoder.cache_bytes
        self._metrics.cache_bytes.inc(held - self._told_cache_bytes)
        self._told_cache_bytes = held
