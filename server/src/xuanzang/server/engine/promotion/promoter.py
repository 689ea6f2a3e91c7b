"""Promotion: which version of a model is live, and which have a share of its requests beside it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from weakref import WeakKeyDictionary, WeakSet

from xuanzang.server.engine.calls.background import BackgroundCalls
from xuanzang.server.engine.errors import (
    EngineError,
    ModelNotFoundError,
    ModelStateError,
)
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.promotion.gate import Evaluation
from xuanzang.server.engine.promotion.judging import Judge
from xuanzang.server.engine.promotion.kept_state import KeptState, kept_state, known_models
from xuanzang.server.engine.promotion.settings import PromotionSettings
from xuanzang.server.engine.promotion.state_file import StateFile
from xuanzang.server.metrics import Metrics

_LOGGER = logging.getLogger(__name__)


class Promoter:
    """Lets versions go live, and back. Belongs to one event loop.

    To judge a version takes time, to switch none: a catalog takes the place of another, so the next request has the new
    live version, and those that have begun keep theirs.
    """

    def __init__(
        self,
        live: LiveModels,
        *,
        translate: BackgroundCalls,
        settings: PromotionSettings,
        pins: Mapping[str, int],
        state_file: StateFile,
        metrics: Metrics,
    ) -> None:
        """Promote nothing yet.

        Args:
            live: Models.
            translate: Translation that nobody waits for.
            settings: Bounds, and whether new versions go through the gate by themselves.
            pins: Pinned versions of the settings, by name.
            state_file: Keeps what has been decided.
            metrics: Metrics of the server.
        """
        self._live = live
        self._judge = Judge(translate, settings)
        self._settings = settings
        self._pins = pins
        self._state_file = state_file
        self._metrics = metrics
        self._verdicts: WeakKeyDictionary[LoadedModel, tuple[str, ...]] = WeakKeyDictionary()
        self._refusals: WeakKeyDictionary[LoadedModel, tuple[str, ...]] = WeakKeyDictionary()
        self._judged: WeakSet[LoadedModel] = WeakSet()
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    def start(self, kept: KeptState) -> None:
        """Keep each change, and judge the versions that wait, and those that are loaded later, if the settings say so.

        Args:
            kept: What the last process decided; the catalog follows it already.
        """
        for model in known_models(kept, self._live.catalog.models):
            reasons = kept.models[model.name].judged.get(model.version)
            if reasons is not None:
                self._verdicts[model] = self._refusals[model] = reasons
                self._judged.add(model)
        self._live.observe(self._keep)
        self._keep()
        if self._settings.promotion == "gate":
            self._changed.set()
            self._live.listen(self._on_change)
            self._following = asyncio.create_task(self._follow())

    def close(self) -> None:
        """Judge nothing any more."""
        if self._following:
            self._following.cancel()

    async def settle(self) -> None:
        """Wait until what was decided outlives the process, or cannot."""
        await self._state_file.settle()

    def refusals(self, name: str, version: int) -> tuple[str, ...]:
        """Return the reasons for which a loaded version was not let through when it was last judged; none if it was."""
        model = self._live.catalog.find(name, version)
        return self._refusals.get(model, ()) if model else ()

    async def evaluate(self, name: str, version: int) -> Evaluation:
        """Judge a version without promoting it.

        Args:
            name: Name of the model.
            version: Loaded version that is not live.

        Returns:
            What was measured, and the bounds.

        Raises:
            ModelNotFoundError: It is not loaded.
            ModelStateError: It is live, or cannot be judged.
            DrainingError: The engine is stopping.
        """
        candidate, live = self._candidate(name, version)
        try:
            evaluation = await self._judge.evaluate(candidate, live)
        except ModelStateError as error:
            self._refusals[candidate] = (str(error),)
            raise
        self._refusals[candidate] = self._verdicts[candidate] = evaluation.reasons
        self._keep()
        return evaluation

    async def promote(self, name: str, version: int) -> Evaluation:
        """Let a version go live if it passes the gate.

        Args:
            name: Name of the model.
            version: Loaded version that is not live.

        Returns:
            What was measured, and the bounds.

        Raises:
            ModelNotFoundError: It is not loaded.
            ModelStateError: It does not pass, cannot be judged, is live already, or another version is pinned.
            DrainingError: The engine is stopping.
        """
        self._require_unpinned(name)
        candidate, live = self._candidate(name, version)
        try:
            evaluation = await self._let_through(name, version)
        except ModelStateError as error:
            self._metrics.server.promotions["refused"].inc()
            _LOGGER.warning("promotion refused", extra={"model": name, "version": version, "reason": str(error)})
            raise
        self._require_unpinned(name)
        if self._live.catalog.find(name, version) is not candidate or self._live.catalog.live(name) is not live:
            raise ModelStateError(f"{name} has changed while {name}/{version} was judged; promote it again")
        self._switch(candidate, "promoted")
        return evaluation

    def force(self, name: str, version: int, *, reason: str) -> None:
        """Let a version go live without asking the gate.

        Args:
            name: Name of the model.
            version: Loaded version that is not live.
            reason: Reason for the log.

        Raises:
            ModelNotFoundError: It is not loaded.
            ModelStateError: It is live already, or another version is pinned.
            DrainingError: The engine is stopping.
        """
        self._require_unpinned(name)
        candidate, _ = self._candidate(name, version)
        self._switch(candidate, "forced", reason=reason)

    def roll_back(self, name: str) -> int:
        """Let the version go live again that was live before, without a wait.

        Args:
            name: Name of the model.

        Returns:
            The version that is live now.

        Raises:
            ModelNotFoundError: No version of the model is loaded.
            ModelStateError: There is no such version, or a version is pinned.
            DrainingError: The engine is stopping.
        """
        catalog = self._live.catalog
        if name not in catalog.traffic:
            raise ModelNotFoundError(f"no version of {name} is loaded")
        self._require_unpinned(name)
        previous = catalog.traffic[name].previous
        if previous is None:
            raise ModelStateError(f"{name} cannot go back: no other version was live before, or it is loaded no more")
        self._live.switch(catalog.rolled_back(name))
        self._metrics.server.promotions["rolled_back"].inc()
        _LOGGER.warning("rolled back", extra={"model": name, "version": previous})
        return previous

    def share(self, name: str, version: int, *, canary: float | None, shadow: float | None) -> None:
        """Give a version a share of the live version's requests, until another version goes live.

        Args:
            name: Name of the model.
            version: Loaded version that is not live.
            canary: Share that it answers, 0 to 1; None to leave it as it is.
            shadow: Share that it translates unseen, 0 to 1; None to leave it as it is.

        Raises:
            ModelNotFoundError: It is not loaded.
            ModelStateError: It is live.
            DrainingError: The engine is stopping.
        """
        self._candidate(name, version)
        catalog = self._live.catalog
        traffic = catalog.traffic[name].shared(version, canary=canary, shadow=shadow)
        self._live.switch(catalog.with_traffic(name, traffic))
        _LOGGER.info("traffic", extra={"model": name, "version": version, "canary": canary, "shadow": shadow})

    def _keep(self) -> None:
        self._state_file.keep(kept_state(self._live.catalog, configured=self._pins, verdicts=self._verdicts))

    async def _let_through(self, name: str, version: int) -> Evaluation:
        evaluation = await self.evaluate(name, version)
        if evaluation.reasons:
            raise ModelStateError(f"{name}/{version} may not go live: " + "; ".join(evaluation.reasons))
        return evaluation

    def _switch(self, candidate: LoadedModel, result: str, **facts: str) -> None:
        self._live.switch(self._live.catalog.with_live(candidate))
        self._refusals.pop(candidate, None)
        self._metrics.server.promotions[result].inc()
        extra = {"model": candidate.name, "version": candidate.version, "result": result, **facts}
        _LOGGER.warning("version is live", extra=extra)

    def _candidate(self, name: str, version: int) -> tuple[LoadedModel, LoadedModel]:
        """Return a loaded version that is not live, and the one that is."""
        candidate, live = self._live.catalog.find(name, version), self._live.catalog.live(name)
        if candidate is None or live is None:
            raise ModelNotFoundError(f"{name}/{version} is not loaded")
        if candidate is live:
            raise ModelStateError(f"{name}/{version} is live already")
        return candidate, live

    def _require_unpinned(self, name: str) -> None:
        version = self._live.catalog.pins.get(name)
        if version is not None:
            raise ModelStateError(f"{name}/{version} is pinned; unpin {name} first")

    async def _on_change(self, _: Collection[str]) -> None:
        self._changed.set()

    async def _follow(self) -> None:
        """Judge each new version once, as it is."""
        while await self._changed.wait():
            self._changed.clear()
            while (waiting := self._next()) is not None:
                self._judged.add(waiting)
                try:
                    await self.promote(waiting.name, waiting.version)
                except EngineError as error:
                    _LOGGER.info("version waits", extra={"model": waiting.name, "reason": str(error)})
                except Exception:  # the next one must be judged all the same
                    _LOGGER.exception("a version cannot be judged")

    def _next(self) -> LoadedModel | None:
        """Return the highest version of a model that is above the live one and was not judged."""
        catalog = self._live.catalog
        waiting = [
            model
            for model in catalog.models
            if model not in self._judged
            and model.name not in catalog.pins
            and model.version > self._live_version(model)
        ]
        return max(waiting, key=lambda model: model.version, default=None)

    def _live_version(self, model: LoadedModel) -> int:
        live = self._live.catalog.live(model.name)
        return live.version if live else 0
