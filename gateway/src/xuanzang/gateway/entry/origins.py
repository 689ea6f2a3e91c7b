"""Hosts and origins: the name that addresses the gateway, and the browser's page that calls it."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from xuanzang.gateway.errors import Fault, RefusedError
from xuanzang.gateway.settings import is_loopback

_SAME_SITES = ("same-origin", "none")


def listed_origins(setting: str) -> list[str]:
    """Return the origins of a setting.

    Args:
        setting: Origins with commas between them.
    """
    return [origin.strip() for origin in setting.split(",") if origin.strip()]


def require_known_host(headers: Headers, hosts: Collection[str]) -> None:
    """Refuse calls by a name that is not the gateway's.

    A page may give its own name the address of this machine once it is loaded (DNS rebinding): to the browser the
    gateway is then of the page's origin, and the page reads the answers.

    Args:
        headers: Headers of the request; browsers send the host of the address that the page has named.
        hosts: Hosts, "*.example" for all below one, "loopback" for those of this machine, "addresses" for all IP
            addresses; none: any host.

    Raises:
        RefusedError: The host is not one of them.
    """
    given = headers.get("host")
    if not hosts or given is None:
        return
    try:
        host = (urlsplit(f"//{given}").hostname or "").rstrip(".")
    except ValueError:
        host = ""
    if any(_is_named(host, each) for each in hosts):
        return
    message = "the header host names another service: --allowed-hosts of the gateway lists its names"
    raise RefusedError(Fault(status=HTTPStatus.MISDIRECTED_REQUEST, message=message, reason="unknown_host"))


def _is_named(host: str, listed: str) -> bool:
    if listed == "loopback":
        return is_loopback(host) or host.endswith(".localhost")
    if listed == "addresses":
        return _is_address(host)
    return host.endswith(listed[1:]) if listed.startswith("*.") else host == listed.strip("[]")


def _is_address(host: str) -> bool:
    """Return whether a host is an IP address, which no page can point elsewhere."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def require_known_origin(headers: Headers, listed: Collection[str]) -> None:
    """Refuse calls that a browser makes for a page of another origin.

    Such a page could not read the answer, but its form would be worked on, with the visitor's access to the gateway.

    Args:
        headers: Headers of the request; only browsers send those of origins.
        listed: Origins whose pages may call; "*" stands for any.

    Raises:
        RefusedError: The page is of an origin that is not listed.
    """
    if "*" not in listed and _is_foreign(headers, listed):
        message = "pages of other origins may call only if --cors-origins of the gateway lists them"
        raise RefusedError(Fault(status=HTTPStatus.FORBIDDEN, message=message, reason="foreign_page"))


def _is_foreign(headers: Headers, listed: Collection[str]) -> bool:
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin in listed or (origin and not _is_of_a_page(origin)):
        return False
    # Browsers leave it out where the gateway's address is neither HTTPS nor this machine.
    if site:
        return site not in _SAME_SITES
    return origin is not None and urlsplit(origin).netloc != headers.get("host")


def _is_of_a_page(origin: str) -> bool:
    """Return whether an origin is a page's; extensions of browsers call with rights that their users gave them."""
    return origin == "null" or origin.startswith(("http://", "https://"))
