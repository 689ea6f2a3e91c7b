"""The interceptor that finds out who calls."""

from __future__ import annotations

from typing import Any, Final, cast

from grpc_reflection.v1alpha import reflection

from xuanzang.server.access.authentication import Authenticator
from xuanzang.server.access.callers import Caller
from xuanzang.server.rpc.context import Context, IdentifiedContext, unproven_name
from xuanzang.server.rpc.health import HEALTH_SERVICE
from xuanzang.server.rpc.interceptors.base import Interceptor, Rpc
from xuanzang.server.rpc.interceptors.handlers import Handler, function_of, with_function

OPEN_SERVICES: Final = frozenset({HEALTH_SERVICE, reflection.SERVICE_NAME})
"""Services that answer everybody: they say whether the server is well, and what its API is."""


class AccessInterceptor(Interceptor):
    """Gives handlers a context that knows the caller, and refuses callers who must have a key and have none."""

    def __init__(self, authenticator: Authenticator) -> None:
        super().__init__()
        self._authenticator = authenticator

    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Run the handler only for callers who may call."""
        if rpc.grpc_service in OPEN_SERVICES:
            return handler
        function = function_of(handler)

        async def identified(request: Any, context: Context) -> Any:
            caller = self._authenticator.keyed_caller(context.invocation_metadata() or ())
            if caller is None:
                caller = Caller(unproven_name(context))
            return await function(request, cast("Context", IdentifiedContext(context, caller)))

        return with_function(handler, identified)
