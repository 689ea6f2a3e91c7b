"""The interceptor that sends RPCs through the gate."""

from __future__ import annotations

from typing import Any

from xuanzang.server.access.errors import QuotaExceededError
from xuanzang.server.engine.errors import ModelOverloadedError, OverloadedError
from xuanzang.server.rpc.context import Context
from xuanzang.server.rpc.entry.gate import RpcGate
from xuanzang.server.rpc.entry.screen import Screen
from xuanzang.server.rpc.interceptors.base import Interceptor, Rpc
from xuanzang.server.rpc.interceptors.handlers import Handler, function_of, with_function
from xuanzang.server.rpc.translation_rpcs import TranslationRpcs


class GateInterceptor(Interceptor):
    """Sends each RPC that translates through the gate; health and reflection always answer."""

    def __init__(self, gate: RpcGate, screen: Screen, rpcs: TranslationRpcs) -> None:
        super().__init__()
        self._rpcs = rpcs
        self._gate = gate
        self._screen = screen

    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Run the handler only if the gate admits its RPC."""
        if rpc not in self._rpcs:
            return handler
        function = function_of(handler)

        async def admitted(request: Any, context: Context) -> Any:
            await self._gate.enter(context, is_stream=handler.request_streaming)
            try:
                answer = await function(request, context)
            except QuotaExceededError:
                # It says nothing of the next RPC, which may be smaller.
                raise
            except OverloadedError as error:
                # A model's own limits say nothing of the caller's other requests.
                if not isinstance(error, ModelOverloadedError):
                    self._screen.learn_refusal(context, error)
                raise
            self._screen.learn_answer(context)
            return answer

        return with_function(handler, admitted)
