"""What a face is: methods of another API, and how the server treats their RPCs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import grpc

from xuanzang.server.rpc.interceptors.base import Rpc, grpc_type
from xuanzang.server.rpc.interceptors.handlers import Handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """A service of another API."""

    service: str
    """Full name of the service."""
    handlers: Mapping[str, Handler]
    """Handlers by the names of their methods."""
    answered: frozenset[str]
    """Methods that are not refused whatever they ask."""
    screened: frozenset[str] = frozenset()
    """Methods that translate, with one message of the caller: a busy server refuses them unread."""
    checks: frozenset[str] = frozenset()
    """Methods that say whether the server is well: they answer everybody, also while models load and at the drain."""

    def rpc(self, method: str) -> Rpc:
        """Return the identity of a method's RPCs.

        Args:
            method: Name of one of its methods.
        """
        handler = self.handlers[method]
        shape = grpc_type(request_streaming=handler.request_streaming, response_streaming=handler.response_streaming)
        return Rpc(shape, self.service, method)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the service to a server.

        Args:
            server: Server that is not started yet.
        """
        handlers = dict(self.handlers)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(self.service, handlers),))
        server.add_registered_method_handlers(self.service, handlers)
