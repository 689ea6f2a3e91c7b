"""The engine: all models, the queue and the workers."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from xuanzang.kernels import Kernels
from xuanzang.server.engine.arrays import take_small_blocks
from xuanzang.server.engine.calls.answers import AnswerCache
from xuanzang.server.engine.calls.call import SharedResources
from xuanzang.server.engine.calls.jobs import SearchWatch
from xuanzang.server.engine.calls.record import Call, CallRecord
from xuanzang.server.engine.calls.running import RunningCalls
from xuanzang.server.engine.errors import ModelNotFoundError
from xuanzang.server.engine.glossaries import FOLDER, GlossaryFolder
from xuanzang.server.engine.hardware import choose_kernels, default_workers, log_kernels, memory_limit
from xuanzang.server.engine.language_detector import shared_detector
from xuanzang.server.engine.models.folder import FolderWatch
from xuanzang.server.engine.models.live import FollowedFolder, LiveModels, ModelHost
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.loading import require_models
from xuanzang.server.engine.models.trial_loader import TrialLoader
from xuanzang.server.engine.promotion.gate import Judge
from xuanzang.server.engine.promotion.kept_state import StateFile, restored_catalog
from xuanzang.server.engine.promotion.promoter import Promoter
from xuanzang.server.engine.request_router import RequestRouter
from xuanzang.server.engine.runtime.sessions import ONNXRUNTIME_VERSION, resolve_provider
from xuanzang.server.engine.scheduling.request import CallContext
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.scheduling.worker import Worker
from xuanzang.server.engine.settings import EngineSettings, PromotionSettings
from xuanzang.server.engine.threads import CallerThreads, Threads
from xuanzang.server.engine.types import NO_CALLER, CallerId, Hypothesis, Runtime, ServedModel
from xuanzang.server.metrics import TIERS, Metrics, ServerMetrics
from xuanzang.server.watched_files import reload_when_changed
from xuanzang.text.language_codes import matched
from xuanzang.text.language_detection import LanguageDetector
from xuanzang.text.tokenizer import Processors
from xuanzang.text.traditional import TraditionalWriter, writer_of

_LOGGER = logging.getLogger(__name__)

# Splitting and tokenising take some thousandths of the time of decoding.
_TOKENIZING_THREADS = 2
# A worker checks after each step, which takes milliseconds; far more is a fault, and no reason to hang.
_STOP_SECONDS = 5.0


class EngineThreads:
    """Tokenising threads, and workers once they are started. Belongs to one event loop."""

    def __init__(self, settings: EngineSettings, *, provider: str) -> None:
        self._count = settings.workers or default_workers(provider, settings.intra_op_threads)
        self.scheduler = Scheduler(settings, workers=self._count)
        # Texts of a caller must take no core from the workers, who give way, nor from the event loop.
        self.tokenizing = Threads(_TOKENIZING_THREADS, "tokenizing")
        self.workers: list[Worker] = []
        """Workers; none before `start`."""
        self.broken = asyncio.Event()
        """Set when an error has ended a worker: the process must be replaced."""

    def start(self, metrics: ServerMetrics, *, on_last_fault: Callable[[], None]) -> None:
        """Start the workers; `on_last_fault` is called when errors have ended all of them."""
        loop = asyncio.get_running_loop()

        def note_fault() -> None:
            self.broken.set()
            if all(worker.has_failed for worker in self.workers):
                on_last_fault()

        def on_fault() -> None:
            loop.call_soon_threadsafe(note_fault)

        self.workers = [Worker(number, scheduler=self.scheduler, on_fault=on_fault) for number in range(self._count)]
        metrics.workers.value = self._count
        for tier, name in enumerate(TIERS):
            metrics.held_places[name].set_function(partial(self.scheduler.held_places, tier))
            metrics.waiting_places[name].set_function(partial(self.scheduler.waiting_places, tier))
        metrics.workers_stopped.set_function(lambda: sum(worker.has_stopped for worker in self.workers))

    async def drop(self, model: LoadedModel) -> None:
        """Let the workers drop a model that no call uses."""
        living = [worker for worker in self.workers if not worker.has_stopped]
        await asyncio.gather(*(asyncio.wrap_future(worker.drop(model)) for worker in living))

    async def stop(self) -> bool:
        """Stop the workers after their step, and wait for their end."""
        self.scheduler.stop()
        # Requests that are being tokenised go on to find the scheduler stopped.
        self.tokenizing.shutdown(wait=False)
        return all(await asyncio.gather(*(asyncio.to_thread(worker.join, _STOP_SECONDS) for worker in self.workers)))


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
        cache: Path | None = None,
        packed_weights: Path | None = None,
    ) -> None:
        """Make an engine that has loaded nothing yet.

        Args:
            trial_loader: Trial loader of bundles in another process; None to trust them.
            promotion: How versions go live; None for the defaults.
            cache: Folder for the unpacked model of the detector; None for none.
            packed_weights: Folder for packed weights shared with other processes; None to share none.

        Raises:
            ProviderUnavailableError: The provider is cuda, and onnxruntime comes without.
        """
        promotion = promotion or PromotionSettings()
        self._repository, self._settings, self._metrics = models, settings, metrics
        self._trial_loader, self._packed_weights, self._processors = trial_loader, packed_weights, Processors()
        provider = resolve_provider(settings.provider)
        self._kernels = choose_kernels(provider, enabled=settings.kernels)
        self.runtime = _runtime(provider, self._kernels)
        self._threads = EngineThreads(settings, provider=provider)
        self._holds = promotion.promotion != "direct"
        self._answers = _answer_cache(settings, metrics)
        self.live = self._new_live_models()
        shared = self._shared_resources()
        self._state_file = StateFile(models, promotion.promotion_state)
        self.promoter = self._new_promoter(shared, promotion)
        self._detector = shared_detector(cache) if settings.detection else LanguageDetector(None)
        self._calls = RunningCalls(replace(shared, detector=self._detector), usage=self.live.usage)
        self.router = self._new_router()
        self.glossaries = self._new_glossaries()
        self._watching: list[asyncio.Task[None]] = []

    def _shared_resources(self) -> SharedResources:
        return SharedResources(
            scheduler=self._threads.scheduler,
            tokenizing=self._threads.tokenizing,
            turns=CallerThreads(self._threads.tokenizing),
            settings=self._settings,
            answers=self._answers,
        )

    def _new_router(self) -> RequestRouter:
        unserved, pivots = self._metrics.server.unserved_texts, self._settings.pivot_languages
        return RequestRouter(self.live, self._threads.tokenizing, self._detector, unserved, pivots=pivots)

    def _new_glossaries(self) -> GlossaryFolder:
        reads = self._metrics.server.glossary_reads
        return GlossaryFolder(self._repository / FOLDER, count=lambda ok: reads["ok" if ok else "error"].inc())

    def _new_live_models(self) -> LiveModels:
        live = LiveModels(
            self._repository,
            host=ModelHost(open=self._load_model, drop=self._threads.drop, forget=self._forget),
            trial_loader=self._trial_loader,
            metrics=self._metrics,
            provider=self.runtime.execution_provider,
            holds=self._holds,
            on_demand=self._settings.on_demand,
        )
        live.observe(self._divide_memory)
        return live

    def _forget(self, model: LoadedModel) -> None:
        """Release the kept answers of a model that is no longer served."""
        if self._answers is not None:
            self._answers.drop(model.bundle.manifest_sha256)

    def _new_promoter(self, shared: SharedResources, settings: PromotionSettings) -> Promoter:
        return Promoter(
            self.live,
            judge=Judge(shared, self.live, settings),
            settings=settings,
            pins=self._settings.pins,
            state_file=self._state_file,
            metrics=self._metrics,
        )

    @property
    def broken(self) -> asyncio.Event:
        """Event that is set when an error has ended a worker: the process must be replaced."""
        return self._threads.broken

    @property
    def max_content_characters(self) -> int:
        """Maximum characters of a text."""
        return self._settings.max_content_characters

    def require_time(self, caller: CallerId, seconds: float) -> None:
        """Refuse an unread request of a caller, as the scheduler does."""
        self._threads.scheduler.require_time(caller, seconds)

    def seconds_until_begun(self, caller: CallerId) -> float | None:
        """Estimate when a request of a caller would be begun, as the scheduler does."""
        return self._threads.scheduler.seconds_until_begun(caller)

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
        self._report_machine()
        # Later copies into the folder are found by the watch.
        watch = await asyncio.to_thread(FolderWatch, self._repository)
        models, refusals = await self.live.open_all(self._threads.tokenizing)
        kept = await self._state_file.read(matters=self._holds)
        require_models(self._repository, models, refusals, self._settings)
        self.live.begin(restored_catalog(kept, models, configured=self._settings.pins, holds=self._holds), refusals)
        self._threads.start(self._metrics.server, on_last_fault=self.hurry)
        self.promoter.start(kept)
        if self._settings.watch_models:
            followed = FollowedFolder(self.live, watch)
            interval = self._settings.watch_models
            self._watching.append(asyncio.create_task(reload_when_changed([followed], interval=interval)))
        await self.glossaries.reload()
        self._watching.append(asyncio.create_task(reload_when_changed([self.glossaries, self.promoter])))

    async def open_detector(self) -> None:
        """Load the language detector during translations; until then texts without a language wait for it."""
        await asyncio.get_running_loop().run_in_executor(self._threads.tokenizing, self._detector.open)

    def _divide_memory(self) -> None:
        """Leave keys and values their part of the memory next to the loaded models."""
        weights = sum(model.weights_bytes for model in self.live.catalog.models)
        if self._settings.on_demand and self._settings.on_demand.memory_bytes:
            weights = min(weights, self._settings.on_demand.memory_bytes)
        self._threads.scheduler.leave_memory(weights)
        self._metrics.server.cache_limit_bytes.value = self._threads.scheduler.max_cache_bytes

    def _report_machine(self) -> None:
        log_kernels(self._kernels)
        self._metrics.set_build_info(kernels=self._kernels.isa, reason=self._kernels.reason)
        self._metrics.server.memory_limit_bytes.value = memory_limit()

    def _load_model(self, directory: Path) -> LoadedModel:
        model = LoadedModel(
            directory,
            self._metrics,
            self._settings,
            packed_weights=self._packed_weights,
            processors=self._processors,
            rests=self._settings.on_demand is not None,
        )
        scheduler, metrics = self._threads.scheduler, model.metrics
        metrics.estimated_queue_wait_seconds.set_function(scheduler.estimated_wait)
        metrics.cache_reserved_bytes.set_function(partial(scheduler.reserved_bytes, model.labels))
        metrics.model_workers.set_function(partial(scheduler.serving, model.labels))
        return model

    def translate(
        self,
        call: Call,
        *,
        caller: CallerId = NO_CALLER,
        deadline: float | None = None,
        record: CallRecord | None = None,
        watch: SearchWatch | None = None,
    ) -> Coroutine[Any, Any, list[list[Hypothesis]]]:
        """Translate texts; if the awaiting task is cancelled, their sentences leave the workers at the next step.

        Args:
            call: Texts, one of the engine's models, and the options of the translation.
            caller: Identity of the caller: callers take turns.
            deadline: Deadline on the clock of `time.monotonic`; None for no limit.
            record: New record, which the engine fills in.
            watch: Watch that has the searches recorded.

        Returns:
            Hypotheses of each text, best first.

        Raises:
            InvalidInputError: Texts are over a limit; the fields are "contents[i]" or options.
            ModelNotFoundError: The model is not served.
            OverloadedError: The queue is full, or too full for the deadline.
            DrainingError: The engine is stopping.
            DeadlineExceededError: The deadline passed first.
        """
        context, writer = self._context(call, caller, deadline)
        first = self._context(call.first, caller, deadline)[0] if call.first else None
        return self._calls.run(call, context, first=first, record=record, writer=writer, watch=watch)

    def translate_progressively(
        self,
        call: Call,
        *,
        caller: CallerId = NO_CALLER,
        deadline: float | None = None,
        record: CallRecord | None = None,
    ) -> AsyncGenerator[str | list[Hypothesis], None]:
        """Translate the text of a call and yield its beginning as soon as it is final; closing cancels the work.

        Arguments and errors are those of `translate`.

        Yields:
            Next part of the best translation, never taken back, and at the end all hypotheses, best first. With several
            draws or alternatives nothing is certain before the end.
        """
        context, writer = self._context(call, caller, deadline)
        record = record or CallRecord()
        first = self._context(call.first, caller, deadline)[0] if call.first else None
        return self._calls.run_progressively(call, context, record=record, first=first, writer=writer)

    def _context(
        self, call: Call, caller: CallerId, deadline: float | None
    ) -> tuple[CallContext, TraditionalWriter | None]:
        """Return the context of a call on a loaded model, and the writer of a language that the model lacks."""
        # By name and version: whether it is the default may have changed since it was resolved.
        loaded = self.live.catalog.loaded.get((call.model.name, call.model.version))
        if loaded is None:
            raise ModelNotFoundError(f"model {call.model.name}/{call.model.version} is not served")
        cutoff, target, writer = math.inf, call.target_language, None
        if deadline is None:
            deadline = math.inf
        elif call.options.partial_on_deadline:
            cutoff = deadline - max(_MIN_MARGIN_SECONDS, _MARGIN_SHARE * (deadline - time.monotonic()))
        if target and target not in loaded.bundle.manifest.target_language_codes:
            target, writer = matched(target, loaded.bundle.manifest.target_language_codes) or "", writer_of(target)
        context = CallContext(
            model=loaded,
            caller=caller,
            source_language=call.source_language,
            target_language=target,
            deadline=deadline,
            cutoff=cutoff,
        )
        return context, writer

    def drain(self) -> None:
        """Refuse new work from now on; accepted work goes on."""
        self._calls.close()
        self.promoter.close()
        for task in self._watching:
            task.cancel()
        self.live.close()

    def hurry(self) -> None:
        """Make `join` stop waiting for work; remaining work is answered with an error."""
        self._calls.hurry()

    async def reload(self) -> None:
        """Take over changes in the folders of models and glossaries, and in the state of promotion.

        Raises:
            EngineError: The folder has no bundle, or the engine is stopping.
            BundleError: The folder cannot be read.
        """
        await self.glossaries.reload()
        await self.promoter.reload()
        await self.live.reload()

    async def join(self, timeout: float) -> bool:  # noqa: ASYNC109 - work left by then is answered with an error
        """Wait some seconds for the accepted work, then stop the threads; return whether all was done and has ended."""
        self.drain()
        done = await self._calls.end(timeout)
        self.live.usage.close()
        stopped = await self._threads.stop()
        await self.promoter.settle()
        return done and stopped


def _runtime(provider: str, kernels: Kernels) -> Runtime:
    return Runtime(
        execution_provider=provider,
        kernels=kernels.isa,
        kernels_reason=kernels.reason,
        onnxruntime_version=ONNXRUNTIME_VERSION,
    )


def _answer_cache(settings: EngineSettings, metrics: Metrics) -> AnswerCache | None:
    size = settings.answer_cache_bytes
    return AnswerCache(size, metrics.server, is_shared=settings.share_answers) if size else None
