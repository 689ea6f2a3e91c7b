"""Text to source ids, and target ids to text, for one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from xuanzang.text.language_codes import primary
from xuanzang.text.offsets import Span, before_nfkc, filled, moved, nfkc, punctuation_of
from xuanzang.text.sentences import (
    Joiner,
    before_seen,
    is_copied,
    is_forced_cut,
    is_plain,
    lowered,
    seen_text,
    split_around_words,
    split_at_pauses,
    split_long_sentence,
    split_sentences,
    with_unbroken,
)
from xuanzang.text.tokenizer import WORD_START, Tokenizer
from xuanzang.text.words import TargetPhrases

# Primary subtags of languages that are written without spaces between sentences, unless in Latin script.
_UNSPACED_LANGUAGES = frozenset(
    {"zh", "cmn", "yue", "wuu", "gan", "hak", "lzh", "ja", "th", "lo", "km", "my", "bo", "dz"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of source text: a sentence, or text that is copied, such as white space."""

    text: str
    source_ids: tuple[int, ...]
    """End token included; empty for text that is copied: white space, characters that the tokeniser drops, and what the
    model cannot take and cutting would spoil."""
    is_forced_cut: bool = False
    """True if the sentence was cut here, where no reader would pause, because of the model's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceFormat:
    """A model's reading of sentences, and the ids that name languages."""

    source_languages: tuple[str, ...]
    """BCP-47 codes, at least one."""
    target_languages: tuple[str, ...]
    normalization: str
    """Normalisation of a sentence: "nfkc", or "moses" for Moses's punctuation rules; anything else: none."""
    end_id: int
    """Id of the end token of the source."""
    source_language_ids: Mapping[str, int]
    """Ids in the source that name its language; none if the model asks for none."""
    is_source_named_last: bool
    """True if the source language is named after the end token, not before the sentence."""
    language_prefix_ids: Mapping[str, int]
    """Ids before a sentence that name the target language."""
    target_language_ids: Mapping[str, int]
    """Ids that translations begin with, by language."""
    max_source_length: int
    """Maximum source tokens of a sentence, the end token counted."""
    target_vocab_size: int


