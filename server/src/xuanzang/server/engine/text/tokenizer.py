"""SentencePiece tokenisers: text to ids and back, for the source or the target of a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor
from typing_extensions import override

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited
from xuanzang.server.bundles.manifest import MAX_FILE_BYTES
from xuanzang.server.engine.text.offsets import Span

WORD_START = "\u2581"
"""Mark of SentencePiece for the space before a word."""


class Tokenizer:
    """A SentencePiece model whose ids are those of the vocabulary. Immutable."""

    def __init__(self, processor: SentencePieceProcessor) -> None:
        """Wrap a model.

        Args:
            processor: SentencePiece with the model.
        """
        self._processor = processor

    @property
    def unk_id(self) -> int:
        """Id of the unknown piece."""
        unk_id: int = self._processor.unk_id()
        return unk_id

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without any special token."""
        ids: list[int] = self._processor.encode(text)
        return ids

    def offsets(self, text: str) -> list[Span]:
        """Return the span of characters of each id of a text."""
        offsets: list[Span] = self._processor.encode(text, return_type="offset_mapping")["offsets"]
        return offsets

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""
        text: str = self._processor.decode(list(ids))
        return text

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text that each id adds; the bytes of a character add it with the last of them."""
        decoded = self._processor.decode(list(ids), return_type="offset_mapping")
        return [decoded["text"][start:end] for start, end in decoded["offsets"]]

    def piece_of(self, token_id: int) -> str:
        """Return the piece of an id."""
        piece: str = self._processor.id_to_piece(token_id)
        return piece

    def id_of(self, piece: str) -> int:
        """Return the id of a piece; `unk_id` if there is no such piece."""
        token_id: int = self._processor.piece_to_id(piece)
        return token_id


class TableTokenizer(Tokenizer):
    """A SentencePiece model whose pieces get their ids from a table.

    Either may have pieces that the other lacks. A piece of the model that the table lacks is unknown. A piece that only
    the table has, perhaps of the other language, is still recognised where the model finds nothing in the text but
    unknown characters, and is written as it is. Ids that are no text are decoded to nothing.
    """

    def __init__(
        self,
        processor: SentencePieceProcessor,
        *,
        table: Sequence[str],
        unk_id: int,
        reserved: Collection[int],
        silent: Collection[int] = (),
    ) -> None:
        """Wrap a model and a table.

        Args:
            processor: SentencePiece with the model.
            table: Pieces in the order of their ids.
            unk_id: Id of pieces that the table lacks.
            reserved: Ids with a meaning of their own, which no text is encoded to.
            silent: Ids that are no text; they are reserved, too.
        """
        super().__init__(processor)
        self._unk_id = unk_id
        self._silent = frozenset(silent)
        meant = self._silent.union(reserved)
        self._ids = {piece: token_id for token_id, piece in enumerate(table) if token_id not in meant}
        own_pieces = processor.id_to_piece(list(range(processor.vocab_size())))
        self._from_own = [self._ids.get(piece, unk_id) for piece in own_pieces]
        self._pieces = list(table)
        self._pieces[unk_id] = own_pieces[processor.unk_id()]

    @property
    @override
    def unk_id(self) -> int:
        return self._unk_id

    @override
    def encode(self, text: str) -> list[int]:
        own_ids = super().encode(text)
        if self._processor.unk_id() in own_ids:
            return [self.id_of(piece) for piece in self._processor.encode(text, out_type=str)]
        return [self._from_own[own_id] for own_id in own_ids]

    @override
    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._processor.decode(self._pieces_of(self._spoken(ids)))
        return _spaced(text).strip()

    @override
    def token_texts(self, ids: Sequence[int]) -> list[str]:
        pieces = self._pieces_of(self._spoken(ids))
        decoded: dict[str, Any] = self._processor.decode(pieces, return_type="offset_mapping")
        text = _spaced(decoded["text"])
        first, last = len(text) - len(text.lstrip()), len(text.rstrip())
        texts = (text[max(start, first) : min(end, last)] for start, end in decoded["offsets"])
        return ["" if token_id in self._silent else next(texts) for token_id in ids]

    @override
    def piece_of(self, token_id: int) -> str:
        return self._pieces[token_id]

    @override
    def id_of(self, piece: str) -> int:
        return self._ids.get(piece, self._unk_id)

    def _spoken(self, ids: Sequence[int]) -> Sequence[int]:
        return [token_id for token_id in ids if token_id not in self._silent] if self._silent else ids

    def _pieces_of(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[token_id] for token_id in ids]


def _spaced(text: str) -> str:
    # Pieces that SentencePiece does not know keep their marks.
    return text.replace(WORD_START, " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """Facts of a manifest about the tokens of source or target."""

    tokenizer: str
    vocab_size: int
    vocabulary: str
    table: Sequence[str]
    special_ids: Mapping[str, int]
    unk_id: int
    language_ids: Collection[int] = ()
    silent_ids: Collection[int] = ()


def open_source(bundle: Bundle) -> Tokenizer:
    """Open the source tokeniser of a bundle.

    Args:
        bundle: Bundle with the tokeniser.

    Returns:
        The tokeniser.

    Raises:
        BundleError: The tokeniser cannot be read or does not fit the vocabulary.
    """
    manifest = bundle.manifest
    ids = manifest.special_ids
    side = _Side(
        tokenizer=manifest.source_tokenizer,
        vocab_size=manifest.dimensions.source_vocab_size,
        vocabulary=manifest.source_vocabulary,
        table=bundle.source_vocabulary,
        special_ids={name: getattr(ids, name) for name in ("source_pad_id", "source_eos_id", "source_unk_id")},
        unk_id=ids.source_unk_id,
        language_ids={
            *manifest.source_format.language_prefix_ids.values(),
            *manifest.source_format.source_language_ids.values(),
        },
        silent_ids=manifest.target_format.silent_ids if _is_shared(manifest) else (),
    )
    return _open(bundle.directory, side)


def open_target(bundle: Bundle) -> Tokenizer:
    """Open the target tokeniser of a bundle.

    Args:
        bundle: Bundle with the tokeniser.

    Returns:
        The tokeniser.

    Raises:
        BundleError: The tokeniser cannot be read or does not fit the vocabulary.
    """
    manifest = bundle.manifest
    ids = manifest.special_ids
    side = _Side(
        tokenizer=manifest.target_tokenizer,
        vocab_size=manifest.dimensions.target_vocab_size,
        vocabulary=manifest.target_vocabulary,
        table=bundle.target_vocabulary,
        special_ids={name: getattr(ids, name) for name in ("decoder_start_id", "eos_id", "unk_id")},
        unk_id=ids.unk_id,
        language_ids=manifest.target_format.language_ids.values(),
        silent_ids=manifest.target_format.silent_ids,
    )
    return _open(bundle.directory, side)


def _is_shared(manifest: manifest_pb2.Manifest) -> bool:
    """Return whether source and target have the same ids."""
    return manifest.source_vocabulary == manifest.target_vocabulary


def _open(directory: Path, side: _Side) -> Tokenizer:
    content = read_limited(directory, side.tokenizer, MAX_FILE_BYTES)
    if not content:
        # SentencePiece takes it for no model at all, not for a faulty one.
        raise BundleError(directory, [f"{side.tokenizer} is empty"])
    try:
        processor = SentencePieceProcessor(model_proto=content)
    except (OSError, RuntimeError) as error:
        raise BundleError(directory, [f"{side.tokenizer} is not a SentencePiece model: {error}"]) from error
    if faults := list(_faults(processor, side)):
        raise BundleError(directory, faults)
    if not side.table:
        return Tokenizer(processor)
    reserved = {*side.special_ids.values(), *side.language_ids}
    return TableTokenizer(processor, table=side.table, unk_id=side.unk_id, reserved=reserved, silent=side.silent_ids)


def _faults(processor: SentencePieceProcessor, side: _Side) -> Iterator[str]:
    if side.table:
        for name, token_id in side.special_ids.items():
            if _is_text(processor, side.table[token_id]):
                yield f"{side.vocabulary} has the piece {side.table[token_id]!r} where special_ids.{name} is"
    elif processor.vocab_size() != side.vocab_size:
        yield f"{side.tokenizer} has {processor.vocab_size()} pieces; the dimensions say {side.vocab_size}"


def _is_text(processor: SentencePieceProcessor, piece: str) -> bool:
    """Return whether a tokeniser makes this piece from text."""
    own_id = processor.piece_to_id(piece)
    return not (processor.is_unknown(own_id) or processor.is_control(own_id))
