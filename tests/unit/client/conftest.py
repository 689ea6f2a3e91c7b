"""Scripted gRPC servers on free ports, and both clients with one interface."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import isawaitable
from tempfile import TemporaryFile
from typing import IO, Any
from unittest.mock import patch

import grpc
import pytest
from grpc_health.v1 import health, health_pb2_grpc
from stand_in_server import PINGED

from xuanzang.client import AsyncTranslationClient, TranslationClient
from xuanzang.client.__main__ import main
from xuanzang.translation.v1 import status_pb2, translation_pb2_grpc
from xuanzang.translation.v1 import translation_pb2 as pb

Requests = Iterator[pb.StreamTranslateTextRequest]
Responses = Iterator[pb.StreamTranslateTextResponse]
Parts = Iterator[pb.TranslateTextProgressivelyResponse]


def translated(text: str) -> pb.Translation:
    """Return the translation that scripted servers give by default: upper case."""
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


CHINESE = [pb.DetectedLanguage(language_code="zh", confidence=0.75, script_code="Hans")]


def answering(answer: Callable[[Script, Any], Any]) -> Any:
    """Return a method of the service that answers a request always the same way."""

    def method(script: Script, request: Any, context: Any) -> Any:
        script.record(context, request)
        return answer(script, request)

    return method


def refusing(times: int, code: grpc.StatusCode, answer: Callable[[Any, Any], Any] = echo, pushback: str = "1") -> Any:
    """Return a method that refuses this many calls, and asks for the next after so many milliseconds; then answers."""
    left = iter(range(times))

    def respond(request: Any, context: Any) -> Any:
        if next(left, None) is not None:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", pushback),) if pushback else ())
            context.abort(code, "not now")
        return answer(request, context)

    return respond


def aborting(code: grpc.StatusCode, message: str = "no", *metadata: tuple[str, str | bytes]) -> Any:
    """Return a method that ends every call alike."""

    def abort(_: Any, context: Any) -> None:
        context.set_trailing_metadata(metadata)
        context.abort(code, message)

    return abort


class Script(translation_pb2_grpc.TranslationServiceServicer):
    """The service with replaceable methods, which records every request and the metadata of every call."""

    def __init__(self) -> None:
        self.on_translate: Callable[[Any, Any], Any] = echo
        self.on_stream: Callable[[Any, Any], Any] = echo_stream
        self.on_progressive: Callable[[Any, Any], Any] = echo_in_parts
        self.models = pb.ListModelsResponse()
        self.explanation = pb.ExplainTranslationResponse(translation=translated("a"), model="zh-en", model_version="1")
        self.requests: list[Any] = []
        self.metadata: list[dict[str, str]] = []
        self.address = ""

    def TranslateText(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.record(context, request)
        return self.on_translate(request, context)

    def StreamTranslateText(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        self.record(context)
        return self.on_stream(self._recorded(request_iterator), context)

    def TranslateTextProgressively(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.record(context, request)
        return self.on_progressive(request, context)

    ExplainTranslation = answering(lambda script, _: script.explanation)
    ListModels = answering(lambda script, _: script.models)
    DetectLanguage = answering(
        lambda _, request: pb.DetectLanguageResponse(
            detections=[pb.LanguageDetection(languages=CHINESE if text == "猫" else []) for text in request.contents]
        )
    )
    ListGlossaries = answering(lambda *_: pb.ListGlossariesResponse())
    ListGlossaryEntries = answering(
        lambda *_: pb.ListGlossaryEntriesResponse(entries=[pb.GlossaryEntry(source="猫", targets=["cat"])])
    )
    CreateGlossary = answering(
        lambda _, request: pb.CreateGlossaryResponse(
            glossary=pb.Glossary(name=request.name, entry_count=len(request.entries))
        )
    )
    DeleteGlossary = answering(lambda *_: pb.DeleteGlossaryResponse())

    def record(self, context: Any, *requests: Any) -> None:
        self.metadata.append(dict(context.invocation_metadata()))
        self.requests += requests

    def _recorded(self, requests: Requests) -> Requests:
        for request in requests:
            self.requests.append(request)
            yield request


def offer(script: Script, digest: str = "aa") -> None:
    """Let a server list the model that answers."""
    languages: Any = {"source_language_codes": ["zh"], "target_language_codes": ["en"]}
    model = pb.Model(name="zh-en", version="1", manifest_sha256=digest, is_default=True, **languages)
    script.models = pb.ListModelsResponse(models=[model])


def refuse_texts(script: Script, status: status_pb2.Status, *texts: str) -> None:
    """Let a stream answer some texts with an error."""
    answers = script.on_stream

    def stream(requests: Any, context: Any) -> Responses:
        for request in requests:
            if request.content in texts:
                yield pb.StreamTranslateTextResponse(id=request.id, error=status)
            else:
                yield from answers(iter([request]), context)

    script.on_stream = stream


class Silent:
    """Lets a server never answer; holds the events of the beginning of a call, and of its end."""

    def __init__(self, script: Script) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        script.on_translate = self._translate
        script.on_stream = script.on_progressive = self._stream

    def _translate(self, _: Any, context: Any) -> pb.TranslateTextResponse:
        over = threading.Event()
        for event in (over, self.ended):
            context.add_callback(event.set)
        self.begun.set()
        over.wait(30)
        return pb.TranslateTextResponse()

    def _stream(self, _: Any, context: Any) -> Iterator[Any]:
        self._translate(_, context)
        yield from ()


Serve = Callable[..., Script]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that starts a scripted server, over TLS if credentials are given."""
    servers: list[grpc.Server] = []

    def start(credentials: grpc.ServerCredentials | None = None) -> Script:
        script = Script()
        server = grpc.server(ThreadPoolExecutor(16), options=PINGED)
        translation_pb2_grpc.add_TranslationServiceServicer_to_server(script, server)
        # By default a server locks up for ever when one caller stops watching while another begins to: a thread that
        # holds the servicer's lock waits for gRPC's thread, which waits for the lock.
        watched = health.HealthServicer(experimental_non_blocking=False)
        health_pb2_grpc.add_HealthServicer_to_server(watched, server)
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
def script(serve: Serve) -> Script:
    return serve()


