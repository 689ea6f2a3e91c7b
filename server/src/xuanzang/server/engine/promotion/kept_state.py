"""What of promotion outlives the process: pins by command, and which version is and was live."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from xuanzang.server.engine.models.catalog import Catalog, Standing
from xuanzang.server.engine.models.loaded import LoadedModel

_LOGGER = logging.getLogger(__name__)

Version = Annotated[int, Field(ge=1, le=999_999_999)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Verdicts = Mapping[LoadedModel, Sequence[str]]
"""Versions that the gate has judged, and why it let them not through."""


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class KeptModel(_Kept):
    """State of one model."""

    versions: dict[Version, Digest]
    """Loaded versions with the SHA-256 of their manifests: another bundle of the same version has earned nothing."""
    pinned: Version | None = None
    """Version that a command has pinned."""
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
        """Whether a start without it would come to the same."""
        return all(model == KeptModel(versions=model.versions) for model in self.models.values())


def kept_state(catalog: Catalog, *, configured: Mapping[str, int], verdicts: Verdicts) -> KeptState:
    """Return what is to be kept of a catalog.

    Args:
        catalog: What is served.
        configured: Pins of the settings, which need not be kept.
        verdicts: Versions that the gate has judged.
    """
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
    """Return the catalog of a start after which versions stand as they stood before.

    Versions that the state does not know join as if they were loaded now.

    Args:
        kept: State of the last process.
        models: Models that were loaded at the start.
        configured: Pins of the settings, which go before those that were kept.
        holds: Whether a live version stays live until another is promoted.
    """
    models = sorted(models, key=lambda model: model.version)
    known = known_models(kept, models)
    names = {model.name for model in known}
    begun = [model for model in models if model in known or model.name not in names]
    standings = {
        name: _standing(kept.models[name], {each.version for each in known if each.name == name}) for name in names
    }
    catalog = Catalog(begun, {**_pins(kept, models), **configured}, standings, holds=holds)
    for model in models:
        catalog = catalog if model in begun else catalog.with_model(model)
    return catalog


def followed_catalog(kept: KeptState, catalog: Catalog, *, configured: Mapping[str, int]) -> Catalog:
    """Return a catalog of the same models in which versions stand as another server has decided.

    Args:
        kept: State that the other server has written.
        catalog: What is served.
        configured: Pins of the settings, which go before those that were kept.
    """
    known = known_models(kept, catalog.models)
    pins = {name: version for name, version in catalog.pins.items() if name not in kept.models}
    pins |= {name: each.pinned for name, each in kept.models.items() if each.pinned and catalog.find(name, each.pinned)}
    standings = {
        name: _standing(kept.models[name], {each.version for each in known if each.name == name})
        for name in {model.name for model in known}
    }
    return catalog.following({**pins, **configured}, standings)


def missing_models(kept: KeptState, catalog: Catalog) -> frozenset[str]:
    """Return the names of models of which a version that is not loaded is pinned or live.

    Args:
        kept: State that another server has written.
        catalog: What is served.
    """
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


def _standing(kept: KeptModel, versions: set[int]) -> Standing:
    """Return the versions that are there; the live one's place is the previous one's if it is gone."""
    live, previous = (version if version in versions else None for version in (kept.live, kept.previous))
    if live is None:
        live, previous = previous, None
    return Standing(live=live, previous=previous if previous != live else None)
