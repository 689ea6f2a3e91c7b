"""Rules for keeping or dropping sentence pairs."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from xuanzang.model.data.corpus import Pair
from xuanzang.model.data.folding import simplified_characters

_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_SCRIPTS = {"zh": re.compile(r"[\u3400-\u9fff]"), "en": _LATIN, "de": _LATIN, "es": _LATIN, "fr": _LATIN}
_LETTER = re.compile(r"[^\W\d_]")
_NUMBER = re.compile(r"\d{2,}", re.ASCII)
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_TYPOGRAPHY = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "\u00a0": " ", "\u200b": None})


def primary_language(code: str) -> str:
    """Return the language of a BCP-47 code: "zh" of "zh-Hant-TW"."""
    return code.split("-", maxsplit=1)[0].lower()


def script_share(text: str, language: str) -> float:
    """Return the share of letters that belong to the script of a language, 0 to 1.

    Args:
        text: Any text; one without letters has a share of 1.
        language: BCP-47 code; of a language whose script is not known here, the share is 1.
    """
    letters, script = len(_LETTER.findall(text)), _SCRIPTS.get(primary_language(language))
    return len(script.findall(text)) / letters if letters and script else 1.0


def length_ratio(pair: Pair) -> float:
    """Return how many times longer one side is than the other, in UTF-8 bytes; short texts get ten bytes of grace."""
    source, target = (len(text.encode()) + 10 for text in pair)
    return max(source, target) / min(source, target)


def loses_numbers(pair: Pair) -> bool:
    """Return whether a number of two or more digits is in the source and not in the target; commas count as nothing."""
    target = pair.target.replace(",", "")
    return any(number not in target for number in _NUMBER.findall(pair.source.replace(",", "")))


def side_key(text: str) -> str:
    """Return a key that is equal for texts that differ in case, punctuation and spaces alone."""
    return _NOT_ALPHANUMERIC.sub("", text.casefold()) or text


def twin_key(text: str) -> str:
    """Return a key that is equal for texts that differ in case, punctuation, spaces, width or traditional characters.

    A model whose tokenisers fold traditional characters reads such texts alike.
    """
    if not text.isascii():  # which most text is on one side, and translating takes longest
        text = unicodedata.normalize("NFKC", text).translate(simplified_characters())
    return side_key(text)


def repeat_key(pair: Pair) -> bytes:
    """Return a key that is equal for pairs that differ in case, punctuation and spaces alone."""
    return "\n".join(map(side_key, pair)).encode()


def plain_typography(text: str) -> str:
    """Return text with straight quotes, three dots, plain spaces and none in a row, so that targets have one form."""
    return " ".join(text.translate(_TYPOGRAPHY).split())


def side_keys(pairs: Iterable[Pair]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the twin keys of the sources and of the targets of pairs."""
    sides = [*zip(*pairs, strict=True)] or [(), ()]
    return frozenset(map(twin_key, sides[0])), frozenset(map(twin_key, sides[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFilter:
    """Limits outside which a pair is dropped."""

    max_characters: int = 1000
    """Maximum characters on either side."""
    max_length_ratio: float = 6.0
    """Maximum UTF-8 bytes of one side per byte of the other."""
    min_script_share: float = 0.0
    """Minimum share of letters in the script of the side's language."""
    languages: tuple[str, str] = ("", "")
    """BCP-47 codes of both sides."""
    kept_out: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    """Twin keys of sources and of targets that no pair may have."""

    def fault(self, pair: Pair) -> str | None:
        """Return the reason to drop the pair, in one word or two, or None to keep it."""
        if not pair.source or not pair.target:
            return "empty"
        if max(len(pair.source), len(pair.target)) > self.max_characters:
            return "too long"
        if pair.source == pair.target:
            return "untranslated"
        if length_ratio(pair) > self.max_length_ratio:
            return "length ratio"
        if any(script_share(*side) < self.min_script_share for side in zip(pair, self.languages, strict=True)):
            return "other script"
        return "number lost" if loses_numbers(pair) else None

    def keeps_out(self, pair: Pair) -> bool:
        """Return whether a pair has a source or a target of those to keep out."""
        return any(keys and twin_key(side) in keys for side, keys in zip(pair, self.kept_out, strict=True))


def clean_pairs(
    pairs: Iterable[Pair], pair_filter: PairFilter, seen: set[bytes], counts: Counter[str]
) -> Iterator[Pair]:
    """Drop bad pairs and repeats.

    Args:
        pair_filter: Limits outside which pairs are dropped.
        seen: Digests of the pairs kept so far; extended.
        counts: Counts of "kept" and of every reason to drop; updated.
    """
    for pair in pairs:
        fault = pair_filter.fault(pair) or ("kept out" if pair_filter.keeps_out(pair) else repeat(pair, seen))
        counts[fault or "kept"] += 1
        if fault is None:
            yield pair


def repeat(pair: Pair, seen: set[bytes]) -> str | None:
    """Return whether a pair is a "duplicate" or a "near duplicate" of a seen one, which from now on it is itself."""
    exact, near = (_digest(key) for key in ("\t".join(pair).encode(), repeat_key(pair)))
    fault = "duplicate" if exact in seen else "near duplicate" if near in seen else None
    seen |= {exact, near}
    return fault


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=12).digest()
