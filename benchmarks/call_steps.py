"""Servers that answer before a call has gone all its way, to measure what each step of it costs.

Process of `call_cost --steps`: the name of a step, then flags as of `xuanzang.server`; of them `--address` alone counts
where grpc.aio is alone.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, Final, cast
from unittest import mock

import grpc

from benchmarks.harness.processes import METHOD
from xuanzang.server.__main__ import main
from xuanzang.server.engine.calls.call import RunningCall
from xuanzang.server.engine.calls.jobs import SentenceJobs
from xuanzang.server.engine.calls.preparation import PreparedTexts
from xuanzang.server.engine.scheduling.request import Request
from xuanzang.server.engine.types import FinishReason, Hypothesis
from xuanzang.server.rpc.context import RpcContext
from xuanzang.server.rpc.grpc_private import Accepted, Listener
from xuanzang.server.rpc.messages import requests
from xuanzang.server.rpc.services.translation import ChargedCall, TranslationService
from xuanzang.translation.v1 import translation_pb2 as pb

ANSWER: Final = pb.TranslateTextResponse(translations=[pb.Translation(hypotheses=[pb.Hypothesis(text="Good")])])
HYPOTHESIS: Final = Hypothesis(text="Good", score=0.0, token_count=1, finish_reason=FinishReason.END_OF_SENTENCE)
CODERS: Final[dict[str, Any]] = {
    "request_deserializer": pb.TranslateTextRequest.FromString,
    "response_serializer": pb.TranslateTextResponse.SerializeToString,
}
IDLE_SECONDS = 60.0


async def answer(_request: object, _context: object) -> pb.TranslateTextResponse:
    """Answer at once."""
    return ANSWER


async def answer_stream(messages: AsyncIterator[Any], _context: object) -> pb.TranslateTextResponse:
    """Receive a message as a stream with a time limit, and answer."""
    async with asyncio.timeout(IDLE_SECONDS), aclosing(cast("Any", aiter(messages))) as received:
        await anext(received)
    return ANSWER


async def answer_read(_messages: object, context: Any) -> pb.TranslateTextResponse:
    """Receive a message as our server does, and answer."""
    pb.TranslateTextRequest.FromString(await context.read())
    return ANSWER


async def serve(server: grpc.aio.Server, handler: grpc.RpcMethodHandler[Any, Any]) -> None:
    """Serve one method until the process ends."""
    _, service, method = METHOD.split("/")
    server.add_registered_method_handlers(service, {method: handler})
    server.add_insecure_port(sys.argv[sys.argv.index("--address") + 1])
    await server.start()
    await server.wait_for_termination()


async def serve_bare() -> None:
    """Serve with grpc.aio alone."""
    await serve(grpc.aio.server(), grpc.unary_unary_rpc_method_handler(answer, **CODERS))


async def serve_stream() -> None:
    """Serve with grpc.aio alone, and receive messages as streams."""
    await serve(grpc.aio.server(), grpc.stream_unary_rpc_method_handler(answer_stream, **CODERS))


async def serve_listener() -> None:
    """Serve with our listener, which does not identify callers and receives messages as streams."""
    accepted = Accepted(answer_read, None, CODERS["response_serializer"], sends_stream=False)
    handler = grpc.stream_unary_rpc_method_handler(answer_stream, **CODERS)
    await serve(cast("grpc.aio.Server", Listener(lambda *_: accepted, ())), handler)


async def read_and_answer(
    self: TranslationService, request: pb.TranslateTextRequest, rpc: RpcContext
) -> pb.TranslateTextResponse:
    """Read, check and charge a request, and answer."""
    checked = requests.check_unary(request, max_characters=self._engine.max_content_characters)
    call = await self._completed(checked, rpc)
    with ChargedCall(rpc, call):
        return ANSWER


async def answer_call(self: RunningCall, prepared: PreparedTexts) -> list[list[Hypothesis]]:
    """Make a request of the sentences, and answer without submitting it."""
    jobs = SentenceJobs(prepared.searches, self._context)
    Request(self._context, jobs.left(), jobs).close()
    return [[HYPOTHESIS] for _ in prepared.searches]


async def answer_method(_self: object, request: object, context: object) -> pb.TranslateTextResponse:
    """Answer at once."""
    return await answer(request, context)


ALONE: Final[Mapping[str, Callable[[], Coroutine[Any, Any, None]]]] = MappingProxyType(
    {"bare": serve_bare, "stream": serve_stream, "listener": serve_listener}
)
PATCHES: Final[Mapping[str, tuple[type, str, object]]] = MappingProxyType(
    {
        "rpc": (TranslationService, "TranslateText", answer_method),
        "messages": (TranslationService, "TranslateText", read_and_answer),
        "engine": (RunningCall, "_search", answer_call),
    }
)
STEPS: Final = (*ALONE, *PATCHES)


if __name__ == "__main__":
    step = sys.argv.pop(1)
    if step in ALONE:
        asyncio.run(ALONE[step]())
    else:
        with mock.patch.object(*PATCHES[step]):
            raise SystemExit(main())
