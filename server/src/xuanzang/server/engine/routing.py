"""Models and languages that names mean, as pure functions of the served models: one model, or two through a pivot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelNotFoundError, UnservedLanguageError
from xuanzang.server.engine.types import Route, ServedModel
from xuanzang.text.language_codes import matched, matched_target, meant_language, primary
from xuanzang.text.language_detection import LanguageChoice
from xuanzang.text.types import Reading, TextKind

_MAX_NAMED = 40
"""Languages or pairs that an error names at most."""


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
    found = fits(candidates, *languages)
    best, _ = min(found, key=itemgetter(0))
    return _route(_only_one([served for fit, served in found if fit == best], *languages), *languages)


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
        ended, into_pivot = set[tuple[str, str]](), _translated_into(pivot, defaults)
        for served in defaults:
            language = matched(pivot, served.source_languages)
            pairs = {
                (code, target)
                for target in (served.target_languages if language else ())
                for code in _on_the_way(into_pivot, pivot, target)
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


def _translated_into(language: str, models: Iterable[ServedModel]) -> set[str]:
    """Return the languages that models translate into a language."""
    return {code for served in models if _fit(served, "", language) is not None for code in served.source_languages}


def _on_the_way(sources: Iterable[str], pivot: str, target: str) -> set[str]:
    """Return those of the languages translated into a pivot for which it lies on the way to a target."""
    ends = {primary(pivot), primary(target)}
    return {code for code in sources if primary(code) not in ends} if len(ends) > 1 else set()


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
                sources |= _on_the_way(_translated_into(pivot, defaults), pivot, target_language)
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
    served = {each.language for each in readings if each.kind is TextKind.SERVED}
    named = served or {each.language for each in readings if each.kind is TextKind.UNCERTAIN and each.language}
    if len(named) == 1:
        return named.pop()
    if not served and not any(each.has_letters for each in readings):
        # Texts such as "12:30" are alike in all languages.
        return choice.sources[0]
    names = _listed(served or choice.sources)
    description = f"must be set, one of {_listed(choice.sources)}: "
    if served:
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


def fits(models: Sequence[ServedModel], source_language: str, target_language: str) -> list[tuple[int, ServedModel]]:
    """Return the models that translate a pair, each after the number of subtags that are dropped for it.

    Raises:
        ModelNotFoundError: There is none.
    """
    found = [(fit, served) for served in models if (fit := _fit(served, source_language, target_language)) is not None]
    if not found:
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
    return found


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
    more = f" and {len(ordered) - _MAX_NAMED} more" if len(ordered) > _MAX_NAMED else ""
    return ", ".join(ordered[:_MAX_NAMED]) + more


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
