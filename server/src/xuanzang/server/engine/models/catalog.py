"""The models that are served at one moment. A change makes another catalog, which takes the place of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.traffic import Traffic
from xuanzang.server.engine.types import ServedModel

_EVENLY = Traffic()


class Catalog:
    """Loaded versions of models, and which of them answer requests that name no version. Never changes."""

    def __init__(
        self,
        models: Iterable[LoadedModel] = (),
        pins: Mapping[str, int] | None = None,
        traffic: Mapping[str, Traffic] | None = None,
        *,
        holds: bool = False,
    ) -> None:
        """Choose the default versions.

        Args:
            models: Loaded models, at most one of each name and version.
            pins: Default versions by name, where they are loaded.
            traffic: Shares of versions by name; a version that is not loaded has none.
            holds: Whether a live version stays live whatever else is loaded, from the lowest on; else the highest is
                live.
        """
        self._models = {(model.name, model.version): model for model in models}
        self._holds = holds
        self.pins: Mapping[str, int] = MappingProxyType(dict(pins or {}))
        """Pinned versions by name."""
        self._defaults = {name: self._default(name, (traffic or {}).get(name, _EVENLY)) for name in self.names}
        self.traffic: Mapping[str, Traffic] = MappingProxyType(
            {name: self._held(name, (traffic or {}).get(name, _EVENLY)) for name in self.names}
        )
        """Shares of versions, of every loaded name."""
        self.served: Mapping[ServedModel, LoadedModel] = MappingProxyType(
            {
                model.served(is_default=self._defaults[name] == version): model
                for (name, version), model in sorted(self._models.items(), key=lambda item: item[0])
            }
        )
        """Loaded models by what callers are told of them, ordered by name and version."""

    def _default(self, name: str, traffic: Traffic) -> int:
        versions = sorted(version for each, version in self._models if each == name)
        loaded = [version for version in (self.pins.get(name), traffic.live) if version in versions]
        return (*filter(None, loaded), versions[0] if self._holds else versions[-1])[0]

    def _held(self, name: str, traffic: Traffic) -> Traffic:
        return replace(traffic, live=self._defaults[name]) if self._holds and traffic.live is None else traffic

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

    def shares(self, model: LoadedModel) -> Mapping[str, float]:
        """Return the shares that a version has of the requests that name none, by its roles in `TRAFFIC_ROLES`."""
        traffic = self.traffic[model.name]
        live = 1.0 - (traffic.canary.share if traffic.canary else 0.0) if model is self.live(model.name) else 0.0
        canary, shadow = traffic.canary_weight(model.version), traffic.shadow_share(model.version)
        return {"live": live, "canary": canary, "shadow": shadow}

    def with_model(self, model: LoadedModel) -> Catalog:
        """Return a catalog with one more model, or with a model in the place of its older bundle."""
        traffic = self.traffic.get(model.name, _EVENLY)
        if model.version not in (traffic.live, self._defaults.get(model.name)):
            # What another bundle has earned is not this one's.
            traffic = traffic.without(model.version)
        models = {**self._models, (model.name, model.version): model}
        if not self._holds and model.version == max(version for name, version in models if name == model.name):
            # A lower one would let the highest go live again, which was live no more on purpose.
            traffic = replace(traffic, live=None)
        return self._changed(models.values(), traffic={model.name: traffic})

    def without(self, model: LoadedModel) -> Catalog:
        """Return a catalog with one model less."""
        traffic = self.traffic[model.name].without(model.version)
        others = [other for other in self._models.values() if other is not model]
        return self._changed(others, traffic={model.name: traffic})

    def with_pin(self, name: str, version: int | None) -> Catalog:
        """Return a catalog in which a version answers whatever else is live; None: the live one does again."""
        others = {pinned: number for pinned, number in self.pins.items() if pinned != name}
        return self._changed(self._models.values(), pins=others if version is None else {**others, name: version})

    def following(self, pins: Mapping[str, int], traffic: Mapping[str, Traffic]) -> Catalog:
        """Return a catalog of the same models with other pins, and other shares of the versions of some."""
        return Catalog(self._models.values(), pins, {**self.traffic, **traffic}, holds=self._holds)

    def with_live(self, model: LoadedModel) -> Catalog:
        """Return a catalog in which a loaded model answers the requests that name no version."""
        return self._changed(self._models.values(), traffic={model.name: Traffic(live=model.version)})

    def rolled_back(self, name: str) -> Catalog:
        """Return a catalog in which the version answers again that was live before; no other can be gone back to then.

        Args:
            name: Name of a model with a previous version.
        """
        traffic = Traffic(live=self.traffic[name].previous)
        back = self._changed(self._models.values(), traffic={name: traffic})
        return back.with_traffic(name, replace(back.traffic[name], previous=None))

    def with_traffic(self, name: str, traffic: Traffic) -> Catalog:
        """Return a catalog with other shares of the versions of a model."""
        return self._changed(self._models.values(), traffic={name: traffic})

    def _changed(
        self,
        models: Iterable[LoadedModel],
        *,
        pins: Mapping[str, int] | None = None,
        traffic: Mapping[str, Traffic] | None = None,
    ) -> Catalog:
        pins, shares = self.pins if pins is None else pins, {**self.traffic, **(traffic or {})}
        changed = Catalog(models, pins, shares, holds=self._holds)
        moved = {
            name: Traffic(live=changed.traffic[name].live, previous=self._kept(name, changed))
            for name in self.names & changed.names
            if self._defaults[name] != changed._defaults[name]
        }
        return Catalog(changed.models, pins, {**changed.traffic, **moved}, holds=self._holds) if moved else changed

    def _kept(self, name: str, changed: Catalog) -> int | None:
        """Return the version that was live before, unless it is loaded no more."""
        return self._defaults[name] if changed.find(name, self._defaults[name]) else None
