"""gRPC's method handlers, of which there are four shapes, read and replaced as functions of one signature.

An `RpcFunction` takes the request, or an iterator of requests, and returns the response, or None if it wrote its
responses to the context.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from xuanzang.server.rpc.context import Context

# gRPC's class takes parameters only in its type stubs.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
RpcFunction: TypeAlias = Callable[[Any, Context], Awaitable[Any]]


def function_of(handler: Handler) -> RpcFunction:
    """Return the function that a handler runs.

    Args:
        handler: Handler of any shape.

    Returns:
        The handler's own function; one that yields its responses is wrapped to write them to the context.
    """
    function: RpcFunction = getattr(handler, _shape(handler))
    if not inspect.isasyncgenfunction(function):
        return function

    async def write_responses(request: Any, context: Context) -> None:
        async with aclosing(function(request, context)) as responses:
            async for response in responses:
                await context.write(response)

    return write_responses


def with_function(
    handler: Handler, function: RpcFunction, *, decodes_requests: bool = True, receives_stream: bool = False
) -> Handler:
    """Return a handler of the same shape that runs another function.

    Args:
        handler: Handler whose shape and coders are kept.
        function: Function to run.
        decodes_requests: Whether the function gets messages; False gives it their bytes.
        receives_stream: Whether the function gets an iterator of requests, even if the handler takes one request.

    Returns:
        A new handler.
    """
    shape = _shape(handler).replace("unary_", "stream_", 1) if receives_stream else _shape(handler)
    make = getattr(grpc, f"{shape}_rpc_method_handler")
    made: Handler = make(
        function,
        request_deserializer=handler.request_deserializer if decodes_requests else None,
        response_serializer=handler.response_serializer,
    )
    return made


def _shape(handler: Handler) -> str:
    return "_".join("stream" if side else "unary" for side in (handler.request_streaming, handler.response_streaming))
