"""The translation service: each method checks the request, calls the engine and writes the response."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from types import MappingProxyType, TracebackType

import grpc

from xuanzang.server.access.callers import Caller, GlossaryWriters, Resolve
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import DrainingError, EngineError, FieldViolation, InvalidInputError
from xuanzang.server.engine.glossaries import GlossaryFolder
from xuanzang.server.engine.scheduling.call import Call, CallRecord
from xuanzang.server.engine.types import Hypothesis
from xuanzang.server.explanation.explainer import AttentionChoice, EngineArguments, Explainer
from xuanzang.server.explanation.limits import ExplanationLimits
from xuanzang.server.rpc import errors
from xuanzang.server.rpc.context import RpcContext
from xuanzang.server.rpc.messages import requests, responses
from xuanzang.server.rpc.messages.responses import Provenance
from xuanzang.server.rpc.services.glossaries import GlossaryRpcs
from xuanzang.text.language_detection import MAX_READ_CHARACTERS
from xuanzang.translation.v1 import explanation_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

MAX_LAYERS = 64
"""Elements of `attention_layers`."""

_KINDS = frozenset(explanation_pb2.AttentionKind.values()) - {explanation_pb2.ATTENTION_KIND_UNSPECIFIED}
_ONLY_BEAM_SEARCH = "cannot be explained: only a whole beam search is"
_NOT_RETURNED = "must be false: explanations do not have it"
_NOT_KEPT = "cannot be explained: no terms may be kept"
_REFUSED_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "glossary": _NOT_KEPT,
        "glossary_entries": _NOT_KEPT,
        "placeholders": "cannot be explained: no placeholders may be carried",
        "protected_patterns": _NOT_KEPT,
        "return_alternatives": _ONLY_BEAM_SEARCH,
        "return_provenance": _NOT_RETURNED,
        "return_quality": _NOT_RETURNED,
    }
)


class TranslationService(GlossaryRpcs):
    """The RPCs of `xuanzang.translation.v1`, served by an engine."""

    def __init__(
        self,
        engine: Engine,
        *,
        max_stream_texts: int,
        explanations: ExplanationLimits | None = None,
        writers: GlossaryWriters | None = None,
    ) -> None:
        super().__init__(engine, writers or GlossaryWriters())
        self._engine = engine
        self._explainer = Explainer(engine, explanations or ExplanationLimits())
        self._max_stream_texts = max_stream_texts

    async def TranslateText(self, request: pb.TranslateTextRequest, rpc: RpcContext) -> pb.TranslateTextResponse:
        """Translate many texts and answer when all are done."""
        try:
            call = await requests.read_unary_request(request, self._resolve(rpc.caller), self._engine.glossaries)
            with ChargedCall(rpc, call) as charged:
                translations = await self._engine.translate(call, **charged.arguments)
        except InvalidInputError as error:
            raise requests.as_sent(error) from None
        return responses.unary_response(call, translations, self._provenance(call, charged, "TranslateText"))

    async def StreamTranslateText(
        self, request_iterator: AsyncIterator[pb.StreamTranslateTextRequest], rpc: RpcContext
    ) -> None:
        """Translate texts as they arrive and answer each when it is done."""
        stream = _Stream(rpc, self._max_stream_texts)
        async with asyncio.TaskGroup() as group:
            try:
                async for request in request_iterator:
                    await stream.permits.acquire()
                    group.create_task(self._answer(request, stream))
            except EngineError as error:
                # The texts read so far are answered before the status says why no more are read.
                stream.ended_by = error
        if stream.caller_gone:
            # gRPC is about to cancel this task for the same reason.
            raise asyncio.CancelledError
        if stream.ended_by is not None:
            raise stream.ended_by

    async def TranslateTextProgressively(
        self, request: pb.TranslateTextProgressivelyRequest, rpc: RpcContext
    ) -> AsyncIterator[pb.TranslateTextProgressivelyResponse]:
        """Translate a text and send each part of it as soon as the search is certain of it."""
        sent = 0
        try:
            texts, resolve = (request.content,), self._resolve(rpc.caller)
            call = await requests.read_settings(request.settings, texts, resolve, self._engine.glossaries)
            with ChargedCall(rpc, call) as charged:
                parts = self._engine.translate_progressively(call, **charged.arguments)
                async with aclosing(parts):
                    async for part in parts:
                        if isinstance(part, str):
                            sent += len(part)
                            yield pb.TranslateTextProgressivelyResponse(text_delta=part)
                        else:
                            provenance = self._provenance(call, charged, "TranslateTextProgressively")
                            yield responses.last_progressive_response(call, part, provenance, sent=sent)
        except InvalidInputError as error:
            raise requests.as_sent(requests.for_single_text(error)) from None

    async def ExplainTranslation(
        self, request: pb.ExplainTranslationRequest, rpc: RpcContext
    ) -> pb.ExplainTranslationResponse:
        """Translate a sentence and say how."""
        try:
            resolve = self._resolve(rpc.caller)
            call, choice = await _explanation_call(request, resolve, self._engine.glossaries)
            detailed = dataclasses.replace(call, options=dataclasses.replace(call.options, token_details=True))
            with ChargedCall(rpc, call) as charged:
                hypotheses, explanation = await self._explainer.explain(detailed, choice, **charged.arguments)
        except InvalidInputError as error:
            raise requests.as_sent(requests.for_single_text(error)) from None
        return _explanation_response(call, hypotheses, explanation)

    async def DetectLanguage(self, request: pb.DetectLanguageRequest, rpc: RpcContext) -> pb.DetectLanguageResponse:
        """Detect the languages of texts."""
        texts = requests.read_detection_request(request)
        with rpc.caller.charged([text[:MAX_READ_CHARACTERS] for text in texts]):
            return responses.detection_response(await self._engine.router.detect_languages(texts))

    async def ListModels(self, request: pb.ListModelsRequest, rpc: RpcContext) -> pb.ListModelsResponse:
        """List the models being served that the caller may use."""
        with rpc.caller.charged(()):
            return responses.models_response(filter(rpc.caller.allows, self._engine.models))

    def _resolve(self, caller: Caller) -> Resolve:
        """Return the choice of a model among those that a caller may use."""
        return caller.limited(self._engine.router.route)

    def _provenance(self, call: Call, charged: ChargedCall, method: str) -> Provenance | None:
        """Return what says how the texts of a call were translated, if it asks for that."""
        if not call.return_provenance:
            return None
        return Provenance(call, charged.record, self._engine.runtime, method=method)

    async def _answer(self, request: pb.StreamTranslateTextRequest, stream: _Stream) -> None:
        began = time.perf_counter()
        try:
            response = await self._translated(request, stream)
        except DrainingError as error:
            # No fault of the text: as those that are not read, it has no answer, and the status says why.
            stream.ended_by = error
            stream.permits.release()
            return
        except InvalidInputError as error:
            named = requests.as_sent(requests.for_single_text(error))
            response = _refused(request, named, stream.rpc, began)
        except Exception as error:  # noqa: BLE001 - one bad text must not end the stream of the others
            response = _refused(request, error, stream.rpc, began)
        await stream.write(response)

    async def _translated(
        self, request: pb.StreamTranslateTextRequest, stream: _Stream
    ) -> pb.StreamTranslateTextResponse:
        rpc = stream.rpc
        call = await requests.read_stream_request(request, self._resolve(rpc.caller), self._engine.glossaries)
        with ChargedCall(rpc, call) as charged:
            [hypotheses] = await self._engine.translate(call, **charged.arguments)
        provenance = self._provenance(call, charged, "StreamTranslateText")
        return responses.stream_response(request.id, call, hypotheses, provenance)


class _Stream:
    """One bidirectional RPC: a permit for each text in translation, and a lock for the writing of answers."""

    def __init__(self, rpc: RpcContext, max_texts: int) -> None:
        self.rpc = rpc
        self.permits = asyncio.Semaphore(max_texts)
        self.caller_gone = False
        self.ended_by: EngineError | None = None
        self._write_lock = asyncio.Lock()

    async def write(self, response: pb.StreamTranslateTextResponse) -> None:
        # gRPC takes one message of a call at a time. The permit is kept until the answer is written, so that a caller
        # that does not read its answers is not read from.
        async with self._write_lock:
            try:
                await self.rpc.write(response)
            except grpc.aio.InternalError:
                self.caller_gone = True
        self.permits.release()


def _refused(
    request: pb.StreamTranslateTextRequest, error: Exception, rpc: RpcContext, began: float
) -> pb.StreamTranslateTextResponse:
    """Log why a text of a stream has no translation, and return what tells its caller."""
    status = errors.status_of(error, request_id=rpc.request_id)
    if rpc.log_text is not None:
        seconds, reason = time.perf_counter() - began, errors.reason_of(error)
        rpc.log_text(errors.code_of(status).name, seconds, request_id=rpc.request_id, reason=reason)
    return pb.StreamTranslateTextResponse(id=request.id, error=status)


class ChargedCall:
    """A call of an RPC while it is translated: what it is charged, and its record."""

    def __init__(self, rpc: RpcContext, call: Call) -> None:
        rpc.has_calls = True
        self._rpc, self._forced_tokens = rpc, call.forced_tokens
        self._characters, self._sentences = sum(map(len, call.texts)), 0
        self._charge = rpc.caller.charged(call.texts)
        self.record = CallRecord(exemplar=None if rpc.record is None else rpc.record.exemplar)
        """Record for the engine to fill in."""

    @property
    def arguments(self) -> EngineArguments:
        """Arguments for the engine besides the call; not kept, for they hold this object."""
        return EngineArguments(
            caller=self._rpc.caller.identity,
            deadline=self._rpc.deadline,
            record=self.record,
            hold_sentences=self.hold_sentences,
        )

    def __enter__(self) -> ChargedCall:
        """Charge the texts; raises the errors of `Caller.charged`."""
        self._charge.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Count the texts, or let the caller have back what is not charged for those with an error."""
        if self._rpc.record is not None:
            self._rpc.record.call_ended(self.record)
        self._charge.__exit__(kind, error, traceback)
        if error is None:
            self._rpc.used_characters += self._characters
            self._rpc.used_sentences += self._sentences

    def hold_sentences(self, count: int) -> AbstractContextManager[None]:
        """Count sentences and hold places for them, as `Caller.hold_sentences` does.

        Target tokens that are forced count as characters where they are more than those of the texts.
        """
        self._sentences += count
        more = max(0, count * self._forced_tokens - self._characters)
        self._characters += more
        return self._rpc.caller.hold_sentences(count, more_characters=more)


