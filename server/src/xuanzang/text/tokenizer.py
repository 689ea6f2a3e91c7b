"""SentencePiece tokenisers: text to ids and back, for the source or the target of a model."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from sentencepiece import SentencePieceProcessor
from typing_extensions import override

from xuanzang.text.offsets import Span

WORD_START = "\u2581"
"""Mark of SentencePiece for the space before a word."""
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_NO_CHARACTER = "\ufffd"


class Tokenizer:
    """A SentencePiece model whose ids are those of the vocabulary. Immutable."""

    def __init__(self, processor: SentencePieceProcessor) -> None:
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
        """Return the text of ids, without white space at both ends and bytes that are no character."""
        text: str = self._processor.decode(list(ids))
        return _whole(text).strip()

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text that each id adds to `decode`; the bytes of a character add it with the last of them."""
        decoded = self._processor.decode(list(ids), return_type="offset_mapping")
        return _added_texts(decoded["text"], decoded["offsets"])

    def is_byte(self, token_id: int) -> bool:
        """Return whether an id stands for a byte of a character that has no piece."""
        return _BYTE.fullmatch(self.piece_of(token_id)) is not None

    def piece_of(self, token_id: int) -> str:
        """Return the piece of an id."""
        piece: str = self._processor.id_to_piece(token_id)
        return piece

    def pieces_of(self, token_ids: Iterable[int]) -> list[str]:
        """Return the pieces of ids."""
        pieces: list[str] = self._processor.id_to_piece(list(token_ids))
        return pieces

    def id_of(self, piece: str) -> int:
        """Return the id of a piece; `unk_id` if there is no such piece."""
        token_id: int = self._processor.piece_to_id(piece)
        return token_id


class TableTokenizer(Tokenizer):
    """A SentencePiece model whose pieces get their ids from a table.

    Either may have pieces that the other lacks. A piece of the model that the table lacks is unknown. A piece that only
    the table has, perhaps of the other language, is still recognised where the model finds nothing in the text but
    unknown characters, and is written unchanged. Ids without text decode to nothing.
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
        """Wrap a model and a table; no text is encoded to `reserved` ids, nor to `silent` ones, which are no text."""
        super().__init__(processor)
        self._unk_id = unk_id
        self._silent = frozenset(silent)
        self._table = table
        self._own_unknown: str = processor.id_to_piece(processor.unk_id())
        self._from_own = array("i", [unk_id]) * processor.vocab_size()
        """Id of each piece of the model."""
        self._others: dict[str, int] = {}
        """Ids of the pieces that only the table has."""
        meant, own_unk_id = self._silent.union(reserved), processor.unk_id()
        pieces = list(table)
        for token_id, own_id in enumerate(processor.piece_to_id(pieces)):
            if token_id in meant:
                continue
            if own_id == own_unk_id:
                self._others[pieces[token_id]] = token_id
            else:
                self._from_own[own_id] = token_id

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
        text: str = self._processor.decode(self.pieces_of(self._spoken(ids)))
        return _whole(_spaced(text)).strip()

    @override
    def token_texts(self, ids: Sequence[int]) -> list[str]:
        pieces = self.pieces_of(self._spoken(ids))
        decoded: dict[str, Any] = self._processor.decode(pieces, return_type="offset_mapping")
        texts = iter(_added_texts(_spaced(decoded["text"]), decoded["offsets"]))
        return ["" if token_id in self._silent else next(texts) for token_id in ids]

    @override
    def piece_of(self, token_id: int) -> str:
        return self._own_unknown if token_id == self._unk_id else self._table[token_id]

    @override
    def pieces_of(self, token_ids: Iterable[int]) -> list[str]:
        return [self.piece_of(token_id) for token_id in token_ids]

    @override
    def id_of(self, piece: str) -> int:
        own_id: int = self._processor.piece_to_id(piece)
        if own_id == self._processor.unk_id():
            return self._others.get(piece, self._unk_id)
        return self._from_own[own_id]

    def _spoken(self, ids: Sequence[int]) -> Sequence[int]:
        return [token_id for token_id in ids if token_id not in self._silent] if self._silent else ids


def _added_texts(text: str, offsets: Iterable[Span]) -> list[str]:
    """Return the parts of a text between offsets, without the white space at both ends of the text."""
    seen = text.replace(_NO_CHARACTER, " ")
    first, last = len(text) - len(seen.lstrip()), len(seen.rstrip())
    return [_whole(text[max(start, first) : min(end, last)]) for start, end in offsets]


def _whole(text: str) -> str:
    """Return a text without the marks of bytes that are no character."""
    return text.replace(_NO_CHARACTER, "")


def _spaced(text: str) -> str:
    # Pieces that SentencePiece does not know keep their marks.
    return text.replace(WORD_START, " ")


class TokenizerError(ValueError):
    """A file is no tokeniser, or does not fit its vocabulary."""

    def __init__(self, faults: Sequence[str]) -> None:
        """Join the faults, one sentence each, which name the files."""
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Facts about the tokens of a model's source or target."""

    tokenizer: str
    """Name of the file of the SentencePiece model."""
    vocab_size: int
    vocabulary: str = ""
    """Name of the file of the table; empty without one."""
    table: Sequence[str] = ()
    """Pieces ordered by id; empty if the ids are the SentencePiece model's."""
    special_ids: Mapping[str, int]
    """Ids that stand for no text, by their names."""
    unk_id: int
    language_ids: Collection[int] = ()
    """Ids that name languages."""
    silent_ids: Collection[int] = ()
    """Ids that a translation may have and that are no text."""


