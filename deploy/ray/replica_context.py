"""What the service asks of a gRPC context, answered from the one that Serve hands to a replica."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ray.serve.grpc_util import RayServegRPCContext

from xuanzang.server.rpc import errors
from xuanzang.translation.v1 import status_pb2


class ReplicaContext:
    """A servicer context without a deadline, which stays in the proxy."""

    def __init__(self, context: RayServegRPCContext, write: Callable[[Any], Any] | None) -> None:
        """Adapt a context.

        Args:
            context: Serve's context: metadata, peer and status.
            write: Function that sends an answer of a stream.
        """
        self._context = context
        self.write = write

    def time_remaining(self) -> None:
        """Return no limit: when the caller's time is over, the proxy cancels the call."""
        return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class RpcFailedError(Exception):
    """The RPC ends with the status that its context has."""


def set_status(context: RayServegRPCContext, error: Exception) -> status_pb2.Status:
    """Set the status of an error, with its details.

    Args:
        context: Context of the RPC.
        error: Error of any class.

    Returns:
        The status.
    """
    status = errors.status_of(error)
    context.set_code(errors.code_of(status))
    context.set_details(status.message)
    context.set_trailing_metadata(list(errors.trailers_of(status)))
    return status


def fail(context: RayServegRPCContext, error: Exception) -> NoReturn:
    """End a stream with the status of an error; its details do not pass the proxy.

    Args:
        context: Context of the RPC.
        error: Error of any class.

    Raises:
        RpcFailedError: Always.
    """
    raise RpcFailedError(set_status(context, error).message) from None
