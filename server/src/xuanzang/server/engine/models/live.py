"""Changes of the models while others are served: loading, replacement, unloading, pins."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import find_bundles
from xuanzang.server.engine.errors import DrainingError, ModelNotFoundError, ModelStateError
from xuanzang.server.engine.hardware import return_free_memory
from xuanzang.server.engine.models.catalog import Catalog, Standing
from xuanzang.server.engine.models.folder import FolderWatch, VersionName, version_name, versions_in
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.loading import is_unchanged, load_again, load_model
from xuanzang.server.engine.models.trial_loader import TrialLoader
from xuanzang.server.engine.models.usage import ModelUsage
from xuanzang.server.engine.settings import OnDemand
from xuanzang.server.engine.threads import Threads
from xuanzang.server.engine.types import ModelState, ModelStatus, Residency, ServedModel
from xuanzang.server.metrics import Metrics

_LOGGER = logging.getLogger(__name__)

_STATES = {
    Residency.LOADED: ModelState.SERVING,
    Residency.LOADING: ModelState.LOADING,
    Residency.ON_DEMAND: ModelState.ON_DEMAND,
    Residency.FAILING: ModelState.ON_DEMAND,
}
Listener = Callable[[Collection[str]], Awaitable[None]]
"""Receives the names of the served models after each change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHost:
    """The engine's part in the life of a model."""

    open: Callable[[Path], LoadedModel]
    """Loads one bundle, and opens its graphs unless the model is to rest."""
    drop: Callable[[LoadedModel], Awaitable[None]]
    """Makes the workers drop their state of a model without calls."""
    forget: Callable[[LoadedModel], None]
    """Releases the kept answers of a model that is no longer served."""


