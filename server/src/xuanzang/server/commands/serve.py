"""The folder that `xuanzang serve` serves, and what is pulled into it before."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from xuanzang.command.parser import say
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import find_bundles
from xuanzang.server.published import HubError, default_repository, published_bundle
from xuanzang.server.settings import ServeCommand

_BUNDLED = Path(__file__).parents[4] / "models"
_BETTER = "`xuanzang models available` lists better ones, `xuanzang serve NAME` pulls and serves one"


def with_models(settings: ServeCommand) -> ServeCommand:
    """Pull what is named, or raise HubError, and return the settings with the folder to serve."""
    named = "models" in settings.model_fields_set
    if settings.pull:
        repository = settings.models if named else default_repository(os.environ)
        for model in settings.pull:
            agree = partial(_agree, model, repository)
            published_bundle(model, repository, say, before_pull=(lambda: None) if settings.yes else agree)
        return settings.model_copy(update={"models": repository})
    if named or settings.models.is_dir():
        return settings
    pulled = default_repository(os.environ)
    if _has_bundles(pulled):
        return settings.model_copy(update={"models": pulled})
    if _has_bundles(_BUNDLED):
        say(f"serving the bundled models, which are small; {_BETTER}")
        return settings.model_copy(update={"models": _BUNDLED})
    raise HubError(f"there are no models, neither in ./models nor in {pulled}; {_BETTER}")


def _agree(model: str, repository: Path) -> None:
    """Ask the user for a pull; raise HubError if that is declined, or if nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise HubError(f"{model} is not in {repository}: --yes pulls it, or `xuanzang pull {model}` before")
    sys.stderr.write(f"xuanzang: {model} is not in {repository}. Pull it? [Y/n] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
        raise HubError(f"{model} was not pulled")


def _has_bundles(folder: Path) -> bool:
    try:
        return bool(find_bundles(folder))
    except BundleError:
        return False
