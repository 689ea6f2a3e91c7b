"""Choice of the model and the languages that a request means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelNotFoundError
from xuanzang.server.engine.text.language_detection import DetectedLanguage
from xuanzang.server.engine.text.scripts import language_of_script
from xuanzang.server.engine.types import Route, ServedModel

# Of what is detected with this probability 92 to 98 % is right, the more the longer the text.
_MIN_CONFIDENCE = 0.5
_NAMED = 40
"""Languages or pairs that an error names at most."""


def resolve(models: Sequence[ServedModel], *, model: str, source_language: str, target_language: str) -> Route:
    """Find the model that a request means, and the languages.

    Args:
        models: Served models.
        model: "zh-en" for its default version, "zh-en/1" for that version, empty for the one that fits the languages.
        source_language: BCP-47 code or empty. "zh-Hans-CN" also finds a model for "zh-Hans", else one for "zh".
        target_language: BCP-47 code or empty, matched in the same way.

    Returns:
        The only model that fits best, and those of its languages that fit.

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
    fits = [(fit, served) for served in candidates if (fit := _fit(served, *languages)) is not None]
    if not fits:
        pairs = _listed(_pairs(candidates))
        wanted = f"{source_language or 'any'} to {target_language or 'any'}"
        raise ModelNotFoundError(f"no model translates {wanted}; served pairs: {pairs}")
    best, _ = min(fits, key=itemgetter(0))
    return _route(_only_one([served for fit, served in fits if fit == best], *languages), *languages)


def route_to(served: ServedModel, *, source_language: str, target_language: str) -> Route | None:
    """Find the way through one model.

    Args:
        served: Served model.
        source_language: BCP-47 code or empty.
        target_language: BCP-47 code or empty.

    Returns:
        The model and its languages; None if it needs one that is not given, or does not translate them.
    """
    lacks = [*_unnamed(served, source_language, target_language)]
    if lacks or _fit(served, source_language, target_language) is None:
        return None
    return _route(served, source_language, target_language)


def undecided_languages(models: Sequence[ServedModel], *, model: str, target_language: str) -> list[str]:
    """List the source languages of which a request must name one.

    Args:
        models: Served models.
        model: As for `resolve`.
        target_language: As for `resolve`.

    Returns:
        BCP-47 codes, in order; none if only one model fits, and it need not be told.
    """
    named = [served for served in models if _has_name(served, model)]
    if not named or (len(named) == 1 and not named[0].needs_source_language):
        return []
    fitting = [served for served in named if _fit(served, "", target_language) is not None]
    if len(fitting) < 2 and not any(served.needs_source_language for served in fitting):
        return []
    return sorted({code for served in fitting for code in served.source_languages})


def detected_language(text: str, detected: Iterable[DetectedLanguage], choices: Sequence[str]) -> str:
    """Choose the language of texts.

    Args:
        text: Beginning of the texts; if its language is uncertain, its script may leave one choice.
        detected: Languages that the texts may be in, likeliest first.
        choices: Languages that models translate.

    Returns:
        The likeliest language.

    Raises:
        InvalidInputError: It is too uncertain, or no model translates it.
    """
    best = next(iter(detected), None)
    if best is None or best.confidence < _MIN_CONFIDENCE:
        if (written := language_of_script(text, choices)) is not None:
            return written
        description = f"must be set, one of {_listed(choices)}: the language of the text cannot be told for sure"
    elif _matched(best.code, choices) is None:
        description = f"must be set: the text seems to be in none of the served languages, {', '.join(choices)}"
    else:
        return best.code
    raise InvalidInputError([FieldViolation(field="source_language_code", description=description)])


def _has_name(served: ServedModel, model: str) -> bool:
    name, _, version = model.partition("/")
    if version:
        return (served.name, str(served.version)) == (name, version)
    return served.is_default and model in ("", served.name)


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
        source_language=_matched(source_language, served.source_languages) or "",
        target_language=_matched(target_language, served.target_languages) or served.target_languages[0],
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
    source = _dropped_subtags(source_language, served.source_languages)
    target = _dropped_subtags(target_language, served.target_languages)
    return None if source is None or target is None else source + target


def _dropped_subtags(wanted: str, served: Iterable[str]) -> int | None:
    if not wanted:
        return 0
    code = _matched(wanted, served)
    return None if code is None else wanted.count("-") - code.count("-")


def _matched(wanted: str, served: Iterable[str]) -> str | None:
    if not wanted:
        return None
    # The lookup of RFC 4647, section 3.4.
    codes = {code.lower(): code for code in served}
    subtags = wanted.lower().split("-")
    ranges = ("-".join(subtags[:count]) for count in range(len(subtags), 0, -1))
    return next((codes[each] for each in ranges if each in codes), None)


def _pairs(models: Iterable[ServedModel]) -> Iterator[str]:
    for served in models:
        if served.needs_source_language:  # each with each of some hundred
            yield f"{len(served.source_languages)} languages to {_listed(served.target_languages)} by {served.name}"
            continue
        for source in served.source_languages:
            yield from (f"{source} to {target}" for target in served.target_languages)
