"""Students of Firefox Translations as arrays, with random weights that are lively enough for varied output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import sentencepiece
from marian_students import StudentForm, is_matrix, parameters
from typing_extensions import override

from xuanzang.export.graphs.precision import FloatArray
from xuanzang.export.students.oracle import Oracle
from xuanzang.hub.marian import Network, Origin, Student
from xuanzang.hub.marian_items import Shortlist, Tensor


def float_student(source: bytes, target: bytes, *, one_table: bool = True, gain: float = 2.0) -> Student:
    """Draw a student with weights in single precision, as `parameters` does, for two vocabularies."""
    sizes = [sentencepiece.SentencePieceProcessor(model_proto=each).vocab_size() for each in (source, target)]
    form = StudentForm(vocabulary=sizes[0], target_vocabulary=sizes[1], has_own_vocabularies=not one_table)
    random = np.random.default_rng(1)
    return Student(
        config=form.config,
        network=Network.model_validate(form.config),
        tensors={name: Tensor(array=value) for name, value in parameters(form, random, gain=gain).items()},
        source_vocabulary=source,
        target_vocabulary=target,
        shortlist=_shortlist(random, *sizes) if source == target else None,
        digests={"model.bin": "0" * 64},
        origin=Origin(name="firefox:zh-en", licence="MPL-2.0"),
    )


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
        if is_matrix(name):
            largest = watching.largest.get(name)
            scale = 127 / np.abs(tensor.array).max()
            alpha = 127 / (np.mean(largest) + 1.1 * np.std(largest)) if largest else None
            integers = np.rint(tensor.array * scale).astype(np.int8)
            tensors[name] = Tensor(
                array=integers, scale=float(scale), activation_scale=None if alpha is None else float(alpha)
            )
    return replace(student, tensors=tensors)
