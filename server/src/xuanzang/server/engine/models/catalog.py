"""The models that are served at one moment. A change makes another catalog, which takes the place of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.types import ServedModel


class Catalog:
    """Loaded versions of models, and which of them answer requests that name no version. Never changes."""

    def __init__(self, models: Iterable[LoadedModel] = (), pins: Mapping[str, int] | None = None) -> None:
        """Choose the default versions.

        Args:
            models: Loaded models, at most one of each name and version.
            pins: Default versions by name; other models, and those without that version, have their highest.
        """
        self._models = {(model.name, model.version): model for model in models}
        self.pins: Mapping[str, int] = MappingProxyType(dict(pins or {}))
        """Pinned versions by name."""
        defaults = dict(sorted(self._models))
        defaults |= {name: version for name, version in self.pins.items() if (name, version) in self._models}
        self.served: Mapping[ServedModel, LoadedModel] = MappingProxyType(
            {
                model.served(is_default=defaults[name] == version): model
                for (name, version), model in sorted(self._models.items(), key=lambda item: item[0])
            }
        )
        """Loaded models by what callers are told of them, ordered by name and version."""

    @property
    def models(self) -> tuple[LoadedModel, ...]:
        """Loaded models, by name and version."""
        return tuple(self.served.values())

    @property
    def names(self) -> frozenset[str]:
        """Names of the models."""
        return frozenset(name for name, _ in self._models)

    def find(self, name: str, version: int) -> LoadedModel | None:
        """Return a loaded version of a model, if there is one."""
        return self._models.get((name, version))

    def with_model(self, model: LoadedModel) -> Catalog:
        """Return a catalog with one more model, or with a model in the place of its older bundle."""
        return Catalog({**self._models, (model.name, model.version): model}.values(), self.pins)

    def without(self, model: LoadedModel) -> Catalog:
        """Return a catalog with one model less."""
        return Catalog((other for other in self._models.values() if other is not model), self.pins)

    def with_pins(self, pins: Mapping[str, int]) -> Catalog:
        """Return a catalog of the same models with other pins."""
        return Catalog(self._models.values(), pins)
