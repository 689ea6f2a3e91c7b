"""Texts of a request."""

from __future__ import annotations

from xuanzang.gateway.errors import bad_request


def checked_texts(texts: list[str], *, field: str, maximum: int) -> list[str]:
    """Return texts, if there are some and not too many.

    Args:
        texts: Texts of a request.
        field: Name of the parameter in the API.
        maximum: Maximum number.

    Raises:
        RefusedError: There are none or too many.
    """
    if not texts:
        raise bad_request(field, "must be given")
    if len(texts) > maximum:
        raise bad_request(field, f"must be at most {maximum} texts, are {len(texts)}")
    return texts
