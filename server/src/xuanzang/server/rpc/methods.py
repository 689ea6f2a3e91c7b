"""The methods of the services that a listener has, and how the entry treats the RPCs of each."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import grpc

from xuanzang.server.rpc.context import RpcContext

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
RpcFunction: TypeAlias = Callable[[Any, RpcContext], Awaitable[Any]]
"""Answers one RPC: takes its message, or an iterator of its messages, and returns the answer or writes several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service, and how its RPCs are treated."""

    name: str
    """Full name, such as "grpc.health.v1.Health"."""
    handlers: Mapping[str, Handler]
    """Handlers by the names of their methods; their functions take an `RpcContext`."""
    is_open: bool = False
    """Whether it answers everybody, as health and reflection do."""
    is_gated: bool = False
    """Whether its RPCs translate: they pass the gate, and are observed."""
    screened: Collection[str] = frozenset()
    """Methods that cost much and have one message of the caller: a busy server refuses them unread."""
    checks: Collection[str] = frozenset()
    """Methods that say whether the server is well: open and not gated, whatever the service is."""
    answered: Collection[str] = frozenset()
    """Methods whose series of metrics exist from the start."""

    def methods(self) -> list[Method]:
        """Return its methods."""
        return [
            Method(
                service=self.name,
                name=name,
                receives_stream=handler.request_streaming,
                sends_stream=handler.response_streaming,
                function=_function_of(handler),
                decode=handler.request_deserializer or bytes,
                encode=handler.response_serializer,
                is_open=self.is_open or name in self.checks,
                is_gated=self.is_gated and name not in self.checks,
                is_screened=name in self.screened,
            )
            for name, handler in self.handlers.items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Method:
    """One method, apart from the state of the listener."""

    service: str
    name: str
    receives_stream: bool
    sends_stream: bool
    function: RpcFunction
    decode: Callable[[bytes], Any]
    encode: Any
    is_open: bool
    is_gated: bool
    is_screened: bool

    @property
    def labels(self) -> tuple[str, str, str]:
        """Labels that every `grpc_server_*` metric has: shape, service and method."""
        if self.receives_stream:
            shape = "bidi_stream" if self.sends_stream else "client_stream"
        else:
            shape = "server_stream" if self.sends_stream else "unary"
        return shape, self.service, self.name

    @property
    def path(self) -> str:
        """Path on the wire."""
        return f"/{self.service}/{self.name}"

    @property
    def logged_name(self) -> str:
        """Name in the access log: with its service, if that is another API's."""
        return self.name if self.service.startswith("xuanzang.translation.") else self.path[1:]


def handlers_of(add_to_server: Callable[[Any, Any], None], servicer: object) -> Mapping[str, Handler]:
    """Return the handlers that generated code makes of a servicer.

    Args:
        add_to_server: Generated function, such as `add_TranslationServiceServicer_to_server`.
        servicer: Object with the methods of the service.
    """
    added = _Added()
    add_to_server(servicer, added)
    return added.handlers


class _Added:
    """Stands for a server, to which generated code adds handlers."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """Leave the handlers, which are registered too, alone."""

    def add_registered_method_handlers(self, _service: str, handlers: dict[str, Handler]) -> None:
        """Take the handlers."""
        self.handlers |= handlers


def _function_of(handler: Handler) -> RpcFunction:
    """Return the function that a handler runs; one that yields its answers is wrapped to write them."""
    sides = (handler.request_streaming, handler.response_streaming)
    function: Any = getattr(handler, "_".join("stream" if side else "unary" for side in sides))
    if not inspect.isasyncgenfunction(function):
        return cast("RpcFunction", function)

    async def write_answers(request: Any, rpc: RpcContext) -> None:
        async with aclosing(function(request, rpc)) as answers:
            async for answer in answers:
                await rpc.write(answer)

    return write_answers
