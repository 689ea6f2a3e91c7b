"""Explanations of translations: few at once, outside the workers, and at no cost while none is made."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, Unpack
from weakref import WeakKeyDictionary

import numpy as np

from xuanzang.server.bundles.graph_interface import is_recurrent
from xuanzang.server.engine.arrays import Floats
from xuanzang.server.engine.calls.record import Call, CallRecord
from xuanzang.server.engine.decoding.hypotheses import TargetHypothesis
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import (
    ExplanationUnavailableError,
    FieldViolation,
    InvalidInputError,
    ModelNotFoundError,
    OverloadedError,
)
from xuanzang.server.engine.hardware import flush_denormals
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.types import CallerId, Hypothesis
from xuanzang.server.explanation.forced_decoding import (
    AttentionGraphs,
    ForcedDecoding,
    ForcedStates,
    encoder_states,
)
from xuanzang.server.explanation.limits import ExplanationLimits
from xuanzang.server.explanation.recording import RecordedSearch, SearchTree, WatchedSearch, path_of
from xuanzang.text.codec import TextCodec
from xuanzang.translation.v1 import explanation_pb2 as pb

# One takes tenths of a second.
_RETRY_SECONDS = 1.0
# Graphs and threads are kept for so long after an explanation.
_IDLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionChoice:
    """Requested attention."""

    kinds: Sequence[pb.AttentionKind.ValueType] = (pb.ATTENTION_KIND_CROSS,)
    """Each at most once."""
    layers: Sequence[int] = ()
    """Layers from 0, each at most once; empty for all."""
    heads: bool = False
    """True to return each head in addition to the mean."""


def head_weights(queries: Floats, keys: Floats, *, causal: bool = False) -> Floats:
    """Compute the weights of every head, [heads, row, column], of queries [row, heads, head] and keys [column, ...].

    Each row sums to 1; a causal one attends to no column after its own. Source: Vaswani et al. 2017, arXiv:1706.03762,
    equation 1.
    """
    products = np.einsum("qhd,khd->hqk", queries.astype(np.float32), keys.astype(np.float32))
    logits = products / np.sqrt(np.float32(queries.shape[-1]))
    if causal:
        logits = np.where(np.tri(*logits.shape[1:]).astype(bool), logits, np.float32(-np.inf))
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def chosen_weights(
    kind: pb.AttentionKind.ValueType, layers: Sequence[Floats], choice: AttentionChoice
) -> Iterator[pb.Attention]:
    """Yield the wanted weights of one kind, [heads, row, column] by layer: the mean of the heads, then each head."""
    for layer, weights in enumerate(layers):
        if choice.layers and layer not in choice.layers:
            continue
        for head, shown in [(None, weights.mean(axis=0)), *(enumerate(weights) if choice.heads else ())]:
            rows, columns = shown.shape
            flat = shown.ravel().tolist()
            yield pb.Attention(kind=kind, layer=layer, head=head, rows=rows, columns=columns, weights=flat)


class Account:
    """Makes the explanation of one search, in a separate thread."""

    def __init__(self, search: RecordedSearch, codec: TextCodec, graphs: AttentionGraphs, *, max_tokens: int) -> None:
        self._search, self._codec, self._graphs = search, codec, graphs
        self._eos_id = graphs.sessions.special_ids.eos_id
        self._tokens = _tokens(search.found[0], self._eos_id)[:max_tokens]

    def make(self, choice: AttentionChoice, *, max_weights: int, stopped: Callable[[], bool]) -> pb.Explanation:
        """Make the explanation within the limit of weights, until `stopped` is true."""
        search, recorder = self._search, self._search.recorder
        self._require_few_weights(choice, max_weights)
        decoding = ForcedDecoding(self._graphs, search.source_ids, search.options)
        states = decoding.follow(self._tokens, stopped=stopped)
        tree = SearchTree(search.options, search.found, eos_id=self._eos_id, piece_of=self._codec.target.piece_of)
        steps = tuple(tree.steps(recorder.steps))
        return pb.Explanation(
            source_tokens=(
                pb.SourceToken(piece=self._codec.source.piece_of(token_id), id=token_id, start=start, end=end)
                for token_id, (start, end) in zip(search.source_ids, search.spans, strict=True)
            ),
            target_tokens=self._target_tokens(states, steps),
            attention=self._attention(states, choice),
            search_steps=steps,
            omitted_steps=recorder.step_count - len(steps),
            searches=recorder.searches,
            no_repeat_ngram_size=recorder.no_repeat_ngram_size,
            max_target_length=search.options.max_target_length,
        )

    def _require_few_weights(self, choice: AttentionChoice, maximum: int) -> None:
        dimensions = self._graphs.sessions.dimensions
        source, target = len(self._search.source_ids), len(self._tokens)
        sizes = {
            pb.ATTENTION_KIND_CROSS: (target * source, dimensions.num_decoder_layers),
            pb.ATTENTION_KIND_ENCODER: (source * source, dimensions.num_encoder_layers),
            pb.ATTENTION_KIND_DECODER: (target * target, dimensions.num_decoder_layers),
        }
        matrices = 1 + dimensions.num_heads * choice.heads
        count = 0
        for kind in choice.kinds:
            size, layers = sizes[kind]
            count += size * matrices * (sum(layer < layers for layer in choice.layers) if choice.layers else layers)
        if count > maximum:
            description = f"asks for {count} weights of this sentence, with the kinds and heads; at most {maximum}"
            raise InvalidInputError([FieldViolation(field="attention_layers", description=description)])

    def _target_tokens(self, states: ForcedStates, steps: Sequence[pb.SearchStep]) -> Iterator[pb.TargetToken]:
        best, details = self._search.found[0], self._search.found[0].details
        if details is None:
            raise ValueError("the search has no token details")
        texts = [*self._codec.target.token_texts(best.target_ids), ""]
        path, forced = path_of(self._tokens, steps), len(self._search.options.prefix_ids)
        for position, token_id in enumerate(self._tokens):
            score = details.scores[position]
            yield pb.TargetToken(
                piece=self._codec.target.piece_of(token_id),
                id=token_id,
                text=texts[position],
                score=score,
                source_token=details.alignment[position],
                alternatives=self._alternatives(states.alternatives[position], token_id, score),
                forced=position < forced,
                candidate=path[position],
            )

    def _alternatives(
        self, likeliest: Sequence[tuple[int, float]], chosen: int, score: float
    ) -> Iterator[pb.TokenAlternative]:
        # Products of one row round differently from products of a beam, so the chosen one has the score of its search.
        scores = {token_id: score if token_id == chosen else each for token_id, each in likeliest}
        for each, its_score in sorted(scores.items(), key=lambda item: -item[1]):
            yield pb.TokenAlternative(piece=self._codec.target.piece_of(each), id=each, score=its_score)

    def _attention(self, states: ForcedStates, choice: AttentionChoice) -> Iterator[pb.Attention]:
        for kind in sorted(choice.kinds):
            if kind == pb.ATTENTION_KIND_ENCODER:
                layers = encoder_states(self._graphs, self._search.source_ids)
            else:
                layers = states.cross if kind == pb.ATTENTION_KIND_CROSS else states.own
            causal = kind == pb.ATTENTION_KIND_DECODER
            weights = [head_weights(queries, keys, causal=causal) for queries, keys in layers]
            yield from chosen_weights(kind, weights, choice)


def _tokens(best: TargetHypothesis, eos_id: int) -> list[int]:
    return [*best.target_ids, eos_id] if best.finished else list(best.target_ids)


class EngineArguments(TypedDict, total=False):
    """Arguments of `Engine.translate` for a call that is explained."""

    caller: CallerId
    deadline: float | None
    record: CallRecord | None


class Explainer:
    """Explains translations of an engine. Belongs to its event loop."""

    def __init__(self, engine: Engine, limits: ExplanationLimits) -> None:
        self._engine, self._limits = engine, limits
        # Graphs of recently explained models; others are opened on request.
        self._graphs: WeakKeyDictionary[LoadedModel, AttentionGraphs] = WeakKeyDictionary()
        self._threads: ThreadPoolExecutor | None = None
        self._running = 0
        self._idle: asyncio.TimerHandle | None = None

    async def explain(
        self, call: Call, choice: AttentionChoice, **arguments: Unpack[EngineArguments]
    ) -> tuple[list[Hypothesis], pb.Explanation]:
        """Translate one text with options of a beam search and token details; return hypotheses and why the first.

        Raises:
            ExplanationUnavailableError: The server explains nothing.
            InvalidInputError: The text is no single sentence of few enough tokens, or the attention is too much.
            OverloadedError: As many explanations as may be are being made, or the queue is full.
            EngineError: As `Engine.translate` says.
        """
        loaded = self._engine.live.catalog.find(call.model.name, call.model.version)
        if loaded is None:
            raise ModelNotFoundError(f"model {call.model.name}/{call.model.version} is not served")
        _require_layers(loaded, choice)
        _require_own_writing(loaded, call.target_language)
        with self._place(loaded):
            async with self._engine.live.usage.of(loaded):
                watched = WatchedSearch(max_tokens=self._limits.max_explained_tokens)
                [hypotheses] = await self._engine.translate(call, watch=watched, **arguments)
                if watched.search is None:
                    violation = FieldViolation(field="contents[0]", description="has nothing to translate")
                    raise InvalidInputError([violation])
                languages = call.source_language, call.target_language
                return hypotheses, await self._explained(watched.search, loaded, languages, choice)

    @contextmanager
    def _place(self, model: LoadedModel) -> Iterator[None]:
        """Hold one of the few places for explanations."""
        limit, metrics = self._limits.max_explanations, model.metrics
        if not limit:
            raise ExplanationUnavailableError("this server explains no translations: --max-explanations is 0")
        if self._running >= limit:
            metrics.explanations["refused"].inc()
            message = f"{limit} translations are being explained, which is the limit"
            raise OverloadedError(message, retry_after_seconds=_RETRY_SECONDS, reason="limit")
        self._running += 1
        if self._idle:
            self._idle.cancel()
            self._idle = None
        try:
            yield
        except BaseException:
            metrics.explanations["failed"].inc()
            raise
        else:
            metrics.explanations["answered"].inc()
        finally:
            self._running -= 1
            if not self._running:
                self._idle = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self.release)

    def release(self) -> None:
        """Let go graphs and threads, which the next explanation opens anew."""
        self._graphs.clear()
        if self._threads:
            self._threads.shutdown(wait=False)
            self._threads = None

    async def _explained(
        self, search: RecordedSearch, model: LoadedModel, languages: tuple[str, str], choice: AttentionChoice
    ) -> pb.Explanation:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                self._limits.max_explanations, thread_name_prefix="explaining", initializer=flush_denormals
            )
        stop = threading.Event()
        started = time.monotonic()
        limits, codec = self._limits, model.codec_between(*languages)
        graphs = self._graphs.setdefault(model, AttentionGraphs(model))
        account = Account(search, codec, graphs, max_tokens=limits.max_explained_tokens)
        work = partial(account.make, choice, max_weights=limits.max_explained_weights, stopped=stop.is_set)
        try:
            explanation = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            # The thread of a caller who has gone ends at its next step.
            stop.set()
        model.metrics.explanation_duration_seconds.observe(time.monotonic() - started)
        return explanation


def _require_own_writing(model: LoadedModel, target_language: str) -> None:
    """Refuse a language that is made of what the model writes: its tokens and their attention are others."""
    codes = model.bundle.manifest.target_language_codes
    if target_language and target_language not in codes:
        description = f"must be one of {', '.join(codes)}, which the model itself writes"
        raise InvalidInputError([FieldViolation(field="target_language_code", description=description)])


def _require_layers(model: LoadedModel, choice: AttentionChoice) -> None:
    if pb.ATTENTION_KIND_DECODER in choice.kinds and is_recurrent(model.bundle.manifest):
        description = f"ATTENTION_KIND_DECODER: the decoder of {model.name} keeps states and has no self-attention"
        raise InvalidInputError([FieldViolation(field="attention_kinds", description=description)])
    dimensions = model.bundle.manifest.dimensions
    layers = {pb.ATTENTION_KIND_ENCODER: dimensions.num_encoder_layers}
    count = max(layers.get(kind, dimensions.num_decoder_layers) for kind in choice.kinds)
    violations = [
        FieldViolation(field=f"attention_layers[{index}]", description=f"must be 0 to {count - 1}, is {layer}")
        for index, layer in enumerate(choice.layers)
        if not 0 <= layer < count
    ]
    if violations:
        raise InvalidInputError(violations)
