"""Recordings of a terminal: what programs really wrote, and when."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("pyte", reason="needs the group `dev`")

from terminal_recording import COLUMNS, Recording

SCRIPT = "import sys; print(sys.stdout.isatty()); print('10%', end='\\r'); print('done <&>')"


@pytest.fixture
def recording() -> Recording:
    made = Recording()
    assert made.run([sys.executable, "-c", SCRIPT], dict(os.environ), "python script").wait() == 0
    return made


def test_the_cast_has_every_piece_with_its_time(recording: Recording, tmp_path: Path) -> None:
    recording.write_cast(tmp_path / "a.cast")
    head, *events = map(json.loads, (tmp_path / "a.cast").read_text(encoding="utf-8").splitlines())
    assert (head["version"], head["width"]) == (2, COLUMNS)
    assert "".join(text for _, _, text in events) == "$ python script\r\nTrue\r\n10%\rdone <&>\r\n"
    times = [seconds for seconds, _, _ in events]
    assert times == sorted(times)
    assert recording.seconds_of("done") <= times[-1]
    assert recording.seconds_of("never") == float("inf")


def test_the_last_frame_of_the_picture_is_the_last_screen(recording: Recording, tmp_path: Path) -> None:
    recording.write_picture(tmp_path / "a.svg")
    frames = ET.parse(tmp_path / "a.svg").getroot().findall("{*}g")
    shown = [text.text or "" for text in frames[-1].findall("{*}text")]
    assert shown[:3] == ["$ python script", "True", "done <&>"]
    assert re.fullmatch(r" *\d+ s", shown[3])


def test_a_program_that_runs_on_is_left_once_its_output_is_enough() -> None:
    made = Recording()
    waits = [sys.executable, "-c", "print('ready', flush=True); input()"]
    process = made.run(waits, dict(os.environ), "wait", until=lambda text: "ready" in text)
    assert process.poll() is None
    process.kill()
    process.wait()
