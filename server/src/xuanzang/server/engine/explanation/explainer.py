"""Explanations of translations: few at once, beside the workers, and nothing while none is made."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import (
    ExplanationUnavailableError,
    FieldViolation,
    InvalidInputError,
    ModelNotFoundError,
    OverloadedError,
)
from xuanzang.server.engine.explanation.account import Account
from xuanzang.server.engine.explanation.forced_decoding import OpenGraphs
from xuanzang.server.engine.explanation.recording import RecordedSearch, SearchJournal
from xuanzang.server.engine.explanation.types import AttentionChoice, AttentionKind, Explanation, ExplanationLimits
from xuanzang.server.engine.hardware import flush_denormals
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.types import DecodingOptions, Hypothesis, ServedModel

# One takes tenths of a second.
_RETRY_SECONDS = 1.0
# Graphs and threads are kept for so long after an explanation.
_IDLE_SECONDS = 60.0


class Explainer:
    """Explains translations of an engine. Belongs to its event loop."""

    def __init__(self, engine: Engine, limits: ExplanationLimits) -> None:
        """Make an explainer that holds nothing until it is asked."""
        self._engine, self._limits = engine, limits
        self._graphs = OpenGraphs()
        self._threads: ThreadPoolExecutor | None = None
        self._running = 0
        self._idle: asyncio.TimerHandle | None = None

    async def explain(
        self, text: str, *, model: ServedModel, options: DecodingOptions, choice: AttentionChoice, **call: Any
    ) -> tuple[list[Hypothesis], Explanation]:
        """Translate a sentence and explain how.

        Args:
            text: Text in the source language, one sentence.
            model: One of the engine's models.
            options: Options of a beam search, with token details.
            choice: Requested attention.
            call: Other arguments of `Engine.translate`.

        Returns:
            Hypotheses, best first, and the explanation of the first.

        Raises:
            ExplanationUnavailableError: The server explains nothing.
            InvalidInputError: The text is no single sentence of few enough tokens, or the attention is too much.
            ModelNotFoundError: The model is not served.
            OverloadedError: As many explanations as may be are being made, or the queue is full.
            DrainingError: The engine is stopping.
            DeadlineExceededError: The deadline passed first.
        """
        loaded = self._engine.live.catalog.find(model.name, model.version)
        if loaded is None:
            raise ModelNotFoundError(f"model {model.name}/{model.version} is not served")
        _require_layers(loaded, choice)
        _require_own_writing(loaded, call.get("target_language", ""))
        with self._engine.live.usage.of(loaded), self._place(loaded):
            journal = SearchJournal(max_tokens=self._limits.max_tokens)
            [hypotheses] = await self._engine.translate([text], model=model, options=options, journal=journal, **call)
            if journal.search is None:
                raise InvalidInputError([FieldViolation(field="contents[0]", description="has nothing to translate")])
            languages = call.get("source_language", ""), call.get("target_language", "")
            return hypotheses, await self._explained(journal.search, loaded, languages, choice)

    @contextmanager
    def _place(self, model: LoadedModel) -> Iterator[None]:
        """Hold one of the few places for explanations."""
        limit, metrics = self._limits.max_running, model.metrics
        if not limit:
            raise ExplanationUnavailableError("this server explains no translations: --max-explanations is 0")
        if self._running >= limit:
            metrics.explanations["refused"].inc()
            message = f"{limit} translations are being explained, which is the limit"
            raise OverloadedError(message, retry_after_seconds=_RETRY_SECONDS, reason="limit")
        self._begin()
        try:
            yield
        except BaseException:
            metrics.explanations["failed"].inc()
            raise
        else:
            metrics.explanations["answered"].inc()
        finally:
            self._end()

    def _begin(self) -> None:
        self._running += 1
        if self._idle:
            self._idle.cancel()
            self._idle = None

    def _end(self) -> None:
        self._running -= 1
        if not self._running:
            self._idle = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self.release)

    def release(self) -> None:
        """Let go graphs and threads, which the next explanation opens anew."""
        self._graphs.close()
        if self._threads:
            self._threads.shutdown(wait=False)
            self._threads = None

    async def _explained(
        self, search: RecordedSearch, model: LoadedModel, languages: tuple[str, str], choice: AttentionChoice
    ) -> Explanation:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                self._limits.max_running, thread_name_prefix="explaining", initializer=flush_denormals
            )
        stop = threading.Event()
        started = time.monotonic()
        limits, codec = self._limits, model.codec_between(*languages)
        account = Account(search, codec, self._graphs.of(model), max_tokens=limits.max_tokens)
        work = partial(account.make, choice, max_weights=limits.max_weights, stopped=stop.is_set)
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
    dimensions = model.bundle.manifest.dimensions
    layers = {AttentionKind.ENCODER: dimensions.num_encoder_layers}
    count = max(layers.get(kind, dimensions.num_decoder_layers) for kind in choice.kinds)
    violations = [
        FieldViolation(field=f"attention_layers[{index}]", description=f"must be 0 to {count - 1}, is {layer}")
        for index, layer in enumerate(choice.layers)
        if not 0 <= layer < count
    ]
    if violations:
        raise InvalidInputError(violations)
