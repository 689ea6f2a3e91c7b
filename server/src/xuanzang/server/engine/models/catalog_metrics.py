"""What metrics say of the catalog: which bundles are served, and which versions are live."""

from __future__ import annotations

from xuanzang.server.engine.models.catalog import Catalog
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.metrics import Metrics


class CatalogMetrics:
    """Metrics of the models that are served."""

    def __init__(self, metrics: Metrics, *, provider: str) -> None:
        """Show nothing yet.

        Args:
            metrics: Metrics of the server.
            provider: Provider that the graphs run on, a label.
        """
        self._metrics = metrics
        self._provider = provider

    def show(self, before: Catalog, after: Catalog) -> None:
        """Show a catalog in the place of another.

        Args:
            before: Catalog until now.
            after: Catalog from now on.
        """
        for model in set(before.models) - set(after.models):
            model.metrics.model_ready.set(0)
            model.metrics.model_live.set(0)
            self._metrics.model_info.remove(*self._facts(model))
        for model in after.models:
            self._metrics.model_info.labels(*self._facts(model)).set(1)
            model.metrics.model_ready.set(1)
            model.metrics.model_live.set(model is after.live(model.name))

    def _facts(self, model: LoadedModel) -> tuple[str, ...]:
        return (*model.labels, model.bundle.manifest_sha256, model.bundle.precision, self._provider)
