"""The commands that the package has."""

from __future__ import annotations

import pytest

from xuanzang.server import __main__ as program


def test_a_command_that_is_no_longer_the_servers_starts_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = list[object]()
    monkeypatch.setattr(program, "_run_server", started.append)
    assert program.main(["pull", "opus-mt-zh-en"]) == 2
    assert started == []
    assert capsys.readouterr().err.startswith("xuanzang pull: error: xuanzang-server has no such command")
