"""The settings of the gateway: the address of the server, and lists that would otherwise be without effect."""

from __future__ import annotations

import pytest

from xuanzang.gateway.settings import read_settings


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
