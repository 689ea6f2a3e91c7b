"""The interceptors that find out who calls, and refuse those who may not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from xuanzang.server.access.callers import Caller
from xuanzang.server.access.errors import UnauthenticatedError
from xuanzang.server.rpc.context import Context, caller_of
from xuanzang.server.rpc.entry.identities import Identities
from xuanzang.server.rpc.interceptors.base import Interceptor, Rpc
from xuanzang.server.rpc.interceptors.handlers import Handler, function_of, with_function
from xuanzang.server.rpc.translation_rpcs import TranslationRpcs


class IdentityInterceptor(Interceptor):
    """Finds out who calls before anything of the caller is received; outermost.

    Those who will be refused need not send a message, and what they send is not read: an empty one stands for it until
    `AccessInterceptor` refuses the RPC, inside of the interceptors that count it and write its status.
    """

    def __init__(self, identities: Identities, rpcs: TranslationRpcs) -> None:
        super().__init__()
        self._identities = identities
        self._rpcs = rpcs

    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Give the handler a context that knows the caller."""
        if self._rpcs.is_open(rpc):
            return handler
        function = function_of(handler)

        async def identified(messages: AsyncIterator[Any], context: Context) -> Any:
            known: Any = self._identities.identified(context)
            return await function(messages if isinstance(known.identity, Caller) else _empty_message(), known)

        return with_function(handler, identified)


class AccessInterceptor(Interceptor):
    """Refuses callers who must have a key and have none."""

    def __init__(self, rpcs: TranslationRpcs) -> None:
        super().__init__()
        self._rpcs = rpcs

    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Run the handler only for callers who may call."""
        if self._rpcs.is_open(rpc):
            return handler
        function = function_of(handler)

        async def admitted(request: Any, context: Context) -> Any:
            try:
                caller_of(context)
            except UnauthenticatedError as refusal:
                refusal.count()
                raise
            return await function(request, context)

        return with_function(handler, admitted)


async def _empty_message() -> AsyncIterator[bytes]:
    yield b""
