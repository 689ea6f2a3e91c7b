"""The states of versions: which are refused, and why, and which are being loaded, served or let go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.models.catalog import Catalog, Standing
from xuanzang.server.engine.models.folder import VersionName
from xuanzang.server.engine.models.retirement import ModelUsage, Retirement
from xuanzang.server.engine.types import ModelState, ModelStatus
from xuanzang.server.metrics import Metrics

_LOGGER = logging.getLogger(__name__)


class VersionStates:
    """Keeps what a catalog does not know of versions: refusals, and the one that is being loaded."""

    def __init__(self, *, usage: ModelUsage, retirement: Retirement, metrics: Metrics) -> None:
        """Begin with no version.

        Args:
            usage: Calls in progress.
            retirement: Versions whose last calls are not answered.
            metrics: Metrics of the server.
        """
        self._usage = usage
        self._retirement = retirement
        self._metrics = metrics
        self._refusals: Mapping[VersionName, BundleError] = {}
        self._loading: VersionName | None = None

    def begin(self, refusals: Mapping[VersionName, BundleError]) -> None:
        """Take over what was refused at the start.

        Args:
            refusals: Reasons by version.
        """
        self._keep(refusals)
        self._metrics.server.model_changes["refused"].inc(len(refusals))

    def refuse(self, version: VersionName, refusal: BundleError, *, is_served: bool) -> None:
        """Keep the reasons for which a version is refused, and log them.

        Args:
            version: Version whose bundle is refused.
            refusal: The reasons.
            is_served: Whether an older bundle of the version is served.
        """
        _LOGGER.error("bundle refused", extra={"bundle": str(refusal.directory), "reasons": refusal.reasons})
        self._keep({**self._refusals, version: refusal})
        self._metrics.server.model_changes["refused"].inc()
        if not is_served:
            self._metrics.forget((version.name, str(version.version)))

    def forget_refusals(self, which: Callable[[VersionName], bool]) -> None:
        """Forget the refusals of some versions.

        Args:
            which: Whether a version is one of them.
        """
        self._keep({version: refusal for version, refusal in self._refusals.items() if not which(version)})

    def _keep(self, refusals: Mapping[VersionName, BundleError]) -> None:
        self._refusals = refusals
        self._metrics.server.bundles_refused.set(len(refusals))

    @contextmanager
    def loading(self, version: VersionName) -> Iterator[None]:
        """Show that a version is being loaded.

        Args:
            version: The only one that is.

        Yields:
            Control while it is loaded.
        """
        self._loading = version
        try:
            yield
        finally:
            self._loading = None

    def status(self, version: VersionName, catalog: Catalog) -> ModelStatus:
        """Return the state of a version.

        Args:
            version: Version that is loaded or in the folder.
            catalog: What is served.
        """
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
