"""The Transformer over numpy arrays, without torch: what graphs are built from and compared with.

It computes what xuanzang.model.network.transformer does in evaluation mode, and has its names of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.model.network.config import Activation, TransformerConfig
from xuanzang.model.network.positions import FloatArray, fixed_positions

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
KeyValues = tuple[FloatArray, FloatArray]
Observe = Callable[[str, FloatArray], None]
"""Called with the name of a linear layer and its input, [..., in]."""
NORM_EPSILON = 1e-5
_PROJECTIONS = ("query", "key", "value", "output")
# Coefficients of erf in Abramowitz and Stegun, Handbook of Mathematical Functions, formula 7.1.26: errors to 1.5e-7.
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ERF_RATE = 0.3275911


def parameter_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parameters by name; tables that are shared or tied have one name."""
    width, shapes = config.d_model, dict[str, tuple[int, ...]]()
    shapes["source_embedding.weight"] = (config.source_vocab_size, width)
    if not config.share_embeddings:
        shapes["target_embedding.weight"] = (config.target_vocab_size, width)
    norms = [f"{side}_embedding_norm" for side in ("source", "target") if config.embedding_norm]
    norms += [f"{side}_norm" for side in ("encoder", "decoder") if config.norm == "pre"]
    for name in norms:
        shapes |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
    if config.positions == "learned":
        shapes |= dict.fromkeys(("source_positions.table", "target_positions.table"), (config.max_positions, width))
    for layer in layer_names(config, "encoder") + layer_names(config, "decoder"):
        shapes |= dict(_layer_shapes(layer, config))
    if not config.tie_output:
        shapes["output_projection.weight"] = (config.target_vocab_size, width)
    if config.output_bias:
        shapes["output_projection.bias"] = (config.target_vocab_size,)
    return shapes


def layer_names(config: TransformerConfig, side: str) -> list[str]:
    """Return the names of the blocks of the "encoder" or the "decoder"."""
    count = config.num_encoder_layers if side == "encoder" else config.num_decoder_layers
    return [f"{side}_layers.{index}" for index in range(count)]


