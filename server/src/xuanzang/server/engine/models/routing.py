"""Choice of the model and the languages that a request means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelNotFoundError, UnservedLanguageError
from xuanzang.server.engine.text.language_codes import matched, matched_target, meant_language, primary
from xuanzang.server.engine.text.readings import LanguageChoice
from xuanzang.server.engine.types import Reading, Route, ServedModel, TextKind

_NAMED = 40
"""Languages or pairs that an error names at most."""


def resolve(models: Sequence[ServedModel], *, model: str, source_language: str, target_language: str) -> Route:
    """Find the only model that fits a request best, and those of its languages that fit.

    Args:
        models: Served models.
        model: "zh-en" for its default version, "zh-en/1" for that version, empty for the one that fits the languages.
        source_language: BCP-47 code or empty. "zh-Hans-CN" also finds a model for "zh-Hans", else one for "zh".
        target_language: BCP-47 code or empty, matched in the same way.

    Raises:
        ModelNotFoundError: No model fits.
        InvalidInputError: Several models fit, or the model needs a language that is not named. The error names the
            languages to choose among, or the models if languages do not tell them apart.
    """
    candidates = [served for served in models if _has_name(served, model)]
    if not candidates:
        names = ", ".join(sorted({served.name for served in models})) or "none"
        raise ModelNotFoundError(f"model {model!r} is not served; served models: {names}")
    languages = source_language, target_language
    fits = _fits(candidates, *languages)
    best, _ = min(fits, key=itemgetter(0))
    return _route(_only_one([served for fit, served in fits if fit == best], *languages), *languages)


def require_pair(models: Sequence[ServedModel], *, source_language: str, target_language: str) -> None:
    """Raise ModelNotFoundError if no model translates between two languages."""
    _fits(models, source_language, target_language)


def language_choice(models: Sequence[ServedModel], *, model: str, target_language: str) -> LanguageChoice:
    """Return the target, and the source languages of all models that fit a request without one; none if none does."""
    fitting = [
        served for served in models if _has_name(served, model) and _fit(served, "", target_language) is not None
    ]
    sources = {code for served in fitting for code in served.source_languages}
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
    told = {each.language for each in readings if each.kind is TextKind.SERVED}
    written = {each.language for each in readings if each.kind is TextKind.UNCERTAIN and each.language}
    if len(choice.sources) == 1:
        return ""
    if len(told or written) == 1:
        return next(iter(told or written))
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
        hint = "".join(_hints(models, source_language, target_language))
        raise ModelNotFoundError(f"no model translates {wanted}; served pairs: {_listed(_pairs(models))}{hint}")
    return fits


def _hints(models: Sequence[ServedModel], source_language: str, target_language: str) -> Iterator[str]:
    """Yield what codes of languages that are none may mean."""
    sides = (
        (source_language, [code for served in models for code in served.source_languages]),
        (target_language, [code for served in models for code in served.target_languages]),
    )
    for wanted, offered in sides:
        if meant := meant_language(wanted, offered):
            yield f"; {wanted!r}: did you mean {meant!r}?"


def _only_one(models: Sequence[ServedModel], source_language: str, target_language: str) -> ServedModel:
    if len(models) == 1:
        return models[0]
    if fields := [*_deciding_fields(models, source_language, target_language)]:
        description = f"must be set, or model must be; served pairs: {_listed(_pairs(models))}"
    else:
        fields = ["model"]
        names = ", ".join(sorted(served.name for served in models))
        description = f"must be set: several models translate these languages: {names}"
    raise InvalidInputError(FieldViolation(field=field, description=description) for field in fields)


def _deciding_fields(models: Iterable[ServedModel], source_language: str, target_language: str) -> Iterator[str]:
    """Find the languages that a request does not name and in which the models that it may mean differ."""
    if not source_language and len({served.source_languages for served in models}) > 1:
        yield "source_language_code"
    if not target_language and len({served.target_languages for served in models}) > 1:
        yield "target_language_code"


def _route(served: ServedModel, source_language: str, target_language: str) -> Route:
    if violations := list(_unnamed(served, source_language, target_language)):
        raise InvalidInputError(violations)
    return Route(
        model=served,
        source_language=matched(source_language, served.source_languages) or "",
        target_language=matched_target(target_language, served.target_languages) or served.target_languages[0],
    )


def _unnamed(served: ServedModel, source_language: str, target_language: str) -> Iterator[FieldViolation]:
    """Find the languages that a model needs and a request does not name."""
    if served.needs_source_language and not source_language:
        yield _must_be_set("source_language_code", served, "from", served.source_languages)
    if served.needs_target_language and not target_language:
        yield _must_be_set("target_language_code", served, "into", served.target_languages)


def _must_be_set(field: str, served: ServedModel, way: str, languages: Sequence[str]) -> FieldViolation:
    description = f"must be set: {served.name} translates {way} {_listed(languages)}"
    return FieldViolation(field=field, description=description)


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
