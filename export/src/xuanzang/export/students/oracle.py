"""A student in plain numpy, which graphs are measured with: one sentence at a time, simple because it is an oracle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.export.graphs.precision import FloatArray
from xuanzang.export.operators.products import MARIAN_EPSILON
from xuanzang.export.students.student import EOS_ID, MAX_POSITIONS, Student, shape_of, sinusoids, tables_of

_LARGEST = 127
"""Largest integer of a quantised activation, and of a weight."""
_EXACT_IN_FLOAT32 = 1 << 24


class Source(NamedTuple):
    """Keys and values of a sentence, [heads, token, head], of each decoder layer."""

    keys: list[FloatArray]
    values: list[FloatArray]


class Step(NamedTuple):
    """Results of one decoder step."""

    log_probs: FloatArray
    """Of each piece, [vocab]; those of banned pieces are -inf, and their probability goes to no other."""
    states: list[FloatArray]
    """Of each layer, [model]."""
    attention: FloatArray
    """Weight that the first head of the last layer gives each source token."""


class Oracle:
    """Computes as Marian does: in float32, or with 8-bit products as the file has them."""

    def __init__(self, student: Student, *, integers: bool = False) -> None:
        """Take a student.

        Args:
            integers: Whether matrices are multiplied in integers, their inputs rounded by the file's multipliers.
        """
        self.shape = shape_of(student)
        self._tensors, self._integers = student.tensors, integers
        self._source_table, self._target_table = tables_of(student)
        self._positions = sinusoids(MAX_POSITIONS, self.shape.d_model)
        self._matrices: dict[str, npt.NDArray[np.floating]] = {}

    def encode(self, source_ids: list[int]) -> Source:
        """Encode a sentence, end token included."""
        x = self._embedded(self._source_table, source_ids) + self._positions[: len(source_ids)]
        for layer in range(1, self.shape.num_encoder_layers + 1):
            prefix = f"encoder_l{layer}_self"
            mixed, _ = self._attend(x, self._heads(x, prefix, "k"), self._heads(x, prefix, "v"), prefix)
            x = self._norm(mixed + x, f"{prefix}_Wo")
            x = self._feed_forward(x, f"encoder_l{layer}_ffn")
        layers = [f"decoder_l{layer}_context" for layer in range(1, self.shape.num_decoder_layers + 1)]
        return Source(*([self._heads(x, prefix, part) for prefix in layers] for part in "kv"))

    def start(self) -> list[FloatArray]:
        """Return the states before the first step."""
        return [np.zeros(self.shape.d_model, np.float32)] * self.shape.num_decoder_layers

    def step(self, source: Source, token: int, position: int, states: list[FloatArray]) -> Step:
        """Compute one step; the token of the first, at position 0, is not looked at."""
        x = self._positions[position][None]
        if position:
            x = self._embedded(self._target_table, [token]) + x
        after, weights = [], np.zeros(0, np.float32)
        for layer, (keys, values) in enumerate(zip(*source, strict=True), start=1):
            prefix = f"decoder_l{layer}_rnn"
            forget = 1 / (1 + np.exp(-self._linear(x, f"{prefix}_Wf", f"{prefix}_bf")))
            state = forget * states[layer - 1] + (1 - forget) * self._linear(x, f"{prefix}_W")
            after.append(state[0])
            x = self._norm(np.maximum(state, 0) + x, f"{prefix}_ffn")
            prefix = f"decoder_l{layer}_context"
            mixed, weights = self._attend(x, keys, values, prefix)
            x = self._norm(mixed + x, f"{prefix}_Wo")
            x = self._feed_forward(x, f"decoder_l{layer}_ffn")
        logits = self._linear(x, self._target_table, "decoder_ff_logit_out_b", transposed=True)[0]
        log_probs = logits - logits.max()
        log_probs -= np.log(np.exp(log_probs).sum())
        log_probs[list(self.shape.banned_ids)] = -np.inf
        return Step(log_probs, after, weights[0, 0])

    def translate(self, source_ids: list[int], limit: int) -> list[int]:
        """Return the greedy translation, the end token left out, of at most `limit` tokens."""
        source, states, target_ids = self.encode(source_ids), self.start(), list[int]()
        while len(target_ids) < limit:
            step = self.step(source, target_ids[-1] if target_ids else EOS_ID, len(target_ids), states)
            states, best = step.states, int(step.log_probs.argmax())
            if best == EOS_ID:
                break
            target_ids.append(best)
        return target_ids

    def _embedded(self, table: str, ids: list[int]) -> FloatArray:
        tensor = self._tensors[table]
        factor = np.sqrt(np.float32(self.shape.d_model))
        rows: FloatArray = tensor.array[ids].astype(np.float32)
        return rows * factor if tensor.scale is None else rows * np.float32(1 / tensor.scale) * factor

    def _linear(self, x: FloatArray, weight: str, bias: str = "", *, transposed: bool = False) -> FloatArray:
        tensor = self._tensors[weight]
        if weight not in self._matrices:
            # BLAS multiplies integers as floats, whose sums are exact below 2^53, or 2^24 in single precision.
            largest = _LARGEST**2 * tensor.array.shape[transposed]
            exact = np.float32 if largest < _EXACT_IN_FLOAT32 else np.float64
            values: npt.NDArray[np.floating] = tensor.array.astype(exact) if self._integers else tensor.floats
            self._matrices[weight] = values.T if transposed else values
        matrix, added = self._matrices[weight], self._tensors[bias].floats if bias else np.float32(0)
        if not self._integers:
            return x @ matrix + added
        if tensor.scale is None or tensor.activation_scale is None:
            raise ValueError(f"{weight} has no multipliers of quantisation")
        scale, activation_scale = np.float32(tensor.scale), np.float32(tensor.activation_scale)
        rounded = np.clip(np.rint(x * activation_scale), -_LARGEST, _LARGEST)
        product: FloatArray = (rounded.astype(matrix.dtype) @ matrix).astype(np.float32)
        return product * (1 / (activation_scale * scale)) + added

    def _heads(self, x: FloatArray, prefix: str, part: str) -> FloatArray:
        projected = self._linear(x, f"{prefix}_W{part}", f"{prefix}_b{part}")
        return projected.reshape(len(x), self.shape.num_heads, -1).transpose(1, 0, 2)

    def _attend(
        self, x: FloatArray, keys: FloatArray, values: FloatArray, prefix: str
    ) -> tuple[FloatArray, FloatArray]:
        scores = self._heads(x, prefix, "q") @ keys.transpose(0, 2, 1) / np.sqrt(np.float32(self.shape.d_head))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = (weights @ values).transpose(1, 0, 2).reshape(x.shape)
        return self._linear(mixed, f"{prefix}_Wo", f"{prefix}_bo"), weights

    def _feed_forward(self, x: FloatArray, prefix: str) -> FloatArray:
        inner = np.maximum(self._linear(x, f"{prefix}_W1", f"{prefix}_b1"), 0)
        return self._norm(self._linear(inner, f"{prefix}_W2", f"{prefix}_b2") + x, f"{prefix}_ffn")

    def _norm(self, x: FloatArray, prefix: str) -> FloatArray:
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(MARIAN_EPSILON))
        scale, shift = (self._tensors[f"{prefix}_ln_{name}"].floats for name in ("scale", "bias"))
        return scale * (centred / deviation) + shift
