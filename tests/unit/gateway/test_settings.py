"""The address of the server, which every command reads from one variable."""

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