def _layer_shapes(layer: str, config: TransformerConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, inner = config.d_model, config.d_ff
    attentions = ("self_attention", "cross_attention") if layer.startswith("decoder") else ("self_attention",)
    linears = {f"{name}.{part}_projection": (width, width) for name in attentions for part in _PROJECTIONS}
    linears |= {"feed_forward.inner": (inner, width), "feed_forward.outer": (width, inner)}
    for name, shape in linears.items():
        yield f"{layer}.{name}.weight", shape
        yield f"{layer}.{name}.bias", shape[:1]
    for name in (*attentions, "feed_forward"):
        yield f"{layer}.{name}_residual.norm.weight", (width,)
        yield f"{layer}.{name}_residual.norm.bias", (width,)


class Cache(NamedTuple):
    """State of the decoder between two steps, of the same sentences."""

    past: list[KeyValues]
    """By layer: keys and values of the tokens so far, [batch, beam, heads, past, head]."""
    cross: list[KeyValues]
    """By layer: keys and values of the encoder memory, [batch, heads, source, head]."""
    source_mask: Mask
    """[batch, source]; True = real token."""

    @property
    def length(self) -> int:
        """Tokens decoded so far, which is the position of the next one."""
        return self.past[0][0].shape[3]

    def select(self, parents: Ids) -> Cache:
        """Return the cache of other hypotheses.

        Args:
            parents: Beam position that each hypothesis had before, [batch, beam].
        """
        sentence = np.arange(len(parents))[:, None]
        past = [(keys[sentence, parents], values[sentence, parents]) for keys, values in self.past]
        return self._replace(past=past)


class ArrayNetwork:
    """A Transformer in single precision."""

    def __init__(self, config: TransformerConfig, parameters: Mapping[str, FloatArray]) -> None:
        """Take the parameters of a model.

        Args:
            parameters: Arrays by name, with exactly the names and shapes of `parameter_shapes`.
        """
        self.config = config
        self._parameters = parameters
        self._fixed = None if config.positions == "learned" else fixed_positions(config)
        self._observe: Observe | None = None

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(array.size for array in self._parameters.values())

    def array(self, name: str) -> FloatArray:
        """Return a parameter, or a table that is shared, tied or fixed, under its own name."""
        if name == "output_projection.weight" and self.config.tie_output:
            name = "target_embedding.weight"
        if name == "target_embedding.weight" and self.config.share_embeddings:
            name = "source_embedding.weight"
        if name.endswith("_positions.table") and self._fixed is not None:
            return self._fixed
        return self._parameters[name]

    def bias(self, name: str) -> FloatArray | None:
        """Return the bias of a linear layer, None if it has none."""
        return self._parameters.get(f"{name}.bias")

    def has_norm(self, name: str) -> bool:
        """Return whether the model has a layer normalisation of that name."""
        return f"{name}.weight" in self._parameters

    def observed_states(self, source_ids: Ids, source_mask: Mask, target_ids: Ids, observe: Observe) -> FloatArray:
        """Return the input of the output projection, [batch, target, model], for given targets.

        Args:
            source_ids: [batch, source].
            source_mask: [batch, source]; True = real token.
            target_ids: Decoder input, bos first, [batch, target].
            observe: Called for each linear layer but the output projection.
        """
        self._observe = observe
        try:
            memory, causal = self.encode(source_ids, source_mask), np.tri(target_ids.shape[1], dtype=bool)
            x = self._embed(target_ids, "target", slice(target_ids.shape[1]))
            for layer in layer_names(self.config, "decoder"):
                x = self._attend_to_itself(x, f"{layer}.self_attention", causal)
                cross = self._key_values(memory, f"{layer}.cross_attention")
                x = self._feed_forward(self._attend_to_source(x, layer, cross, source_mask), layer)
            return self._norm(x, "decoder_norm")
        finally:
            self._observe = None

    def encode(self, source_ids: Ids, source_mask: Mask) -> FloatArray:
        """Return the encoder memory, [batch, source, model], of ids [batch, source]; in the mask True = real token."""
        x = self._embed(source_ids, "source", slice(source_ids.shape[1]))
        for layer in layer_names(self.config, "encoder"):
            x = self._attend_to_itself(x, f"{layer}.self_attention", source_mask[:, None, None, :])
            x = self._feed_forward(x, layer)
        return self._norm(x, "encoder_norm")

    def start(self, source_ids: Ids, source_mask: Mask, beam_size: int) -> Cache:
        """Encode sentences and return the cache before the first step.

        Args:
            source_ids: [batch, source].
            source_mask: [batch, source]; True = real token.
            beam_size: Hypotheses of each sentence.
        """
        memory = self.encode(source_ids, source_mask)
        cross = [self._key_values(memory, f"{layer}.cross_attention") for layer in layer_names(self.config, "decoder")]
        empty = np.zeros((len(source_ids), beam_size, self.config.num_heads, 0, self.config.d_head), np.float32)
        return Cache([(empty, empty)] * len(cross), cross, source_mask)

    def step(self, token_ids: Ids, cache: Cache) -> tuple[FloatArray, Cache]:
        """Decode one more position.

        Args:
            token_ids: Last token of each hypothesis, bos at first, [batch, beam].
            cache: Result of `start` or of the last step.

        Returns:
            Log-probabilities of the next token, nats, [batch, beam, vocab], and the cache with this position.
        """
        x, past = self._embed(token_ids, "target", cache.length), list[KeyValues]()
        for layer, before, cross in zip(layer_names(self.config, "decoder"), cache.past, cache.cross, strict=True):
            name = f"{layer}.self_attention"
            h = self._before(x, name)[:, :, None]  # [batch, beam, 1, model]
            keys, values = self._key_values(h, name)
            past.append((np.concatenate([before[0], keys], 3), np.concatenate([before[1], values], 3)))
            x = self._after(x, self._attend(h, *past[-1], None, name)[:, :, 0], name)
            x = self._feed_forward(self._attend_to_source(x, layer, cross, cache.source_mask), layer)
        logits = self._linear(self._norm(x, "decoder_norm"), "output_projection")
        logits -= logits.max(axis=-1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return logits, cache._replace(past=past)

    def _embed(self, ids: Ids, side: str, positions: int | slice) -> FloatArray:
        """Return embeddings of ids [batch, token], which all have one position or those of a slice."""
        rows = self.array(f"{side}_embedding.weight")[ids] * np.float32(self.config.embedding_scale)
        return self._norm(rows + self.array(f"{side}_positions.table")[positions], f"{side}_embedding_norm")

    def _attend_to_itself(self, x: FloatArray, name: str, mask: Mask) -> FloatArray:
        h = self._before(x, name)
        return self._after(x, self._attend(h, *self._key_values(h, name), mask, name), name)

    def _attend_to_source(self, x: FloatArray, layer: str, cross: KeyValues, source_mask: Mask) -> FloatArray:
        name = f"{layer}.cross_attention"
        h = self._before(x, name)
        return self._after(x, self._attend(h, *cross, source_mask[:, None, None, :], name), name)

    def _attend(self, h: FloatArray, keys: FloatArray, values: FloatArray, mask: Mask | None, name: str) -> FloatArray:
        """Return the projected average of the values; equation 1, section 3.2.2.

        Args:
            h: [..., query, model].
            keys: [..., heads, source, head].
            values: [..., heads, source, head].
            mask: Broadcastable to [..., heads, query, source]; True = visible. None shows all.
        """
        queries = self._split_heads(self._linear(h, f"{name}.query_projection"))
        scores = queries @ keys.swapaxes(-2, -1) * np.float32(self.config.d_head**-0.5)
        if mask is not None:
            scores = np.where(mask, scores, np.finfo(np.float32).min)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return self._linear((weights @ values).swapaxes(-3, -2).reshape(h.shape), f"{name}.output_projection")

    def _key_values(self, h: FloatArray, name: str) -> KeyValues:
        keys, values = (self._linear(h, f"{name}.{part}_projection") for part in ("key", "value"))
        return self._split_heads(keys), self._split_heads(values)

    def _split_heads(self, projected: FloatArray) -> FloatArray:
        """Return [..., heads, length, head] of [..., length, model]."""
        heads = projected.reshape(*projected.shape[:-1], self.config.num_heads, self.config.d_head)
        return heads.swapaxes(-3, -2)

    def _feed_forward(self, x: FloatArray, layer: str) -> FloatArray:
        name = f"{layer}.feed_forward"
        inner = self._linear(self._before(x, name), f"{name}.inner")
        return self._after(x, self._linear(_ACTIVATIONS[self.config.activation](inner), f"{name}.outer"), name)

    def _before(self, x: FloatArray, name: str) -> FloatArray:
        """Return the input of a sublayer."""
        return self._norm(x, f"{name}_residual.norm") if self.config.norm == "pre" else x

    def _after(self, x: FloatArray, output: FloatArray, name: str) -> FloatArray:
        """Return the sum of a sublayer's input and output, normalised if that is done after the sum."""
        return x + output if self.config.norm == "pre" else self._norm(x + output, f"{name}_residual.norm")

    def _linear(self, x: FloatArray, name: str) -> FloatArray:
        if self._observe:
            self._observe(name, x)
        product: FloatArray = x @ self.array(f"{name}.weight").T
        bias = self.bias(name)
        return product if bias is None else product + bias

    def _norm(self, x: FloatArray, name: str) -> FloatArray:
        """Return a layer normalisation, or the input where the model has none of that name."""
        if not self.has_norm(name):
            return x
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + np.float32(NORM_EPSILON))
        return centred / deviation * self.array(f"{name}.weight") + self.array(f"{name}.bias")


def pad(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Ids, Mask]:
    """Stack rows of ids.

    Args:
        pad_id: Id that fills them up to the longest; may also be the id of a piece.

    Returns:
        Ids and mask, [row, length] each; True = real token.
    """
    lengths = np.array([len(row) for row in rows])
    padded = np.full((len(rows), lengths.max()), pad_id, dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded, np.arange(lengths.max()) < lengths[:, None]


def _relu(x: FloatArray) -> FloatArray:
    return np.maximum(x, 0)


def _swish(x: FloatArray) -> FloatArray:
    return x / (1 + np.exp(-x))


def _gelu(x: FloatArray) -> FloatArray:
    """Return x · Φ(x)."""
    size = np.abs(x) * np.float32(0.5**0.5)
    t: FloatArray = np.reciprocal(1 + np.float32(_ERF_RATE) * size)
    series: FloatArray = np.zeros_like(x)
    for coefficient in _ERF:
        series = (series + np.float32(coefficient)) * t
    erf = np.copysign(1 - series * np.exp(-size * size), x)
    return x * (1 + erf) / 2


_ACTIVATIONS: dict[Activation, Callable[[FloatArray], FloatArray]] = {"relu": _relu, "swish": _swish, "gelu": _gelu}
