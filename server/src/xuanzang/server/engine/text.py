"""Text to ids and back, for one model."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.segmentation import Joiner, split_long_sentence, split_sentences
from xuanzang.server.engine.spans import Span, before_nfkc, filled, moved

# Primary subtags of languages that are written without spaces between sentences.
_UNSPACED_LANGUAGES = frozenset({"zh", "yue", "ja", "th", "lo", "km", "my", "bo", "dz"})
# What SentencePiece writes for the space before a word.
_WORD_START = "\u2581"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of source text: a sentence, or what is kept as it is."""

    text: str
    source_ids: tuple[int, ...]
    """End token included; empty for white space and for characters that the tokeniser drops."""


class TextCodec:
    """Splits, tokenises and joins text as one bundle wants it. May be shared by threads: nothing in it changes."""

    def __init__(self, bundle: Bundle) -> None:
        """Read the tokenisers.

        Args:
            bundle: That holds them.

        Raises:
            BundleError: If they cannot be read or do not fit the vocabularies.
        """
        manifest = bundle.manifest
        self._source = _open(bundle.directory, manifest.source_tokenizer, manifest.dimensions.source_vocab_size)
        self._target = _open(bundle.directory, manifest.target_tokenizer, manifest.dimensions.target_vocab_size)
        self._source_eos_id = manifest.special_ids.source_eos_id
        self._normalization = manifest.source_format.normalization
        self._spaced = manifest.target_language_codes[0].split("-")[0].lower() not in _UNSPACED_LANGUAGES
        self.max_source_length = manifest.dimensions.max_source_length

    def split(self, text: str) -> list[Piece]:
        """Cut text into tokenised sentences and the white space between them.

        Args:
            text: In the source language.

        Returns:
            Pieces in their order; joined, their texts are `text`. A piece has more than `max_source_length` ids if
            there is no place to cut it.
        """
        return [piece for part in split_sentences(text) for piece in self._pieces(part)]

    def _pieces(self, part: str) -> list[Piece]:
        piece = self._piece(part)
        if len(piece.source_ids) <= self.max_source_length:
            return [piece]
        parts = split_long_sentence(part, lambda stretch: len(self.encode(stretch)) - 1, self.max_source_length - 1)
        return [self._piece(part) for part in parts]

    def _piece(self, part: str) -> Piece:
        source_ids = () if part.isspace() else tuple(self.encode(part))
        return Piece(text=part, source_ids=source_ids if len(source_ids) > 1 else ())

    def encode(self, sentence: str) -> list[int]:
        """Tokenise a sentence.

        Args:
            sentence: In the source language.

        Returns:
            Source ids, end token included.
        """
        return [*self._source.encode(self._normalized(sentence)), self._source_eos_id]

    def _normalized(self, sentence: str) -> str:
        return unicodedata.normalize("NFKC", sentence) if self._normalization == "nfkc" else sentence

    def spans(self, pieces: Sequence[Piece]) -> list[tuple[Span, ...]]:
        """Find which characters the source ids stand for.

        Args:
            pieces: Of a text.

        Returns:
            For each piece with source ids the characters of the text for each of them; none for the end token.
        """
        starts = accumulate((len(piece.text) for piece in pieces), initial=0)
        return [
            moved(self._sentence_spans(piece.text), start)
            for piece, start in zip(pieces, starts, strict=False)
            if piece.source_ids
        ]

    def _sentence_spans(self, sentence: str) -> list[Span]:
        offsets: list[Span] = self._source.encode(self._normalized(sentence), return_type="offset_mapping")["offsets"]
        spans = filled(offsets)
        if self._normalization == "nfkc":
            spans = before_nfkc(sentence, spans)
        return [*spans, (len(sentence), len(sentence))]

    def encode_target(self, text: str) -> list[int]:
        """Tokenise the beginning of a translation.

        Args:
            text: In the target language.

        Returns:
            Target ids, without start and end token.
        """
        target_ids: list[int] = self._target.encode(text)
        return target_ids

    def can_write(self, target_ids: Sequence[int]) -> bool:
        """Return whether no token stands for anything unknown."""
        return self._target.unk_id() not in target_ids

    def sequences(self, text: str) -> list[tuple[int, ...]]:
        """Return the usual target ids of a text, at the start of a word and within one."""
        target_ids = tuple(self.encode_target(text))
        if not target_ids:
            return []
        first = self._target.id_to_piece(target_ids[0]).removeprefix(_WORD_START)
        within = self._target.piece_to_id(first)
        if not first:
            variants = [target_ids[1:]]
        elif within != self._target.unk_id():
            variants = [target_ids, (within, *target_ids[1:])]
        else:
            variants = [target_ids]
        return [variant for variant in dict.fromkeys(variants) if variant]

    def decode(self, target_ids: Sequence[int]) -> str:
        """Make text of a hypothesis.

        Args:
            target_ids: Without start and end token.

        Returns:
            A sentence in the target language.
        """
        sentence: str = self._target.decode(list(target_ids))
        return sentence

    def token_texts(self, target_ids: Sequence[int]) -> list[str]:
        """Return what each token adds to the text; the bytes of a character add it with the last of them."""
        decoded = self._target.decode(list(target_ids), return_type="offset_mapping")
        return [decoded["text"][start:end] for start, end in decoded["offsets"]]

    def joiner(self) -> Joiner:
        """Return what joins translated sentences and white space as the target language is written."""
        return Joiner(spaced=self._spaced)


def _open(directory: Path, name: str, vocab_size: int) -> SentencePieceProcessor:
    try:
        processor = SentencePieceProcessor(model_file=str(directory / name))
    except (OSError, RuntimeError) as error:
        raise BundleError(directory, [f"{name} is not a SentencePiece model: {error}"]) from error
    if processor.vocab_size() != vocab_size:
        reason = f"{name} has {processor.vocab_size()} pieces; the dimensions say {vocab_size}"
        raise BundleError(directory, [reason])
    return processor
