"""Judging: the golden set is translated by a version and by the live one, with what time callers leave."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from xuanzang.server.engine.calls.background import BackgroundCalls
from xuanzang.server.engine.errors import InvalidInputError, ModelStateError, OverloadedError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.promotion.gate import Evaluation, judge
from xuanzang.server.engine.promotion.golden_set import read_golden_set
from xuanzang.server.engine.promotion.settings import PromotionSettings

# Sentences that are asked for at once; those that are given up are asked for again.
_TOGETHER = 8


class Judge:
    """Measures versions, one after another."""

    def __init__(self, translate: BackgroundCalls, settings: PromotionSettings) -> None:
        """Judge nothing yet.

        Args:
            translate: Translation that nobody waits for.
            settings: Bounds, golden sets, and the maximum time.
        """
        self._translate = translate
        self._settings = settings
        self._judging = asyncio.Lock()

    async def evaluate(self, candidate: LoadedModel, live: LoadedModel) -> Evaluation:
        """Judge a version.

        Args:
            candidate: Version that would go live.
            live: Version that is live.

        Returns:
            What was measured, and the bounds.

        Raises:
            ModelStateError: It cannot be judged.
            DrainingError: The engine is stopping.
        """
        async with self._judging:
            return await self._evaluate(candidate, live)

    async def _evaluate(self, candidate: LoadedModel, live: LoadedModel) -> Evaluation:
        settings = self._settings
        golden = await asyncio.to_thread(read_golden_set, settings.golden_sets, candidate.name)
        try:
            async with asyncio.timeout(settings.gate_timeout_seconds):
                ours, theirs = [await self._translated(golden.sources, model) for model in (candidate, live)]
        except TimeoutError:
            limit = f"--gate-timeout-seconds, {settings.gate_timeout_seconds:g}"
            raise ModelStateError(f"callers left no time to translate the golden set within {limit}") from None
        except InvalidInputError as error:
            raise ModelStateError(f"the golden set cannot be translated: {error}") from error
        return await asyncio.to_thread(
            judge, candidate, live, golden=golden, translations=(ours, theirs), settings=settings
        )

    async def _translated(self, sources: Sequence[str], model: LoadedModel) -> list[str]:
        translations: list[str] = []
        while left := sources[len(translations) : len(translations) + _TOGETHER]:
            options = model.served(is_default=False).default_options
            try:
                found = await self._translate(left, model=model, options=options, target_language="", caller="gate")
            except OverloadedError as error:
                await asyncio.sleep(error.retry_after_seconds)
            else:
                translations += [best.text for best, *_ in found]
        return translations
