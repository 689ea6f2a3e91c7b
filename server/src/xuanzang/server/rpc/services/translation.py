"""The translation service: each method checks the request, calls the engine and writes the response."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from functools import partial
from types import MappingProxyType, TracebackType

import grpc

from xuanzang.server.access.callers import GlossaryWriters, KeyCaller
from xuanzang.server.engine.calls.record import Call, CallRecord
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import DrainingError, EngineError, FieldViolation, InvalidInputError
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
        "allow_pivot": "cannot be explained: only a translation by one model is",
        "glossary": _NOT_KEPT,
        "glossary_entries": _NOT_KEPT,
        "placeholders": "cannot be explained: no placeholders may be carried",
        "protected_patterns": _NOT_KEPT,
        "return_alternatives": _ONLY_BEAM_SEARCH,
        "return_provenance": _NOT_RETURNED,
        "return_quality": _NOT_RETURNED,
    }
)


_EXPLANATION_BYTES = 2**20
"""Size of an explanation, which may be large."""
_BYTES_PER_CHARACTER, _BYTES_PER_TOKEN, _BYTES_PER_SENTENCE = 3, 40, 200


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

    async def TranslateText(
        self, request: pb.TranslateTextRequest, rpc: RpcContext
    ) -> pb.TranslateTextResponse | bytes:
        """Translate many texts and answer when all are done."""
        try:
            checking = partial(requests.check_unary, request, max_characters=self._engine.max_content_characters)
            call = await self._completed(await rpc.compute(checking), rpc)
            with ChargedCall(rpc, call) as charged:
                translations = await self._engine.translate(call, **charged.arguments)
        except InvalidInputError as error:
            raise requests.as_sent(error) from None
        work = partial(responses.unary_response, call, translations, self._provenance(call, charged, "TranslateText"))
        return await rpc.answer(work, size=_answer_bytes(call, charged.record))

    async def StreamTranslateText(
        self, request_iterator: AsyncIterator[pb.StreamTranslateTextRequest], rpc: RpcContext
    ) -> None:
        """Translate texts as they arrive and answer each when it is done."""
        stream = _Stream(rpc, self._max_stream_texts)
        async with asyncio.TaskGroup() as group:
            try:
                async for request in request_iterator:
                    size, fault = rpc.message_bytes, rpc.fault
                    await stream.permits.acquire()
                    group.create_task(self._answer(request, stream, size, fault))
            except EngineError as error:
                # The texts read so far are answered before the status says why reading stopped.
                stream.ended_by = error
        if stream.caller_gone:
            # gRPC is about to cancel this task for the same reason.
            raise asyncio.CancelledError
        if stream.ended_by is not None:
            raise stream.ended_by

    async def TranslateTextProgressively(
        self, request: pb.TranslateTextProgressivelyRequest, rpc: RpcContext
    ) -> AsyncIterator[pb.TranslateTextProgressivelyResponse | bytes]:
        """Translate a text and send each part of it as soon as the search is certain of it."""
        sent = 0
        try:
            limit = self._engine.max_content_characters
            checking = partial(requests.check_settings, request.settings, (request.content,), max_characters=limit)
            call = await self._completed(await rpc.compute(checking), rpc)
            with ChargedCall(rpc, call) as charged:
                parts = self._engine.translate_progressively(call, **charged.arguments)
                async with aclosing(parts):
                    async for part in parts:
                        if isinstance(part, str):
                            sent += len(part)
                            yield pb.TranslateTextProgressivelyResponse(text_delta=part)
                        else:
                            provenance = self._provenance(call, charged, "TranslateTextProgressively")
                            last = partial(responses.last_progressive_response, call, part, provenance, sent=sent)
                            yield await rpc.answer(last, size=_answer_bytes(call, charged.record))
        except InvalidInputError as error:
            raise requests.as_sent(requests.for_single_text(error)) from None

    async def ExplainTranslation(
        self, request: pb.ExplainTranslationRequest, rpc: RpcContext
    ) -> pb.ExplainTranslationResponse | bytes:
        """Translate a sentence and say how."""
        try:
            limit = self._engine.max_content_characters
            checked = await rpc.compute(partial(_checked_explanation, request, max_characters=limit))
            call, choice = _explained(await self._completed(checked, rpc)), _choice(request)
            detailed = dataclasses.replace(call, options=dataclasses.replace(call.options, token_details=True))
            with ChargedCall(rpc, call) as charged:
                hypotheses, explanation = await self._explainer.explain(detailed, choice, **charged.arguments)
        except InvalidInputError as error:
            raise requests.as_sent(requests.for_single_text(error)) from None
        return await rpc.answer(partial(_explanation_response, call, hypotheses, explanation), size=_EXPLANATION_BYTES)

    async def DetectLanguage(self, request: pb.DetectLanguageRequest, rpc: RpcContext) -> pb.DetectLanguageResponse:
        """Detect the languages of texts."""
        texts = requests.read_detection_request(request)
        with rpc.caller.charged([text[:MAX_READ_CHARACTERS] for text in texts]):
            detected = await self._engine.router.detect_languages(texts, offload=rpc.offload)
        return responses.detection_response(detected)

    async def ListModels(self, request: pb.ListModelsRequest, rpc: RpcContext) -> pb.ListModelsResponse:
        """List the models being served that the caller may use."""
        with rpc.caller.charged(()):
            models = filter(rpc.caller.allows, self._engine.live.served())
            return responses.models_response(self._engine.router.with_pivots(models))

    async def _completed(self, checked: requests.CheckedRequest, rpc: RpcContext) -> Call:
        """Fill in the defaults of a request, with a model that the caller may use."""
        resolve = rpc.caller.limited(self._engine.router.route)
        return await requests.completed(checked, resolve, self._engine.glossaries, offload=rpc.offload)

    def _provenance(self, call: Call, charged: ChargedCall, method: str) -> Provenance | None:
        """Return what says how the texts of a call were translated, if it asks for that."""
        if not call.return_provenance:
            return None
        return Provenance(call, charged.record, self._engine.runtime, method=method)

    async def _answer(
        self, request: pb.StreamTranslateTextRequest, stream: _Stream, size: int, fault: InvalidInputError | None
    ) -> None:
        """Answer a message of `size` bytes, or one that was not decoded because of a fault."""
        began = time.perf_counter()
        response: pb.StreamTranslateTextResponse | bytes
        if fault is not None:
            await stream.write(_refused(request, fault, stream.rpc, began))
            return
        try:
            response = await self._translated(request, stream, size)
        except DrainingError as error:
            # The text is not at fault: like unread ones, it has no answer, and the status says why.
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
        self, request: pb.StreamTranslateTextRequest, stream: _Stream, size: int
    ) -> pb.StreamTranslateTextResponse | bytes:
        rpc = stream.rpc
        checking = partial(requests.check_stream, request, max_characters=self._engine.max_content_characters)
        call = await self._completed(await rpc.compute(checking, size=size), rpc)
        with ChargedCall(rpc, call) as charged:
            [hypotheses] = await self._engine.translate(call, **charged.arguments)
        provenance = self._provenance(call, charged, "StreamTranslateText")
        work = partial(responses.stream_response, request.id, call, hypotheses, provenance)
        return await rpc.answer(work, size=_answer_bytes(call, charged.record))


class _Stream:
    """One bidirectional RPC: a permit for each text in translation, and a lock for the writing of answers."""

    def __init__(self, rpc: RpcContext, max_texts: int) -> None:
        self.rpc = rpc
        self.permits = asyncio.Semaphore(max_texts)
        self.caller_gone = False
        self.ended_by: EngineError | None = None
        self._write_lock = asyncio.Lock()

    async def write(self, response: pb.StreamTranslateTextResponse | bytes) -> None:
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
    # An id over the limit is the fault, and as large as a message.
    return pb.StreamTranslateTextResponse(id=request.id[: requests.MAX_ID_BYTES], error=status)


class ChargedCall:
    """A call of an RPC while it is translated: its charges, and its record."""

    def __init__(self, rpc: RpcContext, call: Call) -> None:
        rpc.has_calls = True
        caller, record = rpc.caller, CallRecord(exemplar=None if rpc.record is None else rpc.record.exemplar)
        self._rpc, self._forced_tokens = rpc, call.forced_tokens
        # Two models translate each text.
        texts = [*call.texts, *call.texts] if call.first else call.texts
        self._characters = sum(map(len, texts))
        self._charge: AbstractContextManager[None] | None = None
        if isinstance(caller, KeyCaller):
            self._charge = caller.charged(texts)
            record.hold_sentences = partial(
                caller.hold_sentences, characters=self._characters, forced_tokens=self._forced_tokens
            )
        self.record = record
        """Record for the engine to fill in."""
        self.arguments = EngineArguments(caller=caller.identity, deadline=rpc.deadline, record=record)
        """Further arguments for the engine."""

    def __enter__(self) -> ChargedCall:
        """Charge the texts; raises the errors of `Caller.charged`."""
        if self._charge is not None:
            self._charge.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Count the texts, or refund the charge of failed ones."""
        rpc, first = self._rpc, self.record.first
        sentences = self.record.sentences + (first.sentences if first else 0)
        if rpc.record is not None:
            rpc.record.call_ended(self.record)
        if self._charge is not None:
            self._charge.__exit__(kind, error, traceback)
        if error is None:
            rpc.used_characters += max(self._characters, sentences * self._forced_tokens)
            rpc.used_sentences += sentences


