"""The interceptor that counts, times, logs and traces RPCs."""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import AsyncIterable, AsyncIterator
from functools import cache
from typing import Any, cast

import grpc
from prometheus_client import Counter

from xuanzang.server.metrics import Metrics
from xuanzang.server.rpc.context import Context
from xuanzang.server.rpc.interceptors.base import Interceptor, Rpc
from xuanzang.server.rpc.interceptors.handlers import Handler, function_of, with_function
from xuanzang.server.rpc.interceptors.rpc_log import RpcLog
from xuanzang.server.rpc.observation import Observation
from xuanzang.server.rpc.request_ids import request_id_of
from xuanzang.server.rpc.translation_rpcs import TranslationRpcs

# RPCs that are not read are counted together, after this time.
_UNREAD_SECONDS = 0.1


class TelemetryInterceptor(Interceptor):
    """Counts, times, logs and traces each RPC with the status that it ended with."""

    def __init__(
        self, metrics: Metrics, observation: Observation | None = None, *, rpcs: TranslationRpcs | None = None
    ) -> None:
        super().__init__()
        self._metrics = metrics
        self._observation = observation or Observation()
        self._rpcs = rpcs or TranslationRpcs()
        self._log = RpcLog(self._rpcs)
        self._unread: collections.Counter[tuple[Rpc, grpc.StatusCode]] = collections.Counter()
        for rpc in self._rpcs.answered:
            metrics.register_rpc(rpc)

    def count_unread(self, rpc: Rpc, code: grpc.StatusCode) -> None:
        """Count and log an RPC that is answered without being read, by no interceptor.

        Args:
            rpc: Identity of the RPC.
            code: Its status.
        """
        if not self._unread:
            asyncio.get_running_loop().call_later(_UNREAD_SECONDS, self._publish_unread)
        self._unread[rpc, code] += 1

    def _publish_unread(self) -> None:
        for (rpc, code), number in self._unread.items():
            metrics = self._metrics.of_rpc(rpc)
            metrics.started.inc(number)
            self._metrics.grpc_server_handled.labels(*rpc, code.name).inc(number)
            for _ in range(number):
                self._log.write(rpc, code, 0.0)
            self._observation.end_unread(rpc, code, number)
        self._unread.clear()

    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Observe what the handler does."""
        function = function_of(handler)
        metrics, handled = self._metrics.of_rpc(rpc), self._metrics.grpc_server_handled
        # Finding a series by its labels takes as long as counting, so it is done once for each status.
        handled_with = cache(lambda code: handled.labels(*rpc, code.name))
        is_recorded = rpc in self._rpcs

        async def observed(request: Any, context: Context) -> Any:
            metrics.started.inc()
            started = time.perf_counter()
            timeout = context.time_remaining()
            record = self._observation.begin(rpc, context) if is_recorded else None
            code = grpc.StatusCode.UNKNOWN
            try:
                if handler.request_streaming:
                    request = _counted(request, metrics.msg_received)
                else:
                    metrics.msg_received.inc()
                if handler.response_streaming:
                    response = await function(request, cast("Context", _CountedContext(context, metrics.msg_sent)))
                else:
                    response = await function(request, context)
                code = context.code() or grpc.StatusCode.OK
                if code is grpc.StatusCode.OK and not handler.response_streaming:
                    metrics.msg_sent.inc()
            except grpc.aio.AbortError:
                code = context.code()
                raise
            except (asyncio.CancelledError, grpc.aio.InternalError):
                # The caller is gone: gRPC cancelled the task, or an answer could not be written.
                code = _code_of_cancellation(context, timeout)
                raise
            finally:
                seconds = time.perf_counter() - started
                metrics.handling_seconds.observe(seconds, None if record is None else record.exemplar)
                handled_with(code).inc()
                self._log.write(rpc, code, seconds, request_id=request_id_of(context))
                if record is not None:
                    self._observation.end(record, code, seconds)
            return response

        return with_function(handler, observed)


class _CountedContext:
    """A servicer context that counts the messages written to it."""

    def __init__(self, context: Context, sent: Counter) -> None:
        self._context = context
        self._sent = sent

    async def write(self, message: Any) -> None:
        await self._context.write(message)
        self._sent.inc()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


async def _counted(requests: AsyncIterable[Any], received: Counter) -> AsyncIterator[Any]:
    async for request in requests:
        received.inc()
        yield request


def _code_of_cancellation(context: Context, timeout: float | None) -> grpc.StatusCode:
    # gRPC cancels the handler's task both when the caller gives up and when the deadline passes. The caller's clock
    # runs out first: timeouts are rounded up, by at most 1 %, to be sent, and the server's began later.
    expired = timeout is not None and context.time_remaining() <= 0.01 * timeout + 0.02
    return grpc.StatusCode.DEADLINE_EXCEEDED if expired else grpc.StatusCode.CANCELLED
