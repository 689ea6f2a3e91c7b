"""Large requests of every method leave the event loop to others, and their faults are few in an answer."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import grpc
import pytest

from xuanzang.translation.v1 import translation_pb2, translation_pb2_grpc


class LoopHolds:
    """Processor time of the longest callback; other processes and threads change it little."""

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds of the thread of the loop."""

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure all callbacks of event loops while the context lasts."""
        run = asyncio.Handle._run

        def measured_run(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            self.longest = max(self.longest, time.thread_time() - began)

        asyncio.Handle._run = measured_run  # type: ignore[assignment,method-assign]
        try:
            yield
        finally:
            asyncio.Handle._run = run  # type: ignore[method-assign]


# Its messages take names of enums and other messages as plain values, which the stubs do not say.
pb: Any = translation_pb2

BYTES = 4 * 2**20
SERVICE = pb.DESCRIPTOR.services_by_name["TranslationService"]
SECONDS = 0.06
"""Far less than any of these requests took on the loop, and three times what it may take on a calm machine."""

Settings = partial(pb.TranslationSettings, source_language_code="zh")
PAGE = "<a" * (BYTES // 2)


def repeated(message: Any, element: bytes) -> bytes:
    """Return a message with as many elements as fit."""
    return bytes(message.SerializeToString()) + element * (BYTES // len(element))


def entry(number: int, **fields: Any) -> pb.GlossaryEntry:
    return pb.GlossaryEntry(**{"source": f"词{number}", "targets": ["word"], **fields})


REQUESTS: dict[str, list[Callable[[], Any]]] = {
    "TranslateText": [
        lambda: pb.TranslateTextRequest(contents=[PAGE], settings={"content_format": pb.CONTENT_FORMAT_HTML}),
        lambda: pb.TranslateTextRequest(
            contents=["<script" * 2000] * 200, settings={"content_format": pb.CONTENT_FORMAT_HTML}
        ),
        lambda: repeated(pb.TranslateTextRequest(), b"\x0a\x00"),
        lambda: pb.TranslateTextRequest(contents=["some words of text"] * 1024),
        lambda: pb.TranslateTextRequest(contents=["a" * 20_001] * 100),
        lambda: pb.TranslateTextRequest(contents=[" " * 4000] * 1000, settings=Settings()),
        lambda: pb.TranslateTextRequest(contents=["a"], settings=Settings(glossary_entries=map(entry, range(10**5)))),
        lambda: pb.TranslateTextRequest(
            contents=["a"], settings=Settings(glossary_entries=[entry(i, targets=[""] * 99) for i in range(1000)])
        ),
        lambda: pb.TranslateTextRequest(contents=["a"], settings={"source_language_code": "zh-" * (BYTES // 3)}),
        lambda: pb.TranslateTextRequest(contents=["a"], settings={"target_language_code": "en-" * (BYTES // 3)}),
        lambda: pb.TranslateTextRequest(contents=["a"], settings={"model": "a" * BYTES}),
        lambda: pb.TranslateTextRequest(contents=["a"], settings=Settings(glossary="a" * BYTES)),
        lambda: pb.TranslateTextRequest(contents=["a"], settings=Settings(protected_patterns=[1] * BYTES)),
        lambda: pb.TranslateTextRequest(contents=["a"], settings=Settings(placeholders=[1] * BYTES)),
        lambda: pb.TranslateTextRequest(contents=["a"], settings=Settings(placeholders=[1] * 8000)),
        lambda: pb.TranslateTextRequest(
            contents=["a"], settings=Settings(options={"suppressed_texts": [""] * (BYTES // 2)})
        ),
    ],
    "StreamTranslateText": [
        lambda: pb.StreamTranslateTextRequest(content=PAGE, settings={"content_format": pb.CONTENT_FORMAT_HTML}),
        lambda: pb.StreamTranslateTextRequest(content="a", id="中" * (BYTES // 3)),
    ],
    "TranslateTextProgressively": [
        lambda: pb.TranslateTextProgressivelyRequest(content=PAGE, settings={"content_format": pb.CONTENT_FORMAT_XML})
    ],
    "ExplainTranslation": [
        lambda: pb.ExplainTranslationRequest(content=PAGE, settings=Settings()),
        lambda: pb.ExplainTranslationRequest(content="a", attention_layers=[1] * BYTES),
        lambda: pb.ExplainTranslationRequest(content="a", attention_kinds=[1] * BYTES),
    ],
    "DetectLanguage": [
        lambda: pb.DetectLanguageRequest(contents=["some words of text here " * 160] * 1024),
        lambda: repeated(pb.DetectLanguageRequest(), b"\x0a\x00"),
    ],
    "ListModels": [lambda: b"\xf8\x07\x01" * (BYTES // 3)],
    "ListGlossaries": [lambda: b"\xf8\x07\x01" * (BYTES // 3)],
    "CreateGlossary": [
        lambda: pb.CreateGlossaryRequest(
            name="large", source_language_code="zh", target_language_code="en", entries=map(entry, range(10**5))
        ),
        lambda: repeated(pb.CreateGlossaryRequest(), b"\x2a\x00"),
        lambda: pb.CreateGlossaryRequest(name="a" * BYTES),
        lambda: pb.CreateGlossaryRequest(name="a", source_language_code="zh-" * (BYTES // 3)),
    ],
    "ListGlossaryEntries": [
        lambda: pb.ListGlossaryEntriesRequest(name="large"),
        lambda: pb.ListGlossaryEntriesRequest(name="a" * BYTES),
    ],
    "DeleteGlossary": [lambda: pb.DeleteGlossaryRequest(name="a" * BYTES)],
}


def test_every_method_is_tried_with_large_requests() -> None:
    assert set(REQUESTS) == set(SERVICE.methods_by_name)


def send(channel: Any, method: str, data: bytes) -> str:
    """Call a method and return the status in words; call it in a thread."""
    described, path = SERVICE.methods_by_name[method], f"/{SERVICE.full_name}/{method}"
    try:
        if described.client_streaming:
            list(channel.stream_stream(path)(iter([data]), timeout=60))
        elif described.server_streaming:
            list(channel.unary_stream(path)(data, timeout=60))
        else:
            channel.unary_unary(path)(data, timeout=60)
    except grpc.RpcError as error:
        return f"{error.code().name} {error.details()}"
    return "OK"


@pytest.fixture
def frozen_heap() -> Iterator[None]:
    """Let the collector, which requests start, look at nothing that other tests have left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("frozen_heap")
