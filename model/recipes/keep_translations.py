"""Keep the useful back-translations: without repetitions and with all numbers.

    python model/recipes/keep_translations.py zh.txt zh.en.txt kept.tsv.gz

Reads Chinese sentences and their English translations line by line, and writes zh<TAB>en. `score_pairs.py` judges by a
model, which takes a hundred times as long.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from xuanzang.model.data.corpus import read_lines

_EMPTY_BRACKETS = re.compile(r"[(（]\s*[)），、]")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_WORD = re.compile(r"[a-z']+")
_NUMBER = re.compile(r"\d+")
_CHARACTERS = range(5, 111)
_MIN_WORDS_PER_CHARACTER, _MAX_WORDS_PER_CHARACTER = 0.35, 1.1
_MOST_OF_A_WORD = 3
"""Times that a word of more than three letters may occur in a sentence."""
_WORDS_PER_REPEATED_PAIR = 12
"""Words of a sentence for each pair of neighbours that it may have twice."""


def is_worthwhile(chinese: str, english: str) -> bool:
    """Return whether a sentence is whole and its translation plausible by its counts."""
    words = _WORD.findall(english.lower())
    if len(chinese) not in _CHARACTERS or _EMPTY_BRACKETS.search(chinese) or len(words) < 3:
        return False
    words_per_character = len(words) / max(1, len(_HAN.findall(chinese)))
    if not _MIN_WORDS_PER_CHARACTER <= words_per_character <= _MAX_WORDS_PER_CHARACTER:
        return False
    lost_numbers = set(_NUMBER.findall(chinese)) - set(_NUMBER.findall(english.replace(",", "")))
    return not lost_numbers and not _goes_in_circles(words)


def _goes_in_circles(words: Sequence[str]) -> bool:
    long_words = Counter(word for word in words if len(word) > 3)
    pairs = Counter(itertools.pairwise(words))
    repeated = sum(count - 1 for count in pairs.values())
    return (
        max(long_words.values(), default=0) > _MOST_OF_A_WORD
        or repeated > max(1, len(words) // _WORDS_PER_REPEATED_PAIR)
        or any(first == second for first, second in pairs)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Filter and print how many pairs are kept.

    Args:
        arguments: Flags, without the program's name; None takes those of the process.

    Returns:
        Exit status: 0, 2 if the files have not the same number of lines.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("chinese", type=Path, help="sentences, one a line")
    parser.add_argument("english", type=Path, help="their translations, one a line")
    parser.add_argument("kept", type=Path, help="file to write, .tsv.gz")
    flags = parser.parse_args(arguments)
    sentences, translations = list(read_lines(flags.chinese)), list(read_lines(flags.english))
    if len(sentences) != len(translations):
        sys.stderr.write(f"{flags.chinese} has {len(sentences)} lines, {flags.english} {len(translations)}\n")
        return 2
    pairs = [pair for pair in zip(sentences, translations, strict=True) if is_worthwhile(*pair)]
    with gzip.open(flags.kept, "wt", encoding="utf-8") as file:
        file.writelines(f"{chinese}\t{english}\n" for chinese, english in pairs)
    print(f"{flags.kept}: {len(pairs)} of {len(sentences)} pairs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
