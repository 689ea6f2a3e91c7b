"""The entries of `lexicon.tsv`: sentences of one to three words, each with its only translation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited
from xuanzang.text.lexicon import MAX_SOURCE_CHARACTERS

LEXICON = "lexicon.tsv"
"""Lines of source, tab and target, in UTF-8, without final marks."""
# The bundled ones have some 20 KB.
MAX_LEXICON_BYTES = 1 << 18


def read_lexicon(directory: Path, manifest: manifest_pb2.Manifest) -> Mapping[str, str]:
    """Read the lexicon of a bundle, empty without; no field of the manifest tells, so older servers load it too.

    Raises:
        BundleError: Lines are no pairs, too long, or name a source twice.
    """
    if not any(file.name == LEXICON for file in manifest.files):
        return {}
    try:
        lines = read_limited(directory, LEXICON, MAX_LEXICON_BYTES).decode().splitlines()
    except UnicodeDecodeError as error:
        raise BundleError(directory, [f"{LEXICON} is not UTF-8: {error.reason} at byte {error.start}"]) from None
    pairs = [line.split("\t") for line in lines]
    if faults := list(_faults(pairs)):
        raise BundleError(directory, [f"{LEXICON}, line {number}: {fault}" for number, fault in faults[:10]])
    return dict(pairs)


def _faults(pairs: list[list[str]]) -> Iterator[tuple[int, str]]:
    known: set[str] = set()
    for number, pair in enumerate(pairs, 1):
        if len(pair) != 2 or not all(part == part.strip() and part for part in pair):
            yield number, "must be a source and a target with one tab between them"
        elif len(pair[0]) > MAX_SOURCE_CHARACTERS:
            yield number, f"the source must have at most {MAX_SOURCE_CHARACTERS} characters, has {len(pair[0])}"
        elif pair[0] in known:
            yield number, "its source is on an earlier line, too"
        known.add(pair[0])
