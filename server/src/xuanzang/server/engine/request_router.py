"""Which model and languages a request means, by its names or by its texts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from itertools import chain, dropwhile, islice

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

    def resolve(
        self, *, model: str, source_language: str, target_language: str, texts: Iterable[str] | None = None
    ) -> Route:
        """Find the model that a request means, and the language of its translations.

        Args:
            model: Name, name and version as "zh-en/1", or empty.
            source_language: BCP-47 code or empty.
            target_language: BCP-47 code or empty.
            texts: Texts whose language is detected if the request names none and there is a choice; read as far as it
                takes. None if there are no texts.

        Returns:
            The model and two of its languages.

        Raises:
            ModelNotFoundError: No model fits.
            InvalidInputError: Several models fit, or the language of the texts cannot be told.
        """
        detected = ""
        if not source_language and texts is not None:
            source_language, detected = self._source(texts, model=model, target_language=target_language)
        languages = {"source_language": source_language, "target_language": target_language}
        route = routing.resolve(self._models, model=model, **languages)
        route = route if "/" in model else self._canary.diverted(route, **languages)
        return replace(route, detected_language=detected) if detected else route

    def _source(self, texts: Iterable[str], *, model: str, target_language: str) -> tuple[str, str]:
        """Return the language to translate texts from and the one that was detected, empty if that is not in question.

        Texts without letters, such as "12:30", are alike in all languages, so the first one does.
        """
        if self._detector is None:
            return "", ""
        choices = routing.undecided_languages(self._models, model=model, target_language=target_language)
        if not choices:
            return "", ""
        beginning = _beginning(texts)
        if not beginning:
            return choices[0], ""
        known = {code.partition("-")[0] for code in choices}
        detected = routing.detected_language(beginning, self._detector.detect(beginning, known), choices)
        return detected, detected

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


def _beginning(texts: Iterable[str]) -> str:
    """Return what shows the language of texts: some characters from the first letter on; empty without letters."""
    characters = chain.from_iterable(chain(text, " ") for text in texts)
    return "".join(islice(dropwhile(lambda character: not character.isalpha(), characters), _ROUTING_CHARACTERS))