class LiveModels:
    """The catalog, and its changes one after another. Belongs to one event loop.

    A new version is tried in another process, loaded and replayed next to the served ones, and only then takes its
    place in the catalog. Calls keep the model that they began with; once it has none, the workers drop it. Changes
    raise DrainingError once the engine is stopping; what reads the folder raises BundleError if it cannot be read.
    """

    def __init__(
        self,
        root: Path,
        *,
        host: ModelHost,
        trial_loader: TrialLoader | None,
        metrics: Metrics,
        provider: str,
        holds: bool = False,
        on_demand: OnDemand | None = None,
    ) -> None:
        """Begin with an empty catalog.

        Args:
            trial_loader: None to trust bundles.
            holds: Whether a live version stays live until another is promoted.
            on_demand: Limits of the models in memory; None if all stay.
        """
        self.catalog = Catalog(holds=holds)
        self.usage = ModelUsage(
            on_demand,
            load=self._load_again,
            require_trial=trial_loader.require if trial_loader else None,
            drop=host.drop,
            metrics=metrics.server,
        )
        self._root, self._host, self._trial_loader, self._metrics = root, host, trial_loader, metrics
        self._provider, self._holds, self._is_on_demand = provider, holds, on_demand is not None
        self._changing = asyncio.Lock()
        # No sooner than the workers: loading is in no hurry.
        self._executor = Threads(1, "loading")
        self._refusals: Mapping[VersionName, BundleError] = {}
        self._loading: VersionName | None = None
        # Models whose last calls are not answered.
        self._retiring: dict[asyncio.Task[None], VersionName] = {}
        self._listeners: list[Listener] = []
        self._observers: list[Callable[[], None]] = []
        self._closed = False

    async def open_all(self, executor: Executor) -> tuple[list[LoadedModel], list[BundleError]]:
        """Load the bundles of the folder side by side, open their graphs and replay their samples.

        On demand a model of one version has its trial at its first load: none could be served in its place.

        Returns models by name and version, and the reasons for refusing others; BundleError if there is no
        bundle.
        """
        loop = asyncio.get_running_loop()
        directories = await loop.run_in_executor(executor, find_bundles, self._root)
        if not directories:
            raise BundleError(self._root, ["there is no bundle MODEL/VERSION/ in it"])
        tried = _with_others(directories) if self._is_on_demand else directories
        # Nothing is translated before: a busy machine would let a process that gives way wait for minutes.
        refused = await self._trial_loader.refusals(tried, gives_way=False) if self._trial_loader else {}
        sound = [directory for directory in directories if directory not in refused]
        outcomes = await asyncio.gather(*(loop.run_in_executor(executor, self._open, each) for each in sound))
        models = [outcome for outcome in outcomes if isinstance(outcome, LoadedModel)]
        return models, [*refused.values(), *(outcome for outcome in outcomes if isinstance(outcome, BundleError))]

    def _open(self, directory: Path) -> LoadedModel | BundleError:
        try:
            return load_model(directory, self._host.open, self._has_replayed)
        finally:
            # Digests and packed weights leave hundreds of megabytes free in the heap of this thread.
            return_free_memory()

    def _load_again(self, model: LoadedModel) -> LoadedModel | BundleError:
        return load_again(model, self._has_replayed)

    def _has_replayed(self, manifest_sha256: str) -> bool:
        return self._trial_loader is not None and self._trial_loader.has_replayed(manifest_sha256)

    def begin(self, catalog: Catalog, refusals: Sequence[BundleError]) -> None:
        """Serve the models loaded at the start."""
        self._keep_refusals({version_name(refusal.directory): refusal for refusal in refusals})
        self._metrics.server.model_changes["refused"].inc(len(refusals))
        self._metrics.server.model_changes["loaded"].inc(len(catalog.models))
        self._publish(catalog)
        self.usage.start()

    def close(self) -> None:
        """Stop making changes."""
        self._closed = True
        for retiring in tuple(self._retiring):
            retiring.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)
        for model in self.catalog.models:
            model.metrics.model_ready.value = 0

    def listen(self, listener: Listener) -> None:
        """Report the names of the served models after each change from now on."""
        self._listeners.append(listener)

    def observe(self, observer: Callable[[], None]) -> None:
        """Call a function, which does not wait, with each new catalog from now on."""
        self._observers.append(observer)

    def served(self) -> tuple[ServedModel, ...]:
        """Return the served models with the places of their weights, by name and version."""
        return tuple(self._resident(served, model) for served, model in self.catalog.served.items())

    def _resident(self, served: ServedModel, model: LoadedModel) -> ServedModel:
        residency, since, fault = self.usage.residency(model)
        return replace(served, residency=residency, residency_since=since, residency_fault=fault)

    async def statuses(self) -> list[ModelStatus]:
        """Return the state of every version that is loaded or in the folder, by name and version."""
        found = await asyncio.to_thread(versions_in, self._root)
        loaded = {VersionName(model.name, model.version) for model in self.catalog.models}
        return [self._status(version) for version in sorted({*found, *loaded, *self._retiring.values()})]

    async def status(self, name: str, version: int) -> ModelStatus:
        """Return the state of a version; raise ModelNotFoundError if it is neither loaded nor in the folder."""
        for status in await self.statuses():
            if (status.name, status.version) == (name, version):
                return status
        raise ModelNotFoundError(f"{name}/{version} is neither loaded nor in the folder of the models")

    async def load(self, name: str, version: int | None) -> ModelStatus:
        """Load a version, None for the highest; raise ModelNotFoundError without it, ModelStateError if refused."""
        async with self._changing:
            found = await asyncio.to_thread(versions_in, self._root)
            wanted = max(
                (each for each in found if each.name == name and version in (None, each.version)), default=None
            )
            if wanted is None:
                which = name if version is None else f"{name}/{version}"
                raise ModelNotFoundError(f"{which} is not in the folder of the models")
            if refusal := await self._take_over(wanted, found[wanted]):
                raise ModelStateError(f"{wanted.name}/{wanted.version} is refused: " + "; ".join(refusal.reasons))
        if model := self.catalog.find(*wanted):
            async with self.usage.of(model):
                return self._status(wanted)
        return self._status(wanted)

    async def unload(self, name: str, version: int) -> None:
        """Stop serving a version, and wait until its memory is free; raise ModelStateError if it must stay."""
        async with self._changing:
            model = self.catalog.find(name, version)
            if model is None:
                raise ModelNotFoundError(f"{name}/{version} is not loaded")
            if self.catalog.pins.get(name) == version:
                raise ModelStateError(f"{name}/{version} is pinned; unpin it or pin another version first")
            if self._is_held(model, lambda _: False):
                raise ModelStateError(f"{name}/{version} is live; promote another version first")
            retiring = await self._remove(model)
        # The version is gone for callers already: an impatient one ends only its own wait.
        await asyncio.shield(retiring)

    async def reload(self) -> list[ModelStatus]:
        """Make the loaded versions those of the folder; refused ones do not keep others from being loaded."""
        async with self._changing:
            found = await asyncio.to_thread(versions_in, self._root)
            if not found:
                raise ModelStateError("the folder of the models holds no bundle")
            for version, directory in found.items():
                await self._take_over(version, directory)
            await self._remove_gone(lambda version: version not in found)
        return await self.statuses()

    def switch(self, catalog: Catalog) -> None:
        """Serve a catalog, made of the present one without a wait in between."""
        self.require_open()
        self._publish(catalog)

    async def follow(self, watch: FolderWatch) -> None:
        """Take over changes of the folder."""
        async with self._changing:
            for version, directory in (await asyncio.to_thread(watch.look)).items():
                await self._take_over(version, directory)
            await self._remove_gone(watch.is_gone)

    async def _take_over(self, version: VersionName, directory: Path) -> BundleError | None:
        """Load a bundle and serve it, unless it is served already; return why it is refused."""
        self.require_open()
        served = self.catalog.find(*version)
        if served is not None and await asyncio.to_thread(is_unchanged, served, directory):
            return None
        if served is not None and self._holds and served is self.catalog.live(version.name):
            reason = "it has changed while it is live: give a bundle that is to be promoted a version of its own"
            return self._refuse(version, BundleError(directory, [reason]))
        self._loading = version
        try:
            outcome = await self._load(directory)
        finally:
            self._loading = None
        if isinstance(outcome, BundleError):
            return self._refuse(version, outcome)
        self._forget_refusals(lambda refused: refused == version)
        # No wait between the two: a caller who goes away would leave half of the change.
        self._publish(self.catalog.with_model(outcome))
        if served:
            self._retire(served)
        self._metrics.server.model_changes["loaded"].inc()
        _LOGGER.info("model loaded", extra={"model": outcome.name, "version": outcome.version})
        await self._report()
        return None

    async def _load(self, directory: Path) -> LoadedModel | BundleError:
        loop = asyncio.get_running_loop()
        refused = await self._trial_loader.refusals([directory]) if self._trial_loader else {}
        if directory in refused:
            return refused[directory]
        self.require_open()
        outcome = await loop.run_in_executor(self._executor, self._open, directory)
        self.require_open()
        return outcome

    async def _remove_gone(self, is_gone: Callable[[VersionName], bool]) -> None:
        """Unload versions that left the folder, except pinned ones; forget their refusals."""
        self._forget_refusals(is_gone)
        for model in self.catalog.models:
            is_pinned = self.catalog.pins.get(model.name) == model.version
            if is_gone(VersionName(model.name, model.version)) and not (is_pinned or self._is_held(model, is_gone)):
                await self._remove(model)

    def _is_held(self, model: LoadedModel, is_gone: Callable[[VersionName], bool]) -> bool:
        """Return whether a version must stay: it is live, and none that remains has been promoted in its place."""
        others = (other for other in self.catalog.models if other.name == model.name and other is not model)
        remain = any(not is_gone(VersionName(other.name, other.version)) for other in others)
        return self._holds and remain and model is self.catalog.live(model.name)

    async def _remove(self, model: LoadedModel) -> asyncio.Task[None]:
        self.require_open()
        self._publish(self.catalog.without(model))
        retiring = self._retire(model)
        await self._report()
        return retiring

    def _retire(self, model: LoadedModel) -> asyncio.Task[None]:
        """Let a model go; return a task that ends when its memory is free, even if its waiters are cancelled."""
        retiring = asyncio.create_task(self._let_go(model))
        self._retiring[retiring] = VersionName(model.name, model.version)
        retiring.add_done_callback(self._retiring.pop)
        return retiring

    async def _let_go(self, model: LoadedModel) -> None:
        await self.usage.ended(model)
        await self.usage.free(model)
        self.usage.forget(model)
        self._host.forget(model)
        if not self.catalog.find(model.name, model.version):
            self._metrics.models.forget(model.labels)
        self._metrics.server.model_changes["unloaded"].inc()
        _LOGGER.info("model unloaded", extra={"model": model.name, "version": model.version})

    def _refuse(self, version: VersionName, refusal: BundleError) -> BundleError:
        """Keep the reasons for refusing a version, and log them."""
        _LOGGER.error("bundle refused", extra={"bundle": str(refusal.directory), "reasons": refusal.reasons})
        self._keep_refusals({**self._refusals, version: refusal})
        self._metrics.server.model_changes["refused"].inc()
        if not self.catalog.find(*version):
            self._metrics.models.forget((version.name, str(version.version)))
        return refusal

    def _forget_refusals(self, which: Callable[[VersionName], bool]) -> None:
        self._keep_refusals({version: refusal for version, refusal in self._refusals.items() if not which(version)})

    def _keep_refusals(self, refusals: Mapping[VersionName, BundleError]) -> None:
        self._refusals = refusals
        self._metrics.server.bundles_refused.value = len(refusals)

    def _status(self, version: VersionName) -> ModelStatus:
        model = self.catalog.find(*version)
        refusal, fault = self._refusals.get(version), ""
        if model:
            residency, _, fault = self.usage.residency(model)
            state = _STATES[residency]
        elif version == self._loading:
            state = ModelState.LOADING
        elif version in self._retiring.values():
            state = ModelState.RETIRING
        else:
            state = ModelState.REFUSED if refusal else ModelState.UNLOADED
        return ModelStatus(
            name=version.name,
            version=version.version,
            state=state,
            served=next((served for served, loaded in self.catalog.served.items() if loaded is model), None),
            is_pinned=model is not None and self.catalog.pins.get(version.name) == version.version,
            running_requests=self.usage.calls(model) if model else 0,
            refusal_reasons=(*(refusal.reasons if refusal else ()), *filter(None, (fault,))),
            is_previous=self.catalog.standings.get(version.name, Standing()).previous == version.version,
        )

    def _publish(self, catalog: Catalog) -> None:
        """Serve a catalog from now on; between two steps of the event loop, so no call sees half of the change."""
        before, self.catalog = self.catalog, catalog
        for model in set(before.models) - set(catalog.models):
            model.metrics.model_ready.value = 0
            model.metrics.model_live.value = 0
            self._metrics.model_info.remove(*self._facts(model))
        for model in catalog.models:
            self._metrics.model_info.labels(*self._facts(model)).value = 1
            model.metrics.model_ready.value = self.usage.residency(model)[0] is not Residency.FAILING
            model.metrics.model_live.value = model is catalog.live(model.name)
        for observe in self._observers:
            observe()

    def _facts(self, model: LoadedModel) -> tuple[str, ...]:
        return (*model.labels, model.bundle.manifest_sha256, model.bundle.precision, self._provider)

    async def _report(self) -> None:
        for listener in self._listeners:
            await listener(self.catalog.names)

    def require_open(self) -> None:
        """Raise DrainingError once the engine is stopping."""
        if self._closed:
            raise DrainingError("the server is stopping")


def _with_others(directories: Sequence[Path]) -> list[Path]:
    """Return the bundles of models that have several versions."""
    counts = Counter(version_name(directory).name for directory in directories)
    return [directory for directory in directories if counts[version_name(directory).name] > 1]


class FollowedFolder:
    """The folder of the models, whose changes are taken over as files that are read again."""

    def __init__(self, live: LiveModels, watch: FolderWatch) -> None:
        self._live, self._folder = live, watch

    def have_changed(self) -> bool:
        """True to look at the folder: always, because a version has settled when two looks find the same."""
        return True

    async def reload(self) -> None:
        """Take over changes; a folder that cannot be read changes nothing."""
        try:
            await self._live.follow(self._folder)
        except BundleError as error:
            _LOGGER.warning("the folder of the models cannot be read", extra={"reasons": error.reasons})
