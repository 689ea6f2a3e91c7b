"""Traditional Chinese, made of the simplified Chinese of models, with the library of the extra `traditional`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import NamedTuple

from xuanzang.text.language_codes import is_traditional, primary

# To traditional characters, and back. Taiwan's and Hong Kong's writing have words of their own; "zh-Hant" has Taiwan's
# characters and the words of the model.
_TABLES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"zh-Hant": ("s2tw", "tw2s"), "zh-HK": ("s2hk", "hk2s"), "zh-MO": ("s2hk", "hk2s"), "zh-TW": ("s2twp", "tw2sp")}
)
# No entry of the tables reaches over these.
_BOUNDARY = re.compile(r"[\s，。！？；：、（）《》“”‘’…,.!?;:()\"]")


class Kept(NamedTuple):
    """A stretch of simplified text that is written in another way than the tables say."""

    start: int
    end: int
    written: str


class TraditionalWriter:
    """Converts simplified text to a regional form. Threads may share it."""

    def __init__(self, write: Callable[[str], str], simplify: Callable[[str], str]) -> None:
        """Write by functions from simplified to traditional text, and back, for texts that the caller gives."""
        self._write = write
        self.simplify = simplify
        """Function from traditional text to what the model writes."""

    def write(self, text: str, kept: Iterable[Kept] = ()) -> str:
        """Write a simplified text, but for stretches that are written otherwise, none over another."""
        pieces, end = [], 0
        for each in sorted(kept):
            pieces += [self._write(text[end : each.start]), each.written]
            end = each.end
        return "".join((*pieces, self._write(text[end:])))

    def settled(self, text: str) -> str:
        """Write as much of the beginning of a text as will not change, whatever comes next."""
        end = max((found.end() for found in _BOUNDARY.finditer(text)), default=0)
        return self._write(text[:end])

    def write_tokens(self, tokens: Sequence[str], written: str) -> list[str]:
        """Cut a written text into the texts of its tokens; within a word of other characters about at their places."""
        text = "".join(tokens)
        cuts = [0]
        for end in accumulate(map(len, tokens)):
            cut = len(written) if end == len(text) else min(len(written), len(self._write(text[:end])))
            cuts.append(max(cuts[-1], cut))
        return [written[start:end] for start, end in pairwise(cuts)]


def settled_by(writer: TraditionalWriter | None, *, whole: bool) -> Callable[[str], str] | None:
    """Return the function from the beginning of a sentence to its final part as it will be written.

    `whole`: whether nothing is certain before the sentence is whole, because parts of it are the caller's.
    """
    if writer is None:
        return None
    return (lambda _: "") if whole else writer.settled


def with_traditional(targets: Sequence[str]) -> tuple[str, ...]:
    """Add the ways to write Chinese that the tables make of what a model writes, if it writes simplified only."""
    chinese = [code for code in targets if primary(code) == "zh"]
    if not chinese or any(map(is_traditional, chinese)) or not is_installed():
        return tuple(targets)
    return (*targets, *_TABLES)


@cache
def writer_of(code: str) -> TraditionalWriter:
    """Return the writer for a code that `with_traditional` adds; its tables, some megabytes, are read once."""
    import opencc  # noqa: PLC0415 - an extra

    there, back = (opencc.OpenCC(table) for table in _TABLES[code])
    return TraditionalWriter(there.convert, back.convert)


def is_installed() -> bool:
    """Return whether the library of the extra `traditional` is there."""
    return importlib.util.find_spec("opencc") is not None
