"""Judging: the golden set is translated by a version and by the live one, beside the work of callers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from xuanzang.server.engine.calls.call import Call, SharedResources
from xuanzang.server.engine.errors import DrainingError, InvalidInputError, ModelStateError, OverloadedError
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.promotion.gate import Evaluation, judge
from xuanzang.server.engine.promotion.golden_set import read_golden_set
from xuanzang.server.engine.promotion.settings import PromotionSettings
from xuanzang.server.engine.scheduling.requests.request import CallContext

_CALLER = "gate"


class Judge:
    """Measures versions, one after another."""

    def __init__(self, shared: SharedResources, live: LiveModels, settings: PromotionSettings) -> None:
        """Judge nothing yet.

        Args:
            shared: Parts of the engine that calls share.
            live: Models, which are kept while the gate uses them.
            settings: Bounds, golden sets, and the maximum time.
        """
        self._shared = shared
        self._live = live
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
        """Translate one text after another, as a caller who takes turns with the others."""
        context = CallContext(model=model, caller=_CALLER, is_counted=False)
        options = model.served(is_default=False).default_options
        translations: list[str] = []
        while len(translations) < len(sources):
            if self._live.catalog.find(model.name, model.version) is not model:
                raise DrainingError(f"{model.name}/{model.version} is no longer served")
            try:
                with self._live.usage.of(model):
                    [[best, *_]] = await Call(self._shared, context, options).run([sources[len(translations)]])
            except OverloadedError as error:
                await asyncio.sleep(error.retry_after_seconds)
            else:
                translations.append(best.text)
        return translations
