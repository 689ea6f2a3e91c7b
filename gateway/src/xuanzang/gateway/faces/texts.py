"""Texts of a request, and what becomes of those that no model translates."""

from __future__ import annotations

from xuanzang.client import TranslateOptions
from xuanzang.gateway.entry.parameters import Parameters
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


def unserved(parameters: Parameters) -> TranslateOptions:
    """Return what becomes of texts in languages that are not served, by this gateway's addition to the APIs of others.

    Args:
        parameters: Parameters of a request.

    Raises:
        RefusedError: `pass_through_unserved` has another value than true or false.
    """
    name = "pass_through_unserved"
    value = parameters.scalar(name)
    if value is None:
        return {}
    if value.lower() not in ("0", "1", "false", "true"):
        raise bad_request(name, "must be true or false")
    return {"pass_through_unserved": value.lower() in ("1", "true")}
