"""Choice of the model and the languages that a request means, by the names that it gives or by its texts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from xuanzang.server.engine.errors import (
    DetectionUnavailableError,
    FieldViolation,
    InvalidInputError,
    ModelNotFoundError,
)
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.routing import (
    fits,
    language_choice,
    language_of,
    require_served,
    resolve,
    through,
    with_pivots,
)
from xuanzang.server.engine.types import Route, ServedModel
from xuanzang.server.metric_series import Counter
from xuanzang.text.language_codes import matched_language, primary
from xuanzang.text.language_detection import (
    MAX_READ_CHARACTERS,
    DetectedLanguage,
    LanguageChoice,
    LanguageDetector,
    narrowed,
    read,
)
from xuanzang.text.types import Reading, TextKind

# Maximum characters read on the event loop, a millisecond; a thread reads more.
_SHORT_CHARACTERS = 2000
# Characters that a thread reads at once, in some milliseconds, so that other texts find a thread.
_SLICE_CHARACTERS = 8000
# Part of the time for a text that does not depend on its length, in characters.
_CHARACTERS_PER_TEXT = 64
# Names of models and languages, as requests combine them, whose meaning is kept.
_MAX_KEPT = 1024

Result = TypeVar("Result")


class Offload(Protocol):
    """Runs work in a thread."""

    def __call__(self, work: Callable[[], Result], /) -> Awaitable[Result]:
        """Return the result of the work."""


class RequestRouter:
    """Finds the model and the languages that requests mean. Belongs to the event loop."""

    def __init__(
        self,
        live: LiveModels,
        threads: Executor,
        detector: LanguageDetector,
        unserved: Mapping[str, Counter],
        *,
        pivots: tuple[str, ...] = (),
    ) -> None:
        """Choose among models; none is loaded yet.

        Args:
            unserved: Counters of texts by outcome.
            pivots: Languages that a pair may go through that no model translates.
        """
        self._pivots = pivots
        self._unserved = unserved
        self._detector = detector
        self._live = live
        self._threads = threads
        self._reading = 0
        self._read = asyncio.Event()
        self._read.set()
        # Results for the catalog, which never changes: another one takes its place.
        self._catalog = live.catalog
        self._routes: dict[tuple[str, str, str, bool], Route] = {}
        self._choices: dict[tuple[str, str, bool], LanguageChoice] = {}

    @property
    def _models(self) -> tuple[ServedModel, ...]:
        return tuple(self._live.catalog.served)

    def _forget(self) -> None:
        """Forget the results, for another catalog or too many combinations."""
        self._catalog = self._live.catalog
        self._routes.clear()
        self._choices.clear()

    def resolve(
        self, *, model: str, source_language: str, target_language: str, allow_pivot: bool | None = None
    ) -> Route:
        """Find the model that a request means by its names, and the target language, as `resolve` does."""
        if self._live.catalog is not self._catalog or len(self._routes) >= _MAX_KEPT:
            self._forget()
        pivots = self._pivots if allow_pivot is not False else ()
        key = model, source_language, target_language, bool(pivots)
        if (route := self._routes.get(key)) is None:
            try:
                route = resolve(
                    self._models,
                    model=model,
                    source_language=source_language,
                    target_language=target_language,
                    pivots=pivots,
                )
            except ModelNotFoundError as error:
                if allow_pivot and not pivots:
                    message = f"{error}; allow_pivot has no language to go through: the server is without --pivot"
                    raise ModelNotFoundError(message, model=error.model) from None
                if allow_pivot is False and (
                    route := through(self._models, source_language, target_language, self._pivots)
                ):
                    through_what = f"two models do, through {route.source_language}"
                    message = f"{error}; {through_what}, which allow_pivot: false and explanations exclude"
                    raise ModelNotFoundError(message, model=error.model) from None
                raise
            self._routes[key] = route
        return route

    def _choice(self, model: str, target_language: str, *, allow_pivot: bool | None) -> LanguageChoice:
        """Return the languages that a request without a source language may mean."""
        if self._live.catalog is not self._catalog or len(self._choices) >= _MAX_KEPT:
            self._forget()
        pivots = self._pivots if allow_pivot is not False else ()
        key = model, target_language, bool(pivots)
        if (choice := self._choices.get(key)) is None:
            choice = language_choice(self._models, model=model, target_language=target_language, pivots=pivots)
            self._choices[key] = choice
        return choice

    def require_pair(self, source_language: str, target_language: str) -> None:
        """Raise InvalidInputError for a pair of languages that neither one model nor two translate."""
        try:
            if not through(self._models, source_language, target_language, self._pivots):
                fits(self._models, source_language, target_language)
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
        allow_pivot: bool | None = None,
        offload: Offload | None = None,
    ) -> Route:
        """Find the model that a request means by its names, as `resolve` does, or by its texts.

        Texts, which have no tags, are read if the request names no source language. Those in a language that no model
        translates are no error with `pass_through_unserved`. `offload` reads long texts, by default in a thread of the
        engine.

        Raises:
            ModelNotFoundError: No model fits.
            UnservedLanguageError: No model translates the language of a text.
            InvalidInputError: Several models fit, or the language of the texts cannot be told.
        """
        readings: list[Reading] = []
        unserved = 0
        if not source_language and texts:
            choice = self._choice(model, target_language, allow_pivot=allow_pivot)
            if choice.sources:
                readings = await self._readings(texts, choice, offload)
                unserved = sum([each.kind is TextKind.UNSERVED for each in readings])
                if unserved and not pass_through_unserved:
                    self._unserved["refused"].inc(unserved)
                    require_served(readings, choice)
                source_language = self._source(readings, choice)
                readings = [narrowed(reading, source_language) for reading in readings]
        route = self.resolve(
            model=model, source_language=source_language, target_language=target_language, allow_pivot=allow_pivot
        )
        if unserved:
            self._unserved["passed"].inc(unserved)
        return replace(route, readings=tuple(readings)) if readings else route

    def with_pivots(self, models: Iterable[ServedModel]) -> list[ServedModel]:
        """Return some models with the languages from which two of them translate, where none does so alone."""
        return with_pivots(list(models), self._pivots)

    def _source(self, readings: Sequence[Reading], choice: LanguageChoice) -> str:
        """Return the language to translate texts from; empty if it need not be named, or the caller must name it."""
        translated = [each for each in readings if each.kind in (TextKind.SERVED, TextKind.UNCERTAIN)]
        if not translated:
            # Any model does that fits the rest of the request.
            return choice.sources[0] if len(choice.sources) > 1 else ""
        if not self._detector.is_complete and not any(each.language for each in translated):
            return ""
        return language_of(translated, choice)

    async def _readings(self, texts: Sequence[str], choice: LanguageChoice, offload: Offload | None) -> list[Reading]:
        if _read_characters(texts) <= _SHORT_CHARACTERS:
            return _read_all(texts, self._detector, choice)
        self._reading += 1
        self._read.clear()
        offload = offload or self._in_thread
        try:
            return [
                reading
                for part in _slices(texts)
                for reading in await offload(partial(_read_all, part, self._detector, choice))
            ]
        finally:
            self._reading -= 1
            if not self._reading:
                self._read.set()

    def _in_thread(self, work: Callable[[], Result]) -> Awaitable[Result]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def idle(self) -> None:
        """Wait until no request's texts are being read; all have then reached the engine."""
        await self._read.wait()

    async def detect_languages(
        self, texts: Sequence[str], *, offload: Offload | None = None
    ) -> list[list[DetectedLanguage]]:
        """Return the languages that each text may be in, likeliest first, those of models spelled as models spell them.

        `offload` reads the texts, by default in a thread of the engine.

        Raises:
            DetectionUnavailableError: The engine has no detector.
        """
        if not self._detector.is_complete:
            raise DetectionUnavailableError(
                "languages are not detected: the server lacks the extra `detection`, or its setting is off"
            )
        codes = tuple(sorted({code for model in self._models for code in model.source_languages}))
        offload = offload or self._in_thread
        return [
            found for part in _slices(texts) for found in await offload(partial(_detected, part, self._detector, codes))
        ]


def _read_characters(texts: Iterable[str]) -> int:
    """Return the characters of texts, plus the equivalent cost of starting each text."""
    return sum([min(len(text), MAX_READ_CHARACTERS) + _CHARACTERS_PER_TEXT for text in texts])


def _slices(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut a list of texts into parts that are read in some milliseconds."""
    start = characters = 0
    for index, text in enumerate(texts):
        characters += min(len(text), MAX_READ_CHARACTERS) + _CHARACTERS_PER_TEXT
        if characters >= _SLICE_CHARACTERS:
            yield texts[start : index + 1]
            start, characters = index + 1, 0
    if start < len(texts):
        yield texts[start:]


def _read_all(texts: Iterable[str], detector: LanguageDetector, choice: LanguageChoice) -> list[Reading]:
    return [read(text, detector, choice) for text in texts]


def _detected(texts: Iterable[str], detector: LanguageDetector, codes: tuple[str, ...]) -> list[list[DetectedLanguage]]:
    known = {primary(code) for code in codes}
    return [
        [
            replace(each, code=matched_language(each.code, each.script, codes) or each.code)
            for each in detector.detect(text, known).favouring(known).languages
        ]
        for text in texts
    ]
