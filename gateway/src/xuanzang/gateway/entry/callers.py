"""Callers: the key of a request, who its holder is, and the client that calls the server with it."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import Headers

from xuanzang.client import AsyncTranslationClient
from xuanzang.gateway.errors import Fault, RefusedError
from xuanzang.gateway.limits import Holder
from xuanzang.serving.networks import network_of

REQUEST_ID = "x-request-id"
"""Header of request and answer."""
KEY_HEADERS = ("x-api-key", "x-goog-api-key", "ocp-apim-subscription-key", "key")
"""Headers, and metadata of gRPC, whose whole value is a key."""

_LOGGER = logging.getLogger(__name__)
_VALID_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_SCHEMES = ("bearer", "deepl-auth-key")
_PROVED_SECONDS = 5.0
_MAX_PROVED = 1024
_PROOF_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Sender of a request."""

    holder: Holder
    """Its network address and its name, which do not depend on the spelling of the key: a digest of
    the key or, where none is asked for, the address."""
    client: AsyncTranslationClient
    """Client that calls the server with the caller's key."""


def request_id_of(headers: Headers) -> str:
    """Return the id of the caller's choice, or a new one if that is missing or invalid."""
    return checked_id(headers.get(REQUEST_ID, ""))


def checked_id(chosen: str) -> str:
    """Return an id that a caller chose, or a new one if it is not valid."""
    return chosen if _VALID_ID.fullmatch(chosen) else secrets.token_hex(16)


def key_in(headers: Headers) -> str | None:
    """Return the API key in a dedicated header or in `authorization`, with or without a scheme.

    Raises:
        RefusedError: `authorization` has another scheme.
    """
    for name in KEY_HEADERS:
        if key := headers.get(name, "").strip():
            return key
    scheme, _, key = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() not in _SCHEMES:
        if not key:
            return scheme or None
        message = "the header authorization must be Bearer KEY or DeepL-Auth-Key KEY"
        raise RefusedError(Fault(status=HTTPStatus.UNAUTHORIZED, message=message))
    return key.strip() or None


class Callers:
    """Makes the clients of callers, all over the same connections. Belongs to one event loop."""

    def __init__(self, client: AsyncTranslationClient, *, anonymous: bool, listing_key: str | None = None) -> None:
        """Connect callers with the server.

        Args:
            anonymous: Whether callers without a key are passed on.
            listing_key: Key of callers without one, for lists of languages and models.
        """
        self.client = client
        self.anonymous = anonymous
        self._listing_key = listing_key
        self._proved: OrderedDict[str, float] = OrderedDict()

    def holder_of(self, key: str | None, address: str) -> Holder:
        """Return by what a caller is counted.

        Args:
            address: Its network address, as `network_of` returns it.
        """
        # Where no key is needed, a caller may invent any number of them.
        return Holder(address, address if self.anonymous or not key else _digest(key))

    def caller_of(
        self, key: str | None, *, peer: str, request_id: str, needs_key: bool = True, hint: str = "a header"
    ) -> Caller:
        """Return who sends a request.

        Args:
            peer: Network address of the caller; the server shares its time among addresses without a key.
            needs_key: Whether callers without a key are refused where keys are asked for; otherwise they have the one
                for listing.
            hint: Where the API's clients put a key.

        Raises:
            RefusedError: A key is needed, or this one cannot be passed on.
        """
        address = network_of(peer)
        if needs_key and not key and not self.anonymous:
            message = f"an API key is needed, in {hint}"
            raise RefusedError(Fault(status=HTTPStatus.UNAUTHORIZED, message=message, reason="no_key"))
        try:
            sent = key if needs_key else key or self._listing_key
            client = self.client.for_caller(api_key=sent, client_id=peer or None, request_id=request_id)
        except ValueError as error:
            # The reason is in the settings, or in the key, which it does not hold.
            _LOGGER.warning("a key is not passed on", extra={"reason": str(error), "request_id": request_id})
            message = "the API key is not valid, or the gateway must not send it to the server"
            raise RefusedError(Fault(status=HTTPStatus.FORBIDDEN, message=message)) from error
        return Caller(holder=self.holder_of(key, address), client=client)

    async def prove(self, caller: Caller, key: str | None) -> None:
        """Ask the server whether it would answer a caller, at most every few seconds for each key.

        Raises:
            TranslationError: It would not, or cannot be asked.
        """
        digest, now = _digest(key), time.monotonic()
        if self._proved.get(digest, now) > now:
            return
        await caller.client.list_models(timeout=_PROOF_SECONDS)
        self._proved[digest] = now + _PROVED_SECONDS
        self._proved.move_to_end(digest)
        if len(self._proved) > _MAX_PROVED:
            self._proved.popitem(last=False)


def _digest(key: str | None) -> str:
    return hashlib.sha256((key or "").encode(errors="surrogatepass")).hexdigest()
