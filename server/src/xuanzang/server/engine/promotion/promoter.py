"""Promotion: which version of a model is live."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from weakref import WeakKeyDictionary, WeakSet

from xuanzang.server.engine.errors import EngineError, ModelNotFoundError, ModelStateError, NotJudgedError
from xuanzang.server.engine.models.catalog import Catalog
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.promotion.gate import Evaluation, Judge
from xuanzang.server.engine.promotion.kept_state import (
    KeptState,
    StateFile,
    followed_catalog,
    kept_state,
    known_models,
    missing_models,
)
from xuanzang.server.engine.settings import PromotionSettings
from xuanzang.server.metrics import Metrics

_LOGGER = logging.getLogger(__name__)

# Seconds until a version is judged again after callers left no time.
_AGAIN_SECONDS = 60.0


class Promoter:
    """Lets versions go live, and back. Belongs to one event loop.

    To judge a version takes time, to switch none: a catalog takes the place of another, so the next request has the new
    live version, and requests in progress keep theirs. Each change raises ModelNotFoundError for a version that is not
    loaded, ModelStateError if it is refused or cannot be kept, so that nothing has changed, and DrainingError once the
    engine is stopping.
    """

    def __init__(
        self,
        live: LiveModels,
        *,
        judge: Judge,
        settings: PromotionSettings,
        pins: Mapping[str, int],
        state_file: StateFile,
        metrics: Metrics,
    ) -> None:
        self._live = live
        self._judge = judge
        self._settings = settings
        self._pins = pins
        self._state_file = state_file
        self._metrics = metrics
        self._verdicts: WeakKeyDictionary[LoadedModel, tuple[str, ...]] = WeakKeyDictionary()
        self._refusals: WeakKeyDictionary[LoadedModel, tuple[str, ...]] = WeakKeyDictionary()
        self._judged: WeakSet[LoadedModel] = WeakSet()
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._changing: set[asyncio.Task[None]] = set()
        # Another server's decisions about versions that this one has not loaded.
        self._wanted: KeptState | None = None
        self._waiting: frozenset[str] = frozenset()
        self._is_taking_up = False

    def start(self, kept: KeptState) -> None:
        """Keep each change, and judge waiting and later versions, if the settings say so.

        The catalog follows already what the last process kept.
        """
        for model in known_models(kept, self._live.catalog.models):
            reasons = kept.models[model.name].judged.get(model.version)
            if reasons is not None:
                self._verdicts[model] = self._refusals[model] = reasons
                self._judged.add(model)
        self._live.observe(self._on_catalog)
        self._on_catalog()
        if self._settings.promotion == "gate":
            self._changed.set()
            self._live.listen(self._on_change)
            self._following = asyncio.create_task(self._follow())

    def close(self) -> None:
        """Stop judging and taking up decisions."""
        if self._following:
            self._following.cancel()

    async def settle(self) -> None:
        """Wait until decisions are on the disk, or cannot be written."""
        await asyncio.gather(*self._changing, return_exceptions=True)
        await self._state_file.settle()

    def have_changed(self) -> bool:
        """Return whether a decision of another server is still to be taken up, also because a reload has failed."""
        return self._state_file.has_changed

    async def reload(self) -> None:
        """Take up what another server of the folder has decided."""
        if self._state_file.has_changed:
            async with self._state_file.exclusive() as decided:
                self._take_up(decided)

    def refusals(self, name: str, version: int) -> tuple[str, ...]:
        """Return the reasons for the last refusal of a loaded version; none if it passed."""
        model = self._live.catalog.find(name, version)
        return self._refusals.get(model, ()) if model else ()

    async def evaluate(self, name: str, version: int) -> Evaluation:
        """Judge a version that is not live without promoting it."""
        candidate, live = self._candidate(name, version)
        try:
            evaluation = await self._judge.evaluate(candidate, live)
        except ModelStateError as error:
            self._refusals[candidate] = (str(error),)
            raise
        self._refusals[candidate] = self._verdicts[candidate] = evaluation.reasons
        self._state_file.keep(self._state)
        return evaluation

    async def promote(self, name: str, version: int, *, must_last: bool = True) -> Evaluation:
        """Let a version go live if it passes the gate, unless another is pinned.

        `must_last`: whether to refuse it if a read-only folder lets nothing outlive the process.
        """
        self._require_unpinned(name)
        candidate, live = self._candidate(name, version)
        try:
            evaluation = await self._let_through(name, version)
        except ModelStateError as error:
            self._metrics.server.promotions["refused"].inc()
            _LOGGER.warning("promotion refused", extra={"model": name, "version": version, "reason": str(error)})
            raise

        def edit(catalog: Catalog) -> Catalog:
            self._require_unpinned(name)
            if catalog.find(name, version) is not candidate or catalog.live(name) is not live:
                raise ModelStateError(f"{name} has changed while {name}/{version} was judged; promote it again")
            return catalog.with_live(candidate)

        await self._change(name, edit, partial(self._went_live, candidate, "promoted"), must_last=must_last)
        return evaluation

    async def pin(self, name: str, version: int | None) -> int:
        """Let a version, or None for the live one, answer requests that name none, whatever else goes live."""

        def edit(catalog: Catalog) -> Catalog:
            if version is not None and catalog.find(name, version) is None:
                raise ModelNotFoundError(f"{name}/{version} is not loaded")
            if name not in catalog.names:
                raise ModelNotFoundError(f"no version of {name} is loaded")
            return catalog.with_pin(name, version)

        def log() -> None:
            facts = {"model": name, "version": self._live_version(name), "pinned": version is not None}
            _LOGGER.info("default version", extra=facts)

        await self._change(name, edit, log)
        return self._live_version(name)

    async def force(self, name: str, version: int, *, reason: str) -> None:
        """Let a version go live without asking the gate, unless it is live already or another is pinned."""

        def edit(catalog: Catalog) -> Catalog:
            self._require_unpinned(name)
            return catalog.with_live(self._candidate(name, version)[0])

        candidate, _ = self._candidate(name, version)
        await self._change(name, edit, partial(self._went_live, candidate, "forced", reason=reason))

    async def roll_back(self, name: str) -> int:
        """Let the version go live again that was live before, unless one is pinned."""

        def edit(catalog: Catalog) -> Catalog:
            if name not in catalog.standings:
                raise ModelNotFoundError(f"no version of {name} is loaded")
            self._require_unpinned(name)
            if catalog.standings[name].previous is None:
                raise ModelStateError(
                    f"{name} cannot go back: no other version was live before, or it is loaded no more"
                )
            return catalog.rolled_back(name)

        def count() -> None:
            self._metrics.server.promotions["rolled_back"].inc()
            _LOGGER.warning("rolled back", extra={"model": name, "version": self._live_version(name)})

        await self._change(name, edit, count)
        return self._live_version(name)

    async def _change(
        self, name: str, edit: Callable[[Catalog], Catalog], then: Callable[[], None], *, must_last: bool = True
    ) -> None:
        """Change what answers requests, once it outlives the process, and then call a function.

        `edit` returns the changed catalog; it may refuse, and is called again after a wait. `must_last`: whether to
        refuse the change if a read-only folder lets nothing outlive the process.
        """
        self._live.require_open()
        changing = asyncio.create_task(self._change_and_keep(name, edit, then, must_last=must_last))
        self._changing.add(changing)
        changing.add_done_callback(self._changing.discard)
        # Waiting callers may leave; half of a change must not remain.
        await asyncio.shield(changing)

    async def _change_and_keep(
        self, name: str, edit: Callable[[Catalog], Catalog], then: Callable[[], None], *, must_last: bool
    ) -> None:
        try:
            async with self._state_file.exclusive() as decided:
                self._take_up(decided)
                changed = edit(self._live.catalog)
                self._waiting -= {name}
                await self._state_file.write(self._state(changed), must_last=must_last)
                # Another version may have been loaded meanwhile.
                self._live.switch(edit(self._live.catalog))
                then()
        except OSError as error:
            _LOGGER.error("a change of models cannot be kept", extra={"model": name, "reason": str(error)})  # noqa: TRY400
            reason = error.strerror or "another process holds it"
            raise ModelStateError(f"nothing has changed: the state of promotion cannot be written: {reason}") from error

    def _state(self, catalog: Catalog | None = None) -> KeptState:
        """Return the state to keep; for models that wait for versions, another server's decision."""
        state = kept_state(catalog or self._live.catalog, configured=self._pins, verdicts=self._verdicts)
        others = {name: self._wanted.models[name] for name in self._waiting} if self._wanted else {}
        return state.model_copy(update={"models": {**state.models, **others}})

    def _take_up(self, decided: KeptState | None) -> None:
        """Apply another server's decision to versions that are loaded here."""
        if decided is None:
            return
        self._wanted = decided
        self._waiting = missing_models(decided, self._live.catalog)
        followed = followed_catalog(decided, self._live.catalog, configured=self._pins)
        before = {(model.name, model.version) for model in self._live.catalog.defaults}
        self._is_taking_up = True
        try:
            self._live.switch(followed)
        finally:
            self._is_taking_up = False
        for model in followed.defaults:
            if (model.name, model.version) not in before:
                extra = {"model": model.name, "version": model.version, "result": "followed"}
                _LOGGER.warning("version is live", extra=extra)

    def _on_catalog(self) -> None:
        """Keep a new catalog, after what waited for its versions."""
        if self._is_taking_up:
            return
        if self._waiting:
            self._take_up(self._wanted)
        self._state_file.keep(self._state)

    async def _let_through(self, name: str, version: int) -> Evaluation:
        evaluation = await self.evaluate(name, version)
        if evaluation.reasons:
            raise ModelStateError(f"{name}/{version} may not go live: " + "; ".join(evaluation.reasons))
        return evaluation

    def _went_live(self, candidate: LoadedModel, result: str, **facts: str) -> None:
        self._refusals.pop(candidate, None)
        self._metrics.server.promotions[result].inc()
        extra = {"model": candidate.name, "version": candidate.version, "result": result, **facts}
        _LOGGER.warning("version is live", extra=extra)

    def _candidate(self, name: str, version: int) -> tuple[LoadedModel, LoadedModel]:
        """Return a loaded version that is not live, and the live one."""
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
        """Judge each new version once, and those again that callers left no time for."""
        while await self._changed.wait():
            self._changed.clear()
            while (waiting := self._next()) is not None:
                self._judged.add(waiting)
                try:
                    # Its persistence was not promised.
                    await self.promote(waiting.name, waiting.version, must_last=False)
                except NotJudgedError as error:
                    _LOGGER.info("version waits", extra={"model": waiting.name, "reason": str(error)})
                    asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._judge_again, waiting)
                except EngineError as error:
                    _LOGGER.info("version waits", extra={"model": waiting.name, "reason": str(error)})
                except Exception:  # the next one must be judged all the same
                    _LOGGER.exception("a version cannot be judged")

    def _judge_again(self, waiting: LoadedModel) -> None:
        self._judged.discard(waiting)
        self._changed.set()

    def _next(self) -> LoadedModel | None:
        """Return the highest version of a model that is above the live one and was not judged."""
        catalog = self._live.catalog
        waiting = [
            model
            for model in catalog.models
            if model not in self._judged
            and model.name not in catalog.pins
            and model.version > self._live_version(model.name)
        ]
        return max(waiting, key=lambda model: model.version, default=None)

    def _live_version(self, name: str) -> int:
        live = self._live.catalog.live(name)
        return live.version if live else 0
