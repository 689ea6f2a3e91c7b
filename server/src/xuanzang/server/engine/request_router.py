"""Which model and languages a request means, by its names or by its texts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

from xuanzang.server.engine.errors import DetectionUnavailableError
from xuanzang.server.engine.models import routing
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.promotion.canary import Canary
from xuanzang.server.engine.text.language_detection import DetectedLanguage, LanguageDetector
from xuanzang.server.engine.types import Route, ServedModel

# What a request is about shows in few characters; the event loop waits for as long as they take, half a millisecond.
_ROUTING_CHARACTERS = 300


class RequestRouter:
    """Finds the model and the languages that requests mean. Belongs to the event loop."""

    def __init__(self, live: LiveModels, threads: Executor, detector: LanguageDetector | None) -> None:
        """Choose among the models of a server, none of which is loaded yet.

        Args:
            live: Models.
            threads: Threads that detect the languages of texts.
            detector: Detector of languages; None if the server has none.
        """
        self._detector = detector
        self._live = live
        self._canary = Canary(live)
        self._threads = threads

    @property
    def _models(self) -> tuple[ServedModel, ...]:
        return tuple(self._live.catalog.served)

    def resolve(self, *, model: str, source_language: str, target_language: str, texts: Sequence[str] = ()) -> Route:
        """Find the model that a request means, and the language of its translations.

        Args:
            model: Name, name and version as "zh-en/1", or empty.
            source_language: BCP-47 code or empty.
            target_language: BCP-47 code or empty.
            texts: Texts whose language is detected if the request names none and there is a choice.

        Returns:
            The model and two of its languages.

        Raises:
            ModelNotFoundError: No model fits.
            InvalidInputError: Several models fit, or the language of the texts cannot be told.
        """
        detected = "" if source_language else self._detected(texts, model=model, target_language=target_language)
        source_language = source_language or detected
        languages = {"source_language": source_language, "target_language": target_language}
        route = routing.resolve(self._models, model=model, **languages)
        route = route if "/" in model else self._canary.diverted(route, **languages)
        return replace(route, detected_language=detected) if detected else route

    def _detected(self, texts: Sequence[str], *, model: str, target_language: str) -> str:
        """Return the language of texts; empty if no two models are in question, or none can be detected."""
        if self._detector is None:
            return ""
        choices = routing.undecided_languages(self._models, model=model, target_language=target_language)
        beginning = " ".join(texts)[:_ROUTING_CHARACTERS] if choices else ""
        if not beginning:
            return ""
        known = {code.partition("-")[0] for code in choices}
        return routing.detected_language(beginning, self._detector.detect(beginning, known), choices)

    async def detect_languages(self, texts: Sequence[str]) -> list[list[DetectedLanguage]]:
        """Detect the languages of texts.

        Args:
            texts: Texts in any language.

        Returns:
            For each text the languages that it may be in, likeliest first.

        Raises:
            DetectionUnavailableError: The engine has no detector.
        """
        detector = self._detector
        if detector is None:
            raise DetectionUnavailableError(
                "languages are not detected: the server lacks the extra `detection`, or its setting is off"
            )
        known = {code.partition("-")[0] for model in self._models for code in model.source_languages}
        detect = partial(detector.detect, languages=known)
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: list(map(detect, texts)))
