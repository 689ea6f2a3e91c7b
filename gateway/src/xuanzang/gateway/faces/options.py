"""Options that depend on what the installed SDK can ask of a server."""

from __future__ import annotations

from typing import cast

from xuanzang.client import TranslateOptions
from xuanzang.gateway.errors import bad_request


def option(name: str, value: object, *, field: str) -> TranslateOptions:
    """Return an option of a translation, if the SDK has it.

    Args:
        name: Name in TranslateOptions.
        value: Value.
        field: Name of the parameter in the API.

    Raises:
        RefusedError: The SDK lacks the option.
    """
    if name not in TranslateOptions.__optional_keys__:
        raise bad_request(field, "is not supported by this gateway")
    return cast("TranslateOptions", {name: value})


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
