"""The command `xuanzang admin` against real servers."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from xuanzang.client._commands.admin import run_admin_command


@pytest.fixture
def repository(tiny_bundle_repository: Path, tmp_path: Path) -> Path:
    """Return a folder with version 1 and version 2, whose manifest differs only in its number."""
    root = Path(shutil.copytree(tiny_bundle_repository, tmp_path / "models"))
    path = Path(shutil.copytree(root / "tiny" / "1", root / "tiny" / "2")) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    return root


class Command:
    """The command, with the address of a server."""

    def __init__(self, address: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._environment = {"XUANZANG_ADMIN_ADDRESS": address}
        self._capsys = capsys
        self.errors = ""

    async def __call__(self, *arguments: str) -> tuple[int, list[str]]:
        """Run the command; return its status and the words of its lines."""
        self._capsys.readouterr()
        status = await asyncio.to_thread(run_admin_command, arguments, environment=self._environment)
        captured = self._capsys.readouterr()
        self.errors = captured.err
        return status, [" ".join(line.split()[:3]) for line in captured.out.splitlines()]


async def test_versions_are_listed_loaded_pinned_and_unloaded(
    start_server: Any, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with start_server(models=repository, admin_address="0") as running:
        # A port alone is one of this machine.
        models = Command(str(running.server.admin.port), capsys)
        assert await models("list") == (0, ["tiny/1 serving -", "tiny/2 serving default"])
        assert await models("pin", "tiny/1") == (0, ["tiny/1 serving default,pinned"])
        assert (await models("unload", "tiny/1"))[0] == 1
        assert "FAILED_PRECONDITION: tiny/1 is pinned" in models.errors
        assert await models("unpin", "tiny") == (0, ["tiny/2 serving default"])
        assert await models("unload", "tiny/2") == (0, ["tiny/1 serving default", "tiny/2 unloaded -"])
        assert await models("load", "tiny") == (0, ["tiny/2 serving default"])
        (repository / "tiny" / "1" / "weights.bin").unlink()
        status, lines = await models("reload")
        assert (status, lines[:2]) == (1, ["tiny/1 serving previous", "refused: weights.bin is"])
        shutil.rmtree(repository / "tiny" / "1")
        assert (await models("reload"))[0] == 0


async def test_what_is_wrong_with_arguments_or_the_address_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    models = Command("", capsys)
    with pytest.raises(SystemExit) as exit_:
        await models("list")
    assert exit_.value.code == 2
    assert "--admin-address (XUANZANG_ADMIN_ADDRESS) must be given" in capsys.readouterr().err
    models = Command("127.0.0.1:1", capsys)
    assert await models("list", "--timeout-seconds=60") == (1, [])
    assert models.errors.startswith("xuanzang admin: error: UNAVAILABLE: ")
    assert await models("list", "--tls-ca=missing") == (1, [])
    assert "missing" in models.errors
    for address in ("127.0.0.1", "host:port", "http://127.0.0.1:1"):
        with pytest.raises(SystemExit):
            await Command(address, capsys)("list")
        assert "--admin-address must be host:port" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
async def test_an_administration_that_others_can_reach_is_warned_of(
    start_server: Any, caplog: pytest.LogCaptureFixture, host: str
) -> None:
    async with start_server(load=False, admin_address=f"{host}:0", admin_anonymous=True):
        warned = "anybody who reaches the admin address can unload models" in caplog.messages
    assert warned is (host == "0.0.0.0")
