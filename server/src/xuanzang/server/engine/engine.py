"""The engine: all models, the queue and the workers."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.arrays import take_small_blocks
from xuanzang.server.engine.calls.background import BackgroundCalls
from xuanzang.server.engine.calls.call import Call, Emit, SharedResources
from xuanzang.server.engine.calls.journal import Journal
from xuanzang.server.engine.calls.request_metrics import count_answer, count_outcome
from xuanzang.server.engine.errors import DrainingError, ModelNotFoundError
from xuanzang.server.engine.glossaries import FOLDER, GlossaryFolder
from xuanzang.server.engine.hardware import default_workers, memory_limit
from xuanzang.server.engine.models.folder import FolderWatch
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.loading import load_models
from xuanzang.server.engine.models.trial_loader import TrialLoader
from xuanzang.server.engine.promotion.kept_state import KeptState, restored_catalog
from xuanzang.server.engine.promotion.promoter import Promoter
from xuanzang.server.engine.promotion.settings import PromotionSettings
from xuanzang.server.engine.promotion.shadow import Shadow
from xuanzang.server.engine.promotion.state_file import StateFile
from xuanzang.server.engine.request_router import RequestRouter
from xuanzang.server.engine.runtime.kernels import choose_kernels, log_kernels
from xuanzang.server.engine.runtime.sessions import ONNXRUNTIME_VERSION, resolve_provider
from xuanzang.server.engine.scheduling.call_record import CallRecord
from xuanzang.server.engine.scheduling.request import CallArguments, CallContext, ContextArguments
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.scheduling.worker import Worker
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.text import language_detection
from xuanzang.server.engine.types import (
    DecodingOptions,
    Hypothesis,
    Runtime,
    ServedModel,
)
from xuanzang.server.metrics import Metrics

__all__ = ["Engine", "ServedModel"]

_LOGGER = logging.getLogger(__name__)

# Splitting and tokenising take some thousandths of the time of decoding.
_TOKENIZING_THREADS = 2
# A worker checks after each step, which takes milliseconds; far more is a fault, and no reason to hang.
_STOP_SECONDS = 5.0
# A partial answer is sent this long before the deadline, so that the caller has it in time.
_MIN_MARGIN_SECONDS = 0.02
_MARGIN_SHARE = 0.05


class Engine:
    """Translates texts with the models of a repository.

    All methods belong to one event loop, and none computes on it for long: texts that are not short are split and
    tokenised in a small pool of threads; they are decoded and turned into text again by the workers.
    """

    def __init__(
        self,
        models: Path,
        *,
        settings: EngineSettings,
        metrics: Metrics,
        trial_loader: TrialLoader | None = None,
        promotion: PromotionSettings | None = None,
    ) -> None:
        """Make an engine that has loaded nothing yet.

        Args:
            models: Folder of the bundles to serve.
            settings: Use of the machine, and limits.
            metrics: Metrics of the server.
            trial_loader: Trial loader of bundles in another process; None to trust them.
            promotion: How versions go live; None for the defaults.

        Raises:
            ProviderUnavailableError: The provider is cuda, and onnxruntime comes without.
        """
        promotion = promotion or PromotionSettings()
        self._repository = models
        self._settings = settings
        self._metrics = metrics
        self._trial_loader = trial_loader
        self._provider = resolve_provider(settings.provider)
        self._kernels = choose_kernels(self._provider, enabled=settings.kernels)
        self.runtime = Runtime(
            execution_provider=self._provider,
            kernels=self._kernels.isa,
            kernels_reason=self._kernels.reason,
            onnxruntime_version=ONNXRUNTIME_VERSION,
        )
        """What runs the graphs."""
        self._worker_count = settings.workers or default_workers(self._provider, settings.intra_op_threads)
        self._scheduler = Scheduler(settings, workers=self._worker_count)
        self._tokenizing = ThreadPoolExecutor(_TOKENIZING_THREADS, thread_name_prefix="tokenizing")
        self._shared = SharedResources(scheduler=self._scheduler, tokenizing=self._tokenizing, settings=settings)
        self._workers: list[Worker] = []
        self._source_languages: set[str] = set()
        self._holds = promotion.promotion != "direct"
        self.live = LiveModels(
            models,
            open_model=self._load_model,
            trial_loader=trial_loader,
            release=self._release,
            metrics=metrics,
            provider=self._provider,
            holds=self._holds,
        )
        """The models, and their changes while others are served."""
        translate = BackgroundCalls(self._shared, self.live)
        self._state_file = StateFile(models, promotion.promotion_state)
        self.promoter = Promoter(
            self.live,
            translate=translate,
            settings=promotion,
            pins=settings.pins,
            state_file=self._state_file,
            metrics=metrics,
        )
        """Which versions go live, and which have a share of the requests beside them."""
        self.router = RequestRouter(self.live, self._tokenizing)
        """Which model and languages a request means."""
        self._shadow = Shadow(self.live, translate=translate, metrics=metrics)
        self.glossaries = GlossaryFolder(models / FOLDER)
        """Glossaries that requests may name."""
        self._watching: list[asyncio.Task[None]] = []
        self._draining = False
        self._active = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """Served models, by name and version; none before `start`."""
        return tuple(self.live.catalog.served)

    async def start(self) -> None:
        """Load the models, warm them up and replay their samples. A bundle that fails is logged and not served.

        Raises:
            BundleError: No bundle can be served, or none of a model with a required shortlist or pin.
        """
        take_small_blocks()
        log_kernels(self._kernels)
        self._metrics.set_build_info(kernels=self._kernels.isa, reason=self._kernels.reason)
        self._metrics.server.memory_limit_bytes.set(memory_limit())
        self._metrics.server.cache_limit_bytes.set(self._scheduler.max_cache_bytes)
        if self._settings.detection and language_detection.is_installed():
            self.router.detector = language_detection.shared_detector()
            self._shared = replace(self._shared, detector=self.router.detector)
        # What is copied into the folder from now on is found by the watch.
        watch = await asyncio.to_thread(FolderWatch, self._repository)
        models, refusals = await load_models(self._repository, self._load_model, self._tokenizing, self._trial_loader)
        kept = await self._state_file.read(matters=self._holds)
        self._serve(models, refusals, kept)
        self._workers = [Worker(number, scheduler=self._scheduler) for number in range(self._worker_count)]
        self._metrics.server.workers.set(self._worker_count)
        self._metrics.server.workers_stopped.set_function(lambda: sum(worker.has_stopped for worker in self._workers))
        self.promoter.start(kept)
        if self._settings.watch_models:
            self._watching.append(asyncio.create_task(self._watch(watch)))
        await self.glossaries.reload_if_changed()
        self._watching.append(asyncio.create_task(self.glossaries.follow()))

    async def _watch(self, watch: FolderWatch) -> None:
        """Follow the folder of the models until the drain."""
        while True:
            await asyncio.sleep(self._settings.watch_models)
            try:
                await self.live.follow(watch)
            except BundleError as error:
                _LOGGER.warning("the folder of the models cannot be read", extra={"reasons": error.reasons})
            except Exception:  # the watch must live on
                _LOGGER.exception("the folder of the models cannot be followed")

    def _load_model(self, directory: Path) -> LoadedModel:
        model = LoadedModel(directory, self._metrics)
        model.open(self._settings)
        self._source_languages.update(model.bundle.manifest.source_language_codes)
        if self.router.detector is not None and len(self._source_languages) > 1:
            # Requests that name no source language are detected in the event loop, which has no time to read it.
            self.router.detector.open()
        model.metrics.estimated_queue_wait_seconds.set_function(self._scheduler.estimated_wait)
        return model

    def _serve(self, models: Sequence[LoadedModel], refusals: Sequence[BundleError], kept: KeptState) -> None:
        for refusal in refusals:
            _LOGGER.error("bundle refused", extra={"bundle": str(refusal.directory), "reasons": refusal.reasons})
        if not models:
            raise BundleError(self._repository, [str(refusal) for refusal in refusals])
        self._require_shortlisted({model.name for model in models})
        self._require_pinned(models)
        if unserved := self._settings.limited_models - {model.name for model in models}:
            _LOGGER.warning("limits of models that are not served", extra={"models": sorted(unserved)})
        catalog = restored_catalog(kept, models, configured=self._settings.pins, holds=self._holds)
        self.live.begin(catalog, refusals)

    def _require_shortlisted(self, served: AbstractSet[str]) -> None:
        """Refuse to start with a shortlist setting that applies to no model."""
        missing = self._settings.shortlists - {"*"} - served
        if missing:
            wanted, names = ", ".join(sorted(missing)), ", ".join(sorted(served))
            reason = f"shortlists are wanted of {wanted}, which are not served; served: {names}"
            raise BundleError(self._repository, [reason])

    def _require_pinned(self, models: Sequence[LoadedModel]) -> None:
        missing = self._settings.pins.items() - {(model.name, model.version) for model in models}
        if missing:
            reasons = [f"{name}/{version} is pinned and not served" for name, version in sorted(missing)]
            raise BundleError(self._repository, reasons)

    async def _release(self, model: LoadedModel) -> None:
        """Let the workers drop a model that no call uses."""
        await asyncio.gather(*(asyncio.wrap_future(worker.drop(model)) for worker in self._workers))

    def require_time(self, caller: str, seconds: float) -> None:
        """Refuse a request that is not read yet, if one as small as any of late would be refused.

        Args:
            caller: Identity of the caller.
            seconds: Time after which the answer is of no use.

        Raises:
            OverloadedError: The queue is full, or too full for the time.
        """
        self._scheduler.require_time(caller, seconds)

    async def translate(
        self,
        texts: Sequence[str],
        *,
        journal: Journal | None = None,
        **asked: Unpack[CallArguments],
    ) -> list[list[Hypothesis]]:
        """Translate texts; if the awaiting task is cancelled, their sentences leave the workers at the next step.

        Args:
            texts: Texts in the source language.
            journal: Receiver of records of the searches.
            **asked: Model, options, deadline and what else the call asks for.

        Returns:
            Hypotheses of each text, best first.

        Raises:
            InvalidInputError: Texts are over a limit; the fields are "contents[i]" or options.
            ModelNotFoundError: The model is not served.
            OverloadedError: The queue is full, or too full for the deadline.
            DrainingError: The engine is stopping.
            DeadlineExceededError: The deadline passed first.
        """
        context = self._context(**asked)
        with self.live.usage.of(context.model):
            return await self._run(texts, context, asked["options"], journal=journal)

    async def translate_progressively(
        self,
        text: str,
        *,
        journal: Journal | None = None,
        **asked: Unpack[CallArguments],
    ) -> AsyncGenerator[str | list[Hypothesis], None]:
        """Translate a text and yield its beginning as soon as it is certain; closing the generator cancels the work.

        Args:
            text: Text in the source language.
            journal: Receiver of records of the searches.
            **asked: Model, options, deadline and what else the call asks for.

        Yields:
            Next part of the best translation, never taken back, and at the end all hypotheses, best first. With several
            draws or alternatives nothing is certain before the end.

        Raises:
            InvalidInputError: The text is over a limit; the fields are "contents[0]" or options.
            ModelNotFoundError: The model is not served.
            OverloadedError: The queue is full, or too full for the deadline.
            DrainingError: The engine is stopping.
            DeadlineExceededError: The deadline passed first.
        """
        context = self._context(**asked)
        with self.live.usage.of(context.model):
            async with aclosing(self._emitted(text, context, asked["options"], journal)) as parts:
                async for part in parts:
                    yield part

    async def _emitted(
        self, text: str, context: CallContext, options: DecodingOptions, journal: Journal | None
    ) -> AsyncGenerator[str | list[Hypothesis], None]:
        started: float | None = time.monotonic()
        emitted: asyncio.Queue[str | None] = asyncio.Queue()
        translating = self._run([text], context, options, emit=emitted.put_nowait, journal=journal)
        running = asyncio.ensure_future(translating)
        running.add_done_callback(lambda _: emitted.put_nowait(None))
        try:
            while (more := await emitted.get()) is not None:
                if started is not None:
                    context.model.metrics.first_text_duration_seconds.observe(
                        time.monotonic() - started, context.exemplar
                    )
                    started = None
                yield more
            [hypotheses] = await running
            yield hypotheses
        finally:
            running.cancel()
            # Nothing else would retrieve its error if the caller has gone.
            await asyncio.gather(running, return_exceptions=True)

    def _context(
        self,
        *,
        model: ServedModel,
        options: DecodingOptions,
        deadline: float | None,
        **shared: Unpack[ContextArguments],
    ) -> CallContext:
        # By name and version: whether it is the default may have changed since it was resolved.
        loaded = self.live.catalog.find(model.name, model.version)
        if loaded is None:
            raise ModelNotFoundError(f"model {model.name}/{model.version} is not served")
        cutoff = math.inf
        if deadline is None:
            deadline = math.inf
        elif options.partial_on_deadline:
            cutoff = deadline - max(_MIN_MARGIN_SECONDS, _MARGIN_SHARE * (deadline - time.monotonic()))
        return CallContext(model=loaded, deadline=deadline, cutoff=cutoff, **shared)

    async def _run(
        self,
        texts: Sequence[str],
        context: CallContext,
        options: DecodingOptions,
        *,
        emit: Emit | None = None,
        journal: Journal | None = None,
    ) -> list[list[Hypothesis]]:
        """Translate, and count the call from its beginning to its end."""
        metrics, observer = context.model.metrics, context.observer
        record = None if observer is None else _new_record(context.model, texts)
        with count_outcome(metrics, exemplar=context.exemplar):
            if self._draining:
                raise DrainingError("the server is stopping")
            self._active += 1
            self._idle.clear()
            try:
                call = Call(self._shared, context, options, emit=emit, journal=journal, record=record)
                answer = await call.run(texts)
                target_tokens = count_answer(metrics, answer)
                if record is not None:
                    record.target_tokens = target_tokens
            finally:
                self._active -= 1
                if not self._active:
                    self._idle.set()
                if observer is not None and record is not None:
                    record.ended_at = time.monotonic()
                    observer.call_ended(record)
        self._shadow.follow(texts, answer, context=context, options=options)
        return answer

    def drain(self) -> None:
        """Refuse new work from now on; accepted work goes on."""
        self._draining = True
        self.promoter.close()
        self._shadow.close()
        for task in self._watching:
            task.cancel()
        self.live.close()

    async def join(self, timeout: float) -> bool:  # noqa: ASYNC109 - work left by then is answered with an error
        """Wait for the accepted work, then stop the threads.

        Args:
            timeout: Maximum wait for the work, seconds.

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
        for request in self._shared.requests:
            request.fail(DrainingError("the server stopped before the translation was done"))
        self._scheduler.stop()
        # Requests that are being tokenised go on to find the scheduler stopped.
        self._tokenizing.shutdown(wait=False)
        await self.promoter.settle()
        ended = await asyncio.gather(*(asyncio.to_thread(worker.join, _STOP_SECONDS) for worker in self._workers))
        return done and all(ended)


def _new_record(model: LoadedModel, texts: Sequence[str]) -> CallRecord:
    return CallRecord(model=model.name, version=model.version, texts=len(texts), characters=sum(map(len, texts)))
