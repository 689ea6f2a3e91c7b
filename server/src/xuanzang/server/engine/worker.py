"""A thread that decodes."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.decoding import Decoder, Sentence, TargetHypothesis
from xuanzang.server.engine.model import LoadedModel
from xuanzang.server.engine.request import QueuedSentence
from xuanzang.server.engine.scheduler import Scheduler
from xuanzang.server.engine.values import FinishReason, Hypothesis
from xuanzang.server.metrics import Metrics

NewDecoder = Callable[[], Decoder]
"""Makes an empty decoder over graphs that are open."""

_RETIRE_REASONS = {FinishReason.END_OF_SENTENCE: "eos", FinishReason.MAX_LENGTH: "length"}


class Worker:
    """One thread with graphs of its own: takes a batch, decodes it, answers each sentence when it is done."""

    def __init__(
        self,
        name: str,
        *,
        models: Sequence[LoadedModel],
        open_graphs: Callable[[Bundle], NewDecoder],
        scheduler: Scheduler,
        metrics: Metrics,
    ) -> None:
        """Start the thread.

        Args:
            name: Of the thread.
            models: To open.
            open_graphs: Opens the graphs of a bundle; called in the thread.
            scheduler: Gives the batches.
            metrics: That count them.
        """
        self.ready: concurrent.futures.Future[Mapping[LoadedModel, BundleError]] = concurrent.futures.Future()
        """Done when batches are being taken: models that are refused, and why."""
        self._models = models
        self._open_graphs = open_graphs
        self._scheduler = scheduler
        self._metrics = metrics
        self._decoders: dict[LoadedModel, NewDecoder] = {}
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the thread's end, after the scheduler was stopped.

        Args:
            timeout: Most seconds to wait.

        Returns:
            Whether it has ended.
        """
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            refused = self._open_models()
        except Exception as error:  # noqa: BLE001 - whoever waits for the worker must hear of it, whatever it is
            self.ready.set_exception(error)
            return
        self.ready.set_result(refused)
        while batch := self._scheduler.take():
            self._serve(batch)

    def _open_models(self) -> dict[LoadedModel, BundleError]:
        refused: dict[LoadedModel, BundleError] = {}
        for model in self._models:
            try:
                self._decoders[model] = self._open_model(model)
            except BundleError as error:
                refused[model] = error
        return refused

    def _open_model(self, model: LoadedModel) -> NewDecoder:
        started = time.monotonic()
        new_decoder = self._open_graphs(model.bundle)
        opened = time.monotonic()
        replay(model, new_decoder)
        self._metrics.model_load_duration_seconds.labels(*model.labels).set(model.load_seconds + opened - started)
        self._metrics.warmup_duration_seconds.labels(*model.labels).set(time.monotonic() - opened)
        return new_decoder

    def _serve(self, batch: Sequence[QueuedSentence]) -> None:
        """Decode a batch; every sentence of it is answered."""
        running = {queued.sentence: queued for queued in batch}
        started = time.monotonic()
        try:
            self._decode(batch[0].request.model, running)
        except Exception as error:  # noqa: BLE001 - the thread must live on, and those who wait must hear of it
            self._retire(running.values(), "error")
            for queued in running.values():
                queued.request.fail(error)
            return
        self._scheduler.record(sum(queued.source_tokens for queued in batch), time.monotonic() - started)

    def _decode(self, model: LoadedModel, running: dict[Sentence, QueuedSentence]) -> None:
        """Decode until nothing is running; sentences are taken out as they are answered or given up."""
        self._observe_batch(model, list(running.values()))
        decoder = self._decoders[model]()
        with self._metrics.encode_duration_seconds.labels(*model.labels).time():
            decoder.admit(list(running))
        step_duration = self._metrics.decode_step_duration_seconds.labels(*model.labels)
        decode_duration = self._metrics.decode_duration_seconds.labels(*model.labels)
        started = time.monotonic()
        steps = 0
        while running:
            if abandoned := [queued for queued in running.values() if queued.request.abandoned]:
                self._discard(decoder, abandoned, running, steps)
                continue
            with step_duration.time():
                finished = decoder.step()
            steps += 1
            for sentence, hypotheses in finished:
                self._answer(running[sentence], hypotheses)
                del running[sentence]
                decode_duration.observe(time.monotonic() - started)

    def _answer(self, queued: QueuedSentence, hypotheses: Sequence[TargetHypothesis]) -> None:
        model = queued.request.model
        with self._metrics.detokenize_duration_seconds.labels(*model.labels).time():
            answer = [_hypothesis(model, hypothesis) for hypothesis in hypotheses]
        # Counted before it is delivered, so that whoever has the answer finds it counted.
        self._metrics.sentences.labels(*model.labels).inc()
        self._metrics.target_tokens.labels(*model.labels).inc(answer[0].token_count)
        self._retire([queued], _RETIRE_REASONS[answer[0].finish_reason])
        queued.request.deliver(queued.position, answer)

    def _discard(
        self,
        decoder: Decoder,
        abandoned: Sequence[QueuedSentence],
        running: dict[Sentence, QueuedSentence],
        steps: int,
    ) -> None:
        decoder.discard([queued.sentence for queued in abandoned])
        for queued in abandoned:
            del running[queued.sentence]
            self._metrics.wasted_decode_tokens.labels(*queued.request.model.labels).inc(steps)
            self._retire([queued], queued.request.abandoned or "cancelled")

    def _retire(self, sentences: Iterable[QueuedSentence], reason: str) -> None:
        for queued in sentences:
            self._metrics.rows_retired.labels(*queued.request.model.labels, reason).inc()

    def _observe_batch(self, model: LoadedModel, batch: Sequence[QueuedSentence]) -> None:
        tokens = sum(queued.source_tokens for queued in batch)
        padded = len(batch) * max(queued.source_tokens for queued in batch)
        metrics, labels = self._metrics, model.labels
        metrics.batch_rows.labels(*labels).observe(len(batch))
        metrics.batch_beam_rows.labels(*labels).observe(sum(queued.sentence.options.beam_size for queued in batch))
        metrics.batch_source_tokens.labels(*labels).observe(tokens)
        metrics.batch_padding_ratio.labels(*labels).observe(1 - tokens / padded)
        metrics.source_tokens.labels(*labels).inc(tokens)


def _hypothesis(model: LoadedModel, hypothesis: TargetHypothesis) -> Hypothesis:
    return Hypothesis(
        text=model.text.decode(hypothesis.target_ids),
        score=hypothesis.score,
        token_count=hypothesis.token_count,
        finish_reason=FinishReason.END_OF_SENTENCE if hypothesis.finished else FinishReason.MAX_LENGTH,
    )


def replay(model: LoadedModel, new_decoder: NewDecoder) -> None:
    """Decode the samples of a certificate, each alone as at export; this also warms the graphs up.

    Args:
        model: Whose samples they are.
        new_decoder: Over its graphs.

    Raises:
        BundleError: If a sample gets other target ids than at export.
    """
    reasons = []
    for sample in model.bundle.samples:
        decoder = new_decoder()
        decoder.admit([model.sample_sentence(sample)])
        finished: Sequence[tuple[Sentence, Sequence[TargetHypothesis]]] = []
        while not finished:
            finished = decoder.step()
        [(_, hypotheses)] = finished
        if tuple(hypotheses[0].target_ids) != sample.target_ids:
            reasons.append(f"the translation of {sample.source!r} is not that of the certificate")
    if reasons:
        raise BundleError(model.bundle.directory, reasons)
