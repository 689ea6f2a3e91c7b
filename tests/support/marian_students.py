"""Students of Firefox Translations with random weights, in the files that Mozilla would publish."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sentencepiece
import yaml
from numpy.typing import NDArray

from xuanzang.hub.marian import Network

INT8, FLOAT32, INTGEMM8 = 0x0101, 0x0404, 0x4101
SHORTLIST_MAGIC = 0xF11A48D5013417F5

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentForm:
    """Sizes and vocabularies of a student."""

    d_model: int = 64
    d_ff: int = 128
    heads: int = 4
    encoder_layers: int = 2
    decoder_layers: int = 2
    vocabulary: int = 300
    target_vocabulary: int = 0
    """0: as many pieces as the source's."""
    is_int8: bool = True
    has_own_vocabularies: bool = False
    """True: a vocabulary for each side, and a table for each."""
    has_one_table: bool = False
    """True: one table even so."""

    @property
    def tables(self) -> list[str]:
        """Names of the embeddings."""
        two = self.has_own_vocabularies and not self.has_one_table
        return ["encoder_Wemb", "decoder_Wemb"] if two else ["Wemb"]

    @property
    def config(self) -> dict[str, object]:
        """Options of the network, as Marian writes them."""
        one = len(self.tables) == 1
        return {
            "type": "transformer",
            "dec-cell": "ssru",
            "dec-depth": self.decoder_layers,
            "dim-emb": self.d_model,
            "dim-vocabs": [self.vocabulary, self.target_vocabulary or self.vocabulary],
            "enc-depth": self.encoder_layers,
            "layer-normalization": False,
            "right-left": False,
            "tied-embeddings": not one,
            "tied-embeddings-all": one,
            "transformer-decoder-autoreg": "rnn",
            "transformer-dim-ffn": self.d_ff,
            "transformer-ffn-activation": "relu",
            "transformer-ffn-depth": 2,
            "transformer-heads": self.heads,
            "transformer-postprocess": "dan",
            "transformer-postprocess-emb": "d",
            "transformer-postprocess-top": "",
            "transformer-preprocess": "",
            "transformer-tied-layers": [],
            "version": "synthetic",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Item of a model's file; `size` is that of its data as the header says it."""

    name: str
    kind: int
    shape: tuple[int, ...]
    data: bytes
    size: int


def parameters(
    form: StudentForm, random: np.random.Generator | None = None, *, gain: float = 2.0
) -> dict[str, FloatArray]:
    """Draw the parameters of a student.

    Args:
        gain: Factor by which a matrix makes random states larger. With 2 a translation is varied; one integer that is
            rounded otherwise changes it.
    """
    random, network = random or np.random.default_rng(1), Network.model_validate(form.config)
    shapes = network.tables() | network.matrices() | network.vectors()
    return {name: _drawn(random, name, size, gain) for name, size in shapes.items()}


def _drawn(random: np.random.Generator, name: str, shape: tuple[int, int], gain: float) -> FloatArray:
    drawn = random.standard_normal(shape)
    if name.endswith("_ln_scale"):
        return (1 + 0.1 * drawn).astype(np.float32)
    if name == "decoder_ff_logit_out_b":
        # Ends come often enough that searches finish on their own.
        drawn[0, 0] += 5
        return (0.5 * drawn).astype(np.float32)
    if not is_matrix(name):
        return (0.1 * drawn).astype(np.float32)
    if name.endswith("_W2"):
        drawn -= drawn.mean(axis=0)  # else the mean of what ReLU lets through makes all states alike
    fan_in = shape[1] if name.endswith("Wemb") else shape[0]
    weights: FloatArray = (gain * drawn / np.sqrt(fan_in)).astype(np.float32)
    return weights


def is_matrix(name: str) -> bool:
    """Return whether a parameter is a matrix, which Mozilla quantises."""
    return name.endswith("Wemb") or name.rpartition("_")[2] in {"W", "Wf", "Wq", "Wk", "Wv", "Wo", "W1", "W2"}


def model_items(form: StudentForm, values: Mapping[str, FloatArray]) -> list[Item]:
    """Return the items of a model, each matrix in int8 with its multipliers if the form says so."""
    items = []
    for name, value in sorted(values.items()):
        if not (form.is_int8 and is_matrix(name)):
            items.append(_padded(name, FLOAT32, value.shape, value.astype("<f4").tobytes()))
            continue
        items.append(_integers(name, value, transposed="Wemb" not in name))
        if name != "encoder_Wemb":
            alpha, of_alpha = np.array([[20.0]], np.float32), f"{name}_QuantMultA"
            is_int8 = "Wemb" in name
            as_float = _padded(of_alpha, FLOAT32, (1, 1), alpha.tobytes())
            items.append(_integers(of_alpha, alpha, transposed=False) if is_int8 else as_float)
    text = yaml.safe_dump(form.config).encode() + b"\0"
    return [*items, Item(name="special:model.yml", kind=INT8, shape=(len(text),), data=text, size=len(text))]


def _integers(name: str, value: FloatArray, *, transposed: bool) -> Item:
    multiplier = np.float32(127) / np.abs(value).max()
    integers = np.rint(value * multiplier).astype(np.int8)
    stored = integers.T if transposed else integers
    return _padded(name, INTGEMM8, value.shape, stored.tobytes() + struct.pack("<f", multiplier))


def _padded(name: str, kind: int, shape: tuple[int, ...], data: bytes) -> Item:
    data += bytes(-len(data) % 256)
    return Item(name=name, kind=kind, shape=shape, data=data, size=len(data))


def model_bytes(items: Iterable[Item]) -> bytes:
    """Return the file of a model."""
    items = list(items)
    head = struct.pack("<QQ", 1, len(items))
    head += b"".join(struct.pack("<4Q", len(i.name) + 1, i.kind, len(i.shape), i.size) for i in items)
    head += b"".join(i.name.encode() + b"\0" for i in items)
    head += b"".join(struct.pack(f"<{len(i.shape)}i", *i.shape) for i in items)
    gap = 256 - (len(head) + 8) % 256
    return head + struct.pack("<Q", gap) + bytes(gap) + b"".join(i.data for i in items)


def shortlist_bytes(source_size: int, target_size: int, seed: int = 1, first: int = 50) -> bytes:
    """Return a shortlist of two to five target pieces for each source piece."""
    random = np.random.default_rng(seed)
    lists = [random.choice(target_size, random.integers(2, 6), replace=False) for _ in range(source_size)]
    offsets = np.cumsum([0, *map(len, lists)])
    numbers = (SHORTLIST_MAGIC, 0, first, 5, len(offsets), offsets[-1])
    return (
        struct.pack("<6Q", *numbers) + offsets.astype("<u8").tobytes() + np.concatenate(lists).astype("<u4").tobytes()
    )


def vocabulary_bytes(texts: Iterable[str], size: int, *, exact: bool = True) -> bytes:
    """Return a model of SentencePiece with Mozilla's special pieces; it may be smaller unless the size is `exact`."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=exact,
        byte_fallback=True,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        minloglevel=2,
    )
    return model.getvalue()


def write_student(folder: Path, form: StudentForm, texts: Iterable[str], seed: int = 1) -> dict[str, FloatArray]:
    """Write the files of a student, and return the parameters as they were drawn."""
    folder.mkdir(parents=True)
    lines = list(texts)
    values = parameters(form, np.random.default_rng(seed))
    (folder / "model.bin").write_bytes(model_bytes(model_items(form, values)))
    if form.has_own_vocabularies:
        (folder / "srcvocab.spm").write_bytes(vocabulary_bytes(lines[0::2], form.vocabulary))
        (folder / "trgvocab.spm").write_bytes(vocabulary_bytes(lines[1::2], form.vocabulary))
    else:
        (folder / "vocab.spm").write_bytes(vocabulary_bytes(lines, form.vocabulary))
    (folder / "lex.bin").write_bytes(shortlist_bytes(form.vocabulary, form.vocabulary))
    return values


def english_texts(count: int = 400) -> list[str]:
    """Return sentences that a vocabulary can be learnt from."""
    random = np.random.default_rng(7)
    nouns = ["cat", "dog", "horse", "house", "river", "teacher", "window", "garden", "letter", "market", "winter"]
    verbs = ["sees", "likes", "follows", "remembers", "paints", "finds", "carries", "forgets"]
    ends = ["today", "in the north", "near the old bridge", "with great care", "before noon", "for 25 days"]
    return [
        f"The {random.choice(nouns)} {random.choice(verbs)} a {random.choice(nouns)} {random.choice(ends)}."
        for _ in range(count)
    ]
