"""The engine: all models, the queue and the workers behind one face."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from xuanzang.kernels import Kernels, find_kernels
from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine import routing
from xuanzang.server.engine.cores import usable_cores
from xuanzang.server.engine.decoding import Decoder
from xuanzang.server.engine.errors import DrainingError, ModelNotFoundError
from xuanzang.server.engine.lane import NewDecoder
from xuanzang.server.engine.loading import load_models, open_models
from xuanzang.server.engine.model import LoadedModel
from xuanzang.server.engine.outcome import count_answer, count_outcome
from xuanzang.server.engine.request import Terms
from xuanzang.server.engine.runtime import Runtime, resolve_provider
from xuanzang.server.engine.scheduler import Scheduler
from xuanzang.server.engine.translation import Facilities, Tell, Translation
from xuanzang.server.engine.values import DecodingOptions, EngineSettings, Hypothesis, Route, ServedModel
from xuanzang.server.engine.worker import Worker
from xuanzang.server.metrics import Metrics

__all__ = ["Engine", "EngineSettings", "ServedModel"]

_LOGGER = logging.getLogger(__name__)

# Splitting and tokenising take some thousandths of the time of decoding.
_TOKENIZING_THREADS = 2
# A worker looks up after each step, which takes milliseconds; far more is a fault, and no reason to hang.
_STOP_SECONDS = 5.0
# What has been found is sent this long before the deadline, so that the caller has it in time.
_LEAST_MARGIN_SECONDS = 0.02
_MARGIN_SHARE = 0.05


class Engine:
    """Translates texts with the models of a repository.

    All methods belong to one event loop, and none computes on it for long: texts that are not short are split and
    tokenised in a small pool of threads; they are decoded and made text again by the workers.
    """

    def __init__(self, models: Path, *, settings: EngineSettings, metrics: Metrics) -> None:
        """Make an engine that has loaded nothing yet.

        Args:
            models: Repository of the bundles to serve.
            settings: How to use the machine, and what to accept.
            metrics: That count the work.

        Raises:
            ProviderUnavailableError: If this machine lacks what the settings want.
        """
        self._repository = models
        self._settings = settings
        self._metrics = metrics
        self._provider = resolve_provider(settings.provider)
        self._worker_count = settings.workers or _default_workers(self._provider, settings.intra_op_threads)
        self._scheduler = Scheduler(settings, workers=self._worker_count, metrics=metrics)
        self._tokenizing = ThreadPoolExecutor(_TOKENIZING_THREADS, thread_name_prefix="tokenizing")
        self._facilities = Facilities(
            scheduler=self._scheduler, tokenizing=self._tokenizing, settings=settings, metrics=metrics
        )
        self._workers: list[Worker] = []
        self._models: dict[ServedModel, LoadedModel] = {}
        self._draining = False
        self._active = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """Models that are served, by name and version; none before `start`."""
        return tuple(self._models)

    def resolve(self, *, model: str, source_language: str, target_language: str) -> Route:
        """Find the model that a request means, and the language that it is to write.

        Args:
            model: Name, name and version as "zh-en/1", or empty.
            source_language: BCP-47 code or empty.
            target_language: BCP-47 code or empty.

        Returns:
            The model and one of its target languages.

        Raises:
            ModelNotFoundError: If none fits.
            InvalidInputError: If the request leaves open which one it means.
        """
        return routing.resolve(
            self.models, model=model, source_language=source_language, target_language=target_language
        )

    async def start(self) -> None:
        """Load the models, warm them up and replay their samples. A bundle that fails is logged and not served.

        Raises:
            BundleError: If no bundle can be served, or none of a model whose shortlist is wanted.
        """
        models, refusals = await load_models(self._repository, self._tokenizing)
        for model in models:
            # Every series is there at 0 from now on.
            self._metrics.of(model.labels)
        self._report_kernels()
        opened, failures = await open_models(
            models, self._open_graphs, metrics=self._metrics, executor=self._tokenizing
        )
        self._serve(list(opened), [*refusals, *failures])
        self._workers = [
            Worker(number, decoders=opened, scheduler=self._scheduler, metrics=self._metrics)
            for number in range(self._worker_count)
        ]

    def _report_kernels(self) -> None:
        """Log the kernels that the graphs get, or why they get none."""
        if self._provider != "cpu":
            kernels = Kernels(reason="provider", detail=f"kernels are for CPUs, the provider is {self._provider}")
        elif not self._settings.kernels:
            kernels = Kernels(reason="disabled", detail="disabled by the setting kernels (--no-kernels)")
        else:
            kernels = find_kernels()
        if kernels.library:
            _LOGGER.info("kernels", extra={"isa": kernels.isa})
        else:
            level = logging.INFO if kernels.reason in {"provider", "disabled"} else logging.WARNING
            _LOGGER.log(level, "no kernels", extra={"reason": kernels.reason, "detail": kernels.detail})
        self._metrics.set_build_info(kernels=kernels.isa, reason=kernels.reason)

    def _open_graphs(self, bundle: Bundle) -> NewDecoder:
        settings = self._settings
        wanted = bundle.manifest.model in settings.shortlists or ("*" in settings.shortlists and bundle.has_shortlist)
        runtime = Runtime(
            bundle,
            provider=self._provider,
            intra_op_threads=settings.intra_op_threads,
            shortlist=wanted,
            kernels=settings.kernels,
        )
        return partial(Decoder, runtime)

    def _serve(self, models: Sequence[LoadedModel], refusals: Sequence[BundleError]) -> None:
        for refusal in refusals:
            _LOGGER.error("bundle refused", extra={"bundle": str(refusal.directory), "reasons": refusal.reasons})
        if not models:
            raise BundleError(self._repository, [str(refusal) for refusal in refusals])
        self._require_shortlisted({model.name for model in models})
        newest = {model.name: model.version for model in sorted(models, key=lambda model: model.version)}
        self._models = {model.served(is_default=newest[model.name] == model.version): model for model in models}
        for served, model in self._models.items():
            facts = (served.manifest_sha256, served.precision, self._provider)
            self._metrics.model_info.labels(*model.labels, *facts).set(1)
            self._metrics.of(model.labels).model_ready.set(1)

    def _require_shortlisted(self, served: AbstractSet[str]) -> None:
        """Refuse to start where a shortlist is wanted that nobody would get."""
        missing = self._settings.shortlists - {"*"} - served
        if missing:
            wanted, names = ", ".join(sorted(missing)), ", ".join(sorted(served))
            reason = f"shortlists are wanted of {wanted}, which are not served; served: {names}"
            raise BundleError(self._repository, [reason])

    async def translate(
        self,
        texts: Sequence[str],
        *,
        model: ServedModel,
        options: DecodingOptions,
        deadline: float | None,
        caller: str = "",
        target_language: str = "",
    ) -> list[list[Hypothesis]]:
        """Translate texts; if the awaiting task is cancelled, their sentences leave the workers at the next step.

        Args:
            texts: In the source language.
            model: One of `models`.
            options: Within the ranges of the API and the limits of the model.
            deadline: On the clock of `time.monotonic`; None for no limit.
            caller: Who asks; callers take turns. It is neither logged nor counted.
            target_language: One of the model's, or empty for its first.

        Returns:
            Hypotheses of each text, best first.

        Raises:
            InvalidInputError: If texts are over a limit; the fields are "contents[i]" or options.
            ModelNotFoundError: If the model is not served.
            OverloadedError: If the queue is full, or too full for the deadline.
            DrainingError: If the engine is stopping.
            DeadlineExceededError: If the deadline passed first.
        """
        terms = self._terms(model, options, deadline, caller=caller, target_language=target_language)
        return await self._run(texts, terms, options)

    async def translate_progressively(
        self,
        text: str,
        *,
        model: ServedModel,
        options: DecodingOptions,
        deadline: float | None,
        caller: str = "",
        target_language: str = "",
    ) -> AsyncGenerator[str | list[Hypothesis], None]:
        """Translate a text and tell its beginning as soon as it is sure; closing the generator gives the work up.

        Args:
            text: In the source language.
            model: One of `models`.
            options: Within the ranges of the API and the limits of the model.
            deadline: On the clock of `time.monotonic`; None for no limit.
            caller: Who asks.
            target_language: One of the model's, or empty for its first.

        Yields:
            What comes next of the best translation, never taken back, and at the end all hypotheses, best first. With
            several draws or alternatives nothing is sure before the end.

        Raises:
            The same as `translate`.
        """
        terms = self._terms(model, options, deadline, caller=caller, target_language=target_language)
        started: float | None = time.monotonic()
        told: asyncio.Queue[str | None] = asyncio.Queue()
        running = asyncio.ensure_future(self._run([text], terms, options, told.put_nowait))
        running.add_done_callback(lambda _: told.put_nowait(None))
        try:
            while (more := await told.get()) is not None:
                if started is not None:
                    first_text = self._metrics.of(terms.model.labels).first_text_duration_seconds
                    first_text.observe(time.monotonic() - started)
                    started = None
                yield more
            [hypotheses] = await running
            yield hypotheses
        finally:
            running.cancel()
            # Nobody else would see its error if the caller has gone.
            await asyncio.gather(running, return_exceptions=True)

    def _terms(
        self, model: ServedModel, options: DecodingOptions, deadline: float | None, *, caller: str, target_language: str
    ) -> Terms:
        loaded = self._models.get(model)
        if loaded is None:
            raise ModelNotFoundError(f"model {model.name}/{model.version} is not served")
        cutoff = math.inf
        if deadline is None:
            deadline = math.inf
        elif options.partial_on_deadline:
            cutoff = deadline - max(_LEAST_MARGIN_SECONDS, _MARGIN_SHARE * (deadline - time.monotonic()))
        return Terms(model=loaded, caller=caller, target_language=target_language, deadline=deadline, cutoff=cutoff)

    async def _run(
        self, texts: Sequence[str], terms: Terms, options: DecodingOptions, tell: Tell | None = None
    ) -> list[list[Hypothesis]]:
        """Translate, and count the call from its beginning to its end."""
        metrics = self._metrics.of(terms.model.labels)
        with count_outcome(metrics):
            if self._draining:
                raise DrainingError("the server is stopping")
            self._active += 1
            self._idle.clear()
            try:
                answer = await Translation(self._facilities, terms, options, tell).run(texts)
            finally:
                self._active -= 1
                if not self._active:
                    self._idle.set()
            count_answer(metrics, answer)
            return answer

    def drain(self) -> None:
        """Refuse new work from now on; what was accepted goes on."""
        self._draining = True
        for model in self._models.values():
            self._metrics.of(model.labels).model_ready.set(0)

    async def join(self, timeout: float) -> bool:  # noqa: ASYNC109 - what is not done by then is answered with an error
        """Wait for the accepted work, then stop the threads.

        Args:
            timeout: Most seconds to wait for the work.

        Returns:
            Whether all of it was done and all threads have ended.
        """
        self.drain()
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            _LOGGER.warning("requests cut off", extra={"requests": self._active})
        done = self._active == 0
        for request in self._facilities.requests:
            request.fail(DrainingError("the server stopped before the translation was done"))
        self._scheduler.stop()
        # Requests that are being tokenised go on to find the scheduler stopped.
        self._tokenizing.shutdown(wait=False)
        ended = await asyncio.gather(*(asyncio.to_thread(worker.join, _STOP_SECONDS) for worker in self._workers))
        return done and all(ended)


def _default_workers(provider: str, intra_op_threads: int) -> int:
    # A GPU runs the steps of one worker after another anyway.
    return 1 if provider == "cuda" else max(1, usable_cores() // intra_op_threads)