async def test_no_large_request_holds_the_event_loop(start_server: Any) -> None:
    async with start_server(glossary_writers="*") as running:
        with grpc.insecure_channel(running.address, [("grpc.max_receive_message_length", -1)]) as channel:
            # The first of each kind imports and compiles.
            await asyncio.to_thread(
                send, channel, "DetectLanguage", REQUESTS["DetectLanguage"][0]().SerializeToString()
            )
            for method, requests in REQUESTS.items():
                for number, request in enumerate(requests):
                    made = await asyncio.to_thread(request)
                    data = made if isinstance(made, bytes) else await asyncio.to_thread(made.SerializeToString)
                    del made
                    holds = LoopHolds()
                    with holds.measured():
                        status = await asyncio.to_thread(send, channel, method, data)
                    assert holds.longest < SECONDS, f"{method} {number}: {holds.longest:.3f} s, {status[:200]}"
                    assert not status.startswith(("INTERNAL", "UNKNOWN")), status[:200]
                    assert "metadata size" not in status
                    assert len(status) < 4000


@pytest.mark.parametrize("count", [1, 10, 11, 800])
async def test_an_answer_names_ten_faults_and_their_number(start_server: Any, count: int) -> None:
    async with start_server() as running, grpc.aio.insecure_channel(running.address) as channel:
        call: Any = channel.unary_unary(f"/{SERVICE.full_name}/TranslateText")
        request = pb.TranslateTextRequest(contents=["a" * 20_001] * count, settings=Settings())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(request.SerializeToString())
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        details = str(caught.value.details())
        assert details.count("must have at most 20000 characters") == min(count, 10)
        assert (f"and {count - 10} more, {count} faults in all" in details) == (count > 10)


async def test_a_message_over_a_limit_is_a_fault_of_its_own_in_a_stream(start_server: Any) -> None:
    async with start_server() as running, grpc.aio.insecure_channel(running.address) as channel:
        stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)
        entries = [entry(number) for number in range(2000)]
        sent = [
            pb.StreamTranslateTextRequest(id="first", content="我有一只猫。", settings=Settings()),
            pb.StreamTranslateTextRequest(id="long", content="a" * 10**6, settings=Settings()),
            pb.StreamTranslateTextRequest(id="many", content="a", settings=Settings(glossary_entries=entries)),
            pb.StreamTranslateTextRequest(id="last", content="我有一只猫。", settings=Settings()),
        ]
        answers = {answer.id: answer async for answer in stub.StreamTranslateText(iter(sent))}
        assert {name: answer.error.message for name, answer in answers.items()} == {
            "first": "",
            "long": "content: must have at most 20000 characters, has more",
            "many": "settings.glossary_entries: must have at most 1000 elements, has more",
            "last": "",
        }
