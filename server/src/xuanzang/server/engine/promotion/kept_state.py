"""Promotion state that outlives the process: pins by command, and which version is and was live."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from xuanzang.server.engine.models.catalog import Catalog, Standing
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.watched_files import require_regular, state_of
from xuanzang.server.whole_files import remove_abandoned, write_whole

_LOGGER = logging.getLogger(__name__)

Version = Annotated[int, Field(ge=1, le=999_999_999)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Verdicts = Mapping[LoadedModel, Sequence[str]]
"""Versions that the gate has judged, and why it let them not through."""
FILE = ".promotion.json"
"""Its name in the folder of the models; hidden files are no models."""
_MAX_BYTES = 1 << 20
_READ_ONLY = "the folder of the models is read-only; name a file in another folder with --promotion-state"
_LOCK_SECONDS = 5.0
_LOCK_LOOK_SECONDS = 0.02


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class KeptModel(_Kept):
    """State of one model."""

    versions: dict[Version, Digest]
    """Loaded versions with the SHA-256 of their manifests: another bundle of the same version has earned nothing."""
    pinned: Version | None = None
    live: Version | None = None
    previous: Version | None = None
    judged: dict[Version, tuple[str, ...]] = {}
    """Versions that the gate has judged, with its reasons to refuse them."""


class KeptState(_Kept):
    """State of all models, as the file has it."""

    format: Literal[1] = 1
    models: dict[str, KeptModel] = {}

    @property
    def is_default(self) -> bool:
        """True if a start without it would come to the same."""
        return all(model == KeptModel(versions=model.versions) for model in self.models.values())


def kept_state(catalog: Catalog, *, configured: Mapping[str, int], verdicts: Verdicts) -> KeptState:
    """Return the part of a catalog to keep."""
    pins = {name: version for name, version in catalog.pins.items() if configured.get(name) != version}
    return KeptState(models={name: _kept(name, catalog, pins.get(name), verdicts) for name in sorted(catalog.names)})


def _kept(name: str, catalog: Catalog, pinned: int | None, verdicts: Verdicts) -> KeptModel:
    loaded = [model for model in catalog.models if model.name == name]
    versions = {model.version: model.bundle.manifest_sha256 for model in loaded}
    standing = catalog.standings[name]
    if standing != Standing() and standing.live is None:
        # The highest is live; by its number, because the next process may hold it or find a higher one.
        standing = replace(standing, live=max(versions))
    return KeptModel(
        versions=versions,
        pinned=pinned,
        live=standing.live,
        previous=standing.previous,
        judged={model.version: tuple(verdicts[model]) for model in loaded if model in verdicts},
    )


def restored_catalog(
    kept: KeptState, models: Iterable[LoadedModel], *, configured: Mapping[str, int], holds: bool
) -> Catalog:
    """Return the catalog of a start, with the kept state of versions.

    `configured` are pins of the settings, which override kept ones. `holds`: True if a live version stays
    live until another is promoted.
    """
    models = sorted(models, key=lambda model: model.version)
    known = known_models(kept, models)
    standings = _standings(kept, known)
    begun = [model for model in models if model in known or model.name not in standings]
    catalog = Catalog(begun, {**_pins(kept, models), **configured}, standings, holds=holds)
    for model in models:
        catalog = catalog if model in begun else catalog.with_model(model)
    return catalog


def followed_catalog(kept: KeptState, catalog: Catalog, *, configured: Mapping[str, int]) -> Catalog:
    """Return a catalog of the same models that stand as another server has decided, but for pins of the settings."""
    pins = {name: version for name, version in catalog.pins.items() if name not in kept.models}
    pins |= {name: each.pinned for name, each in kept.models.items() if each.pinned and catalog.find(name, each.pinned)}
    return catalog.following({**pins, **configured}, _standings(kept, known_models(kept, catalog.models)))


def missing_models(kept: KeptState, catalog: Catalog) -> frozenset[str]:
    """Return the names of models whose pinned or live version is not loaded."""
    known = {(model.name, model.version) for model in known_models(kept, catalog.models)}
    return frozenset(
        name
        for name, each in kept.models.items()
        for version in (each.pinned, each.live)
        if version is not None and name in catalog.names and (name, version) not in known
    )


def known_models(kept: KeptState, models: Iterable[LoadedModel]) -> list[LoadedModel]:
    """Return the models whose bundles were served when the state was kept."""
    digests = {
        (name, version): digest for name, each in kept.models.items() for version, digest in each.versions.items()
    }
    return [model for model in models if digests.get((model.name, model.version)) == model.bundle.manifest_sha256]


def _pins(kept: KeptState, models: Iterable[LoadedModel]) -> dict[str, int]:
    """Return the pins whose versions are there."""
    pins = {name: each.pinned for name, each in kept.models.items() if each.pinned is not None}
    found = {(model.name, model.version) for model in models}
    for name, version in pins.items() - found:
        _LOGGER.warning("a pinned version is gone, so the pin has ended", extra={"model": name, "version": version})
    return dict(pins.items() & found)


def _standings(kept: KeptState, known: Sequence[LoadedModel]) -> dict[str, Standing]:
    """Return the versions that are there; the live one's place is the previous one's if it is gone."""
    standings = {}
    for name in {model.name for model in known}:
        versions = {model.version for model in known if model.name == name}
        state = kept.models[name]
        live, previous = (version if version in versions else None for version in (state.live, state.previous))
        if live is None:
            live, previous = previous, None
        standings[name] = Standing(live=live, previous=previous if previous != live else None)
    return standings


class StateFile:
    """Reads the state, writes each change of it, and notices those of other servers. Belongs to one event loop.

    Servers of one folder take turns by a lock on the folder of the file, which ends with its process.
    """

    def __init__(self, models: Path, chosen: Path | None) -> None:
        self._path = chosen or models / FILE
        self._is_chosen = chosen is not None
        self._state: KeptState | None = None
        self._seen: tuple[int, ...] | None = None
        self._keeping: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()

    async def read(self, *, matters: bool) -> KeptState:
        """Return what the last process kept; nothing if there is none, or the file is damaged, which is logged.

        `matters`: whether more than commands change the state, so that it is a loss if it cannot be kept.
        """
        remove_abandoned(self._path.parent, self._path.name)
        seen = state_of(self._path)
        try:
            self._state = state = await asyncio.to_thread(self._read, sets_aside=True)
            self._seen = seen
        except OSError as error:
            state = None
            self._warn("the state of promotion cannot be read", error.strerror)
        if not self._is_writable:
            level = logging.WARNING if matters else logging.INFO
            reason = "the folder of the models is read-only and --promotion-state is not set"
            _LOGGER.log(
                level, "promotions are lost at the end of the process, and pins refused", extra={"reason": reason}
            )
        return state or KeptState()

    @property
    def _is_writable(self) -> bool:
        """True if the state is kept: always with a setting, else if the folder of the models is writable."""
        return self._is_chosen or os.access(self._path.parent, os.W_OK)

    @property
    def has_changed(self) -> bool:
        """True if another process has written the file since this one has read or written it."""
        seen = state_of(self._path)
        return seen is not None and seen != self._seen

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[KeptState | None]:
        """Keep other servers from the file, and yield the state that one of them has written meanwhile, if it is valid.

        An OSError says that the folder or the file cannot be opened, or that another process does not give it away.
        """
        async with self._lock, self._locked():
            state = None
            if self.has_changed:
                seen = state_of(self._path)
                state = await asyncio.to_thread(self._read)
                self._state, self._seen = state or self._state, seen
            yield state

    async def write(self, state: KeptState, *, must_last: bool) -> None:
        """Write a state; when this returns it is on the disk. Only while exclusive.

        `must_last`: whether it is an error that the folder of the models is read-only; else nothing is written then.
        An OSError leaves the file unchanged.
        """
        if state == self._state or (self._state is None and state.is_default):
            return
        if not self._is_writable:
            if must_last:
                raise OSError(errno.EROFS, _READ_ONLY)
            return
        # The next one is written whatever it is, if this one fails.
        self._state = None
        await asyncio.to_thread(write_whole, self._path, f"{state.model_dump_json(indent=1)}\n".encode())
        self._state, self._seen = state, state_of(self._path)

    def keep(self, state: Callable[[], KeptState]) -> None:
        """Write a state soon, unless another server has written one by then; what fails is logged."""
        if not self._is_writable:
            return
        keeping = asyncio.create_task(self._keep(state))
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)

    async def settle(self) -> None:
        """Wait until the pending state is written, or cannot be."""
        while self._keeping:
            # Waiting callers may leave; the writing goes on.
            await asyncio.wait(self._keeping)

    async def _keep(self, state: Callable[[], KeptState]) -> None:
        try:
            async with self._lock, self._locked():
                if not self.has_changed:
                    await self.write(state(), must_last=False)
        except OSError as error:
            self._warn("the state of promotion cannot be written", error.strerror)

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Hold the lock among processes, without blocking a thread."""
        if not self._is_writable:
            yield
            return
        descriptor = os.open(self._path.parent, os.O_RDONLY)
        try:
            async with asyncio.timeout(_LOCK_SECONDS):
                while not _is_locked(descriptor):  # noqa: ASYNC110 - the lock of another process has no event
                    await asyncio.sleep(_LOCK_LOOK_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _read(self, *, sets_aside: bool = False) -> KeptState | None:
        """Return what the file holds; None if there is none or it is damaged, which is logged; OSError: unreadable."""
        try:
            require_regular(self._path)
            with self._path.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        reason = f"it has more than {_MAX_BYTES} bytes"
        if len(content) <= _MAX_BYTES:
            try:
                state = KeptState.model_validate_json(content)
            except ValidationError as error:
                first = error.errors()[0]
                reason = ".".join(("it", *map(str, first["loc"]))) + f": {first['msg']}"
            else:
                _LOGGER.info("state of promotion read", extra={"file": str(self._path)})
                return state
        self._warn("the state of promotion is damaged and not used", reason)
        if sets_aside:
            self._set_aside()
        return None

    def _set_aside(self) -> None:
        """Keep a damaged file for inspection."""
        try:
            self._path.replace(self._path.with_name(f"{self._path.name}.damaged"))
        except OSError as error:
            self._warn("the damaged state of promotion cannot be set aside", error.strerror)

    def _warn(self, event: str, reason: str | None) -> None:
        _LOGGER.error(event, extra={"file": str(self._path), "reason": reason})


def _is_locked(descriptor: int) -> bool:
    """Take the lock if it is free; return whether it was."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
