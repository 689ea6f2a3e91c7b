"""Translation of texts whose language the caller may not know."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.responses import JSONResponse, Response

from xuanzang.client import FieldViolation, StatusCode, TranslateOptions, Translation, TranslationError
from xuanzang.gateway.entry.endpoints import BaseCall, Call
from xuanzang.gateway.errors import RefusedError, fault_of
from xuanzang.gateway.languages import has_synonyms, is_served, served_code, source_for, sources_into, targets_by_source

_SHOWN_CHARACTERS = 64
_SHOWN_LANGUAGES = 16
_LOGGED_MODELS = 8
_CALLS_AT_ONCE = 4
"""Calls of the server that one request makes at a time."""
_DETAIL_BYTES = 64
"""Size of a hypothesis or a token in a response, roughly."""
Result = TypeVar("Result")
_INDEX = re.compile(r"^contents\[(\d+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """A translation, or a text that was passed through."""

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
        """Join an answer of the server and the language that the caller named, or None."""
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


async def translate(call: BaseCall, job: TranslationJob) -> list[Translated]:
    """Translate texts, by one call of the server for each of their languages; if one is refused, the others end.

    Args:
        call: Request that needs the translations; its deadline is theirs.

    Returns:
        One translation per text, in the same order.

    Raises:
        RefusedError: The server refused texts.
        TranslationError: The server refused the request, or failed.
    """
    named = TranslateOptions(source_language=job.source, target_language=job.target)
    named = await with_served_codes(call, named)
    served = replace(job, source=named["source_language"], target=named["target_language"] or "")
    groups = await _groups(call, served)
    try:
        batches = await _together([partial(_translated, call, served, group) for group in groups])
    except RefusedError as error:
        refusal = await _about_languages(error, job, call)
        raise refusal from (None if refusal is error else error)
    answered: dict[int, Translation] = {}
    for group, batch in zip(groups, batches, strict=True):
        answered.update(zip(group, batch, strict=True))
    log_models(call, answered.values())
    return [Translated.of(answered[index], served.source) for index in range(len(job.texts))]


async def answered(
    call: Call,
    read: Callable[[Call], TranslationJob],
    write: Callable[[TranslationJob, list[Translated]], object],
) -> Response:
    """Answer a request for translations: its parameters, the translations, the response in JSON.

    Args:
        read: Function that reads parameters; it raises RefusedError.
        write: Function that makes what the response holds.

    Raises:
        RefusedError: The request is refused.
        TranslationError: The server refused the request, or failed.
    """
    job = await call.apart(partial(read, call))
    results = await translate(call, job)
    return await call.apart(lambda: JSONResponse(write(job, results)), more=sum(map(size_of, results)))


def size_of(result: Translated) -> int:
    """Return the size of a translation in a response in bytes, roughly."""
    return _DETAIL_BYTES * sum(len(each.tokens) + 1 for each in result.translation.hypotheses)


def log_models(call: BaseCall, translations: Iterable[Translation]) -> None:
    """Add the models that have answered to the log line of a call."""
    models = sorted({f"{each.model}/{each.model_version}" for each in translations if each.model})
    call.log["model"] = ",".join(models[:_LOGGED_MODELS])


async def _together(works: Sequence[Callable[[], Coroutine[Any, Any, Result]]]) -> list[Result]:
    """Do works, a few at a time; the first failure ends the others before it is raised."""
    turns = asyncio.Semaphore(_CALLS_AT_ONCE)

    async def in_turn(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        async with turns:
            return await work()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(in_turn(work)) for work in works]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def with_served_codes(call: BaseCall, options: TranslateOptions) -> TranslateOptions:
    """Return options whose languages have the codes of the server."""
    source, target = options.get("source_language"), options.get("target_language")
    if not (has_synonyms(source) or has_synonyms(target)):
        return options
    pairs = targets_by_source(await call.client.list_models(timeout=call.seconds))
    return options | {
        "source_language": source and served_code(source, pairs),
        "target_language": target and _served_target(target, pairs),
    }


def _served_target(code: str, pairs: Mapping[str, list[str]]) -> str:
    return served_code(code, sorted({target for targets in pairs.values() for target in targets}))


async def _translated(call: BaseCall, job: TranslationJob, indexes: Sequence[int]) -> list[Translation]:
    texts = [job.texts[index] for index in indexes]
    options = job.options | {"source_language": job.source, "target_language": job.target}
    try:
        return await call.client.translate(texts, timeout=call.seconds, **options)
    except TranslationError as error:
        fault = fault_of(error)
        violations = tuple(
            replace(each, field=_INDEX.sub(lambda found: f"contents[{indexes[int(found[1])]}]", each.field))
            for each in fault.violations
        )
        raise RefusedError(replace(fault, violations=violations)) from error


async def _about_languages(error: RefusedError, job: TranslationJob, call: BaseCall) -> RefusedError:
    """Return a refusal that names the language, as the caller gave it, if the server does not have it."""
    if error.fault.status is not HTTPStatus.NOT_FOUND:
        return error
    try:
        pairs = targets_by_source(await call.client.list_models(timeout=call.seconds))
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


async def _groups(call: BaseCall, job: TranslationJob) -> list[list[int]]:
    """Group texts by their languages, as a request has texts of one; the server decides about each text of a group."""
    everything = list(range(len(job.texts)))
    if job.source is not None or len(job.texts) == 1:
        return [everything]
    sources = sources_into(job.target, await call.client.list_models(timeout=call.seconds))
    if len(sources) < 2:
        return [everything]
    try:
        detections = await call.client.detect_languages(job.texts, timeout=call.seconds)
    except TranslationError as error:
        if error.code is not StatusCode.UNIMPLEMENTED:
            raise
        return [everything]
    found = [source_for(languages[0].code, sources) if languages else None for languages in detections]
    counts = Counter(code for code in found if code)
    if not counts:
        return [everything]
    # A text of unknown language is taken for the language of most texts.
    usual = counts.most_common(1)[0][0]
    groups: dict[str, list[int]] = {}
    for index, code in enumerate(found):
        groups.setdefault(code or usual, []).append(index)
    return list(groups.values())
