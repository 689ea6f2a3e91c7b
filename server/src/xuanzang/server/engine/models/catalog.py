"""The models that are served at one moment. A change makes another catalog, which takes the place of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.types import ServedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Versions of one model that answer, and have answered, requests that name none."""

    live: int | None = None
    """Version that answers, unless another is pinned; None for the highest."""
    previous: int | None = None
    """Version that was live before, for a rollback."""

    def without(self, version: int) -> Standing:
        """Return the standing when a version was unloaded, or its bundle replaced."""
        return Standing(
            live=None if self.live == version else self.live,
            previous=None if self.previous == version else self.previous,
        )


_NEW = Standing()


class Catalog:
    """Loaded versions of models, and which of them answer requests that name no version. Never changes."""

    def __init__(
        self,
        models: Iterable[LoadedModel] = (),
        pins: Mapping[str, int] | None = None,
        standings: Mapping[str, Standing] | None = None,
        *,
        holds: bool = False,
    ) -> None:
        """Choose the default versions: pinned ones where they are loaded, else live ones.

        `holds`: whether a live version stays live whatever else is loaded, from the lowest on; else the highest is.
        """
        self._models = {(model.name, model.version): model for model in models}
        self.loaded: Mapping[tuple[str, int], LoadedModel] = MappingProxyType(self._models)
        self._holds = holds
        self.pins: Mapping[str, int] = MappingProxyType(dict(pins or {}))
        known = {name: (standings or {}).get(name, _NEW) for name in self.names}
        self._defaults = {name: self._default(name, standing) for name, standing in known.items()}
        if holds:
            known = {name: replace(each, live=each.live or self._defaults[name]) for name, each in known.items()}
        self.standings: Mapping[str, Standing] = MappingProxyType(known)
        """Versions that are and were live, of every loaded name."""
        self.served: Mapping[ServedModel, LoadedModel] = MappingProxyType(
            {
                model.served(is_default=self._defaults[name] == version): model
                for (name, version), model in sorted(self._models.items(), key=lambda item: item[0])
            }
        )
        """Loaded models by what callers are told of them, ordered by name and version."""

    def _default(self, name: str, standing: Standing) -> int:
        versions = sorted(version for each, version in self._models if each == name)
        loaded = [version for version in (self.pins.get(name), standing.live) if version in versions]
        return (*filter(None, loaded), versions[0] if self._holds else versions[-1])[0]

    @property
    def models(self) -> tuple[LoadedModel, ...]:
        """Loaded models, by name and version."""
        return tuple(self.served.values())

    @property
    def defaults(self) -> tuple[LoadedModel, ...]:
        """Versions that answer requests that name none, by name."""
        return tuple(self._models[name, version] for name, version in sorted(self._defaults.items()))

    @property
    def names(self) -> frozenset[str]:
        """Names of the models."""
        return frozenset(name for name, _ in self._models)

    def find(self, name: str, version: int) -> LoadedModel | None:
        """Return a loaded version of a model, if there is one."""
        return self._models.get((name, version))

    def live(self, name: str) -> LoadedModel | None:
        """Return the version that answers requests that name none, if one of the model is loaded."""
        return self._models.get((name, self._defaults.get(name, 0)))

    def with_model(self, model: LoadedModel) -> Catalog:
        """Return a catalog with one more model, or with a model in the place of its older bundle."""
        standing = self.standings.get(model.name, _NEW)
        if model.version not in (standing.live, self._defaults.get(model.name)):
            # Another bundle's verdict does not hold for this one.
            standing = standing.without(model.version)
        models = {**self._models, (model.name, model.version): model}
        if not self._holds and model.version == max(version for name, version in models if name == model.name):
            # A lower one would let the highest go live again, which was demoted deliberately.
            standing = replace(standing, live=None)
        return self._changed(models.values(), standings={model.name: standing})

    def without(self, model: LoadedModel) -> Catalog:
        """Return a catalog with one model less."""
        standing = self.standings[model.name].without(model.version)
        others = [other for other in self._models.values() if other is not model]
        return self._changed(others, standings={model.name: standing})

    def with_pin(self, name: str, version: int | None) -> Catalog:
        """Return a catalog with a version pinned; None ends the pin."""
        others = {pinned: number for pinned, number in self.pins.items() if pinned != name}
        return self._changed(self._models.values(), pins=others if version is None else {**others, name: version})

    def following(self, pins: Mapping[str, int], standings: Mapping[str, Standing]) -> Catalog:
        """Return a catalog of the same models with other pins, and other live versions of some."""
        return Catalog(self._models.values(), pins, {**self.standings, **standings}, holds=self._holds)

    def with_live(self, model: LoadedModel) -> Catalog:
        """Return a catalog with a loaded model as the live version."""
        return self._changed(self._models.values(), standings={model.name: Standing(live=model.version)})

    def rolled_back(self, name: str) -> Catalog:
        """Return a catalog with the previous live version live again and no previous one."""
        back = self._changed(self._models.values(), standings={name: Standing(live=self.standings[name].previous)})
        return back.following(back.pins, {name: replace(back.standings[name], previous=None)})

    def _changed(
        self,
        models: Iterable[LoadedModel],
        *,
        pins: Mapping[str, int] | None = None,
        standings: Mapping[str, Standing] | None = None,
    ) -> Catalog:
        pins = self.pins if pins is None else pins
        changed = Catalog(models, pins, {**self.standings, **(standings or {})}, holds=self._holds)
        moved = {
            name: replace(changed.standings[name], previous=version if changed.find(name, version) else None)
            for name, version in self._defaults.items()
            if name in changed.names and version != changed._defaults[name]
        }
        return changed.following(pins, moved) if moved else changed
