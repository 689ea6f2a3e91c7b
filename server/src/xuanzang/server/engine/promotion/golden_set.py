"""Golden sets: sentences with good translations, by which a version is judged before it goes live."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited
from xuanzang.server.engine.errors import ModelStateError

MAX_BYTES = 1 << 20
"""Maximum size of the file."""
MAX_PAIRS = 1000
"""Maximum number of lines."""
MAX_CHARACTERS = 2000
"""Maximum characters of a source or a reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSet:
    """Sources and their references, at least one of each."""

    sources: tuple[str, ...]
    references: tuple[str, ...]


def read_golden_set(folder: Path | None, name: str) -> GoldenSet:
    """Read the golden set of a model, as it is now.

    Args:
        folder: Folder of the golden sets; None if there is none.
        name: Name of a loaded model, whose file is NAME.tsv.

    Returns:
        Its sentences.

    Raises:
        ModelStateError: There is no such file, or it is not valid; the message says what is wrong where.
    """
    if folder is None:
        raise ModelStateError("there are no golden sets to judge by: the server was started without --golden-sets")
    try:
        content = read_limited(folder, f"{name}.tsv", MAX_BYTES).decode()
    except BundleError as error:
        raise ModelStateError(f"the golden set cannot be used: {error.reasons[0]}") from error
    except UnicodeDecodeError as error:
        raise ModelStateError(f"the golden set {name}.tsv is not UTF-8") from error
    return _parse(name, content.split("\n"))


def _parse(name: str, lines: list[str]) -> GoldenSet:
    pairs = [(number, line.removesuffix("\r").split("\t")) for number, line in enumerate(lines, 1) if line.strip()]
    if not 1 <= len(pairs) <= MAX_PAIRS:
        raise ModelStateError(f"the golden set {name}.tsv must have 1 to {MAX_PAIRS} lines, has {len(pairs)}")
    for number, columns in pairs:
        if len(columns) != 2 or not all(1 <= len(column.strip()) <= MAX_CHARACTERS for column in columns):
            what = f"must be SOURCE<tab>REFERENCE, each of 1 to {MAX_CHARACTERS} characters"
            raise ModelStateError(f"line {number} of the golden set {name}.tsv {what}")
    sources, references = zip(*(columns for _, columns in pairs), strict=True)
    return GoldenSet(sources=sources, references=references)
