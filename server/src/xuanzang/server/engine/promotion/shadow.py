"""The shadow: a version that translates a share of the live version's requests, too, for nobody but the metrics."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from functools import partial

from xuanzang.server.engine.calls.background import BackgroundCalls
from xuanzang.server.engine.errors import DrainingError, OverloadedError
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.promotion.canary import Draw
from xuanzang.server.engine.promotion.comparison import compare
from xuanzang.server.engine.scheduling.requests.request import CallContext
from xuanzang.server.engine.types import ContentFormat, DecodingOptions, FinishReason, Hypothesis
from xuanzang.server.metrics import Metrics, ShadowMetrics

_LOGGER = logging.getLogger(__name__)

# Copies in progress; further ones are dropped. They keep texts of callers in memory, and no more of them than this.
_MAX_COPIES = 4
_MAX_CHARACTERS = 4000
_MAX_SECONDS = 30.0

Answer = Sequence[Sequence[Hypothesis]]
"""Hypotheses of each text, best first."""


class Shadow:
    """Copies requests that have been answered, so that no caller waits for a copy or sees its errors."""

    def __init__(
        self, live: LiveModels, *, translate: BackgroundCalls, metrics: Metrics, draw: Draw = random.random
    ) -> None:
        """Copy nothing yet.

        Args:
            live: Models.
            translate: Translation that nobody waits for.
            metrics: Metrics of the server.
            draw: Source of chance.
        """
        self._live = live
        self._translate = translate
        self._metrics = metrics
        self._draw = draw
        self._copies: set[asyncio.Task[None]] = set()

    def follow(self, texts: Sequence[str], answer: Answer, *, context: CallContext, options: DecodingOptions) -> None:
        """Copy a request, if its turn comes, there is time, and it can be compared.

        Args:
            texts: Texts of the request.
            answer: Answer to it.
            context: Context of the call.
            options: Options of the request.
        """
        model, catalog = context.model, self._live.catalog
        traffic = catalog.traffic.get(model.name)
        if traffic is None or traffic.shadow is None or model is not catalog.live(model.name):
            return
        candidate = catalog.find(model.name, traffic.shadow.version)
        if candidate is None or not _is_comparable(texts, answer, context, options):
            return
        if self._draw() >= traffic.shadow.share:
            return
        metrics = self._metrics.of_shadow((*model.labels, str(candidate.version)))
        if len(self._copies) >= _MAX_COPIES:
            metrics.requests["dropped"].inc()
            return
        translate = partial(
            self._translate,
            texts,
            model=candidate,
            options=_options_of(candidate, model, options),
            source_language=context.source_language,
            target_language=context.target_language,
            caller="shadow",
        )
        copy = asyncio.create_task(_compare(translate, answer, metrics))
        self._copies.add(copy)
        copy.add_done_callback(self._copies.discard)

    def close(self) -> None:
        """Drop the copies in progress."""
        for copy in tuple(self._copies):
            copy.cancel()


async def _compare(translate: Callable[[], Awaitable[Answer]], answer: Answer, metrics: ShadowMetrics) -> None:
    result = "dropped"
    try:
        async with asyncio.timeout(_MAX_SECONDS):
            shadow = await translate()
        # Some milliseconds for a long text.
        await asyncio.to_thread(_observe, shadow, answer, metrics)
        result = "compared"
    except (OverloadedError, DrainingError, TimeoutError):
        # What is dropped is counted, and no more than that.
        _LOGGER.debug("shadow request dropped")
    except Exception as error:  # noqa: BLE001 - no fault of a shadow may be seen anywhere else
        result = "failed"
        # Without a traceback, whose lines may quote the text of a caller.
        _LOGGER.warning("shadow request failed", extra={"error": type(error).__name__})
    finally:
        metrics.requests[result].inc()


def _observe(shadow: Answer, answer: Answer, metrics: ShadowMetrics) -> None:
    for [ours, *_], [theirs, *_] in zip(shadow, answer, strict=True):
        # Text that is copied is the same with any model.
        if theirs.finish_reason is not FinishReason.COPIED:
            agreement = compare([ours.text], [theirs.text])
            metrics.texts.inc()
            metrics.exact_matches.inc(agreement.exact_match)
            metrics.chrf.observe(agreement.chrf)
            metrics.length_ratio.observe(agreement.length_ratio)
            metrics.score_gap.observe(ours.score - theirs.score)


def _is_comparable(texts: Sequence[str], answer: Answer, context: CallContext, options: DecodingOptions) -> bool:
    is_cut = any(best.finish_reason is FinishReason.DEADLINE for best, *_ in answer)
    has_one_answer = not (options.sampling or options.return_alternatives or is_cut)
    # Tags and required terms are no choice of the model.
    is_plain = context.content_format is ContentFormat.TEXT and not (context.terms.fields or context.writer)
    return has_one_answer and is_plain and sum(map(len, texts)) <= _MAX_CHARACTERS


def _options_of(candidate: LoadedModel, live: LoadedModel, options: DecodingOptions) -> DecodingOptions:
    """Return the options of a request as they would be if the candidate were live: its own where it names none."""
    described, theirs = candidate.served(is_default=False), live.served(is_default=True).default_options
    unset = [each.name for each in fields(options) if getattr(options, each.name) == getattr(theirs, each.name)]
    chosen = replace(options, **{name: getattr(described.default_options, name) for name in unset})
    longest = chosen.max_target_length and min(chosen.max_target_length, described.max_target_length)
    return replace(chosen, num_hypotheses=1, token_details=False, partial_on_deadline=False, max_target_length=longest)
