"""Write the first words of `first_words.tsv` into a bundle as its lexicon.

    python model/recipes/add_lexicon.py server/models/en-zh/4

The column `way` chooses the bundle: ">" from English, "<" from Chinese, "=" both. Chinese sources are entries in
traditional characters, too. Run it again after a change: the bundle's list of files follows.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

from opencc import OpenCC
from quality_head_files import write_files

from xuanzang.server.bundles.lexicon import LEXICON
from xuanzang.server.bundles.manifest import read_manifest

_WORDS = Path(__file__).with_name("first_words.tsv")
_COLUMNS = {"en": ("English", "Chinese", ">="), "zh": ("Chinese", "English", "<=")}


def entries(language: str) -> Iterator[tuple[str, str]]:
    """Yield sources in a language, "en" or "zh", and their targets."""
    traditional = OpenCC("s2tw")
    source, target, ways = _COLUMNS[language]
    with _WORDS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["way"] in ways:
                yield row[source], row[target]
                if language == "zh":
                    yield traditional.convert(row[source]), row[target]


def main(bundle: Path) -> None:
    """Add the lexicon to a bundle."""
    manifest, _ = read_manifest(bundle)
    [language] = manifest.source_language_codes
    lines = [f"{source}\t{target}\n" for source, target in dict(entries(language)).items()]
    write_files(bundle, {LEXICON: "".join(lines)})
    print(f"{bundle}: {len(lines)} entries")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
