"""Translation of texts whose language the caller may not know."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from xuanzang.client import (
    AsyncTranslationClient,
    DetectedLanguage,
    StatusCode,
    TranslateOptions,
    Translation,
    TranslationError,
)
from xuanzang.gateway.errors import bad_request
from xuanzang.gateway.languages import base, source_for, sources_into


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """A text in the target language."""

    text: str
    """The text."""
    source: str
    """Code of the language that it was translated from."""
    confidence: float | None = None
    """Probability of that language, 0 to 1; None if it was not detected."""
    translation: Translation | None = None
    """Answer of the server; None for a text that was in the target language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is wanted of texts."""

    texts: Sequence[str]
    """Texts."""
    source: str | None
    """Code of their language; None: that of each is detected."""
    target: str
    """Code of the language to translate into."""
    options: TranslateOptions
    """Other options."""
    timeout: float | None = None
    """Maximum seconds; None: the client's."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The language that a text is taken to be in."""

    code: str
    """Code of a source language, or of the target language."""
    confidence: float | None
    """Probability, or None if nothing tells the language."""
    is_target: bool = False
    """Whether there is nothing to translate."""


async def translate(client: AsyncTranslationClient, order: Order, *, source_field: str) -> list[Translated]:
    """Translate texts.

    Args:
        client: Client of the caller.
        order: What is wanted.
        source_field: The API's name of the parameter for the source language.

    Returns:
        One translation per text, in the same order.

    Raises:
        RefusedError: The language of a text must be given.
        TranslationError: The server refused the texts, or failed.
    """
    if order.source is not None:
        answers = await _translated(client, order, order.texts, order.source)
        return [Translated(text=each.text, source=order.source, translation=each) for each in answers]
    guesses = await _guesses(client, order, source_field)
    groups: dict[str, list[int]] = {}
    for index, guess in enumerate(guesses):
        if not guess.is_target:
            groups.setdefault(guess.code, []).append(index)
    batches = [_translated(client, order, [order.texts[i] for i in group], code) for code, group in groups.items()]
    answered: dict[int, Translation] = {}
    for group, batch in zip(groups.values(), await asyncio.gather(*batches), strict=True):
        answered.update(zip(group, batch, strict=True))
    pairs = zip(order.texts, guesses, strict=True)
    return [_result(text, guess, answered.get(i)) for i, (text, guess) in enumerate(pairs)]


async def source_of(client: AsyncTranslationClient, order: Order, *, source_field: str) -> Guess:
    """Return the language of an order's only text: as given, or as detected.

    Args:
        client: Client of the caller.
        order: What is wanted.
        source_field: The API's name of the parameter for the source language.

    Raises:
        RefusedError: The language must be given.
        TranslationError: The server could not be asked.
    """
    if order.source is not None:
        return Guess(order.source, None)
    (guess,) = await _guesses(client, order, source_field)
    return guess


def _result(text: str, guess: Guess, translation: Translation | None) -> Translated:
    shown = text if translation is None else translation.text
    return Translated(text=shown, source=guess.code, confidence=guess.confidence, translation=translation)


async def _translated(
    client: AsyncTranslationClient, order: Order, texts: Sequence[str], source: str
) -> list[Translation]:
    # An empty code lets the server choose its only model.
    options = order.options | {"source_language": source or None, "target_language": order.target}
    return await client.translate(texts, timeout=order.timeout, **options)


async def _guesses(client: AsyncTranslationClient, order: Order, source_field: str) -> list[Guess]:
    models = await client.list_models()
    sources = sources_into(order.target, models)
    if not sources:
        # The server says which pairs there are.
        return [Guess("", None)] * len(order.texts)
    detections = await _detections(client, order, sources)
    if detections is None:
        served = ", ".join(sources)
        raise bad_request(source_field, f"must be given, because the server detects no languages: one of {served}")
    return [_guess(found, order.target, sources, source_field) for found in detections]


async def _detections(
    client: AsyncTranslationClient, order: Order, sources: Sequence[str]
) -> list[list[DetectedLanguage]] | None:
    """Return the languages of each text; None if the server cannot tell and there is a choice."""
    try:
        return await client.detect_languages(order.texts, timeout=order.timeout)
    except TranslationError as error:
        if error.code is not StatusCode.UNIMPLEMENTED:
            raise
        return [[]] * len(order.texts) if len(sources) == 1 else None


def _guess(found: Sequence[DetectedLanguage], target: str, sources: Sequence[str], source_field: str) -> Guess:
    if found and base(found[0].code) == base(target) and source_for(found[0].code, sources) is None:
        return Guess(found[0].code, found[0].confidence, is_target=True)
    for language in found:
        source = source_for(language.code, sources)
        if source is not None:
            return Guess(source, language.confidence)
    if len(sources) == 1:
        return Guess(sources[0], 0.0 if found else None)
    raise bad_request(source_field, f"must be given, because a text tells no language; one of {', '.join(sources)}")
