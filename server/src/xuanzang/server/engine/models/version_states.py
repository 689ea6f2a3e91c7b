"""The states of versions: which are refused, and why, and which are being loaded, served or let go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.hardware import return_free_memory
from xuanzang.server.engine.models.catalog import Catalog, Standing
from xuanzang.server.engine.models.folder import VersionName
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.types import ModelState, ModelStatus
from xuanzang.server.metrics import Metrics

_LOGGER = logging.getLogger(__name__)

Release = Callable[[LoadedModel], Awaitable[None]]
"""Lets the workers drop what they hold of a model without calls."""


class ModelUsage:
    """Counts calls, so that a model is let go only once nobody has it. Belongs to one event loop."""

    def __init__(self) -> None:
        self._calls: dict[LoadedModel, int] = {}
        self._unused: dict[LoadedModel, asyncio.Event] = {}

    def calls(self, model: LoadedModel) -> int:
        """Return the number of calls in progress of a model."""
        return self._calls.get(model, 0)

    def begin(self, model: LoadedModel) -> None:
        """Count a call from now on, which must `end`."""
        self._calls[model] = self._calls.get(model, 0) + 1

    def end(self, model: LoadedModel) -> None:
        """Count a call that began no longer."""
        self._calls[model] -= 1
        if not self._calls[model]:
            del self._calls[model]
            if unused := self._unused.pop(model, None):
                unused.set()

    @contextmanager
    def of(self, model: LoadedModel) -> Iterator[None]:
        """Count a call while it is in progress."""
        self.begin(model)
        try:
            yield
        finally:
            self.end(model)

    async def ended(self, model: LoadedModel) -> None:
        """Wait until no call of a model is in progress; no new one may begin."""
        if model in self._calls:
            await self._unused.setdefault(model, asyncio.Event()).wait()


class Retirement:
    """Releases models that are no longer served. Belongs to one event loop."""

    def __init__(
        self,
        usage: ModelUsage,
        *,
        release: Release,
        is_served: Callable[[VersionName], bool],
        executor: Executor,
        metrics: Metrics,
    ) -> None:
        self._usage = usage
        self._release = release
        self._is_served = is_served
        self._executor = executor
        self._metrics = metrics
        self._retiring: dict[asyncio.Task[None], VersionName] = {}

    @property
    def versions(self) -> frozenset[VersionName]:
        """Versions whose last calls are not answered."""
        return frozenset(self._retiring.values())

    def begin(self, model: LoadedModel) -> asyncio.Task[None]:
        """Let a model go; return a task that ends when its memory is free, even if its waiters are cancelled."""
        retiring = asyncio.create_task(self._let_go(model))
        self._retiring[retiring] = VersionName(model.name, model.version)
        retiring.add_done_callback(self._retiring.pop)
        return retiring

    def close(self) -> None:
        """Wait for nothing any more; the process ends, and its memory with it."""
        for retiring in tuple(self._retiring):
            retiring.cancel()

    async def _let_go(self, model: LoadedModel) -> None:
        version = VersionName(model.name, model.version)
        await self._usage.ended(model)
        await self._release(model)
        await asyncio.get_running_loop().run_in_executor(self._executor, _free, model)
        if not self._is_served(version):
            self._metrics.models.forget(model.labels)
        self._metrics.server.model_changes["unloaded"].inc()
        _LOGGER.info("model unloaded", extra={"model": version.name, "version": version.version})


def _free(model: LoadedModel) -> None:
    model.close()
    return_free_memory()


class VersionStates:
    """Keeps what a catalog does not know of versions: refusals, and the one that is being loaded."""

    def __init__(self, *, usage: ModelUsage, retirement: Retirement, metrics: Metrics) -> None:
        self._usage = usage
        self._retirement = retirement
        self._metrics = metrics
        self._refusals: Mapping[VersionName, BundleError] = {}
        self._loading: VersionName | None = None

    def begin(self, refusals: Mapping[VersionName, BundleError]) -> None:
        """Take over what was refused at the start."""
        self._keep(refusals)
        self._metrics.server.model_changes["refused"].inc(len(refusals))

    def refuse(self, version: VersionName, refusal: BundleError, *, is_served: bool) -> None:
        """Keep the reasons for which a version is refused, and log them."""
        _LOGGER.error("bundle refused", extra={"bundle": str(refusal.directory), "reasons": refusal.reasons})
        self._keep({**self._refusals, version: refusal})
        self._metrics.server.model_changes["refused"].inc()
        if not is_served:
            self._metrics.models.forget((version.name, str(version.version)))

    def forget_refusals(self, which: Callable[[VersionName], bool]) -> None:
        """Forget the refusals of some versions."""
        self._keep({version: refusal for version, refusal in self._refusals.items() if not which(version)})

    def _keep(self, refusals: Mapping[VersionName, BundleError]) -> None:
        self._refusals = refusals
        self._metrics.server.bundles_refused.value = len(refusals)

    @contextmanager
    def loading(self, version: VersionName) -> Iterator[None]:
        """Show that a version is being loaded."""
        self._loading = version
        try:
            yield
        finally:
            self._loading = None

    def status(self, version: VersionName, catalog: Catalog) -> ModelStatus:
        """Return the state of a version."""
        model = catalog.find(*version)
        refusal = self._refusals.get(version)
        standing = catalog.standings.get(version.name, Standing())
        return ModelStatus(
            name=version.name,
            version=version.version,
            state=self._state(version, catalog),
            served=next((served for served, loaded in catalog.served.items() if loaded is model), None),
            is_pinned=model is not None and catalog.pins.get(version.name) == version.version,
            running_requests=self._usage.calls(model) if model else 0,
            refusal_reasons=refusal.reasons if refusal else (),
            is_previous=standing.previous == version.version,
        )

    def _state(self, version: VersionName, catalog: Catalog) -> ModelState:
        if catalog.find(*version):
            return ModelState.SERVING
        if version == self._loading:
            return ModelState.LOADING
        if version in self._retirement.versions:
            return ModelState.RETIRING
        return ModelState.REFUSED if version in self._refusals else ModelState.UNLOADED