async def _explanation_call(
    request: pb.ExplainTranslationRequest, resolve: Resolve, glossaries: GlossaryFolder
) -> tuple[Call, AttentionChoice]:
    """Check a request and fill in the defaults, as `requests.read_settings` does; its hypotheses have scores."""
    violations = list(_explanation_violations(request))
    checked = await requests.read_settings(
        request.settings, (request.content,), resolve, glossaries, violations=violations
    )
    if checked.kept_texts:
        description = "has nothing to explain: it is not in a source language; name source_language_code if it is"
        raise InvalidInputError([FieldViolation(field="content", description=description)])
    kinds = request.attention_kinds or (explanation_pb2.ATTENTION_KIND_CROSS,)
    choice = AttentionChoice(kinds=kinds, layers=request.attention_layers, heads=request.attention_heads)
    return dataclasses.replace(checked, return_scores=True), choice


def _explanation_response(
    call: Call, hypotheses: Sequence[Hypothesis], explanation: explanation_pb2.Explanation
) -> pb.ExplainTranslationResponse:
    """Return the translation of a call and what explains it; hypotheses have tokens only if the call asks for them."""
    if not call.options.token_details:
        hypotheses = [dataclasses.replace(each, tokens=()) for each in hypotheses]
    return pb.ExplainTranslationResponse(
        translation=responses.translation(call, hypotheses),
        explanation=explanation,
        model=call.model.name,
        model_version=str(call.model.version),
    )


