"""The interceptor that turns errors into statuses."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.message import DecodeError

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.rpc import errors
from xuanzang.server.rpc.context import Context
from xuanzang.server.rpc.interceptors.base import Interceptor, Rpc
from xuanzang.server.rpc.interceptors.handlers import Handler, function_of, with_function
from xuanzang.server.rpc.request_ids import request_id_of


class ErrorInterceptor(Interceptor):
    """Turns errors into statuses with details; a message that is not valid protobuf is an error of the caller, too."""

    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Catch what the handler raises."""
        function = function_of(handler)
        decode = handler.request_deserializer or bytes

        def decoded(message: bytes) -> Any:
            try:
                return decode(message)
            except DecodeError as error:
                fault = FieldViolation(field="request", description=f"must be a valid message of {rpc.grpc_method}")
                raise InvalidInputError([fault]) from error

        async def guarded(request: Any, context: Context) -> Any:
            try:
                if handler.request_streaming:
                    messages = (decoded(message) async for message in request)
                    return await function(messages, context)
                return await function(decoded(request), context)
            except (grpc.aio.AbortError, grpc.aio.InternalError):
                # There is a status, or nobody to send it to: gRPC could not write an answer.
                raise
            except Exception as error:  # noqa: BLE001 - the one place where any error becomes a status
                status = errors.status_of(error, request_id=request_id_of(context))
            return await errors.end(context, status)

        return with_function(handler, guarded, decodes_requests=False)
