"""Translation of texts whose language the caller may not know."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from xuanzang.client import (
    AsyncTranslationClient,
    FieldViolation,
    StatusCode,
    TranslateOptions,
    Translation,
    TranslationError,
)
from xuanzang.gateway.errors import RefusedError, fault_of
from xuanzang.gateway.languages import has_synonyms, is_served, served_code, source_for, sources_into, targets_by_source

_SHOWN_CHARACTERS = 64
_SHOWN_LANGUAGES = 16
_INDEX = re.compile(r"^contents\[(\d+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """A text in the target language, or one that was passed through."""

    source: str
    """Code of the language that it was translated from; empty if it was copied, and nothing tells its language."""
    translation: Translation
    """Answer of the server."""

    @property
    def text(self) -> str:
        """The text."""
        return self.translation.text

    @property
    def confidence(self) -> float | None:
        """Probability of the language, 0 to 1; None if it was not detected."""
        return self.translation.detected_language_confidence

    @classmethod
    def of(cls, translation: Translation, source: str | None) -> Translated:
        """Join an answer of the server and the language that the caller named, or None.

        Args:
            translation: Answer of the server.
            source: Code of the language.
        """
        return cls(source=source or translation.detected_language, translation=translation)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationJob:
    """Texts to translate, and how."""

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


async def translate(client: AsyncTranslationClient, job: TranslationJob) -> list[Translated]:
    """Translate texts.

    Args:
        job: Texts and options of the translation.

    Returns:
        One translation per text, in the same order.

    Raises:
        RefusedError: The server refused texts.
        TranslationError: The server refused the request, or failed.
    """
    named = TranslateOptions(source_language=job.source, target_language=job.target)
    named = await with_served_codes(client, named, seconds=job.timeout)
    served = replace(job, source=named["source_language"], target=named["target_language"] or "")
    groups = await _groups(client, served)
    try:
        batches = await asyncio.gather(*(_translated(client, served, group) for group in groups))
    except RefusedError as error:
        refusal = await _about_languages(error, job, client)
        raise refusal from (None if refusal is error else error)
    answered: dict[int, Translation] = {}
    for group, batch in zip(groups, batches, strict=True):
        answered.update(zip(group, batch, strict=True))
    return [Translated.of(answered[index], served.source) for index in range(len(job.texts))]


async def with_served_codes(
    client: AsyncTranslationClient, options: TranslateOptions, *, seconds: float | None
) -> TranslateOptions:
    """Return options whose languages have the codes of the server.

    Args:
        seconds: Time until the answer must be there; None: that of the client.
    """
    source, target = options.get("source_language"), options.get("target_language")
    if not (has_synonyms(source) or has_synonyms(target)):
        return options
    pairs = targets_by_source(await client.list_models(timeout=seconds))
    return options | {
        "source_language": source and served_code(source, pairs),
        "target_language": target and _served_target(target, pairs),
    }


def _served_target(code: str, pairs: Mapping[str, list[str]]) -> str:
    return served_code(code, sorted({target for targets in pairs.values() for target in targets}))


async def _translated(client: AsyncTranslationClient, job: TranslationJob, indexes: Sequence[int]) -> list[Translation]:
    texts = [job.texts[index] for index in indexes]
    options = job.options | {"source_language": job.source, "target_language": job.target}
    try:
        return await client.translate(texts, timeout=job.timeout, **options)
    except TranslationError as error:
        fault = fault_of(error)
        violations = tuple(
            replace(each, field=_INDEX.sub(lambda found: f"contents[{indexes[int(found[1])]}]", each.field))
            for each in fault.violations
        )
        raise RefusedError(replace(fault, violations=violations)) from error


async def _about_languages(error: RefusedError, job: TranslationJob, client: AsyncTranslationClient) -> RefusedError:
    """Return a refusal that names the language, as the caller gave it, if the server does not have it."""
    if error.fault.status is not HTTPStatus.NOT_FOUND:
        return error
    try:
        pairs = targets_by_source(await client.list_models(timeout=job.timeout))
    except TranslationError:
        return error
    targets = sorted({target for listed in pairs.values() for target in listed})
    if job.source is not None and not is_served(job.source, pairs):
        return _unsupported(error, "source_language_code", job.source, sorted(pairs))
    if not is_served(job.target, targets):
        return _unsupported(error, "target_language_code", job.target, targets)
    return error


def _unsupported(error: RefusedError, field: str, code: str, codes: Sequence[str]) -> RefusedError:
    shown, listed = code[:_SHOWN_CHARACTERS], ", ".join(codes[:_SHOWN_LANGUAGES])
    more = f" and {len(codes) - _SHOWN_LANGUAGES} more" if len(codes) > _SHOWN_LANGUAGES else ""
    violation = FieldViolation(field=field, description=f"{shown!r} is not supported; served: {listed}{more}")
    return RefusedError(replace(error.fault, message=f"{shown} is not supported", violations=(violation,)))


async def _groups(client: AsyncTranslationClient, job: TranslationJob) -> list[list[int]]:
    """Group texts by their languages, as a request has texts of one; the server decides about each text of a group."""
    everything = list(range(len(job.texts)))
    if job.source is not None or len(job.texts) == 1:
        return [everything]
    sources = sources_into(job.target, await client.list_models())
    if len(sources) < 2:
        return [everything]
    try:
        detections = await client.detect_languages(job.texts, timeout=job.timeout)
    except TranslationError as error:
        if error.code is not StatusCode.UNIMPLEMENTED:
            raise
        return [everything]
    found = [source_for(languages[0].code, sources) if languages else None for languages in detections]
    counts = Counter(code for code in found if code)
    if not counts:
        return [everything]
    # What tells no language is taken for what most texts are.
    usual = counts.most_common(1)[0][0]
    groups: dict[str, list[int]] = {}
    for index, code in enumerate(found):
        groups.setdefault(code or usual, []).append(index)
    return list(groups.values())
