"""Callers: the key of a request, and the client that calls the server with it."""

from __future__ import annotations

import logging
import re
import secrets
from http import HTTPStatus

from starlette.datastructures import Headers

from xuanzang.client import AsyncTranslationClient
from xuanzang.gateway.errors import Fault, RefusedError

REQUEST_ID = "x-request-id"
"""Header of request and answer."""

_LOGGER = logging.getLogger(__name__)
_VALID_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_SCHEMES = ("bearer", "deepl-auth-key")


def request_id_of(headers: Headers) -> str:
    """Return the id that the caller chose, or a new one if it chose none or one that is not valid.

    Args:
        headers: Headers of the request.
    """
    chosen = headers.get(REQUEST_ID, "")
    return chosen if _VALID_ID.fullmatch(chosen) else secrets.token_hex(16)


def key_in(headers: Headers) -> str | None:
    """Return the API key of the header `authorization`.

    Args:
        headers: Headers of the request.

    Raises:
        RefusedError: The header has another scheme.
    """
    header = headers.get("authorization")
    if header is None:
        return None
    scheme, _, key = header.partition(" ")
    if scheme.lower() not in _SCHEMES:
        message = "the header authorization must be Bearer KEY or DeepL-Auth-Key KEY"
        raise RefusedError(Fault(status=HTTPStatus.UNAUTHORIZED, message=message))
    return key.strip() or None


class Callers:
    """Makes the clients of callers, all over the same connections."""

    def __init__(self, client: AsyncTranslationClient, *, anonymous: bool) -> None:
        """Connect callers with the server.

        Args:
            client: Client without a key.
            anonymous: Whether callers without a key are passed on.
        """
        self.client = client
        self._anonymous = anonymous

    def client_of(self, key: str | None, *, peer: str, request_id: str) -> AsyncTranslationClient:
        """Return the client for one request.

        Args:
            key: API key of the caller, or None.
            peer: Network address of the caller, by which the server divides its time among those without a key.
            request_id: Id of the request.

        Raises:
            RefusedError: A key is needed, or this one cannot be passed on.
        """
        if not key and not self._anonymous:
            raise RefusedError(Fault(status=HTTPStatus.UNAUTHORIZED, message="an API key is needed"))
        try:
            return self.client.for_caller(api_key=key, client_id=peer or None, request_id=request_id)
        except ValueError as error:
            # The reason is in the settings, or in the key, which it does not hold.
            _LOGGER.warning("a key is not passed on", extra={"reason": str(error), "request_id": request_id})
            message = "the API key is not valid, or the gateway must not send it to the server"
            raise RefusedError(Fault(status=HTTPStatus.FORBIDDEN, message=message)) from error
