"""The translation service: each method reads the request, asks the engine and writes the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import grpc
from typing_extensions import override

from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import EngineError, InvalidInputError
from xuanzang.server.rpc import errors, messages
from xuanzang.server.rpc.context import Context, caller_of, deadline_of
from xuanzang.server.rpc.gate import RpcGate
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc


class TranslationService(translation_pb2_grpc.TranslationServiceServicer):
    """Serves the engine's models."""

    def __init__(self, engine: Engine, gate: RpcGate, *, max_stream_texts: int) -> None:
        self._engine = engine
        self._gate = gate
        self._max_stream_texts = max_stream_texts

    @override
    async def TranslateText(self, request: pb.TranslateTextRequest, context: Context) -> pb.TranslateTextResponse:
        """Translate many texts and answer when all are done."""
        checked = messages.read_unary_request(request, self._engine.resolve)
        translations = await self._engine.translate(
            checked.texts,
            model=checked.model,
            options=checked.options,
            deadline=deadline_of(context),
            caller=caller_of(context),
            target_language=checked.target_language,
        )
        return messages.unary_response(checked, translations)

    @override
    async def StreamTranslateText(  # type: ignore[override]  # it writes its answers, in any order
        self, request_iterator: AsyncIterator[pb.StreamTranslateTextRequest], context: Context
    ) -> None:
        """Translate texts as they arrive and answer each when it is done."""
        stream = _Stream(context, self._max_stream_texts)
        ended_by: EngineError | None = None
        async with asyncio.TaskGroup() as group:
            try:
                await self._read(request_iterator, stream, group)
            except EngineError as error:
                # The texts read so far are answered before the caller learns why no more are read.
                ended_by = error
        if stream.caller_gone:
            # As gRPC itself would have done in a moment.
            raise asyncio.CancelledError
        if ended_by is not None:
            raise ended_by

    @override
    async def TranslateTextProgressively(
        self, request: pb.TranslateTextProgressivelyRequest, context: Context
    ) -> AsyncIterator[pb.TranslateTextProgressivelyResponse]:
        """Translate a text and send what is certain of it as the search goes on."""
        checked = messages.read_progressive_request(request, self._engine.resolve)
        parts = self._engine.translate_progressively(
            checked.texts[0],
            model=checked.model,
            options=checked.options,
            deadline=deadline_of(context),
            caller=caller_of(context),
            target_language=checked.target_language,
        )
        sent = 0
        try:
            async with aclosing(parts):
                async for part in parts:
                    if isinstance(part, str):
                        sent += len(part)
                        yield pb.TranslateTextProgressivelyResponse(text_delta=part)
                    else:
                        yield messages.last_progressive_response(checked, part, sent=sent)
        except InvalidInputError as error:
            raise messages.of_single_text(error) from None

    @override
    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        """List the models being served."""
        return messages.models_response(self._engine.models)

    async def _read(
        self, requests: AsyncIterator[pb.StreamTranslateTextRequest], stream: _Stream, group: asyncio.TaskGroup
    ) -> None:
        async with aclosing(self._gate.until_closed(requests)) as admitted:
            async for request in admitted:
                await stream.slots.acquire()
                group.create_task(self._answer(request, stream))

    async def _answer(self, request: pb.StreamTranslateTextRequest, stream: _Stream) -> None:
        try:
            response = await self._translated(request, stream)
        except InvalidInputError as error:
            response = _failed(request, messages.of_single_text(error))
        except Exception as error:  # noqa: BLE001 - one bad text must not end the stream of the others
            response = _failed(request, error)
        await stream.write(response)

    async def _translated(
        self, request: pb.StreamTranslateTextRequest, stream: _Stream
    ) -> pb.StreamTranslateTextResponse:
        checked = messages.read_stream_request(request, self._engine.resolve)
        [hypotheses] = await self._engine.translate(
            checked.texts,
            model=checked.model,
            options=checked.options,
            deadline=deadline_of(stream.context),
            caller=stream.caller,
            target_language=checked.target_language,
        )
        return messages.stream_response(request.id, checked, hypotheses)


class _Stream:
    """One bidirectional RPC: a slot for each text in translation, and a pen that one answer holds at a time."""

    def __init__(self, context: Context, max_texts: int) -> None:
        self.context = context
        self.caller = caller_of(context)
        self.slots = asyncio.Semaphore(max_texts)
        self.caller_gone = False
        self._pen = asyncio.Lock()

    async def write(self, response: pb.StreamTranslateTextResponse) -> None:
        # gRPC takes one message of a call at a time. The slot is kept until the answer is out, so that a caller
        # who does not read is not read from.
        async with self._pen:
            try:
                await self.context.write(response)
            except grpc.aio.InternalError:
                self.caller_gone = True
        self.slots.release()


def _failed(request: pb.StreamTranslateTextRequest, error: Exception) -> pb.StreamTranslateTextResponse:
    return pb.StreamTranslateTextResponse(id=request.id, error=errors.status_of(error))
