"""The units of systemd: valid, and with settings that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from xuanzang.server.settings import Settings

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="NOT TESTED: there is no systemd-analyze")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    program = tmp_path / "xuanzang"
    program.touch(0o755)
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8").replace("/opt/xuanzang/bin/xuanzang", str(program))
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    units = [str(tmp_path / unit.name) for unit in UNITS]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_variables_are_settings_and_a_drain_has_time() -> None:
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8")
        for name in re.findall(r"^Environment=XUANZANG_(\w+)=", text, re.MULTILINE):
            assert name.lower() in Settings.model_fields
        [stop] = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
        assert int(stop) >= Settings.model_fields["drain_timeout_seconds"].default + 5
