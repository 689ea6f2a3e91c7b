"""What the service sets on the context of an RPC, as Ray Serve takes it."""

from __future__ import annotations

from typing import Any

import grpc
from replica_context import ReplicaContext, not_offered

from xuanzang.server.access.callers import Caller
from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.types import CallerId, DecodingOptions, ServedModel
from xuanzang.server.observation.callers import sender_of
from xuanzang.server.rpc.context import RpcContext
from xuanzang.server.rpc.services.translation import ChargedCall
from xuanzang.translation.v1 import translation_pb2 as pb

OPTIONS = DecodingOptions(
    beam_size=1, num_hypotheses=1, length_penalty=0.0, min_target_length=0, max_target_length=None
)
MODEL = ServedModel(
    name="zh-en",
    version=1,
    source_languages=("zh",),
    target_languages=("en",),
    precision="int8",
    manifest_sha256="",
    is_default=True,
    default_options=OPTIONS,
    max_source_length=64,
    max_target_length=64,
)
CALL = Call(texts=("猫",), model=MODEL, options=OPTIONS)


class ServeContext:
    """Serve's context in what matters here: it adds what is set, a list, to a pair of its own."""

    def __init__(self) -> None:
        self.trailers: list[tuple[str, Any]] = [("request_id", "7")]
        self.code: grpc.StatusCode | None = None
        self.details = ""

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def trailing_metadata(self) -> list[tuple[str, Any]]:
        return self.trailers

    def set_trailing_metadata(self, metadata: list[tuple[str, Any]]) -> None:
        self.trailers = [pair for pair in self.trailers if pair[0] == "request_id"] + metadata

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        self.details = details


def test_what_an_rpc_has_used_follows_the_pair_that_serve_adds() -> None:
    serve = ServeContext()
    context: Any = ReplicaContext(serve, None)
    rpc = RpcContext(context, sender=sender_of(serve.peer()), caller=Caller(CallerId("someone")))
    for _ in range(2):
        with ChargedCall(rpc, CALL):
            pass
        context.set_trailing_metadata(rpc.trailers)
    assert serve.trailers[0] == ("request_id", "7")
    assert dict(serve.trailers) == {"request_id": "7", "x-usage-characters": "2", "x-usage-sentences": "0"}
    assert len([key for key, _ in serve.trailers if key == "request_id"]) == 1


async def test_an_rpc_that_is_not_offered_ends_as_unimplemented() -> None:
    serve = ServeContext()
    answer = await not_offered(pb.CreateGlossaryResponse)(None, pb.CreateGlossaryRequest(), serve)
    assert answer == pb.CreateGlossaryResponse()
    assert serve.code is grpc.StatusCode.UNIMPLEMENTED
    assert serve.details.startswith("not offered on Ray Serve")
