"""Published models that can be pulled, by the names that people know them under, and what their files say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_PAIR = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")
_NON_COMMERCIAL = re.compile(r"(?i)\bnc\b|non-?commercial")


class KnownModel(NamedTuple):
    """Facts of a published model that are known before it is downloaded."""

    name: str
    languages: str
    """A pair such as "zh-en", or how many languages, each into each."""
    parameters: float
    """Millions."""
    licence: str
    """As its card states it."""
    quality: str = "not stated"
    """As its card states it, with the test set."""
    bytes_each: float = 4
    """Of a published parameter: 4 in single precision, 1 in int8."""

    @property
    def download_bytes(self) -> float:
        """Size of its weights as they are published."""
        return self.bytes_each * 1e6 * self.parameters

    @property
    def bundle_bytes(self) -> float:
        """Size of the bundle in int8, with the 8-bit embedding, tokenisers and tables."""
        return 1.4e6 * self.parameters

    def translates(self, pair: str) -> bool:
        """Return whether it is for a pair of languages, or for any."""
        return self.languages in (pair, "") or not _PAIR.fullmatch(self.languages)


_BY_ARCHIVE = "mpl-2.0 by an archive"
_OF_PAIRS = (
    KnownModel("firefox:zh-en", "zh-en", 59, _BY_ARCHIVE, "BLEU 29.0, COMET .862 (FLORES-200)", 1),
    KnownModel("firefox:en-zh", "en-zh", 44, _BY_ARCHIVE, "BLEU 38.8, COMET .863 (FLORES-200)", 1),
    KnownModel("Helsinki-NLP/opus-mt-zh-en", "zh-en", 77, "cc-by-4.0", "BLEU 36.1, chrF 54.8 (Tatoeba)"),
    KnownModel("Helsinki-NLP/opus-mt-en-zh", "en-zh", 77, "apache-2.0", "BLEU 31.4, chrF 26.8 (Tatoeba)"),
)
_OF_MANY = (
    KnownModel("alirezamsh/small100", "100 languages", 333, "mit"),
    KnownModel("facebook/m2m100_418M", "100 languages", 484, "mit"),
    KnownModel("facebook/mbart-large-50-many-to-many-mmt", "52 languages", 611, "mit"),
    KnownModel("facebook/nllb-200-distilled-600M", "202 languages", 615, "cc-by-nc-4.0"),
    KnownModel("facebook/m2m100_1.2B", "100 languages", 1239, "mit"),
    KnownModel("facebook/nllb-200-distilled-1.3B", "202 languages", 1371, "cc-by-nc-4.0"),
)


def known_models(pair: str = "") -> list[KnownModel]:
    """Return the known models, small ones first; for a pair also those that OPUS-MT's rule names."""
    of_pairs = [each for each in _OF_PAIRS if not pair or each.languages == pair]
    return [*of_pairs, *(_by_rule(pair) if pair and not of_pairs else ()), *_OF_MANY]


def _by_rule(pair: str) -> Iterator[KnownModel]:
    """Name the models that Mozilla and OPUS-MT would have for a pair; whether they exist, only they know."""
    if match := _PAIR.fullmatch(pair):
        if "en" in match.groups():
            asks = f"`xuanzang models available firefox:{pair}` asks whether there is one"
            yield KnownModel(f"firefox:{pair}", pair, 31, _BY_ARCHIVE, asks, 1)
        unsure = "the name follows OPUS-MT's rule; there may be none"
        yield KnownModel(f"Helsinki-NLP/opus-mt-{pair}", pair, 77, "cc-by-4.0", unsure)
        yield KnownModel(f"Helsinki-NLP/opus-mt-tc-big-{pair}", pair, 237, "cc-by-4.0", unsure)


def is_pair(name: str) -> bool:
    """Return whether a name is a pair of languages, such as "zh-en", and not a model's."""
    return _PAIR.fullmatch(name) is not None


def forbids_commerce(licence: str) -> bool:
    """Return whether a licence, such as "cc-by-nc-4.0", forbids commercial use."""
    return _NON_COMMERCIAL.search(licence.replace("_", "-").replace("-", " ")) is not None
