"""The interceptors that find out who calls, and refuse those who may not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, cast

from grpc_reflection.v1alpha import reflection

from xuanzang.server.access.authentication import Authenticator
from xuanzang.server.access.callers import Caller
from xuanzang.server.access.errors import UnauthenticatedError
from xuanzang.server.engine.errors import InvalidInputError
from xuanzang.server.rpc.context import Context, IdentifiedContext, caller_of, unproven_name
from xuanzang.server.rpc.health import HEALTH_SERVICE
from xuanzang.server.rpc.interceptors.base import Interceptor, Rpc
from xuanzang.server.rpc.interceptors.handlers import Handler, function_of, with_function

OPEN_SERVICES: Final = frozenset({HEALTH_SERVICE, reflection.SERVICE_NAME})
"""Services that answer everybody: they say whether the server is well, and what its API is."""


class IdentityInterceptor(Interceptor):
    """Finds out who calls before anything of the caller is received; outermost.

    Those who will be refused need not send a message, and what they send is not read: an empty one stands for it until
    `AccessInterceptor` refuses the RPC, inside of the interceptors that count it and write its status.
    """

    def __init__(self, authenticator: Authenticator) -> None:
        super().__init__()
        self._authenticator = authenticator

    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Give the handler a context that knows the caller."""
        if rpc.grpc_service in OPEN_SERVICES:
            return handler
        function = function_of(handler)

        async def identified(messages: AsyncIterator[Any], context: Context) -> Any:
            identity = self._identity(context)
            received = messages if isinstance(identity, Caller) else _empty_message()
            return await function(received, cast("Context", IdentifiedContext(context, identity)))

        return with_function(handler, identified)

    def _identity(self, context: Context) -> Caller | Exception:
        try:
            caller = self._authenticator.keyed_caller(context.invocation_metadata() or ())
            return Caller(unproven_name(context)) if caller is None else caller
        except (InvalidInputError, UnauthenticatedError) as refusal:
            return refusal


class AccessInterceptor(Interceptor):
    """Refuses callers who must have a key and have none."""

    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Run the handler only for callers who may call."""
        if rpc.grpc_service in OPEN_SERVICES:
            return handler
        function = function_of(handler)

        async def admitted(request: Any, context: Context) -> Any:
            caller_of(context)
            return await function(request, context)

        return with_function(handler, admitted)


async def _empty_message() -> AsyncIterator[bytes]:
    yield b""
