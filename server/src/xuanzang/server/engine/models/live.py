"""Changes of the models while others are served: loading, replacement, unloading, pins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.errors import DrainingError, ModelNotFoundError, ModelStateError
from xuanzang.server.engine.hardware import give_way, return_free_memory
from xuanzang.server.engine.models.catalog import Catalog, CatalogMetrics
from xuanzang.server.engine.models.folder import FolderWatch, VersionName, version_name, versions_in
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.loading import is_unchanged, load_model
from xuanzang.server.engine.models.trial_loader import TrialLoader
from xuanzang.server.engine.models.version_states import ModelUsage, Release, Retirement, VersionStates
from xuanzang.server.engine.types import ModelStatus
from xuanzang.server.metrics import Metrics

_LOGGER = logging.getLogger(__name__)

Listener = Callable[[Collection[str]], Awaitable[None]]
"""Receives the names of the served models after each change."""


class LiveModels:
    """The catalog, and its changes one after another. Belongs to one event loop.

    A new version is tried in another process, loaded and replayed beside those that are served, and only then takes its
    place in the catalog. Calls keep the model that they began with; once it has none, the workers drop it. Changes
    raise DrainingError once the engine is stopping; what reads the folder raises BundleError if it cannot be read.
    """

    def __init__(
        self,
        root: Path,
        *,
        open_model: Callable[[Path], LoadedModel],
        trial_loader: TrialLoader | None,
        release: Release,
        metrics: Metrics,
        provider: str,
        holds: bool = False,
    ) -> None:
        """Begin with an empty catalog.

        Args:
            open_model: Loader of one bundle, which opens its graphs, too.
            trial_loader: Trial loader of bundles in another process; None to trust them.
            release: Lets the workers drop a model.
            holds: Whether a live version stays live until another is promoted.
        """
        self.catalog = Catalog(holds=holds)
        self.usage = ModelUsage()
        self._root = root
        self._open_model = open_model
        self._trial_loader = trial_loader
        self._metrics = metrics
        self._catalog_metrics = CatalogMetrics(metrics, provider=provider)
        self._holds = holds
        self._changing = asyncio.Lock()
        # No sooner than the workers: loading is in no hurry.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="loading", initializer=give_way)
        self._retirement = Retirement(
            self.usage,
            release=release,
            is_served=lambda version: self.catalog.find(*version) is not None,
            executor=self._executor,
            metrics=metrics,
        )
        self._states = VersionStates(usage=self.usage, retirement=self._retirement, metrics=metrics)
        self._listeners: list[Listener] = []
        self._observers: list[Callable[[], None]] = []
        self._closed = False

    def begin(self, catalog: Catalog, refusals: Sequence[BundleError]) -> None:
        """Serve what was loaded at the start."""
        self._states.begin({version_name(refusal.directory): refusal for refusal in refusals})
        self._metrics.server.model_changes["loaded"].inc(len(catalog.models))
        self._publish(catalog)

    def close(self) -> None:
        """Change nothing any more."""
        self._closed = True
        self._retirement.close()
        self._executor.shutdown(wait=False, cancel_futures=True)
        for model in self.catalog.models:
            model.metrics.model_ready.value = 0

    def listen(self, listener: Listener) -> None:
        """Report the names of the served models after each change from now on."""
        self._listeners.append(listener)

    def observe(self, observer: Callable[[], None]) -> None:
        """Call a function, which does not wait, with each new catalog from now on."""
        self._observers.append(observer)

    async def statuses(self) -> list[ModelStatus]:
        """Return the state of every version that is loaded or in the folder, by name and version."""
        found = await asyncio.to_thread(versions_in, self._root)
        loaded = {VersionName(model.name, model.version) for model in self.catalog.models}
        versions = sorted({*found, *loaded, *self._retirement.versions})
        return [self._states.status(version, self.catalog) for version in versions]

    async def status(self, name: str, version: int) -> ModelStatus:
        """Return the state of a version; raise ModelNotFoundError if it is neither loaded nor in the folder."""
        for status in await self.statuses():
            if (status.name, status.version) == (name, version):
                return status
        raise ModelNotFoundError(f"{name}/{version} is neither loaded nor in the folder of the models")

    async def load(self, name: str, version: int | None) -> ModelStatus:
        """Load a version from the folder and serve it.

        Raises:
            ModelNotFoundError: It is not in the folder.
            ModelStateError: It is refused.
        """
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
            return self._states.status(wanted, self.catalog)

    async def unload(self, name: str, version: int) -> None:
        """Serve a version no more, and wait until its memory is free.

        Raises:
            ModelNotFoundError: It is not loaded.
            ModelStateError: It is pinned.
        """
        async with self._changing:
            model = self._loaded(name, version)
            if self.catalog.pins.get(name) == version:
                raise ModelStateError(f"{name}/{version} is pinned; unpin it or pin another version first")
            if self._is_held(model, lambda _: False):
                raise ModelStateError(f"{name}/{version} is live; promote another version first")
            retiring = await self._remove(model)
        # The version is gone for callers already: an impatient one ends only its own wait.
        await asyncio.shield(retiring)

    async def reload(self) -> list[ModelStatus]:
        """Make the loaded versions those of the folder; refused ones do not keep others from being loaded.

        Raises:
            ModelStateError: The folder has no bundle.
        """
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
        """Take over what has changed in the folder."""
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
            self._states.refuse(version, refusal := BundleError(directory, [reason]), is_served=True)
            return refusal
        with self._states.loading(version):
            outcome = await self._load(directory)
        if isinstance(outcome, BundleError):
            self._states.refuse(version, outcome, is_served=self.catalog.find(*version) is not None)
            return outcome
        self._states.forget_refusals(lambda refused: refused == version)
        # No wait between the two: a caller who goes away would leave half of the change.
        self._publish(self.catalog.with_model(outcome))
        if served:
            self._retirement.begin(served)
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
        outcome = await loop.run_in_executor(
            self._executor, load_model, directory, self._open_model, self._trial_loader
        )
        self.require_open()
        # Digests and packed weights leave hundreds of megabytes free in the heap of that thread.
        await loop.run_in_executor(self._executor, return_free_memory)
        return outcome

    async def _remove_gone(self, is_gone: Callable[[VersionName], bool]) -> None:
        """Unload the versions that are not in the folder any more, but for pinned ones; forget such refusals."""
        self._states.forget_refusals(is_gone)
        for model in self.catalog.models:
            is_pinned = self.catalog.pins.get(model.name) == model.version
            if is_gone(VersionName(model.name, model.version)) and not (is_pinned or self._is_held(model, is_gone)):
                await self._remove(model)

    def _is_held(self, model: LoadedModel, is_gone: Callable[[VersionName], bool]) -> bool:
        """Whether a version must stay because it is live, and none that remains has been promoted in its place."""
        others = (other for other in self.catalog.models if other.name == model.name and other is not model)
        remain = any(not is_gone(VersionName(other.name, other.version)) for other in others)
        return self._holds and remain and model is self.catalog.live(model.name)

    async def _remove(self, model: LoadedModel) -> asyncio.Task[None]:
        self.require_open()
        self._publish(self.catalog.without(model))
        retiring = self._retirement.begin(model)
        await self._report()
        return retiring

    def _loaded(self, name: str, version: int) -> LoadedModel:
        model = self.catalog.find(name, version)
        if model is None:
            raise ModelNotFoundError(f"{name}/{version} is not loaded")
        return model

    def _publish(self, catalog: Catalog) -> None:
        """Serve a catalog from now on; between two steps of the event loop, so no call sees half of the change."""
        before, self.catalog = self.catalog, catalog
        self._catalog_metrics.show(before, catalog)
        for observe in self._observers:
            observe()

    async def _report(self) -> None:
        for listener in self._listeners:
            await listener(self.catalog.names)

    def require_open(self) -> None:
        """Raise DrainingError once the engine is stopping."""
        if self._closed:
            raise DrainingError("the server is stopping")


class FollowedFolder:
    """The folder of the models, whose changes are taken over as files that are read again."""

    def __init__(self, live: LiveModels, watch: FolderWatch) -> None:
        self._live, self._folder = live, watch

    def have_changed(self) -> bool:
        """True to look at the folder: always, because a version has settled when two looks find the same."""
        return True

    async def reload(self) -> None:
        """Take over what has changed; a folder that cannot be read changes nothing."""
        try:
            await self._live.follow(self._folder)
        except BundleError as error:
            _LOGGER.warning("the folder of the models cannot be read", extra={"reasons": error.reasons})
