"""Who calls, so that a busy server can give every caller an equal share. Never logged, never a label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]

CLIENT_ID = "x-client-id"
MAX_CLIENT_ID_CHARACTERS = 128


def caller_of(context: Context) -> str:
    """Tell callers apart.

    Args:
        context: Of an RPC.

    Returns:
        What the caller calls itself, else its network address without the port.

    Raises:
        InvalidInputError: The name is too long.
    """
    name = str(dict(context.invocation_metadata() or ()).get(CLIENT_ID, ""))
    if len(name) > MAX_CLIENT_ID_CHARACTERS:
        description = f"must have at most {MAX_CLIENT_ID_CHARACTERS} characters, has {len(name)}"
        raise InvalidInputError([FieldViolation(field=CLIENT_ID, description=description)])
    return name or context.peer().rpartition(":")[0]
