"""Who calls, as the metadata of an RPC say and prove it."""

from __future__ import annotations

from xuanzang.server.access.authentication import Authenticator
from xuanzang.server.access.callers import Caller
from xuanzang.server.access.errors import UnauthenticatedError
from xuanzang.server.engine.errors import InvalidInputError
from xuanzang.server.rpc.context import Context, IdentifiedContext, Metadata, unproven_name


class Identities:
    """Finds out who calls; those who may not call are refused later, by `AccessInterceptor`."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def identified(self, context: Context) -> IdentifiedContext:
        """Return a context that knows the caller.

        Args:
            context: Context of an RPC.
        """
        metadata = tuple(context.invocation_metadata() or ())
        return IdentifiedContext(context, self._identity(context, metadata), metadata)

    def _identity(self, context: Context, metadata: Metadata) -> Caller | Exception:
        try:
            caller = self._authenticator.keyed_caller(metadata)
            return Caller(unproven_name(context, metadata)) if caller is None else caller
        except (InvalidInputError, UnauthenticatedError) as refusal:
            return refusal
