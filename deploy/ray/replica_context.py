"""The gRPC context that the service needs, made from Serve's."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from google.protobuf.message import Message

from xuanzang.server.rpc import errors
from xuanzang.translation.v1 import status_pb2

if TYPE_CHECKING:
    from ray.serve.grpc_util import RayServegRPCContext

_OF_SERVE = "request_id"
"""Key of the trailer that Serve adds to whatever is set."""


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

    def set_trailing_metadata(self, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        """Set what follows the answer; Serve takes a list only, and adds its own pair.

        Args:
            metadata: Pairs, with or without earlier ones.
        """
        self._context.set_trailing_metadata([pair for pair in metadata if pair[0] != _OF_SERVE])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class RpcFailedError(Exception):
    """The RPC ends with the status that its context has."""


def set_status(context: RayServegRPCContext, error: Exception) -> status_pb2.Status:
    """Set the status of an error, with its details.

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

    Raises:
        RpcFailedError: Always.
    """
    raise RpcFailedError(set_status(context, error).message) from None


def not_offered(answer: type[Message]) -> Callable[..., Coroutine[Any, Any, Message]]:
    """Make a method of the application that ends an RPC as UNIMPLEMENTED; a missing one would be INTERNAL.

    Args:
        answer: Class of the RPC's answer.
    """

    async def refuse(_: object, _request: Message, grpc_context: RayServegRPCContext) -> Message:
        set_status(
            grpc_context,
            errors.NotOfferedError("not offered on Ray Serve: store glossaries in the folder of the models"),
        )
        return answer()

    return refuse