class Processors:
    """SentencePiece models in use, each once, whatever number of files has its content. Threads share it.

    The models of a pair in both directions often have the same vocabulary, of five megabytes in memory.
    """

    def __init__(self) -> None:
        self._in_use = WeakValueDictionary[bytes, SentencePieceProcessor]()
        self._lock = Lock()

    @property
    def count(self) -> int:
        """Number of models in use."""
        return len(self._in_use)

    def open(self, name: str, content: bytes) -> SentencePieceProcessor:
        """Return the model of a file; raise TokenizerError if it is none."""
        digest = sha256(content).digest()
        with self._lock:
            processor = self._in_use.get(digest)
            if processor is None:
                processor = self._in_use[digest] = _processor(name, content)
        return processor


def open_tokenizers(
    source: Side, target: Side, read: Callable[[str], bytes], processors: Processors
) -> tuple[Tokenizer, Tokenizer]:
    """Open the tokenisers of source and target, one if both sides have the same files; each file is read once.

    Raises:
        TokenizerError: A file is no SentencePiece model, or has other pieces than its side says.
    """
    # One may stand for both, with the special tokens of either.
    special_ids = {**source.special_ids, **target.special_ids}
    language_ids = {*source.language_ids, *target.language_ids}
    both, same = (replace(side, special_ids=special_ids, language_ids=language_ids) for side in (source, target))
    sides = [both] if both == same else [source, target]
    opened = {name: processors.open(name, read(name)) for name in dict.fromkeys(side.tokenizer for side in sides)}
    tokenizers = [_open(opened[side.tokenizer], side) for side in sides]
    return tokenizers[0], tokenizers[-1]


def _processor(name: str, content: bytes) -> SentencePieceProcessor:
    if not content:
        # SentencePiece does not recognise it as a model.
        raise TokenizerError([f"{name} is empty"])
    try:
        return SentencePieceProcessor(model_proto=content)
    except (OSError, RuntimeError) as error:
        raise TokenizerError([f"{name} is not a SentencePiece model: {error}"]) from error


def _open(processor: SentencePieceProcessor, side: Side) -> Tokenizer:
    if not side.table:
        if processor.vocab_size() != side.vocab_size:
            fault = f"{side.tokenizer} has {processor.vocab_size()} pieces; the dimensions say {side.vocab_size}"
            raise TokenizerError([fault])
        return Tokenizer(processor)
    faults = [
        f"{side.vocabulary} has the piece {side.table[token_id]!r} where special_ids.{name} is"
        for name, token_id in side.special_ids.items()
        if _is_text(processor, side.table[token_id])
    ]
    if faults:
        raise TokenizerError(faults)
    reserved = {*side.special_ids.values(), *side.language_ids}
    return TableTokenizer(processor, table=side.table, unk_id=side.unk_id, reserved=reserved, silent=side.silent_ids)


def _is_text(processor: SentencePieceProcessor, piece: str) -> bool:
    """Return whether a tokeniser makes this piece from text."""
    own_id = processor.piece_to_id(piece)
    return not (processor.is_unknown(own_id) or processor.is_control(own_id))
