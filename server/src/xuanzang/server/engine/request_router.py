"""Model and languages of a request, by the names that it gives or by its texts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

from xuanzang.server.engine.errors import (
    DetectionUnavailableError,
    FieldViolation,
    InvalidInputError,
    ModelNotFoundError,
    UnservedLanguageError,
)
from xuanzang.server.engine.models import routing
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.text.language_codes import matched_language, primary
from xuanzang.server.engine.text.language_detection import MAX_READ_CHARACTERS, DetectedLanguage, LanguageDetector
from xuanzang.server.engine.text.readings import LanguageChoice, read
from xuanzang.server.engine.types import Reading, Route, ServedModel, TextKind
from xuanzang.server.metric_series import Counter

# The event loop waits for the reading of so many characters, half a millisecond; a thread reads more.
_SHORT_CHARACTERS = 2000
# Names of models and languages, as requests combine them, whose meaning is kept.
_MAX_KEPT = 1024


class RequestRouter:
    """Finds the model and the languages that requests mean. Belongs to the event loop."""

    def __init__(
        self, live: LiveModels, threads: Executor, detector: LanguageDetector, unserved: Mapping[str, Counter]
    ) -> None:
        """Choose among models, none of which is loaded yet; `unserved` counts texts by what becomes of them."""
        self._unserved = unserved
        self._detector = detector
        self._live = live
        self._threads = threads
        self._reading = 0
        self._read = asyncio.Event()
        self._read.set()
        # What was found in the catalog, which never changes: another one takes its place.
        self._catalog = live.catalog
        self._routes: dict[tuple[str, str, str], Route] = {}
        self._choices: dict[tuple[str, str], LanguageChoice] = {}

    @property
    def _models(self) -> tuple[ServedModel, ...]:
        return tuple(self._live.catalog.served)

    def _forget(self) -> None:
        """Forget what was found, in another catalog or for too many combinations."""
        self._catalog = self._live.catalog
        self._routes.clear()
        self._choices.clear()

    def resolve(self, *, model: str, source_language: str, target_language: str) -> Route:
        """Find the model that a request means by its names, and the target language; see `routing.resolve`."""
        if self._live.catalog is not self._catalog or len(self._routes) >= _MAX_KEPT:
            self._forget()
        key = model, source_language, target_language
        if (route := self._routes.get(key)) is None:
            route = self._routes[key] = routing.resolve(
                self._models, model=model, source_language=source_language, target_language=target_language
            )
        return route

    def _choice(self, model: str, target_language: str) -> LanguageChoice:
        """Return the languages that a request without a source language may mean."""
        if self._live.catalog is not self._catalog or len(self._choices) >= _MAX_KEPT:
            self._forget()
        key = model, target_language
        if (choice := self._choices.get(key)) is None:
            choice = routing.language_choice(self._models, model=model, target_language=target_language)
            self._choices[key] = choice
        return choice

    def require_pair(self, source_language: str, target_language: str) -> None:
        """Raise InvalidInputError for a pair of languages that no model translates."""
        try:
            routing.require_pair(self._models, source_language=source_language, target_language=target_language)
        except ModelNotFoundError as error:
            raise InvalidInputError([FieldViolation(field="target_language_code", description=str(error))]) from None

    async def route(
        self,
        *,
        model: str,
        source_language: str,
        target_language: str,
        texts: Sequence[str],
        pass_through_unserved: bool = False,
    ) -> Route:
        """Find the model that a request means by its names and its texts, and the languages of all.

        Args:
            model: Name, name and version as "zh-en/1", or empty.
            source_language: BCP-47 code or empty.
            target_language: BCP-47 code or empty.
            texts: Texts without tags, which are read if the request names no source language.
            pass_through_unserved: Whether texts in languages that no model translates are no error.

        Raises:
            ModelNotFoundError: No model fits.
            UnservedLanguageError: No model translates the language of a text.
            InvalidInputError: Several models fit, or the language of the texts cannot be told.
        """
        readings: list[Reading] = []
        if not source_language and texts:
            choice = self._choice(model, target_language)
            if choice.sources:
                readings = await self._readings(texts, choice)
                if not pass_through_unserved:
                    self._require_served(readings, choice)
                source_language = self._source(readings, choice)
        route = self.resolve(model=model, source_language=source_language, target_language=target_language)
        if not readings:
            return route
        if passed := _unserved(readings):
            self._unserved["passed"].inc(passed)
        return Route(
            model=route.model,
            source_language=route.source_language,
            target_language=route.target_language,
            readings=tuple(readings),
        )

    def _require_served(self, readings: Sequence[Reading], choice: LanguageChoice) -> None:
        try:
            routing.require_served(readings, choice)
        except UnservedLanguageError:
            self._unserved["refused"].inc(_unserved(readings))
            raise

    def _source(self, readings: Sequence[Reading], choice: LanguageChoice) -> str:
        """Return the language to translate texts from; empty if it need not be named, or the caller must name it."""
        translated = [each for each in readings if each.kind in (TextKind.SERVED, TextKind.UNCERTAIN)]
        if not translated:
            # Any model does that fits the rest of the request.
            return choice.sources[0] if len(choice.sources) > 1 else ""
        if not self._detector.is_complete and not any(each.language for each in translated):
            return ""
        return routing.language_of(translated, choice)

    async def _readings(self, texts: Sequence[str], choice: LanguageChoice) -> list[Reading]:
        work = partial(_read_all, texts, self._detector, choice)
        if sum(min(len(text), MAX_READ_CHARACTERS) for text in texts) <= _SHORT_CHARACTERS:
            return work()
        self._reading += 1
        self._read.clear()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._reading -= 1
            if not self._reading:
                self._read.set()

    async def idle(self) -> None:
        """Wait until the texts of no request are being read: those that were have reached the engine then."""
        await self._read.wait()

    async def detect_languages(self, texts: Sequence[str]) -> list[list[DetectedLanguage]]:
        """Return the languages that each text may be in, likeliest first, those of models spelled as models spell them.

        Raises:
            DetectionUnavailableError: The engine has no detector.
        """
        if not self._detector.is_complete:
            raise DetectionUnavailableError(
                "languages are not detected: the server lacks the extra `detection`, or its setting is off"
            )
        codes = tuple(sorted({code for model in self._models for code in model.source_languages}))
        work = partial(_detected, texts, self._detector, codes)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _unserved(readings: Iterable[Reading]) -> int:
    return sum([each.kind is TextKind.UNSERVED for each in readings])


def _read_all(texts: Iterable[str], detector: LanguageDetector, choice: LanguageChoice) -> list[Reading]:
    return [read(text, detector, choice) for text in texts]


def _detected(texts: Iterable[str], detector: LanguageDetector, codes: tuple[str, ...]) -> list[list[DetectedLanguage]]:
    known = {primary(code) for code in codes}
    return [
        [
            replace(each, code=matched_language(each.code, each.script, codes) or each.code)
            for each in detector.detect(text, known).languages
        ]
        for text in texts
    ]
