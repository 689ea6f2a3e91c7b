"""A server that speaks the translation service's protocol and translates by a phrase book, or to upper case."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from xuanzang.translation.v1 import status_pb2, translation_pb2_grpc
from xuanzang.translation.v1 import translation_pb2 as pb

KEY = "xz_right"
PINGED = (("grpc.http2.min_ping_interval_without_data_ms", 500),)
"""Options of a server that lets clients ask often whether it is there while they wait, as the real one does."""
_SENTENCES = re.compile(r"(?<=[.!?。！？])\s+")


@dataclass
class StandIn(translation_pb2_grpc.TranslationServiceServicer):
    """Behaviour of the server; tests set its fields and look at what it was asked."""

    sources: Sequence[str] = ("zh",)
    targets: Sequence[str] = ("en",)
    pivoted_sources: Sequence[str] = ()
    """Languages translated into the targets through English."""
    phrases: Sequence[Mapping[str, str]] = ()
    """Translations of each other, by language."""
    asked: list[pb.TranslateTextRequest] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    """Keys that came with calls."""
    needs_key: bool = False
    refusals: dict[str, tuple[grpc.StatusCode, list[Any]]] = field(default_factory=dict)
    """Statuses of calls, by their first text."""
    detected: Mapping[str, str] = field(default_factory=dict)
    """Languages, by text."""
    glossaries: dict[str, pb.CreateGlossaryRequest] = field(default_factory=dict)

    async def _begin(self, context: Any) -> None:
        metadata = dict(context.invocation_metadata())
        key = metadata.get("authorization", "").removeprefix("Bearer ") or metadata.get("x-api-key", "")
        self.keys.append(key)
        if self.needs_key and key != KEY:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "an API key is needed" if not key else "a wrong key")

    async def TranslateText(self, request: pb.TranslateTextRequest, context: Any) -> pb.TranslateTextResponse:
        await self._begin(context)
        self.asked.append(request)
        settings = request.settings
        if request.contents[0] in self.refusals:
            await _end(context, *self.refusals[request.contents[0]])
        if settings.target_language_code and not self._has(settings.target_language_code, self.targets):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no model into {settings.target_language_code!r}")
        if settings.source_language_code and not self._has(settings.source_language_code, self.sources):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no model from {settings.source_language_code!r}")
        if settings.model and settings.model.partition("/")[0] != "tiny":
            await context.abort(grpc.StatusCode.NOT_FOUND, f"model {settings.model!r} is not served")
        if settings.glossary and settings.glossary not in self.glossaries:
            fault = ("glossary", f"the server has no glossary {settings.glossary!r}")
            await _end(context, grpc.StatusCode.INVALID_ARGUMENT, [_violation(*fault)])
        answers = [self._translation(text, settings) for text in request.contents]
        return pb.TranslateTextResponse(translations=answers, model="tiny", model_version="1")

    async def StreamTranslateText(self, requests: Any, context: Any) -> AsyncIterator[pb.StreamTranslateTextResponse]:
        await self._begin(context)
        async for request in requests:
            translation = self._translation(request.content, request.settings)
            yield pb.StreamTranslateTextResponse(
                id=request.id, translation=translation, model="tiny", model_version="1"
            )

    async def TranslateTextProgressively(
        self, request: Any, context: Any
    ) -> AsyncIterator[pb.TranslateTextProgressivelyResponse]:
        await self._begin(context)
        whole = self._translation(request.content, request.settings)
        pieces = _SENTENCES.split(whole.hypotheses[0].text)
        for index, piece in enumerate(pieces):
            delta = piece if index == len(pieces) - 1 else f"{piece} "
            yield pb.TranslateTextProgressivelyResponse(text_delta=delta)
        yield pb.TranslateTextProgressivelyResponse(translation=whole, model="tiny", model_version="1")

    async def ExplainTranslation(self, _request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "explanations are not made here")

    async def DetectLanguage(self, request: pb.DetectLanguageRequest, context: Any) -> pb.DetectLanguageResponse:
        await self._begin(context)
        found = [self._language_of(text) for text in request.contents]
        languages = [[pb.DetectedLanguage(language_code=code, confidence=0.9)] if code else [] for code in found]
        return pb.DetectLanguageResponse(detections=[pb.LanguageDetection(languages=each) for each in languages])

    async def ListModels(self, _request: pb.ListModelsRequest, context: Any) -> pb.ListModelsResponse:
        await self._begin(context)
        model = pb.Model(
            name="tiny",
            version="1",
            source_language_codes=self.sources,
            target_language_codes=self.targets,
            pivoted_source_language_codes=self.pivoted_sources,
            pivot_language_code="en" if self.pivoted_sources else "",
            is_default=True,
            max_content_characters=10_000,
        )
        return pb.ListModelsResponse(models=[model])

    async def ListGlossaries(self, _request: Any, context: Any) -> pb.ListGlossariesResponse:
        await self._begin(context)
        return pb.ListGlossariesResponse(glossaries=map(_glossary, self.glossaries.values()))

    async def ListGlossaryEntries(self, request: Any, context: Any) -> pb.ListGlossaryEntriesResponse:
        await self._begin(context)
        held = await self._held(request.name, context)
        return pb.ListGlossaryEntriesResponse(glossary=_glossary(held), entries=held.entries)

    async def CreateGlossary(self, request: pb.CreateGlossaryRequest, context: Any) -> pb.CreateGlossaryResponse:
        await self._begin(context)
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", request.name):
            await _end(context, grpc.StatusCode.INVALID_ARGUMENT, [_violation("name", "has another form")])
        if not self._has(request.target_language_code, self.targets):
            fault = ("target_language_code", f"no model translates into {request.target_language_code}")
            await _end(context, grpc.StatusCode.INVALID_ARGUMENT, [_violation(*fault)])
        if request.name in self.glossaries and not request.replace:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, "there is another glossary of this name")
        self.glossaries[request.name] = request
        return pb.CreateGlossaryResponse(glossary=_glossary(request))

    async def DeleteGlossary(self, request: Any, context: Any) -> pb.DeleteGlossaryResponse:
        await self._begin(context)
        await self._held(request.name, context)
        del self.glossaries[request.name]
        return pb.DeleteGlossaryResponse()

    async def _held(self, name: str, context: Any) -> pb.CreateGlossaryRequest:
        if name not in self.glossaries:
            await context.abort(grpc.StatusCode.NOT_FOUND, "the server holds no such glossary")
        return self.glossaries[name]

    @staticmethod
    def _has(code: str, codes: Sequence[str]) -> bool:
        return any(f"{code.lower()}-".startswith(f"{each.lower()}-") for each in codes)

    def _language_of(self, text: str) -> str:
        known = (code for phrases in self.phrases for code, each in phrases.items() if each and each in text)
        return self.detected.get(text) or next(known, "" if not text.strip() else self.sources[0])

    def _translation(self, text: str, settings: pb.TranslationSettings) -> pb.Translation:
        source = settings.source_language_code or self._language_of(text)
        target = settings.target_language_code or self.targets[0]
        held = self.glossaries.get(settings.glossary)
        terms = {entry.source: entry.targets[0] for entry in held.entries} if held else {}
        terms |= {entry.source: entry.targets[0] for entry in settings.glossary_entries}
        translated = self._translated(text, source, target, terms)
        many = settings.options.num_hypotheses or 1
        texts = [translated, *(f"{translated} {number}" for number in range(1, many))]
        detected = "" if settings.source_language_code else source
        is_copied = detected == target.partition("-")[0].lower()
        reason = pb.FINISH_REASON_COPIED if is_copied else pb.FINISH_REASON_END_OF_SENTENCE
        hypotheses = [pb.Hypothesis(text=each, token_count=len(each), finish_reason=reason) for each in texts]
        return pb.Translation(
            hypotheses=hypotheses,
            detected_language_code=detected,
            detected_language_confidence=0.9 if detected else None,
        )

    def _translated(self, text: str, source: str, target: str, terms: Mapping[str, str]) -> str:
        translated, is_known = text, False
        for term, written in terms.items():
            is_known = is_known or term in translated
            translated = translated.replace(term, written)
        for phrases in self.phrases:
            here, there = _best(phrases, source), _best(phrases, target)
            if here and there and here in translated:
                translated, is_known = translated.replace(here, there), True
        return translated if is_known else translated.upper()


def _best(phrases: Mapping[str, str], code: str) -> str | None:
    return phrases.get(code.lower()) or phrases.get(code.partition("-")[0].lower())


def _glossary(request: pb.CreateGlossaryRequest) -> pb.Glossary:
    return pb.Glossary(
        name=request.name,
        source_language_code=request.source_language_code,
        target_language_code=request.target_language_code,
        version=request.version,
        display_name=request.display_name,
        entry_count=len(request.entries),
        sha256=hashlib.sha256(request.SerializeToString()).hexdigest(),
    )


def _violation(name: str, description: str) -> status_pb2.BadRequest:
    violation = status_pb2.BadRequest.FieldViolation(field=name, description=description)
    return status_pb2.BadRequest(field_violations=[violation])


async def _end(context: Any, code: grpc.StatusCode, details: list[Any]) -> None:
    status = status_pb2.Status(code=code.value[0], message="refused")
    for detail in details:
        kind = f"type.googleapis.com/google.rpc.{detail.DESCRIPTOR.name}"
        status.details.add(type_url=kind, value=detail.SerializeToString())
    await context.abort(code, "refused", (("grpc-status-details-bin", status.SerializeToString()),))


@asynccontextmanager
async def standing_in(server: StandIn) -> AsyncIterator[str]:
    """Run a stand-in on a free port, and yield its address."""
    listener = grpc.aio.server(options=PINGED)
    translation_pb2_grpc.add_TranslationServiceServicer_to_server(server, listener)
    port = listener.add_insecure_port("127.0.0.1:0")
    await listener.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await listener.stop(None)
