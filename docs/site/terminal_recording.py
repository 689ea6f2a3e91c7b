"""Recordings of programs in a terminal: as asciicast, which players of asciinema show, and as a picture that moves."""

from __future__ import annotations

import codecs
import fcntl
import html
import json
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyte

COLUMNS, ROWS = 100, 22
_CHARACTER, _LINE, _MARGIN = 8.4, 20.0, 16.0
_FRAME_SECONDS = 0.5
_LONGEST_PAUSE = 1.5
"""Of the picture; the recording has the true times."""
_STYLE = (
    "text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}"
    "rect{fill:#1f2430}.c{fill:#8fbcbb;font-weight:bold}.t{fill:#7b8394;font-size:12px}"
)


class Frame(NamedTuple):
    """Picture of the terminal from a time on."""

    seconds: float
    lines: list[str]


class Recording:
    """Output of commands to one terminal, with the time of each piece."""

    def __init__(self) -> None:
        """Begin with an empty terminal."""
        self._started = time.monotonic()
        self.events: list[tuple[float, str]] = []

    @property
    def seconds(self) -> float:
        """Time since the beginning."""
        return time.monotonic() - self._started

    def write(self, text: str) -> None:
        """Write to the terminal as the user's shell does."""
        self.events.append((self.seconds, text))

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        shown: str,
        until: Callable[[str], bool] = lambda _: False,
    ) -> subprocess.Popen[bytes]:
        """Run a command in the terminal until it ends, or until its output so far is enough.

        Args:
            shown: What the user typed for it.
            until: Whether to return before it ends, by the text so far.

        Returns:
            The process, which runs on if `until` was met.
        """
        self.write(f"$ {shown}\r\n")
        first = len(self.events)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(  # noqa: S603 - what its caller records
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        )
        os.close(theirs)
        enough = threading.Event()

        def read() -> None:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            for data in _output(ours):
                self.write(decoder.decode(data))
                if until("".join(text for _, text in self.events[first:])):
                    enough.set()
            enough.set()

        threading.Thread(target=read, daemon=True).start()
        enough.wait()
        return process

    def seconds_of(self, text: str) -> float:
        """Return when a text was there for the first time, infinite if it never was."""
        seen = ""
        for seconds, piece in self.events:
            seen += piece
            if text in seen:
                return seconds
        return float("inf")

    def write_cast(self, path: Path) -> None:
        """Write an asciicast, version 2."""
        lines = [
            {"version": 2, "width": COLUMNS, "height": ROWS},
            *([seconds, "o", text] for seconds, text in self.events),
        ]
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")

    def write_picture(self, path: Path) -> None:
        """Write an SVG that shows the recording again and again, pauses cut short; the clock below is the true one."""
        frames = list(self._frames())
        shown = [min(after.seconds - before.seconds, _LONGEST_PAUSE) for before, after in pairwise(frames)]
        starts = [0.0]
        for seconds in (*shown, 3 * _LONGEST_PAUSE):
            starts.append(starts[-1] + seconds)
        width, height = COLUMNS * _CHARACTER + 2 * _MARGIN, (ROWS + 1) * _LINE + 2 * _MARGIN
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}">',
            f'<style>{_STYLE}</style><rect width="100%" height="100%" rx="8"/>',
        ]
        for number, frame in enumerate(frames):
            begin, end = (starts[number + step] / starts[-1] for step in (0, 1))
            times = f"0;{begin:.4f};{min(end, 0.9999):.4f};1"
            last = "inline" if number == len(frames) - 1 else "none"
            parts.append('<g display="none">' if number < len(frames) - 1 else "<g>")
            parts.append(
                f'<animate attributeName="display" calcMode="discrete" dur="{starts[-1]:.1f}s" '
                f'repeatCount="indefinite" keyTimes="{times}" values="none;inline;{last};{last}"/>'
            )
            parts += [_text(line, row) for row, line in enumerate(frame.lines) if line]
            parts.append(_text(f"{frame.seconds:5.0f} s", ROWS, "t") + "</g>")
        path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")

    def _frames(self) -> Iterator[Frame]:
        """Yield what the screen showed, at most twice a second, and what it showed last."""
        screen = pyte.Screen(COLUMNS, ROWS)
        stream = pyte.Stream(screen)
        shown: list[str] = []
        due = 0.0
        for number, (seconds, text) in enumerate(self.events):
            stream.feed(text)
            lines = [line.rstrip() for line in screen.display]
            if lines != shown and (seconds >= due or number == len(self.events) - 1):
                shown, due = lines, seconds + _FRAME_SECONDS
                yield Frame(seconds, lines)


def _text(line: str, row: int, kind: str = "") -> str:
    kind = kind or ("c" if line.startswith("$ ") else "")
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{_MARGIN:.0f}" y="{_MARGIN + (row + 0.8) * _LINE:.0f}">{html.escape(line)}</text>'


def _output(terminal: int) -> Iterator[bytes]:
    """Yield what a terminal's programs write until none has it open."""
    try:
        while data := os.read(terminal, 65536):
            yield data
    except OSError:  # what Linux says in place of an end
        pass
    finally:
        os.close(terminal)
