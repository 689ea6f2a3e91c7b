"""Translations and their parts: frozen values without gRPC or protobuf types."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from xuanzang.client._errors import TranslationError
from xuanzang.client._output import replaced_file
from xuanzang.client._values.capsule import Capsule, Exchange
from xuanzang.client._values.options import ProtectedPattern
from xuanzang.values.provenance import Pivot, Provenance

if TYPE_CHECKING:
    from xuanzang.documents import DocumentSummary


class QualityFlag(enum.Enum):
    """Something suspicious about a hypothesis: a finding, not a proof."""

    UNSPECIFIED = 0
    """The server has found something that this version does not know."""
    REPETITION = 1
    """A part of it follows itself three times over, and none of the source does."""
    LENGTH_RATIO = 2
    """It is much shorter or longer than translations of such sources are."""
    UNTRANSLATED = 3
    """Nearly all of its words are the source's, or it has a part of the source in the source's script."""
    TRUNCATED = 4
    """A sentence was not finished, because of `max_target_length` or the deadline."""
    LOW_COVERAGE = 5
    """An unusual share of the source got little attention, so a part may be left out."""
    NUMBER_LOST = 6
    """A number of the source, written in digits, is missing, or one of the translation is new."""
    NAME_LOST = 7
    """A name or identifier of the source, written in Latin letters, is missing."""
    WRONG_LANGUAGE = 8
    """It is in another language than the one asked for; only servers that detect languages find out."""
    CUT = 9
    """A sentence over the model's limit was cut where no reader would pause, so its parts were translated apart."""
    SOURCE_LANGUAGE = 10
    """The text is in another language than `source_language`; only servers that detect languages find out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Quality estimate of a hypothesis."""

    acceptable_probability: float | None
    """Estimated probability that it is acceptable, 0 to 1; of several sentences that of the least probable one. None
    for texts that are answered unchanged."""
    flags: frozenset[QualityFlag] = frozenset()
    """Flags for suspicious signs in any of its sentences."""


_CHARACTERS = "x-usage-characters"
_SENTENCES = "x-usage-sentences"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of a call. A stream is one call, or several if its connection broke; only answered texts count."""

    characters: int
    """Characters of the texts that were translated."""
    sentences: int
    """Sentences of those texts."""


OnUsage = Callable[[Usage], None]
"""Receiver of what each call has used."""


def usage_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> Usage | None:
    """Read the usage in the trailing metadata of a call.

    Args:
        metadata: Pairs of key and value.

    Returns:
        The usage; None if the server gives none.
    """
    values = dict(metadata or ())
    characters, sentences = values.get(_CHARACTERS), values.get(_SENTENCES)
    if not (isinstance(characters, str) and isinstance(sentences, str)):
        return None
    if not (characters.isdecimal() and sentences.isdecimal()):
        return None
    return Usage(characters=int(characters), sentences=int(sentences))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGlossary:
    """A glossary that the server holds."""

    name: str
    """Name for `glossary_name`."""
    source_language: str
    """BCP-47 code of the language of its terms."""
    target_language: str
    """BCP-47 code of the language of their translations."""
    version: str
    """Version that its author has written; may be empty."""
    entry_count: int
    """Number of terms."""
    sha256: str
    """SHA-256 of its file."""
    display_name: str = ""
    """Name for people; may be empty."""


class FinishReason(enum.Enum):
    """Reason why the search for a hypothesis stopped."""

    UNSPECIFIED = 0
    """The server gave no reason, or one unknown to this version."""
    END_OF_SENTENCE = 1
    """The model ended the sentence."""
    MAX_LENGTH = 2
    """`max_target_length` was reached: the text may be incomplete."""
    COPIED = 3
    """There was nothing to translate: the text has no letters or nothing but placeholders or, if `source_language` is
    not set, is in the target language already or without a letter of the source languages."""
    DEADLINE = 4
    """Time ran out and `partial_on_deadline` was set: the text is the best found until then."""
    UNSERVED_LANGUAGE = 5
    """No model translates the language of the text, and `pass_through_unserved` was set: the text is the source."""
    PLACEHOLDER_LOST = 6
    """The translation lost a placeholder, which `lost_placeholders` names: the text is the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDetail:
    """One token of a hypothesis."""

    text: str
    """Text that the token adds to its sentence, spaces included; empty for the end token and incomplete characters."""
    score: float
    """Log-probability in nats, at most 0."""
    source_start: int
    """Index in the source text of the first character that the token attends to most."""
    source_end: int
    """Index after the last such character; equal to `source_start` if the token attends to no character of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One way to translate a text."""

    text: str
    """The text in the target language."""
    score: float | None
    """Length-normalised log-probability in nats, at most 0; None unless `return_scores` is set."""
    token_count: int
    """Number of target tokens, end tokens counted; 0 for texts that are answered unchanged."""
    finish_reason: FinishReason
    """Reason why the search stopped."""
    tokens: tuple[TokenDetail, ...] = ()
    """Tokens in the order of the text, end tokens included; empty unless `token_details` is set."""
    quality: Quality | None = None
    """Quality estimate; None unless `return_quality` is set."""
    lost_placeholders: tuple[str, ...] = ()
    """Placeholders that the translation lost, so that `text` is the source."""


