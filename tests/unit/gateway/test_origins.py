from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from xuanzang.gateway.entry.origins import listed_origins, require_known_host, require_known_origin
from xuanzang.gateway.errors import RefusedError

OWN = "http://translate.example:8080"
HOST = "translate.example:8080"
LISTED = "https://a.example, https://c.example"

KNOWN = [
    {},
    {"sec-fetch-site": "same-origin", "origin": OWN},
    {"sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "none"},
    {"sec-fetch-site": "cross-site", "origin": "https://c.example"},
    {"origin": OWN},
    {"origin": "moz-extension://1", "sec-fetch-site": "cross-site"},
]
FOREIGN = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "origin": "http://other.example"},
    {"sec-fetch-site": "cross-site", "origin": "null"},
    {"origin": "null"},
    {"origin": "http://translate.example"},
    {"origin": "https://a.example.evil.example"},
]


@pytest.mark.parametrize("headers", KNOWN, ids=str)
def test_programs_the_own_page_and_listed_ones_may_call(headers: dict[str, str]) -> None:
    require_known_origin(Headers({"host": HOST, **headers}), listed_origins(LISTED))


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_other_pages_may_call_only_if_all_may(headers: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match="cors-origins"):
        require_known_origin(Headers({"host": HOST, **headers}), listed_origins(LISTED))
    require_known_origin(Headers({"host": HOST, **headers}), listed_origins("*"))


def test_a_page_cannot_point_its_name_at_a_gateway_without_keys() -> None:
    for host in ("localhost:8080", "page.localhost", "192.168.1.5:8080", "[fd00::1]:8080"):
        require_known_host(Headers({"host": host}), ("loopback", "addresses"))
    for host in ("evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", ""):
        with pytest.raises(RefusedError, match="names another service"):
            require_known_host(Headers({"host": host}), ("loopback", "addresses"))
