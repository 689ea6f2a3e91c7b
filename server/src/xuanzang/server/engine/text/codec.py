"""Text to source ids, and target ids to text, for one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.engine.text.offsets import Span, before_nfkc, filled, moved, nfkc, punctuation_of
from xuanzang.server.engine.text.sentences import (
    Joiner,
    before_seen,
    is_copied,
    is_forced_cut,
    seen_text,
    split_at_pauses,
    split_long_sentence,
    split_sentences,
    with_unbroken,
)
from xuanzang.server.engine.text.tokenizer import WORD_START, Tokenizer, open_tokenizers
from xuanzang.server.engine.text.words import TargetPhrases

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
    """True if the sentence was cut before it where no reader would pause, because the model takes no more."""


class TextCodec:
    """Splits, tokenises and joins text as one bundle asks for. Immutable, so threads may share it."""

    def __init__(
        self,
        bundle: Bundle,
        *,
        source_language: str = "",
        target_language: str = "",
        tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
        target_phrases: TargetPhrases | None = None,
    ) -> None:
        """Make a codec for two languages, codes as the manifest spells them, or empty for the first.

        Tokenisers are opened, and target phrases classified, unless they are given; BundleError says that they do not
        fit.
        """
        manifest = bundle.manifest
        language = target_language or manifest.target_language_codes[0]
        primary, *others = language.lower().split("-")
        self._bundle = bundle
        self.source, self.target = tokenizers or open_tokenizers(bundle)
        """Tokenisers."""
        vocab_size = manifest.dimensions.target_vocab_size
        self.target_phrases = target_phrases or TargetPhrases(self.target, vocab_size)
        self._before, self._after = _framing(manifest, source_language, language)
        # Ids of a sentence besides those of its text.
        self._added = len(self._before) + len(self._after)
        self.target_prefix_ids = _ids_of(manifest.target_format.language_ids, language)
        """Ids with which every hypothesis begins: that of the target language, if it has one."""
        self._normalization = manifest.source_format.normalization
        source, _, _ = (source_language or manifest.source_language_codes[0]).lower().partition("-")
        self._punctuation = punctuation_of(source) if self._normalization == "moses" else None
        self.source_language, self.target_language = source, primary
        """Primary subtags of the languages."""
        self.is_spaced = primary not in _UNSPACED_LANGUAGES or "latn" in others
        self.max_source_length = manifest.dimensions.max_source_length

    def between(self, source_language: str, target_language: str) -> TextCodec:
        """Return a codec with the same tokenisers for other languages."""
        return TextCodec(
            self._bundle,
            source_language=source_language,
            target_language=target_language,
            tokenizers=(self.source, self.target),
            target_phrases=self.target_phrases,
        )

    def split(self, text: str, *, refuse_long: bool = False, unbroken: Sequence[Span] = ()) -> list[Segment]:
        """Cut text into tokenised sentences and the white space between them; joined they are the text.

        With `refuse_long` a stretch without comma or white space stays whole, and may have more than
        `max_source_length` ids. `unbroken` are places, in their order, whose marks end no sentence.
        """
        parts = split_sentences(text)
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
            # What is too long still is copied.
            fits = refuse_long or len(source_ids) <= self.max_source_length
            is_forced = is_forced_cut(before, each)
            segments.append(Segment(text=each, source_ids=source_ids if fits else (), is_forced_cut=is_forced))
        return segments

    def _segment(self, part: str) -> Segment:
        seen = seen_text(part)
        source_ids = () if is_copied(seen) else tuple(self._encode(seen))
        return Segment(text=part, source_ids=source_ids if len(source_ids) > self._added else ())

    def encode(self, sentence: str) -> list[int]:
        """Return the source ids of a sentence, with those of languages that the model asks for, and the end token."""
        return self._encode(seen_text(sentence))

    def _encode(self, seen: str) -> list[int]:
        return [*self._before, *self.source.encode(self._normalized(seen)), *self._after]

    def _normalized(self, sentence: str) -> str:
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
    manifest: manifest_pb2.Manifest, source_language: str, target_language: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids before a sentence, and those after it."""
    source_format, end = manifest.source_format, (manifest.special_ids.source_eos_id,)
    asked = _ids_of(source_format.language_prefix_ids, target_language)
    named = _ids_of(source_format.source_language_ids, source_language or manifest.source_language_codes[0])
    if source_format.source_language_place == manifest_pb2.SOURCE_LANGUAGE_PLACE_AFTER_END:
        return asked, end + named
    return asked + named, end


def _ids_of(ids: Mapping[str, int], language: str) -> tuple[int, ...]:
    return (ids[language],) if language in ids else ()
