"""Choice of the model and the languages that a request means, by the names that it gives or by its texts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Protocol, TypeVar

from xuanzang.server.engine.errors import (
    DetectionUnavailableError,
    FieldViolation,
    InvalidInputError,
    ModelNotFoundError,
    UnservedLanguageError,
)
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.types import Route, ServedModel
from xuanzang.server.metric_series import Counter
from xuanzang.text.language_codes import (
    matched,
    matched_language,
    matched_target,
    meant_language,
    primary,
)
from xuanzang.text.language_detection import (
    MAX_READ_CHARACTERS,
    DetectedLanguage,
    LanguageChoice,
    LanguageDetector,
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
_NAMED = 40
"""Languages or pairs that an error names at most."""


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
        pivots = self._pivots if allow_pivot in (True, None) else ()
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
        pivots = self._pivots if allow_pivot in (True, None) else ()
        key = model, target_language, bool(pivots)
        if (choice := self._choices.get(key)) is None:
            choice = language_choice(self._models, model=model, target_language=target_language, pivots=pivots)
            self._choices[key] = choice
        return choice

    def require_pair(self, source_language: str, target_language: str) -> None:
        """Raise InvalidInputError for a pair of languages that neither one model nor two translate."""
        try:
            if not through(self._models, source_language, target_language, self._pivots):
                _fits(self._models, source_language, target_language)
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
        route = self.resolve(
            model=model, source_language=source_language, target_language=target_language, allow_pivot=allow_pivot
        )
        if not readings:
            return route
        if unserved:
            self._unserved["passed"].inc(unserved)
        return replace(route, readings=tuple(readings))

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
            for each in detector.detect(text, known).languages
        ]
        for text in texts
    ]


def resolve(
    models: Sequence[ServedModel],
    *,
    model: str,
    source_language: str,
    target_language: str,
    pivots: Sequence[str] = (),
) -> Route:
    """Find the only model that fits a request best, and those of its languages that fit; or else two models.

    Args:
        models: Served models.
        model: "zh-en" for its default version, "zh-en/1" for that version, empty for the model of the languages.
        source_language: BCP-47 code or empty. "zh-Hans-CN" also finds a model for "zh-Hans", else one for "zh".
        target_language: BCP-47 code or empty, matched in the same way.
        pivots: Languages between two models, in order of preference.

    Raises:
        ModelNotFoundError: No model fits.
        InvalidInputError: Several models fit, or the model needs a language that is not named. The error names the
            languages to choose among, or the models if languages do not tell them apart.
    """
    candidates = [served for served in models if _has_name(served, model)]
    if not candidates:
        names = ", ".join(sorted({served.name for served in models})) or "none"
        raise ModelNotFoundError(f"model {model!r} is not served; served models: {names}", model=model)
    languages = source_language, target_language
    if not model and (route := through(models, *languages, pivots)):
        return route
    fits = _fits(candidates, *languages)
    best, _ = min(fits, key=itemgetter(0))
    return _route(_only_one([served for fit, served in fits if fit == best], *languages), *languages)


def through(
    models: Sequence[ServedModel], source_language: str, target_language: str, pivots: Sequence[str]
) -> Route | None:
    """Find two models for a pair that none translates, each by the rules of `resolve`, with the first pivot that works.

    Raises:
        InvalidInputError: Several models translate from or into the pivot language.
    """
    is_pair = source_language and target_language and primary(source_language) != primary(target_language)
    defaults = [served for served in models if served.is_default]
    if not is_pair or any(_fit(served, source_language, target_language) is not None for served in defaults):
        return None
    for pivot in pivots:
        legs = (source_language, pivot), (pivot, target_language)
        if all(any(_fit(served, *leg) is not None for served in defaults) for leg in legs):
            first, second = (
                resolve(defaults, model="", source_language=source, target_language=target) for source, target in legs
            )
            return replace(second, first=first)
    return None


def with_pivots(models: Sequence[ServedModel], pivots: Sequence[str]) -> list[ServedModel]:
    """Return models with the languages from which two of them translate, each with those of the pairs that it ends."""
    defaults = [served for served in models if served.is_default] if pivots else []
    reached = {
        (source, target) for each in defaults for source in each.source_languages for target in each.target_languages
    }
    found: dict[tuple[str, int], tuple[str, tuple[str, ...]]] = {}
    for pivot in pivots:
        ended: set[tuple[str, str]] = set()
        for served in defaults:
            language = matched(pivot, served.source_languages)
            pairs = {
                (code, target)
                for target in (served.target_languages if language else ())
                for code in _sources_through(defaults, target, pivot)
                if (code, target) not in reached and (primary(code), target) not in reached
            }
            ended |= pairs
            if language and pairs:
                found.setdefault((served.name, served.version), (language, tuple(sorted({code for code, _ in pairs}))))
        reached |= ended

    def completed(served: ServedModel) -> ServedModel:
        language, sources = found.get((served.name, served.version), ("", ()))
        return replace(served, pivot_language=language, pivoted_source_languages=sources) if sources else served

    return list(map(completed, models))


def _sources_through(models: Iterable[ServedModel], target: str, pivot: str) -> set[str]:
    """Return the languages that are translated into a pivot language, for the way to a target language."""
    ends = {primary(target), primary(pivot)}
    sources = (served.source_languages for served in models if _fit(served, "", pivot) is not None)
    return {code for codes in sources for code in codes if primary(code) not in ends and len(ends) > 1}


def language_choice(
    models: Sequence[ServedModel], *, model: str, target_language: str, pivots: Sequence[str] = ()
) -> LanguageChoice:
    """Return the target, and the source languages of all models that fit a request without one; none if none does.

    Languages that get to the target through one of the pivots are among the sources.
    """
    fitting = [
        served for served in models if _has_name(served, model) and _fit(served, "", target_language) is not None
    ]
    sources = {code for served in fitting for code in served.source_languages}
    if not model and pivots:
        defaults = [served for served in models if served.is_default]
        for pivot in pivots if target_language else ():
            if any(_fit(served, pivot, target_language) is not None for served in defaults):
                sources |= _sources_through(defaults, target_language, pivot)
    targets = {code for served in fitting for code in served.target_languages}
    target = matched_target(target_language, targets) or ""
    if len(set(map(primary, targets))) == 1:
        target = target or fitting[0].target_languages[0]
    return LanguageChoice(sources=tuple(sorted(sources)), target=target)


def language_of(readings: Sequence[Reading], choice: LanguageChoice) -> str:
    """Choose the source language of all texts that are translated; empty if there is but one, which need not be named.

    Raises:
        InvalidInputError: Nothing tells the language, or the texts are in several.
    """
    if len(choice.sources) == 1:
        return ""
    told = {each.language for each in readings if each.kind is TextKind.SERVED}
    named = told or {each.language for each in readings if each.kind is TextKind.UNCERTAIN and each.language}
    if len(named) == 1:
        return named.pop()
    if not told and not any(each.has_letters for each in readings):
        # Texts such as "12:30" are alike in all languages.
        return choice.sources[0]
    names = _listed(told or choice.sources)
    description = f"must be set, one of {_listed(choice.sources)}: "
    if told:
        description += f"the texts are in several languages, {names}, and one request takes texts in one"
    else:
        description += "the language of the text cannot be told for sure"
    raise InvalidInputError([FieldViolation(field="source_language_code", description=description)])


def require_served(readings: Sequence[Reading], choice: LanguageChoice) -> None:
    """Raise UnservedLanguageError, which names each, for texts in languages that are not translated."""
    unserved = {index: each for index, each in enumerate(readings) if each.kind is TextKind.UNSERVED}
    if not unserved:
        return
    into = f" into {choice.target}" if choice.target else ""
    rest = (
        f"; what is translated{into}: {_listed(choice.sources)}. To translate it all the same, name the source "
        "language; to get it back as it is, set pass_through_unserved"
    )
    violations = [
        FieldViolation(field=f"contents[{index}]", description=f"is in {each.language or 'another language'}{rest}")
        for index, each in unserved.items()
    ]
    detected = [language for each in unserved.values() if (language := each.language)]
    raise UnservedLanguageError(violations, detected=dict.fromkeys(detected), served=choice.sources)


def _has_name(served: ServedModel, model: str) -> bool:
    name, _, version = model.partition("/")
    if version:
        return (served.name, str(served.version)) == (name, version)
    return served.is_default and model in ("", served.name)


def _fits(models: Sequence[ServedModel], source_language: str, target_language: str) -> list[tuple[int, ServedModel]]:
    fits = [(fit, served) for served in models if (fit := _fit(served, source_language, target_language)) is not None]
    if not fits:
        wanted = f"{source_language or 'any'} to {target_language or 'any'}"
        sides = (
            (source_language, [code for served in models for code in served.source_languages]),
            (target_language, [code for served in models for code in served.target_languages]),
        )
        hints = [
            f"; {wanted!r}: did you mean {meant!r}?"
            for wanted, offered in sides
            if (meant := meant_language(wanted, offered))
        ]
        raise ModelNotFoundError(
            f"no model translates {wanted}; served pairs: {_listed(_pairs(models))}" + "".join(hints)
        )
    return fits


def _only_one(models: Sequence[ServedModel], source_language: str, target_language: str) -> ServedModel:
    """Return the only model, or raise InvalidInputError, which names the fields that would decide among several."""
    if len(models) == 1:
        return models[0]
    fields = []
    if not source_language and len({served.source_languages for served in models}) > 1:
        fields.append("source_language_code")
    if not target_language and len({served.target_languages for served in models}) > 1:
        fields.append("target_language_code")
    description = f"must be set, or model must be; served pairs: {_listed(_pairs(models))}"
    if not fields:
        fields = ["model"]
        names = ", ".join(sorted(served.name for served in models))
        description = f"must be set: several models translate these languages: {names}"
    raise InvalidInputError(FieldViolation(field=field, description=description) for field in fields)


def _route(served: ServedModel, source_language: str, target_language: str) -> Route:
    """Return a model and the requested languages; raise InvalidInputError for a missing one."""
    needs_source = served.needs_source_language and not source_language
    needs_target = served.needs_target_language and not target_language
    violations = [
        FieldViolation(field=field, description=f"must be set: {served.name} translates {way} {_listed(languages)}")
        for is_needed, field, way, languages in (
            (needs_source, "source_language_code", "from", served.source_languages),
            (needs_target, "target_language_code", "into", served.target_languages),
        )
        if is_needed
    ]
    if violations:
        raise InvalidInputError(violations)
    return Route(
        model=served,
        source_language=matched(source_language, served.source_languages) or "",
        target_language=matched_target(target_language, served.target_languages) or served.target_languages[0],
    )


def _listed(names: Iterable[str]) -> str:
    """Return names in order, those of the largest models not all."""
    ordered = sorted(set(names))
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return ", ".join(ordered[:_NAMED]) + more


def _fit(served: ServedModel, source_language: str, target_language: str) -> int | None:
    """Return the number of subtags to drop for the languages to match; None if they do not."""
    dropped = 0
    for wanted, code in (
        (source_language, matched(source_language, served.source_languages)),
        (target_language, matched_target(target_language, served.target_languages)),
    ):
        if wanted and code is None:
            return None
        dropped += wanted.count("-") - (code or "").count("-")
    return dropped


def _pairs(models: Iterable[ServedModel]) -> Iterator[str]:
    for served in models:
        if served.needs_source_language:  # each with each of some hundred
            yield f"{len(served.source_languages)} languages to {_listed(served.target_languages)} by {served.name}"
            continue
        for source in served.source_languages:
            yield from (f"{source} to {target}" for target in served.target_languages)
