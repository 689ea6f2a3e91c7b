"""The methods of the services that a listener has, and how the entry treats the RPCs of each."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias, cast

import grpc
from google.protobuf.message import Message

from xuanzang.server.metrics import Metrics, RpcMetrics
from xuanzang.server.rpc.context import RpcContext

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
RpcFunction: TypeAlias = Callable[[Any, RpcContext], Awaitable[Any]]
"""Answers one RPC: takes its message, or an iterator of its messages, and returns the answer or writes several."""


class Service:
    """A service, and how its RPCs are treated. Generated code adds its handlers as to a server."""

    def __init__(
        self,
        add_to_server: Callable[[Any, Any], None],
        servicer: object,
        *,
        is_open: bool = False,
        is_gated: bool = False,
        unscreened: Collection[str] = (),
    ) -> None:
        """Take the handlers of a servicer, whose functions take an `RpcContext`, by the generated `add_to_server`.

        An open service answers every caller, as health and reflection do. RPCs of a gated one translate: they pass the
        gate, are observed, and are counted from the start; a busy server reads its `unscreened` methods all the same.
        """
        self.is_open, self.is_gated, self._unscreened = is_open, is_gated, unscreened
        self.name = ""
        """Full name, such as "grpc.health.v1.Health"."""
        self.handlers: dict[str, Handler] = {}
        """Handlers by the names of their methods."""
        add_to_server(servicer, self)

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """Leave the handlers, which are registered too, alone."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Handler]) -> None:
        """Take the handlers."""
        self.name, self.handlers = service, handlers

    def methods(self, metrics: Metrics) -> Iterator[Method]:
        """Yield its methods, whose RPCs are counted in these metrics."""
        for name, handler in self.handlers.items():
            labels = _shape_of(handler), self.name, name
            if self.is_gated:
                metrics.register_rpc(labels)
            yield Method(
                service=self,
                name=name,
                path=f"/{self.name}/{name}",
                receives_stream=handler.request_streaming,
                sends_stream=handler.response_streaming,
                is_screened=self.is_gated and name not in self._unscreened,
                function=_function_of(handler),
                request=_message_of(handler),
                encode=partial(_encoded, cast("Callable[[Any], bytes]", handler.response_serializer)),
                series=metrics.rpcs.of(labels),
                handled=cache(partial(_series_of, metrics, labels)),
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Method:
    """One method of a listener, and the facts common to all its RPCs."""

    service: Service
    name: str
    path: str
    """Path on the wire."""
    receives_stream: bool
    sends_stream: bool
    is_screened: bool
    """True if a busy server refuses its RPCs unread."""
    function: RpcFunction
    request: Callable[[], Message]
    """Class of its request messages."""
    encode: Callable[[Any], bytes]
    """Encodes an answer, unless it is encoded already."""
    series: RpcMetrics
    """Series that only the event loop counts."""
    handled: Callable[[grpc.StatusCode], Any]
    """Counter of the RPCs that ended with a status; to find one by its labels takes as long as to count."""


def _series_of(metrics: Metrics, labels: tuple[str, str, str], code: grpc.StatusCode) -> Any:
    return metrics.grpc_server_handled.labels(*labels, code.name)


def _message_of(handler: Handler) -> type[Message]:
    """Return the class of the request messages of a handler, whose deserializer is the class's `FromString`."""
    deserializer: Any = handler.request_deserializer
    return type(deserializer(b""))


def _encoded(encode: Callable[[Any], bytes], answer: Any) -> bytes:
    return answer if isinstance(answer, bytes) else encode(answer)


def _shape_of(handler: Handler) -> str:
    """Return the shape of a method, the first label of every `grpc_server_*` metric."""
    if handler.request_streaming:
        return "bidi_stream" if handler.response_streaming else "client_stream"
    return "server_stream" if handler.response_streaming else "unary"


def _function_of(handler: Handler) -> RpcFunction:
    """Return the function that a handler runs; a generator of answers is wrapped to write them."""
    sides = (handler.request_streaming, handler.response_streaming)
    function: Any = getattr(handler, "_".join("stream" if side else "unary" for side in sides))
    if not inspect.isasyncgenfunction(function):
        return cast("RpcFunction", function)

    async def write_answers(request: Any, rpc: RpcContext) -> None:
        async with aclosing(function(request, rpc)) as answers:
            async for answer in answers:
                await rpc.write(answer)

    return write_answers