def _answer_bytes(call: Call, record: CallRecord) -> int:
    """Return the size of an answer to a call, roughly and rather more."""
    size = _BYTES_PER_CHARACTER * record.characters
    if call.options.token_details or call.options.num_hypotheses > 1:
        size += _BYTES_PER_TOKEN * call.options.num_hypotheses * (record.target_tokens or 0)
    if call.return_provenance:
        size += _BYTES_PER_SENTENCE * (record.texts + record.sentences)
    return size


def _checked_explanation(request: pb.ExplainTranslationRequest, *, max_characters: int) -> requests.CheckedRequest:
    """Check a request, as `requests.check_settings` does."""
    violations = list(_explanation_violations(request))
    request.settings.allow_pivot = False
    texts = (request.content,)
    return requests.check_settings(request.settings, texts, max_characters=max_characters, violations=violations)


def _explained(call: Call) -> Call:
    """Return a call whose hypotheses have scores; InvalidInputError: it translates nothing."""
    if call.kept_texts:
        description = "has nothing to explain: it is not in a source language; name source_language_code if it is"
        raise InvalidInputError([FieldViolation(field="content", description=description)])
    return dataclasses.replace(call, return_scores=True)


def _choice(request: pb.ExplainTranslationRequest) -> AttentionChoice:
    kinds = request.attention_kinds or (explanation_pb2.ATTENTION_KIND_CROSS,)
    return AttentionChoice(kinds=kinds, layers=request.attention_layers, heads=request.attention_heads)


def _explanation_response(
    call: Call, hypotheses: Sequence[Hypothesis], explanation: explanation_pb2.Explanation
) -> pb.ExplainTranslationResponse:
    """Return the translation of a call and its explanation; hypotheses have tokens only if the call asks for them."""
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
