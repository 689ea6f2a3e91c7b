"""The settings of the gateway, and the pages and hosts that they let call it."""

from __future__ import annotations

from typing import Any

import pytest
from gateways import running_gateway
from starlette.datastructures import Headers

from xuanzang.gateway.entry.origins import listed_origins, require_known_host, require_known_origin
from xuanzang.gateway.errors import RefusedError
from xuanzang.gateway.settings import Settings, read_settings


def test_the_server_is_that_of_all_commands_unless_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XUANZANG_ADDRESS", "XUANZANG_GATEWAY_SERVER"):
        monkeypatch.delenv(name, raising=False)
    assert read_settings([]).server == "127.0.0.1:50051"
    monkeypatch.setenv("XUANZANG_ADDRESS", "one:50051")
    assert read_settings([]).server == "one:50051"
    assert read_settings(["--server", "two:50051"]).server == "two:50051"
    monkeypatch.setenv("XUANZANG_GATEWAY_SERVER", "three:50051")
    assert read_settings([]).server == "three:50051"


@pytest.mark.parametrize(
    ("flag", "refused", "taken"),
    [
        (
            "--cors-origins",
            ("a.example", "https://a.example/", "https://a.example,b", "https://*.example", "https://A.example"),
            ("", "*", "null", "https://a.example, http://b.example:8080", "chrome-extension://abc"),
        ),
        (
            "--allowed-hosts",
            ("mt.example:80", "https://mt.example", "a.*", "loopback,a/b", "*.*"),
            ("", "*", "loopback,addresses", "MT.example, *.lan", "[::1]", "::1", "10.0.0.1"),
        ),
        ("--listing-key", ("se cret", "geheimé", "key\n"), ("", "xz_a_b")),
    ],
)
def test_a_list_or_key_that_no_request_could_match_is_refused(
    flag: str, refused: tuple[str, ...], taken: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for value in taken:
        read_settings([f"{flag}={value}"])
    for value in refused:
        with pytest.raises(SystemExit):
            read_settings([f"{flag}={value}"])
        shown = capsys.readouterr().err
        assert f"{flag} " in shown
        assert (repr(value) in shown) is (flag != "--listing-key")


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


async def test_pages_of_listed_origins_may_read_answers(address: str) -> None:
    async with running_gateway(address, cors_origins=LISTED) as gateway:
        listed = await gateway.get("/v1/models", origin="https://a.example", sec_fetch_site="cross-site")
        other = await gateway.get("/v1/models", origin="https://b.example", sec_fetch_site="cross-site")
    assert (listed.status, listed.headers["access-control-allow-origin"]) == (200, "https://a.example")
    assert (other.status, "access-control-allow-origin" in other.headers) == (403, False)


def test_a_page_cannot_point_its_name_at_a_gateway_without_keys() -> None:
    for host in ("localhost:8080", "page.localhost", "192.168.1.5:8080", "[fd00::1]:8080"):
        require_known_host(Headers({"host": host}), ("loopback", "addresses"))
    for host in ("evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", ""):
        with pytest.raises(RefusedError, match="names another service"):
            require_known_host(Headers({"host": host}), ("loopback", "addresses"))


LOOPBACK, PUBLIC = "127.0.0.1:0", "0.0.0.0:0"


@pytest.mark.parametrize(
    ("settings", "hosts"),
    [
        ({"address": LOOPBACK}, ("loopback",)),
        ({"address": LOOPBACK, "anonymous": False}, ("loopback",)),
        ({"address": PUBLIC, "anonymous": True}, ("loopback", "addresses")),
        ({"address": PUBLIC, "anonymous": False}, ()),
        ({"address": PUBLIC, "anonymous": True, "allowed_hosts": "MT.example, *.lan"}, ("mt.example", "*.lan")),
        ({"address": PUBLIC, "anonymous": True, "allowed_hosts": "*"}, ()),
    ],
)
def test_names_are_checked_wherever_no_key_is_asked_for(settings: Any, hosts: tuple[str, ...]) -> None:
    assert Settings(server="127.0.0.1:1", **settings).hosts == hosts
