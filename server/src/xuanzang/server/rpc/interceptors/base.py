"""The base class of the interceptors, which makes one handler per RPC, whatever its shape."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

import grpc

from xuanzang.server.rpc.interceptors.handlers import Handler

Continuation: TypeAlias = Callable[[grpc.HandlerCallDetails], Awaitable["Handler | None"]]


class Rpc(NamedTuple):
    """Identity of an RPC: the labels that every `grpc_server_*` metric has."""

    grpc_type: str
    """Shape: "unary", "client_stream", "server_stream" or "bidi_stream"."""
    grpc_service: str
    """Full name of the service."""
    grpc_method: str


def grpc_type(*, request_streaming: bool, response_streaming: bool) -> str:
    """Return the name that metrics have for the shape of an RPC.

    Args:
        request_streaming: Whether the caller sends a stream.
        response_streaming: Whether the server sends a stream.

    Returns:
        "unary", "client_stream", "server_stream" or "bidi_stream".
    """
    if request_streaming and response_streaming:
        return "bidi_stream"
    if request_streaming:
        return "client_stream"
    return "server_stream" if response_streaming else "unary"


class Interceptor(grpc.aio.ServerInterceptor):
    """Wraps the handler of each RPC once."""

    def __init__(self) -> None:
        # gRPC calls `intercept_service` for every call, and the handler of a method is always the same.
        self._wrapped: dict[str, Handler] = {}

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Wrap the handler made by the inner interceptors."""
        name = handler_call_details.method
        if name not in self._wrapped:
            handler = await continuation(handler_call_details)
            if handler is None:
                return None
            _, service, method = name.split("/")
            shape = grpc_type(
                request_streaming=handler.request_streaming, response_streaming=handler.response_streaming
            )
            self._wrapped[name] = self.wrap(handler, Rpc(shape, service, method))
        return self._wrapped[name]

    @abstractmethod
    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Make a handler that runs the given one.

        Args:
            handler: Inner handler.
            rpc: Identity of the RPC.

        Returns:
            The handler to use instead.
        """