class GlossaryOutcome(enum.Enum):
    """Outcome of a term that occurs in a text."""

    UNSPECIFIED = 0
    """The server did not say, or something unknown to this version."""
    HONOURED = 1
    """The best hypothesis holds one of its translations."""
    NOT_WRITABLE = 2
    """It does not: the model's vocabulary cannot write any of them."""
    NO_ROOM = 3
    """It does not: the sentence has too many terms, or too few tokens are left for them."""
    NOT_REACHED = 4
    """It does not: the search ended first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlossaryMatch:
    """A term or protected text that occurs in a text, and what became of it."""

    source: str
    """The text in the source."""
    source_start: int
    """Index of its first character."""
    source_end: int
    """Index after its last character."""
    target: str
    """Translation that the best hypothesis holds; empty if it holds none."""
    outcome: GlossaryOutcome
    """Its outcome."""
    pattern: ProtectedPattern
    """Pattern that found it; UNSPECIFIED for a term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The translation of one text."""

    hypotheses: tuple[Hypothesis, ...]
    """One or more, best first."""
    model: str
    """Name of the model that translated."""
    model_version: str
    """Version of that model, such as "1"."""
    provenance: Provenance | None = None
    """Provenance; None unless `return_provenance` is set."""
    exchange: Exchange | None = field(default=None, repr=False, compare=False)
    """Request and answer for `capsule`; None unless `return_provenance` is set."""
    detected_language: str = ""
    """Language of the text, spelled as in `list_models`, if `source_language` is not set: the detected one or, where
    undetectable, the one of its translation. Else empty."""
    detected_language_confidence: float | None = None
    """Probability of that language, 0 to 1; None if it was not detected."""
    glossary_matches: tuple[GlossaryMatch, ...] = ()
    """Terms and protected texts that occur in the text, in its order."""
    pivot: Pivot | None = None
    """First of two models, if the text was translated through another language; `model` is then the second."""

    @property
    def text(self) -> str:
        """Text of the best hypothesis."""
        return self.hypotheses[0].text

    def capsule(self) -> Capsule:
        """Return the request and this answer, to be sent again and compared; `Capsule.of` takes several.

        Raises:
            ValueError: It was made without `return_provenance`, or cut at its deadline.
        """
        return Capsule.of([self])


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedTranslation:
    """Result of one text of a stream: a translation, or an error of this text alone."""

    index: int
    """Position of the text in the iterable, counted from 0."""
    source: str
    """The text in the source language."""
    result: Translation | TranslationError
    """The translation, or the error instead of one."""

    @property
    def error(self) -> TranslationError | None:
        """The error, or None if there is a translation."""
        return self.result if isinstance(self.result, TranslationError) else None

    @property
    def translation(self) -> Translation:
        """The translation.

        Raises:
            TranslationError: The text has none; the same object as `error`.
        """
        if isinstance(self.result, TranslationError):
            raise self.result
        return self.result


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressiveTranslation:
    """One part of a progressive translation."""

    text_delta: str
    """Text to append to that of the previous parts; all together are the text of the best hypothesis."""
    translation: Translation | None
    """The whole translation in the last part, None in all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentTranslation:
    """A translated document."""

    content: bytes
    """Content of the file."""
    summary: DocumentSummary
    """Summary of the work."""

    def write(self, path: str | Path) -> None:
        """Write the file under another name and move it into place once it is whole.

        Args:
            path: File to write or replace.

        Raises:
            OSError: The file cannot be written.
        """
        with replaced_file(Path(path), report=logging.getLogger("xuanzang.client").warning) as output:
            output.buffer.write(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedLanguage:
    """A language that a text may be in."""

    code: str
    """BCP-47 code; that of a language which models translate is spelled as in `list_models`."""
    confidence: float
    """Probability among the languages that the server tells apart, 0.1 to 1."""
    script: str = ""
    """Script of Chinese: "Hans", "Hant", or empty if its characters are the same in both."""
