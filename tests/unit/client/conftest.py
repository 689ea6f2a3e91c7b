"""A real gRPC server on a free port whose answers each test scripts, and both clients behind one face."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc
import pytest

from xuanzang.client import (
    AsyncTranslationClient,
    Model,
    ProgressiveTranslation,
    StreamedTranslation,
    TLSConfig,
    Translation,
    TranslationClient,
)
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

Requests = Iterator[pb.StreamTranslateTextRequest]
Responses = Iterator[pb.StreamTranslateTextResponse]
Parts = Iterator[pb.TranslateTextProgressivelyResponse]


def translated(text: str) -> pb.Translation:
    """Translate as the scripted server does: into upper case."""
    reason = pb.FINISH_REASON_END_OF_SENTENCE
    return pb.Translation(hypotheses=[pb.Hypothesis(text=text.upper(), token_count=2, finish_reason=reason)])


def echo(request: pb.TranslateTextRequest, context: grpc.ServicerContext) -> pb.TranslateTextResponse:
    translations = [translated(text) for text in request.contents]
    return pb.TranslateTextResponse(translations=translations, model="zh-en", model_version="1")


def echo_stream(requests: Requests, context: grpc.ServicerContext) -> Responses:
    for request in requests:
        yield answer(request)


def answer(request: pb.StreamTranslateTextRequest) -> pb.StreamTranslateTextResponse:
    translation = translated(request.content)
    return pb.StreamTranslateTextResponse(id=request.id, translation=translation, model="zh-en", model_version="1")


def echo_in_parts(request: pb.TranslateTextProgressivelyRequest, context: grpc.ServicerContext) -> Parts:
    """Translate letter by letter."""
    for letter in request.content.upper():
        yield pb.TranslateTextProgressivelyResponse(text_delta=letter)
    yield pb.TranslateTextProgressivelyResponse(
        translation=translated(request.content), model="zh-en", model_version="1"
    )


class Script(translation_pb2_grpc.TranslationServiceServicer):
    """The service, with every method replaceable; it keeps the unary requests and their metadata."""

    def __init__(self) -> None:
        self.on_translate: Callable[[Any, Any], Any] = echo
        self.on_stream: Callable[[Any, Any], Any] = echo_stream
        self.on_progressive: Callable[[Any, Any], Any] = echo_in_parts
        self.models = pb.ListModelsResponse()
        self.requests: list[pb.TranslateTextRequest] = []
        self.address = ""

    def TranslateText(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.requests.append(request)
        return self.on_translate(request, context)

    def StreamTranslateText(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        return self.on_stream(request_iterator, context)

    def TranslateTextProgressively(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self.on_progressive(request, context)

    def ListModels(self, request: Any, context: Any) -> pb.ListModelsResponse:  # noqa: N802
        return self.models


@pytest.fixture
def serve() -> Iterator[Callable[..., Script]]:
    """Start scripted servers on free ports, over TLS if credentials are given."""
    servers: list[grpc.Server] = []

    def start(credentials: grpc.ServerCredentials | None = None) -> Script:
        script = Script()
        server = grpc.server(ThreadPoolExecutor(8))
        translation_pb2_grpc.add_TranslationServiceServicer_to_server(script, server)
        if credentials is None:
            port = server.add_insecure_port("127.0.0.1:0")
        else:
            port = server.add_secure_port("127.0.0.1:0", credentials)
        script.address = f"127.0.0.1:{port}"
        server.start()
        servers.append(server)
        return script

    yield start
    for server in servers:
        server.stop(grace=None).wait()


@pytest.fixture
def script(serve: Callable[..., Script]) -> Script:
    return serve()


class Blocking:
    """Calls through TranslationClient."""

    def __init__(self, address: str | list[str], *, tls: TLSConfig | None = None, client_id: str | None = None) -> None:
        self._open = partial(TranslationClient, address, tls=tls, timeout=20, client_id=client_id)

    def translate(self, texts: list[str], **options: Any) -> list[Translation]:
        with self._open() as client:
            return client.translate(texts, **options)

    def translate_one(self, text: str, **options: Any) -> Translation:
        with self._open() as client:
            return client.translate_one(text, **options)

    def translate_progressively(self, text: str, **options: Any) -> list[ProgressiveTranslation]:
        with self._open() as client:
            return list(client.translate_progressively(text, **options))

    def translate_stream(self, texts: Iterable[str], **options: Any) -> list[StreamedTranslation]:
        with self._open() as client:
            return list(client.translate_stream(texts, **options))

    def list_models(self) -> list[Model]:
        with self._open() as client:
            return client.list_models()


class Asyncio:
    """The same calls through AsyncTranslationClient."""

    def __init__(self, address: str | list[str], *, tls: TLSConfig | None = None, client_id: str | None = None) -> None:
        self._open = partial(AsyncTranslationClient, address, tls=tls, timeout=20, client_id=client_id)

    def translate(self, texts: list[str], **options: Any) -> list[Translation]:
        async def call() -> list[Translation]:
            async with self._open() as client:
                return await client.translate(texts, **options)

        return asyncio.run(call())

    def translate_one(self, text: str, **options: Any) -> Translation:
        async def call() -> Translation:
            async with self._open() as client:
                return await client.translate_one(text, **options)

        return asyncio.run(call())

    def translate_progressively(self, text: str, **options: Any) -> list[ProgressiveTranslation]:
        async def call() -> list[ProgressiveTranslation]:
            async with self._open() as client:
                return [each async for each in client.translate_progressively(text, **options)]

        return asyncio.run(call())

    def translate_stream(self, texts: Iterable[str], **options: Any) -> list[StreamedTranslation]:
        async def call() -> list[StreamedTranslation]:
            async with self._open() as client:
                return [each async for each in client.translate_stream(texts, **options)]

        return asyncio.run(call())

    def list_models(self) -> list[Model]:
        async def call() -> list[Model]:
            async with self._open() as client:
                return await client.list_models()

        return asyncio.run(call())


Client = Blocking | Asyncio


@pytest.fixture(params=[Blocking, Asyncio])
def client_type(request: pytest.FixtureRequest) -> type[Client]:
    """Either client: what a test says holds for both."""
    kind: type[Client] = request.param
    return kind


@pytest.fixture
def client(client_type: type[Client], script: Script) -> Client:
    return client_type(script.address)
