"""What promotion needs of the engine: translation that nobody waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.types import DecodingOptions, Hypothesis


class TranslateInBackground(Protocol):
    """Translates texts with what time callers leave, outside of the queue and the metrics of requests."""

    async def __call__(
        self, texts: Sequence[str], *, model: LoadedModel, options: DecodingOptions, target_language: str, caller: str
    ) -> list[list[Hypothesis]]:
        """Translate.

        Args:
            texts: Texts in the source language.
            model: Loaded model.
            options: Options within the limits of the model.
            target_language: One of the model's, or empty for its first.
            caller: Whose turn it is among those that nobody waits for.

        Returns:
            Hypotheses of each text, best first.

        Raises:
            InvalidInputError: Texts are over a limit.
            OverloadedError: Callers have to wait, so the work was given up.
            DrainingError: The engine is stopping, or the version is served no more.
        """
