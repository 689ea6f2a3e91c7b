"""Damaged bundles, made from a sound one by a repeatable generator."""

from __future__ import annotations

from pathlib import Path
from random import Random

from damages.content import CONTENT_DAMAGES
from damages.damaged_bundle import Damaged
from damages.files import FILE_DAMAGES
from damages.manifest import MANIFEST_DAMAGES

DAMAGES = (*FILE_DAMAGES, *MANIFEST_DAMAGES, *CONTENT_DAMAGES)


def damage(original: Path, directory: Path, number: int) -> tuple[str, str]:
    """Make one damaged bundle.

    Args:
        original: Folder of a sound bundle.
        directory: Folder of the damaged one, to be made; its name is its version.
        number: Number of the damage; the same number gives the same one.

    Returns:
        Name of the damage, and a regular expression of what the reasons of its refusal must name.
    """
    kind = DAMAGES[number % len(DAMAGES)]
    return kind.__name__, kind(Damaged(original, directory, Random(number)))
