"""Students of Firefox Translations as arrays, with random weights that are lively enough for varied output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import sentencepiece
from typing_extensions import override

from xuanzang.export.graphs.precision import FloatArray
from xuanzang.export.students.oracle import Oracle
from xuanzang.hub.marian import Network, Origin, Student
from xuanzang.hub.marian_items import Shortlist, Tensor

_MATRICES = ("Wemb", "_W", "_Wf", "_Wq", "_Wk", "_Wv", "_Wo", "_W1", "_W2")


def float_student(
    source: bytes,
    target: bytes,
    *,
    one_table: bool = True,
    shape: Sequence[int] = (64, 128, 4, 2, 2),
    gain: float = 2.0,
    seed: int = 1,
) -> Student:
    """Draw a student with weights in single precision.

    Args:
        shape: Width, inner width, heads, encoder layers and decoder layers.
        gain: Factor by which a matrix makes random states larger. With 2 a translation is varied; one integer that is
            rounded otherwise changes it.
    """
    sizes = [sentencepiece.SentencePieceProcessor(model_proto=each).vocab_size() for each in (source, target)]
    width, inner, heads, encoder_layers, decoder_layers = shape
    config = {
        "type": "transformer",
        "dec-cell": "ssru",
        "transformer-decoder-autoreg": "rnn",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-ffn-activation": "relu",
        "transformer-ffn-depth": 2,
        "dim-emb": width,
        "transformer-dim-ffn": inner,
        "transformer-heads": heads,
        "enc-depth": encoder_layers,
        "dec-depth": decoder_layers,
        "dim-vocabs": sizes,
        "tied-embeddings-all": one_table,
        "tied-embeddings": not one_table,
    }
    network, random = Network.model_validate(config), np.random.default_rng(seed)
    shapes = network.tables() | network.matrices() | network.vectors()
    return Student(
        config=config,
        network=network,
        tensors={name: Tensor(array=_drawn(random, name, size, gain)) for name, size in shapes.items()},
        source_vocabulary=source,
        target_vocabulary=target,
        shortlist=_shortlist(random, *sizes) if source == target else None,
        digests={"model.bin": "0" * 64},
        origin=Origin(name="firefox:zh-en", licence="MPL-2.0"),
    )


def _drawn(random: np.random.Generator, name: str, shape: tuple[int, int], gain: float) -> FloatArray:
    drawn = random.standard_normal(shape)
    if name.endswith("_ln_scale"):
        return (1 + 0.1 * drawn).astype(np.float32)
    if name == "decoder_ff_logit_out_b":
        # Ends come often enough that searches finish on their own.
        drawn[0, 0] += 5
        return (0.5 * drawn).astype(np.float32)
    if not name.endswith(_MATRICES):
        return (0.1 * drawn).astype(np.float32)
    if name.endswith("_W2"):
        drawn -= drawn.mean(axis=0)  # else the mean of what ReLU lets through makes all states alike
    fan_in = shape[1] if name.endswith("Wemb") else shape[0]
    weights: FloatArray = (gain * drawn / np.sqrt(fan_in)).astype(np.float32)
    return weights


def _shortlist(random: np.random.Generator, source_size: int, target_size: int) -> Shortlist:
    lists = [random.choice(target_size, random.integers(1, 20), replace=False) for _ in range(source_size)]
    offsets = np.cumsum([0, *map(len, lists)])
    return Shortlist(first=50, offsets=offsets, entries=np.concatenate(lists).astype(np.int32))


class _Watching(Oracle):
    """Keeps the largest input of each matrix at each of its uses."""

    def __init__(self, student: Student) -> None:
        super().__init__(student)
        self.largest: dict[str, list[float]] = {}

    @override
    def _linear(self, x: FloatArray, weight: str, bias: str = "", *, transposed: bool = False) -> FloatArray:
        self.largest.setdefault(weight, []).append(float(np.abs(x).max()))
        return super()._linear(x, weight, bias, transposed=transposed)


def quantized(student: Student, sentences: Iterable[list[int]]) -> Student:
    """Return a student with integers for matrices, and with multipliers that some sentences suggest, as Mozilla's."""
    watching = _Watching(student)
    for ids in sentences:
        watching.translate(ids, 2 * len(ids))
    tensors = dict(student.tensors)
    for name, tensor in student.tensors.items():
        if name.endswith(_MATRICES):
            largest = watching.largest.get(name)
            scale = 127 / np.abs(tensor.array).max()
            alpha = 127 / (np.mean(largest) + 1.1 * np.std(largest)) if largest else None
            integers = np.rint(tensor.array * scale).astype(np.int8)
            tensors[name] = Tensor(
                array=integers, scale=float(scale), activation_scale=None if alpha is None else float(alpha)
            )
    return replace(student, tensors=tensors)
