"""An explanation made of a recorded search and of what the model shows along the translation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from xuanzang.server.engine.arrays import Floats
from xuanzang.server.engine.decoding.hypotheses import TargetHypothesis
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.explanation.forced_decoding import (
    AttentionGraphs,
    ForcedDecoding,
    ForcedStates,
    encoder_states,
)
from xuanzang.server.engine.explanation.recording import RecordedSearch, SearchTree, path_of
from xuanzang.server.engine.explanation.types import (
    Alternative,
    Attention,
    AttentionChoice,
    AttentionKind,
    Explanation,
    SourceToken,
    TargetToken,
    TreeStep,
)
from xuanzang.server.engine.text.codec import TextCodec


def head_weights(queries: Floats, keys: Floats, *, causal: bool = False) -> Floats:
    """Compute the weights of every head.

    Args:
        queries: Rows that attend, [row, heads, head].
        keys: Columns that are attended to, [column, heads, head].
        causal: Whether a row attends to no column after its own.

    Returns:
        Weights, [heads, row, column]; each row sums to 1.

    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 1.
    """
    products = np.einsum("qhd,khd->hqk", queries.astype(np.float32), keys.astype(np.float32))
    logits = products / np.sqrt(np.float32(queries.shape[-1]))
    if causal:
        logits = np.where(np.tri(*logits.shape[1:]).astype(bool), logits, np.float32(-np.inf))
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def chosen_weights(kind: AttentionKind, layers: Sequence[Floats], choice: AttentionChoice) -> Iterator[Attention]:
    """Yield the wanted weights of one kind, by layer: the mean of the heads, then each head.

    Args:
        kind: Kind of the weights.
        layers: Weights of every layer, [heads, row, column].
        choice: Requested layers and heads.
    """
    for layer, weights in enumerate(layers):
        if choice.layers and layer not in choice.layers:
            continue
        yield Attention(kind=kind, layer=layer, head=None, weights=weights.mean(axis=0))
        if choice.heads:
            for head, of_head in enumerate(weights):
                yield Attention(kind=kind, layer=layer, head=head, weights=of_head)


class Account:
    """Makes the explanation of one search, in a thread of its own."""

    def __init__(self, search: RecordedSearch, codec: TextCodec, graphs: AttentionGraphs, *, max_tokens: int) -> None:
        """Take what is known of the search.

        Args:
            search: Search with at least one hypothesis.
            codec: Codec between the languages.
            graphs: Graphs of the model.
            max_tokens: Maximum target tokens to explain.
        """
        self._search, self._codec, self._graphs = search, codec, graphs
        self._eos_id = graphs.sessions.special_ids.eos_id
        self._tokens = _tokens(search.found[0], self._eos_id)[:max_tokens]

    def make(self, choice: AttentionChoice, *, max_weights: int, stopped: Callable[[], bool]) -> Explanation:
        """Make the explanation.

        Raises:
            InvalidInputError: There would be more weights.
            DecodingStoppedError: `stopped` was true.
            BundleError: The graphs cannot be opened with more outputs.
        """
        search, recorder = self._search, self._search.recorder
        self._require_few_weights(choice, max_weights)
        decoding = ForcedDecoding(self._graphs, search.source_ids, search.options)
        states = decoding.follow(self._tokens, stopped=stopped)
        tree = SearchTree(search.options, search.found, eos_id=self._eos_id, piece_of=self._codec.target_piece)
        steps = tuple(tree.steps(recorder.steps))
        return Explanation(
            source_tokens=tuple(self._source_tokens()),
            target_tokens=tuple(self._target_tokens(states, steps)),
            attention=tuple(self._attention(states, choice)),
            steps=steps,
            omitted_steps=recorder.step_count - len(steps),
            searches=recorder.searches,
            no_repeat_ngram_size=recorder.no_repeat_ngram_size,
            max_target_length=search.options.max_target_length,
        )

    def _require_few_weights(self, choice: AttentionChoice, maximum: int) -> None:
        dimensions = self._graphs.sessions.dimensions
        source, target = len(self._search.source_ids), len(self._tokens)
        sizes = {
            AttentionKind.CROSS: (target * source, dimensions.num_decoder_layers),
            AttentionKind.ENCODER: (source * source, dimensions.num_encoder_layers),
            AttentionKind.DECODER: (target * target, dimensions.num_decoder_layers),
        }
        matrices = 1 + dimensions.num_heads * choice.heads
        count = 0
        for kind in choice.kinds:
            size, layers = sizes[kind]
            count += size * matrices * (sum(layer < layers for layer in choice.layers) if choice.layers else layers)
        if count > maximum:
            description = f"asks for {count} weights of this sentence, with the kinds and heads; at most {maximum}"
            raise InvalidInputError([FieldViolation(field="attention_layers", description=description)])

    def _source_tokens(self) -> Iterator[SourceToken]:
        for token_id, (start, end) in zip(self._search.source_ids, self._search.spans, strict=True):
            yield SourceToken(piece=self._codec.source_piece(token_id), token_id=token_id, start=start, end=end)

    def _target_tokens(self, states: ForcedStates, steps: Sequence[TreeStep]) -> Iterator[TargetToken]:
        best, details = self._search.found[0], self._search.found[0].details
        if details is None:
            raise ValueError("the search has no token details")
        texts = [*self._codec.token_texts(best.target_ids), ""]
        path, forced = path_of(self._tokens, steps), len(self._search.options.prefix_ids)
        for position, token_id in enumerate(self._tokens):
            score = details.scores[position]
            yield TargetToken(
                piece=self._codec.target_piece(token_id),
                token_id=token_id,
                text=texts[position],
                score=score,
                source_token=details.alignment[position],
                alternatives=self._alternatives(states.alternatives[position], token_id, score),
                forced=position < forced,
                candidate=path[position],
            )

    def _alternatives(
        self, likeliest: Sequence[tuple[int, float]], chosen: int, score: float
    ) -> tuple[Alternative, ...]:
        # Products of one row round differently from products of a beam, so the chosen one has the score of its search.
        scores = {token_id: score if token_id == chosen else each for token_id, each in likeliest}
        ordered = sorted(scores.items(), key=lambda item: -item[1])
        return tuple(
            Alternative(piece=self._codec.target_piece(token_id), token_id=token_id, score=each)
            for token_id, each in ordered
        )

    def _attention(self, states: ForcedStates, choice: AttentionChoice) -> Iterator[Attention]:
        for kind in AttentionKind:
            if kind not in choice.kinds:
                continue
            if kind is AttentionKind.ENCODER:
                layers = encoder_states(self._graphs, self._search.source_ids)
            else:
                layers = states.cross if kind is AttentionKind.CROSS else states.own
            causal = kind is AttentionKind.DECODER
            weights = [head_weights(queries, keys, causal=causal) for queries, keys in layers]
            yield from chosen_weights(kind, weights, choice)


def _tokens(best: TargetHypothesis, eos_id: int) -> list[int]:
    return [*best.target_ids, eos_id] if best.finished else list(best.target_ids)
