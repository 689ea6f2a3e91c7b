"""Ids of RPCs, by which a caller and the operator speak of the same one."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Final

from xuanzang.server.rpc.context import Context

REQUEST_ID: Final = "x-request-id"
"""Name in the metadata of the caller and of the answer."""

MAX_CHARACTERS: Final = 128

_ID_BITS = 128

_VALID = re.compile(rf"[A-Za-z0-9._:/+=-]{{1,{MAX_CHARACTERS}}}")


def chosen_id(metadata: Mapping[str, str | bytes]) -> str:
    """Return the id that a caller chose, or a new one if it chose none or one that is not valid.

    Args:
        metadata: Metadata of the RPC.

    Returns:
        1 to 128 characters: letters, digits and "._:/+=-".
    """
    chosen = metadata.get(REQUEST_ID)
    if isinstance(chosen, str) and _VALID.fullmatch(chosen):
        return chosen
    # An id is no secret. `secrets` asks the system for each, and gives the interpreter away meanwhile.
    return f"{random.getrandbits(_ID_BITS):032x}"


def request_id_of(context: Context) -> str | None:
    """Return the id of an RPC; None of one that has none, such as a health check.

    Args:
        context: Context of the RPC.
    """
    found: str | None = getattr(context, "request_id", None)
    return found