class TextCodec:
    """Splits, tokenises and joins text as one model asks for. Threads may share it: its results never change."""

    def __init__(
        self,
        sentence_format: SentenceFormat,
        tokenizers: tuple[Tokenizer, Tokenizer],
        *,
        source_language: str = "",
        target_language: str = "",
        target_phrases: TargetPhrases | None = None,
    ) -> None:
        """Make a codec for two languages, codes as the format spells them, or empty for the first.

        `tokenizers` are those of source and target. Target phrases are classified unless they are given.
        """
        source_language = source_language or sentence_format.source_languages[0]
        target_language = target_language or sentence_format.target_languages[0]
        self._format = sentence_format
        self.source, self.target = tokenizers
        self.target_phrases = target_phrases or TargetPhrases(self.target, sentence_format.target_vocab_size)
        self._before, self._after = _framing(sentence_format, source_language, target_language)
        # Ids of a sentence in addition to its text's.
        self._added = len(self._before) + len(self._after)
        self.target_prefix_ids = _ids_of(sentence_format.target_language_ids, target_language)
        """Ids that every hypothesis begins with: the target language's, if it has one."""
        self._normalization = sentence_format.normalization
        self.source_language, self.target_language = primary(source_language), primary(target_language)
        """Primary subtags of the languages."""
        self._punctuation = punctuation_of(self.source_language) if self._normalization == "moses" else None
        self.is_spaced = self.target_language not in _UNSPACED_LANGUAGES or "latn" in target_language.lower().split("-")
        self.max_source_length = sentence_format.max_source_length
        # Characters that have been found to have pieces.
        self._characters: set[str] = set()

    def between(self, source_language: str, target_language: str) -> TextCodec:
        """Return a codec with the same tokenisers for other languages."""
        return TextCodec(
            self._format,
            (self.source, self.target),
            source_language=source_language,
            target_language=target_language,
            target_phrases=self.target_phrases,
        )

    def split(
        self, text: str, *, refuse_long: bool = False, unbroken: Sequence[Span] = (), words: Sequence[Span] = ()
    ) -> list[Segment]:
        """Cut text into tokenised sentences and the white space between them; joined they are the text.

        With `refuse_long` a stretch without comma or white space stays whole, and may have more than
        `max_source_length` ids. `unbroken` are places, in their order, whose marks end no sentence; `words` are those
        of stand-ins, whose characters say nothing of where sentences end.
        """
        if not words and is_plain(text):
            segment = self._encoded(text, text)
            if len(segment.source_ids) <= self.max_source_length:
                return [segment]
        parts = split_sentences(text) if not words else split_around_words(text, words)
        if unbroken:
            parts = with_unbroken(parts, unbroken)
        segments: list[Segment] = []
        for part in parts:
            segments += self._segments(part, refuse_long=refuse_long)
        return segments

    def _segments(self, part: str, *, refuse_long: bool) -> list[Segment]:
        segment = self._segment(part)
        if len(segment.source_ids) <= self.max_source_length:
            return [segment]
        added = self._added
        cut = split_at_pauses if refuse_long else split_long_sentence
        parts = cut(part, lambda stretch: len(self.encode(stretch)) - added, self.max_source_length - added)
        segments = []
        for before, each in zip([" ", *parts], parts, strict=False):
            source_ids = self._segment(each).source_ids
            # Parts that are still too long are copied.
            fits = refuse_long or len(source_ids) <= self.max_source_length
            is_forced = is_forced_cut(before, each)
            segments.append(Segment(text=each, source_ids=source_ids if fits else (), is_forced_cut=is_forced))
        return segments

    def _segment(self, part: str) -> Segment:
        seen = seen_text(part)
        return Segment(text=part, source_ids=()) if is_copied(seen) else self._encoded(part, seen)

    def _encoded(self, part: str, seen: str) -> Segment:
        source_ids = tuple(self._encode(seen))
        return Segment(text=part, source_ids=source_ids if len(source_ids) > self._added else ())

    def encode(self, sentence: str) -> list[int]:
        """Return the source ids of a sentence, with those of languages that the model asks for, and the end token."""
        return self._encode(seen_text(sentence))

    def _encode(self, seen: str) -> list[int]:
        return [*self._before, *self.source.encode(self._normalized(seen)), *self._after]

    def _normalized(self, sentence: str) -> str:
        if self.source_language == "en" and sentence.isupper():
            sentence = lowered(sentence)
        if self._punctuation:
            return self._punctuation.normalize(sentence)
        return nfkc(sentence) if self._normalization == "nfkc" else sentence

    def offsets(self, segments: Sequence[Segment]) -> list[tuple[Span, ...]]:
        """Find the characters of a text that the source ids of each sentence stand for; none for languages and end."""
        starts = accumulate((len(segment.text) for segment in segments), initial=0)
        return [
            moved(self.sentence_offsets(segment.text), start)
            for segment, start in zip(segments, starts, strict=False)
            if segment.source_ids
        ]

    def sentence_offsets(self, sentence: str) -> list[Span]:
        """Find the characters of a sentence that its source ids stand for."""
        seen = seen_text(sentence)
        spans = filled(self.source.offsets(self._normalized(seen)))
        if self._normalization == "nfkc":
            spans = before_nfkc(seen, spans)
        elif self._punctuation:
            spans = filled(self._punctuation.before(seen, spans))
        spans = before_seen(sentence, spans)
        return [*((0, 0) for _ in self._before), *spans, *((len(sentence), len(sentence)) for _ in self._after)]

    def encode_target(self, text: str) -> list[int]:
        """Tokenise the beginning of a translation, without start and end token."""
        return self.target.encode(text)

    def can_write(self, target_ids: Sequence[int]) -> bool:
        """Return whether none of the tokens is the unknown one."""
        return self.target.unk_id not in target_ids

    def can_read(self, text: str) -> bool:
        """Return whether the model knows every piece of a text in its source vocabulary."""
        return self.source.unk_id not in self.source.encode(self._normalized(text))

    def knows(self, text: str) -> bool:
        """Return whether the source vocabulary has pieces for a text other than single bytes.

        It has, if it has some for each character: hardly any text is encoded for this.
        """
        characters = set(text)
        if not characters <= self._characters:
            self._characters.update(filter(self._has_pieces, characters - self._characters))
        return characters <= self._characters or self._has_pieces(text)

    def _has_pieces(self, text: str) -> bool:
        source_ids = self.source.encode(self._normalized(text))
        return self.source.unk_id not in source_ids and not any(map(self.source.is_byte, source_ids))

    def can_copy(self, text: str) -> bool:
        """Return whether the model reads and writes a text exactly as it is."""
        read, written = self.source.encode(self._normalized(text)), self.encode_target(text)
        return (
            self.source.unk_id not in read
            and self.can_write(written)
            and self.source.decode(read) == text == self.decode(written)
        )

    def sequences(self, text: str) -> list[tuple[int, ...]]:
        """Return the usual sequences of target ids of a text, at the start of a word and within one."""
        target_ids = tuple(self.encode_target(text))
        if not target_ids:
            return []
        first = self.target.piece_of(target_ids[0]).removeprefix(WORD_START)
        within = self.target.id_of(first)
        if not first:
            variants = [target_ids[1:]]
        elif within != self.target.unk_id:
            variants = [target_ids, (within, *target_ids[1:])]
        else:
            variants = [target_ids]
        return [variant for variant in dict.fromkeys(variants) if variant]

    def decode(self, target_ids: Sequence[int]) -> str:
        """Return the text of a hypothesis, whose ids are without start and end token."""
        return self.target.decode(target_ids)

    def joiner(self) -> Joiner:
        """Return a joiner of translated sentences and white space for the target language."""
        return Joiner(spaced=self.is_spaced)


def _framing(
    sentence_format: SentenceFormat, source_language: str, target_language: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids before a sentence, and those after it."""
    asked = _ids_of(sentence_format.language_prefix_ids, target_language)
    named = _ids_of(sentence_format.source_language_ids, source_language)
    end = (sentence_format.end_id,)
    return (asked, end + named) if sentence_format.is_source_named_last else (asked + named, end)


def _ids_of(ids: Mapping[str, int], language: str) -> tuple[int, ...]:
    return (ids[language],) if language in ids else ()