class Client:
    """A client whose methods block, opened for each call; results that it yields are a list."""

    def __init__(self, address: str | list[str], **settings: Any) -> None:
        self._settings: dict[str, Any] = {"address": address, "timeout": 20, **settings}

    def __getattr__(self, method: str) -> Any:
        return partial(self._call, method)

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError


class Blocking(Client):
    """TranslationClient."""

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        with TranslationClient(**self._settings) as client:
            found = getattr(client, method)(*arguments, **options)
            return list(found) if isinstance(found, Iterator) else found


class Asyncio(Client):
    """AsyncTranslationClient."""

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        async def call() -> Any:
            async with AsyncTranslationClient(**self._settings) as client:
                return await finished(getattr(client, method)(*arguments, **options))

        return asyncio.run(call())


async def finished(result: Any) -> Any:
    """Return the result of a method of either client; what it yields is a list."""
    if isinstance(result, AsyncIterator):
        return [each async for each in result]
    return list(result) if isinstance(result, Iterator) else await result if isawaitable(result) else result


@pytest.fixture(params=[Blocking, Asyncio])
def client_type(request: pytest.FixtureRequest) -> type[Client]:
    """Return each client in turn, so that a test holds for both."""
    kind: type[Client] = request.param
    return kind


@pytest.fixture
def client(client_type: type[Client], script: Script) -> Client:
    return client_type(script.address)


def environment(address: Any, *, measured: bool = True) -> Any:
    # Coverage data would not fit into the limits of a process.
    dropped = ("PYTHON", "LC_", "LANG", *(() if measured else ("COVERAGE_",)))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return clean | {"XUANZANG_ADDRESS": address}


def command(*arguments: Any) -> Any:
    return [sys.executable, "-m", "xuanzang.client", *map(str, arguments)]


@contextmanager
def standard_streams(given: bytes) -> Iterator[tuple[IO[bytes], io.StringIO]]:
    """Let standard input be these bytes; yield what is written to standard output and error, but by gRPC's threads."""
    with ExitStack() as stack:
        files = [stack.enter_context(TemporaryFile()) for _ in range(2)]
        files[0].write(given)
        files[0].seek(0)
        for number, file in enumerate(files):
            before = os.dup(number)
            stack.callback(os.close, before)
            stack.callback(os.dup2, before, number)
            os.dup2(file.fileno(), number)
        output = stack.enter_context(open(1, "w", closefd=False))
        stack.enter_context(patch.object(sys, "stdout", output))
        yield files[1], stack.enter_context(patch.object(sys, "stderr", io.StringIO()))


@pytest.fixture
def run(script: Script, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs the command to its end: in this process, or after a command of a shell."""

    def run(
        *arguments: Any, given: str | bytes = "", address: Any = script.address, before: str | None = None
    ) -> tuple[int, str, str]:
        content = given if isinstance(given, bytes) else given.encode()
        if before:
            return run_in_shell(before, content, address, *arguments)
        monkeypatch.setenv("XUANZANG_ADDRESS", address)
        with standard_streams(content) as (output, errors):
            try:
                code = main([*map(str, arguments)])
            except SystemExit as ended:
                code = int(ended.code or 0)
            sys.stdout.flush()
            output.seek(0)
            return code, output.read().decode(), errors.getvalue()

    return run


def run_in_shell(before: str, given: bytes, address: str, *arguments: Any) -> tuple[int, str, str]:
    """Run the command after one of the shell; `preexec_fn` would fork this process while gRPC's threads run."""
    done = subprocess.run(
        ["sh", "-c", f'{before}; exec "$@"', "sh", *command(*arguments)],
        input=given,
        env=environment(address, measured=False),
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def start(script: Script) -> Any:
    """Return a function that starts the command on pipes; the fixture kills it at the end."""
    started, pipe = [], subprocess.PIPE

    def start(*arguments: Any) -> Any:
        started.append(
            subprocess.Popen(command(*arguments), env=environment(script.address), stdin=pipe, stdout=pipe, stderr=pipe)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
