"""Use of the models: the calls of each, and on demand which of them are in memory."""

from __future__ import annotations

import asyncio
import enum
import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.errors import DeadlineExceededError, DrainingError, ModelLoadError
from xuanzang.server.engine.hardware import return_free_memory, usable_cores
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.settings import OnDemand
from xuanzang.server.engine.threads import Threads
from xuanzang.server.engine.types import Residency
from xuanzang.server.metrics import ServerMetrics

_LOGGER = logging.getLogger(__name__)

_FIRST_BACK_OFF_SECONDS, _MAX_BACK_OFF_SECONDS = 0.5, 60.0
# If all models are in use, one of them is refused new calls until it has left: after a wait, for a moment without calls
# comes soon, and once it has served ten times as long as it takes to load.
_PATIENCE_SECONDS = 1.0
_TENURE = 10.0
_MAX_REASON_CHARACTERS = 300
_IDLE_LOOKS = 4
"""Number of looks at idle models within the idle time."""
_MIN_LOOK_SECONDS, _MAX_LOOK_SECONDS = 0.05, 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tenure:
    """A model in memory."""

    size: int
    """Bytes that it counts for."""
    stays_until: float = math.inf
    """Time until which it stays if it is always in use; infinite while it is loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """Loads of a model that failed in a row."""

    count: int
    retry_at: float
    reason: str
    """The fault, for callers: without the place of the bundle."""


@dataclass(slots=True, kw_only=True)
class _History:
    """Facts of a model that outlast its loads."""

    used_at: float | None = None
    """Time of its last call, if it has no call; None before the first."""
    since: float | None = None
    """Time of its last load or rest, in seconds since 1970; None if it was never loaded."""
    failure: _Failure | None = None
    """Its last loads, if they failed."""


class _Stage(enum.Enum):
    """State of a model on its way into memory."""

    TRYING = enum.auto()
    """It has its trial."""
    TRIED = enum.auto()
    """It may be loaded."""
    COMING = enum.auto()
    """It is being loaded, or others leave for it."""


class ModelUsage:
    """Counts calls, so that a model is let go only once it has none; loads models at their first calls.

    Belongs to one event loop. A model that rests is loaded by its first call in a thread. The calls that come meanwhile
    wait for the same load; if it fails, they fail, and later ones until the load may be tried again. If all threads are
    loading, one for each core, the next model is the one whose calls have waited longest, added up. Only then does it
    get memory: if this is short, the least recently used model without calls leaves. A model that is new to the machine
    has its trial before, which takes no thread from the loads of others.
    """

    def __init__(
        self,
        on_demand: OnDemand | None = None,
        *,
        load: Callable[[LoadedModel], LoadedModel | BundleError],
        require_trial: Callable[[LoadedModel], Awaitable[None]] | None = None,
        drop: Callable[[LoadedModel], Awaitable[None]],
        metrics: ServerMetrics,
    ) -> None:
        """Begin without models.

        Args:
            on_demand: Limits of the models in memory; None if all stay.
            load: Loads a model that rests, in a thread.
            require_trial: Raises BundleError unless a model may be loaded in this process; None if all may.
            drop: Makes the workers drop their state of a model without calls.
        """
        self._on_demand = on_demand or OnDemand()
        self._load, self._require_trial, self._drop, self._metrics = load, require_trial, drop, metrics
        self._calls: dict[LoadedModel, int] = {}
        self._kept: Counter[LoadedModel] = Counter()
        """Calls that will use a model later."""
        self._waiting: dict[LoadedModel, dict[asyncio.Future[None], float]] = {}
        """Calls that wait for models that rest, with the time of their arrival."""
        self._stages: dict[LoadedModel, _Stage] = {}
        """Stages of the models that were asked for."""
        self._held: dict[LoadedModel, _Tenure] = {}
        """Models that count as memory; on demand only."""
        self._history: defaultdict[LoadedModel, _History] = defaultdict(_History)
        self._changed = asyncio.Event()
        """Set when a model has lost its last call or its memory."""
        self._turn = asyncio.Lock()
        """Held by whoever makes room, first come, first served."""
        self._max_loads = usable_cores()
        self._trials = asyncio.Semaphore(self._max_loads)
        self._threads = Threads(self._max_loads, "loading-on-demand")
        self._tasks: set[asyncio.Task[None]] = set()
        metrics.model_memory_limit_bytes.value = self._on_demand.memory_bytes or math.inf
        metrics.model_memory_bytes.set_function(lambda: sum(each.size for each in self._held.values()))
        metrics.model_load_waiting.set_function(lambda: sum(map(len, self._waiting.values())))

    def calls(self, model: LoadedModel) -> int:
        """Return the number of calls in progress of a model, waiting ones included."""
        return self._calls.get(model, 0) + len(self._waiting.get(model, ()))

    def residency(self, model: LoadedModel) -> tuple[Residency, float, str]:
        """Return whether a model is in memory, since when, in seconds since 1970, and why its last load failed."""
        history = self._history.get(model) or _History()
        since = history.since or model.described_at
        if not model.is_resting:
            return Residency.LOADED, since, ""
        if model in self._waiting:
            return Residency.LOADING, since, ""
        if history.failure:
            return Residency.FAILING, since, history.failure.reason
        return Residency.ON_DEMAND, since, ""

    def begin(self, model: LoadedModel) -> None:
        """Count a call from now on, which must `end`; one of a model that rests has to `wake` it."""
        self._calls[model] = self._calls.get(model, 0) + 1

    def end(self, model: LoadedModel) -> None:
        """Count a call that began no longer."""
        self._calls[model] -= 1
        if not self._calls[model]:
            del self._calls[model]
            self._history[model].used_at = time.monotonic()
            self._changed.set()

    @contextmanager
    def kept(self, model: LoadedModel) -> Iterator[None]:
        """Keep a model served that a call will use later; it may rest until then."""
        self._kept[model] += 1
        try:
            yield
        finally:
            self._kept[model] -= 1
            if not self._kept[model]:
                del self._kept[model]
                self._changed.set()

    @asynccontextmanager
    async def of(self, model: LoadedModel, deadline: float = math.inf) -> AsyncIterator[None]:
        """Count a call while it is in progress, of a model that is in memory meanwhile; errors are those of `wake`."""
        self.begin(model)
        try:
            if model.is_resting:
                await self.wake(model, deadline)
            yield
        finally:
            self.end(model)

    async def ended(self, model: LoadedModel) -> None:
        """Wait until no call of a model is in progress or waits for it; no new one may begin."""
        while model in self._calls or model in self._waiting or model in self._kept:
            await self._until_changed()

    async def wake(self, model: LoadedModel, deadline: float = math.inf) -> None:
        """Wait until a model that rests is in memory, on behalf of a call that has begun.

        Raises:
            ModelLoadError: It cannot be loaded.
            DeadlineExceededError: The deadline, on the clock of `time.monotonic`, passed first.
            DrainingError: The engine has stopped.
        """
        began = time.monotonic()
        self._require_retry(model, began)
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(model, {})
        waiting[arrived] = began
        # Until it is there, the call does not use it.
        self.end(model)
        self._bring_next()
        try:
            async with asyncio.timeout(None if math.isinf(deadline) else max(0, deadline - began)):
                await arrived
        except BaseException as error:
            if waiting.pop(arrived, None) is not None:
                if not waiting and self._waiting.get(model) is waiting and self._stages.get(model) is not _Stage.COMING:
                    del self._waiting[model]
                self._changed.set()
            if not arrived.done() or arrived.cancelled() or arrived.exception():
                self.begin(model)
            if isinstance(error, TimeoutError):
                message = f"the deadline passed while {model.name}/{model.version} was loaded"
                raise DeadlineExceededError(message, in_queue=True) from None
            raise
        finally:
            self._metrics.model_load_wait_seconds.observe(time.monotonic() - began)

    def _require_retry(self, model: LoadedModel, now: float) -> None:
        failure = self._history[model].failure
        if failure and now < failure.retry_at:
            raise self._load_error(model, failure, now)

    @staticmethod
    def _load_error(model: LoadedModel, failure: _Failure, now: float) -> ModelLoadError:
        message = f"{model.name}/{model.version} cannot be loaded: {failure.reason}"
        return ModelLoadError(message, retry_after_seconds=max(0.0, failure.retry_at - now))

    def _bring_next(self) -> None:
        """Try new models; begin to load the others whose calls have waited longest, as far as there are threads."""
        now = time.monotonic()
        for model in [each for each in self._waiting if each not in self._stages]:
            self._stages[model] = _Stage.TRYING if self._require_trial else _Stage.TRIED
            if self._require_trial:
                self._start(self._try(model, self._require_trial))
        # In the order of arrival, which decides between equals.
        while Counter(self._stages.values())[_Stage.COMING] < self._max_loads and (
            queue := [each for each in self._waiting if self._stages[each] is _Stage.TRIED]
        ):
            model = max(queue, key=lambda each: sum(now - began for began in self._waiting[each].values()))
            self._stages[model] = _Stage.COMING
            self._start(self._bring(model))

    async def _try(self, model: LoadedModel, require_trial: Callable[[LoadedModel], Awaitable[None]]) -> None:
        """Let a model be loaded from now on; if that is refused, pass the reason to the waiting calls."""
        error: Exception | None = None
        try:
            async with self._trials:
                await require_trial(model)
        except Exception as fault:  # noqa: BLE001 - whatever it is, those who wait must hear of it
            error = self._failed(model, fault)
        if self._stages.pop(model, None) is None:
            # It was forgotten meanwhile, as no call waited any longer.
            self.forget(model)
        elif error is None:
            self._stages[model] = _Stage.TRIED
        if error:
            self._end_wait(model, error)
        self._bring_next()

    async def _bring(self, model: LoadedModel) -> None:
        """Load a model once there is room, and pass the outcome to the waiting calls."""
        error: Exception | None = None
        try:
            async with self._turn:
                if has_room := await self._make_room(model):
                    self._held[model] = _Tenure(size=model.memory_bytes)
            if has_room:
                await self._loaded(model)
        except DrainingError as stopped:
            error = stopped
        except Exception as fault:  # noqa: BLE001 - whatever it is, those who wait must hear of it
            error = self._failed(model, fault)
        self._stages[model] = _Stage.TRIED
        self._end_wait(model, error)
        self._bring_next()

    def _end_wait(self, model: LoadedModel, error: Exception | None) -> None:
        """Pass an error, or None for success, to the calls that wait for a model."""
        for arrived in self._waiting.pop(model, {}):
            if arrived.done():
                continue
            if error:
                arrived.set_exception(error)
            else:
                # Before it runs again, or the model might leave before.
                self.begin(model)
                arrived.set_result(None)
        self._changed.set()

    async def _loaded(self, model: LoadedModel) -> None:
        began = time.monotonic()
        outcome = await asyncio.get_running_loop().run_in_executor(self._threads, self._loaded_in_thread, model)
        if isinstance(outcome, BundleError):
            raise outcome
        now = time.monotonic()
        self._held[model] = _Tenure(size=model.memory_bytes, stays_until=now + _TENURE * (now - began))
        self._history[model] = _History(used_at=now, since=time.time())
        model.metrics.model_loaded.value = model.metrics.model_ready.value = 1
        model.metrics.model_failing.value = 0
        self._metrics.model_loads["ok"].inc()
        self._metrics.model_load_seconds.observe(now - began)
        _LOGGER.info("model in memory", extra={"model": model.name, "version": model.version, "seconds": now - began})

    def _loaded_in_thread(self, model: LoadedModel) -> LoadedModel | BundleError:
        try:
            return self._load(model)
        finally:
            return_free_memory()

    def _failed(self, model: LoadedModel, fault: Exception) -> ModelLoadError:
        self._held.pop(model, None)
        history, now = self._history[model], time.monotonic()
        count = history.failure.count + 1 if history.failure else 1
        pause = min(_FIRST_BACK_OFF_SECONDS * 2 ** min(count - 1, 10), _MAX_BACK_OFF_SECONDS)
        reasons = fault.reasons if isinstance(fault, BundleError) else [f"{type(fault).__name__} in the server"]
        history.failure = _Failure(count=count, retry_at=now + pause, reason=_for_callers(model, reasons))
        history.since = time.time()
        model.metrics.model_ready.value, model.metrics.model_failing.value = 0, 1
        self._metrics.model_loads["error"].inc()
        facts = {"model": model.name, "version": model.version, "reasons": reasons, "seconds": pause}
        _LOGGER.error("a model cannot be loaded, and is tried again", extra=facts, exc_info=_unexpected(fault))
        return self._load_error(model, history.failure, now)

    async def _make_room(self, model: LoadedModel) -> bool:
        """Let models leave until there is room for another; return False once no call waits for it."""
        limit, began = self._on_demand.memory_bytes or math.inf, time.monotonic()
        while self._waiting[model]:
            if sum(each.size for each in self._held.values()) + model.memory_bytes <= limit:
                return True
            leaving, seconds = self._next_to_leave(began + _PATIENCE_SECONDS)
            if leaving:
                await self._put_to_rest(leaving, "memory")
            else:
                await self._until_changed(seconds)
        return False

    def _next_to_leave(self, not_before: float) -> tuple[LoadedModel | None, float]:
        """Return the model to leave next; if none may yet, the seconds to wait for a change at most.

        `not_before` is the earliest time at which a model in constant use may leave.
        """
        present = {model: each for model, each in self._held.items() if not math.isinf(each.stays_until)}
        if unused := [model for model in present if model not in self._calls]:
            return min(unused, key=lambda model: self._history[model].used_at or 0.0), 0.0
        if not present:
            return None, math.inf
        longest = min(present, key=lambda model: present[model].stays_until)
        seconds = max(present[longest].stays_until, not_before) - time.monotonic()
        return (longest, 0.0) if seconds <= 0 else (None, seconds)

    async def _put_to_rest(self, model: LoadedModel, reason: str) -> None:
        """Take a model out of memory; calls that come from now on wait until it is loaded again."""
        model.is_resting = True
        model.metrics.model_loaded.value = 0
        self._history[model].since = time.time()
        while model in self._calls:
            await self._until_changed()
        # The model that takes its place uses that memory again, and returns the rest.
        await self.free(model, trims=reason != "memory")
        self._metrics.model_evictions[reason].inc()
        _LOGGER.info("model rests", extra={"model": model.name, "version": model.version, "reason": reason})

    async def free(self, model: LoadedModel, *, trims: bool = True) -> None:
        """Free the memory of a model without calls; `trims`: whether the C library's goes back to the system."""
        await self._drop(model)
        # Not in the threads that load: whoever waits for the memory would wait for them.
        await asyncio.to_thread(model.close)
        if trims:
            await asyncio.to_thread(return_free_memory)
        self._held.pop(model, None)
        self._changed.set()

    def forget(self, model: LoadedModel) -> None:
        """Forget a model that is no longer served."""
        self._history.pop(model, None)
        self._stages.pop(model, None)

    def start(self) -> None:
        """Let models leave that have rested for long enough, from now on."""
        if self._on_demand.idle_seconds:
            self._start(self._follow_idle(self._on_demand.idle_seconds))

    async def _follow_idle(self, idle_seconds: float) -> None:
        while True:
            await asyncio.sleep(min(max(idle_seconds / _IDLE_LOOKS, _MIN_LOOK_SECONDS), _MAX_LOOK_SECONDS))
            async with self._turn:
                before = time.monotonic() - idle_seconds
                for model in [model for model in self._held if (self._history[model].used_at or math.inf) <= before]:
                    if not model.is_resting and not self.calls(model):
                        await self._put_to_rest(model, "idle")

    def close(self) -> None:
        """Stop loading; calls that still wait fail with DrainingError."""
        for task in self._tasks:
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for arrived in [each for waiting in self._waiting.values() for each in waiting if not each.done()]:
            arrived.set_exception(DrainingError("the server stopped before the model was loaded"))

    async def _until_changed(self, seconds: float = math.inf) -> None:
        """Wait until a model has lost its last call or its memory, at most some seconds."""
        self._changed.clear()
        try:
            async with asyncio.timeout(None if math.isinf(seconds) else seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _for_callers(model: LoadedModel, reasons: Sequence[str]) -> str:
    """Return the first reason for a failed load, without the place of the bundle, which is not the callers' matter."""
    directory = model.bundle.directory
    reason = reasons[0].replace(f"{directory}/", "").replace(f"{directory.resolve()}/", "")
    others = f"; and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f"{reason[:_MAX_REASON_CHARACTERS]}{others}"


def _unexpected(fault: Exception) -> Exception | None:
    return None if isinstance(fault, BundleError) else fault
