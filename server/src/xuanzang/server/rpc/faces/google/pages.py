"""Pages of lists, as Google's methods give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError

MAX_PAGE_SIZE = 1000

Item = TypeVar("Item")


def page_of(items: Sequence[Item], request: Any) -> tuple[Sequence[Item], str]:
    """Return a page of a list; its token is the index of its first item.

    Args:
        items: The whole list.
        request: Message with `page_size` and `page_token`.

    Returns:
        The page, and the token of the next one; empty after the last.

    Raises:
        InvalidInputError: The token is none, or the size negative.
    """
    token = request.page_token or "0"
    if not (token.isascii() and token.isdecimal() and len(token) <= len(str(len(items)))):
        raise InvalidInputError([FieldViolation(field="page_token", description="must be that of an answer, or unset")])
    if request.page_size < 0:
        raise InvalidInputError([FieldViolation(field="page_size", description="must not be negative")])
    start = int(token)
    end = start + min(request.page_size or MAX_PAGE_SIZE, MAX_PAGE_SIZE)
    return items[start:end], str(end) if end < len(items) else ""
