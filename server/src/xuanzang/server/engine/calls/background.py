"""Calls that nobody waits for."""

from __future__ import annotations

from collections.abc import Sequence

from xuanzang.server.engine.calls.call import Call, SharedResources
from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.requests.request import CallContext
from xuanzang.server.engine.types import DecodingOptions, Hypothesis


class BackgroundCalls:
    """Translates with what time callers leave; only the metrics of the work itself count it."""

    def __init__(self, shared: SharedResources, live: LiveModels) -> None:
        """Translate nothing yet.

        Args:
            shared: Parts of the engine.
            live: Models, which are kept while such a call uses them.
        """
        self._shared = shared
        self._live = live

    async def __call__(
        self,
        texts: Sequence[str],
        *,
        model: LoadedModel,
        options: DecodingOptions,
        source_language: str = "",
        target_language: str = "",
        caller: str,
    ) -> list[list[Hypothesis]]:
        """Translate.

        Args:
            texts: Texts in the source language.
            model: Loaded model.
            options: Options within the limits of the model.
            source_language: One of the model's, or empty for its first.
            target_language: The same.
            caller: Identity by which those that nobody waits for take turns.

        Returns:
            Hypotheses of each text, best first.

        Raises:
            InvalidInputError: Texts are over a limit.
            OverloadedError: Callers have to wait, so the work was given up.
            DrainingError: The engine has stopped, or the version is served no more.
        """
        if self._live.catalog.find(model.name, model.version) is not model:
            raise DrainingError(f"{model.name}/{model.version} is served no more")
        context = CallContext(
            model=model,
            caller=caller,
            source_language=source_language,
            target_language=target_language,
            in_background=True,
        )
        with self._live.usage.of(model):
            return await Call(self._shared, context, options).run(texts)
