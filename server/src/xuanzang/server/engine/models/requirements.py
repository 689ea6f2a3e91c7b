"""What the settings of a server require of the models that it starts with."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.settings import EngineSettings

_LOGGER = logging.getLogger(__name__)


def require_models(
    repository: Path, models: Collection[LoadedModel], refusals: Sequence[BundleError], settings: EngineSettings
) -> None:
    """Refuse to start without the models that the settings need, and log the bundles that are refused.

    Args:
        repository: Folder of the bundles.
        models: Models that were loaded.
        refusals: Bundles that were not, with the reasons.
        settings: Shortlists, pins and limits by the names of models.

    Raises:
        BundleError: No bundle can be served, or none of a model with a required shortlist or pin.
    """
    for refusal in refusals:
        _LOGGER.error("bundle refused", extra={"bundle": str(refusal.directory), "reasons": refusal.reasons})
    if not models:
        raise BundleError(repository, [str(refusal) for refusal in refusals])
    names = {model.name for model in models}
    _require_shortlisted(repository, names, settings)
    _require_pinned(repository, models, settings)
    if unserved := settings.limited_models - names:
        _LOGGER.warning("limits of models that are not served", extra={"models": sorted(unserved)})


def _require_shortlisted(repository: Path, served: AbstractSet[str], settings: EngineSettings) -> None:
    """Refuse to start with a shortlist setting that applies to no model."""
    missing = settings.shortlists - {"*"} - served
    if missing:
        wanted, names = ", ".join(sorted(missing)), ", ".join(sorted(served))
        raise BundleError(repository, [f"shortlists are wanted of {wanted}, which are not served; served: {names}"])


def _require_pinned(repository: Path, models: Collection[LoadedModel], settings: EngineSettings) -> None:
    missing = settings.pins.items() - {(model.name, model.version) for model in models}
    if missing:
        reasons = [f"{name}/{version} is pinned and not served" for name, version in sorted(missing)]
        raise BundleError(repository, reasons)