def _explanation_violations(request: pb.ExplainTranslationRequest) -> Iterable[FieldViolation]:
    if not request.content.strip():
        yield FieldViolation(field="content", description="must not be empty or only white space")
    settings = request.settings
    if settings.options.HasField("sampling"):
        yield FieldViolation(field="options.sampling", description=_ONLY_BEAM_SEARCH)
    if settings.options.partial_on_deadline:
        yield FieldViolation(field="options.partial_on_deadline", description=_ONLY_BEAM_SEARCH)
    for name, description in _REFUSED_SETTINGS.items():
        if getattr(settings, name):
            yield FieldViolation(field=name, description=description)
    if settings.content_format in (pb.CONTENT_FORMAT_HTML, pb.CONTENT_FORMAT_XML):
        yield FieldViolation(field="content_format", description="cannot be explained: only text without tags is")
    yield from _attention_violations(request)


def _attention_violations(request: pb.ExplainTranslationRequest) -> Iterable[FieldViolation]:
    for index, kind in enumerate(request.attention_kinds):
        if kind not in _KINDS:
            description = "must be ATTENTION_KIND_CROSS, ATTENTION_KIND_ENCODER or ATTENTION_KIND_DECODER"
            yield FieldViolation(field=f"attention_kinds[{index}]", description=description)
    for name, limit in (("attention_kinds", len(_KINDS)), ("attention_layers", MAX_LAYERS)):
        values = list(getattr(request, name))
        if len(values) > limit:
            yield FieldViolation(field=name, description=f"must have at most {limit} elements, has {len(values)}")
        elif len(set(values)) < len(values):
            yield FieldViolation(field=name, description="must have no element twice")
