"""The bundle that a job is translated with, found before any engine is started."""

from __future__ import annotations

from pathlib import Path

from xuanzang.batch.errors import InputError
from xuanzang.batch.planning import digest
from xuanzang.server import BundleError, find_bundles


def choose_model(models: Path, wanted: str) -> tuple[str, str]:
    """Find the highest version of a model.

    Args:
        models: Folder of bundles, laid out as MODEL/VERSION/.
        wanted: Name, name and version as "zh-en/1", or empty for the only model.

    Returns:
        Name and version, such as "zh-en/2", and the SHA-256 of the bundle's manifest.

    Raises:
        InputError: There is no such bundle, or several models and none is named.
    """
    try:
        bundles = {f"{path.parent.name}/{path.name}": path for path in find_bundles(models)}
        fitting = [name for name in bundles if wanted in ("", name, name.partition("/")[0])]
        if len({name.partition("/")[0] for name in fitting}) != 1:
            what = "holds several models" if fitting else f"holds no model {wanted}".rstrip()
            raise InputError(f"{models} {what}: give --model, one of {', '.join(bundles) or 'none'}")
        return fitting[-1], digest(bundles[fitting[-1]] / "manifest.json")
    except (BundleError, OSError) as error:
        raise InputError(str(error)) from error
