"""A student as the builder takes it, and what its graphs need to know of it.

The network is Marian's: the Transformer's encoder, and a decoder whose self-attention is replaced by a simpler simple
recurrent unit (SSRU; Kim et al. 2019, "From Research to Production and Back", ACL Anthology D19-5632).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from sentencepiece import SentencePieceProcessor

from xuanzang.export.graphs.precision import FloatArray

StoredArray = npt.NDArray[np.float32] | npt.NDArray[np.int8]
EOS_ID, UNK_ID = 0, 1
MAX_POSITIONS = 512
"""Tokens of a sentence, on either side; Firefox cuts sentences at 127."""
_CONTROL_PIECES = (
    *("__source__", "__target__", "__done__", "__start__", "__end__", "__sep__"),
    *(f"__misc{number}__" for number in range(10)),
)
"""Pieces of the vocabulary that mark terms in training data; they are no text."""


class StudentError(Exception):
    """The student cannot become a bundle."""


class Tensor(Protocol):
    """Parameter of a student."""

    @property
    def array(self) -> StoredArray:
        """[in, out]; a bias or norm [1, out]; an embedding [vocab, model]."""

    @property
    def scale(self) -> float | None:
        """Multiplier of quantisation: int8 values stand for array / scale; None for float32."""

    @property
    def activation_scale(self) -> float | None:
        """Multiplier of quantisation of the input; None if there is none."""

    @property
    def floats(self) -> FloatArray:
        """The values in single precision."""


class Network(Protocol):
    """Sizes of a student."""

    @property
    def dim_emb(self) -> int:
        """Width."""

    @property
    def transformer_dim_ffn(self) -> int:
        """Inner width of the feed-forward networks."""

    @property
    def transformer_heads(self) -> int:
        """Attention heads."""

    @property
    def enc_depth(self) -> int:
        """Encoder layers."""

    @property
    def dec_depth(self) -> int:
        """Decoder layers."""

    @property
    def dim_vocabs(self) -> Sequence[int]:
        """Source and target pieces."""

    @property
    def tied_embeddings_all(self) -> bool:
        """True if one table embeds both sides."""


class SuggestedPieces(Protocol):
    """Target pieces by source piece."""

    @property
    def first(self) -> int:
        """Target pieces below this id may always be chosen."""

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Start of each source piece's entries, [source vocab + 1]."""

    @property
    def entries(self) -> npt.NDArray[np.int32]:
        """Target pieces."""


class Origin(Protocol):
    """Origin of a student."""

    @property
    def name(self) -> str:
        """Requested name."""

    @property
    def revision(self) -> str:
        """Version where it was published; may be empty."""

    @property
    def licence(self) -> str:
        """Licence; may be empty."""


class Student(Protocol):
    """A student, read and checked: every tensor of its network is there, in its shape, and no other."""

    @property
    def network(self) -> Network:
        """Sizes."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Parameters by Marian's names."""

    @property
    def source_vocabulary(self) -> bytes:
        """Model of SentencePiece."""

    @property
    def target_vocabulary(self) -> bytes:
        """The same bytes if both sides share it."""

    @property
    def shares_vocabulary(self) -> bool:
        """True if both sides have the same vocabulary."""

    @property
    def shortlist(self) -> SuggestedPieces | None:
        """Shortlist, if there is one."""

    @property
    def digests(self) -> Mapping[str, str]:
        """SHA-256 of each file that was read, by its name."""

    @property
    def origin(self) -> Origin:
        """Its origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes and pieces of a student, under the names that graphs and manifests have for them."""

    d_model: int
    num_heads: int
    d_ff: int
    num_encoder_layers: int
    num_decoder_layers: int
    source_vocab_size: int
    target_vocab_size: int
    banned_ids: tuple[int, ...]
    pad_id: int = UNK_ID

    @property
    def d_head(self) -> int:
        """Width of a head."""
        return self.d_model // self.num_heads


def shape_of(student: Student) -> Shape:
    """Return the shape of a student."""
    network = student.network
    source, target = network.dim_vocabs
    pieces = SentencePieceProcessor(model_proto=student.target_vocabulary)
    controls = {pieces.piece_to_id(piece) for piece in _CONTROL_PIECES}
    return Shape(
        d_model=network.dim_emb,
        num_heads=network.transformer_heads,
        d_ff=network.transformer_dim_ffn,
        num_encoder_layers=network.enc_depth,
        num_decoder_layers=network.dec_depth,
        source_vocab_size=source,
        target_vocab_size=target,
        banned_ids=tuple(sorted({UNK_ID, *controls})),
    )


def tables_of(student: Student) -> tuple[str, str]:
    """Return the names of the embeddings of source and target, which may be one; the target's is the output layer."""
    return ("Wemb", "Wemb") if student.network.tied_embeddings_all else ("encoder_Wemb", "decoder_Wemb")


def is_quantized(student: Student) -> bool:
    """Return whether every matrix is stored in integers, with a scale for its input."""
    source, _ = tables_of(student)
    matrices = [tensor for name, tensor in student.tensors.items() if tensor.array.shape[0] > 1 and name != source]
    return all(tensor.scale and tensor.activation_scale for tensor in matrices)


def sinusoids(count: int, d_model: int) -> FloatArray:
    """Return Marian's encoding of positions, [count, model]: sines, then cosines."""
    half = d_model // 2
    rates = np.exp(np.arange(half, dtype=np.float32) * np.float32(-np.log(10000.0) / (half - 1)))
    angles = np.arange(count, dtype=np.float32)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentShortlist:
    """Target pieces that sentences may be translated with."""

    suggested: npt.NDArray[np.int32]
    """Target pieces of each source piece, filled up with eos, [source piece, suggestion]."""
    always: npt.NDArray[np.int32]
    """Target pieces that every sentence may use, ascending."""


def shortlist_of(student: Student) -> StudentShortlist | None:
    """Return the shortlist of a student whose sides share their vocabulary: others lose quality by it.

    A source piece suggests its entries, and itself. Marian adds frequent pieces until their number is a multiple of 8;
    here it is a multiple of 64, filled up with no piece.
    """
    pieces = student.shortlist
    if pieces is None or student.source_vocabulary != student.target_vocabulary:
        return None
    counts = np.diff(pieces.offsets)
    suggested = np.full((len(counts), int(counts.max(initial=0)) + 1), EOS_ID, np.int32)
    suggested[:, 0] = np.arange(len(counts))
    columns = np.arange(len(pieces.entries)) - np.repeat(pieces.offsets[:-1], counts) + 1
    suggested[np.repeat(np.arange(len(counts)), counts), columns] = pieces.entries
    always = np.arange(max(pieces.first, EOS_ID + 1), dtype=np.int32)
    return StudentShortlist(suggested=suggested, always=always)
