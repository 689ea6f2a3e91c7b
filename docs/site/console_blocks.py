"""Run the console blocks of README, CONTRIBUTING and the tutorials; `make test` runs the fast ones.

    python docs/site/console_blocks.py --list            # every block, and whether it runs
    python docs/site/console_blocks.py [--slow] [PAGE…]

The blocks of a page are one session in an empty folder that links to the repository, with a server of the bundled
models. A comment before a block changes that: `<!-- blocks: slow -->` leaves it to the nightly run, `<!-- blocks: not
run, REASON -->` leaves it out. Lines below a command are its output, and must occur; `…` stands for anything. In fast
blocks `make` only says what it would do.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "README.zh.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
)
_FENCE = re.compile(
    r"(?:^<!-- blocks: (?P<mark>slow|not run, [^>]+?) -->\n)?^```(?P<language>console|sh|python)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_SERVER = re.compile(r"^(?:exec )?(?:make serve\b|xuanzang serve\b(?!.*--probe))[^&]*$")
_STEP = "\x1e"
_PROBE = "xuanzang serve --probe"
_FAST_SECONDS, _SLOW_SECONDS = 240, 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command and what it prints."""

    text: str
    """Shell, of one or more lines."""
    output: tuple[str, ...]
    """Lines that its standard output must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of a page."""

    line: int
    speed: Literal["fast", "slow", "not run"]
    reason: str
    """Reason that it is not run."""
    commands: tuple[Command, ...]


class BlockError(Exception):
    """A command of a page failed, or printed something else."""


def blocks_of(markdown: str) -> list[Block]:
    """Return the blocks of a page in their order.

    Args:
        markdown: Text of the page.
    """
    found: list[Block] = []
    program = ""
    for fence in _FENCE.finditer(markdown):
        mark, _, reason = (fence["mark"] or "fast").partition(", ")
        if fence["language"] == "python":
            # A later block may use what an earlier one defines.
            program += fence["text"]
            commands: tuple[Command, ...] = (Command(text=f"python - <<'END'\n{program}END", output=()),)
        elif fence["language"] == "sh":
            commands = (Command(text=fence["text"], output=()),)
        else:
            commands = _commands(fence["text"])
        line = markdown.count("\n", 0, fence.start("language")) + 1
        found.append(Block(line=line, speed=mark, reason=reason, commands=commands))  # type: ignore[arg-type]
    return found


def _commands(text: str) -> tuple[Command, ...]:
    # Each command begins with "$ "; a backslash or a here-document continues it.
    found = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.rstrip("\n").split("\n")
        end = next((index for index, line in enumerate(lines) if not line.endswith("\\")), len(lines) - 1)
        if marker := re.search(r"<<'?(\w+)'?", lines[end]):
            end = lines.index(marker[1])
        output = tuple(line for line in lines[end + 1 :] if line.strip() not in ("", "…"))
        found.append(Command(text="\n".join(lines[: end + 1]), output=output))
    return tuple(found)


def run(page: Path, *, slow: bool = False) -> int:
    """Run the blocks of a page.

    Args:
        page: Markdown.
        slow: Whether the slow blocks run too.

    Returns:
        How many commands ran.

    Raises:
        BlockError: A command failed, or did not print what the page says.
    """
    speeds = ("fast", "slow") if slow else ("fast",)
    chosen = [block for block in blocks_of(page.read_text(encoding="utf-8")) if block.speed in speeds]
    commands = [(block, command) for block in chosen for command in block.commands]
    if not commands:
        return 0
    with tempfile.TemporaryDirectory(prefix="blocks-") as folder:
        address = f"127.0.0.1:{_unused_port()}"
        script = "\n".join(_script(commands)).replace("127.0.0.1:50051", address).replace("localhost:50051", address)
        done = _run(script, _workplace(Path(folder)), address, seconds=_SLOW_SECONDS if slow else _FAST_SECONDS)
    if done is None:
        raise BlockError(f"{page.name}: not done in time")
    printed = done.stdout.split(_STEP)[1:]
    for (block, command), output in zip(commands, printed, strict=False):
        missing = [line for line in command.output if line not in output.splitlines()]
        if missing:
            raise BlockError(f"{page.name}:{block.line}: {command.text}\nprinted\n{output}\nand not\n{missing[0]}")
    if done.returncode:
        block, command = commands[max(len(printed) - 1, 0)]
        raise BlockError(f"{page.name}:{block.line}: status {done.returncode}: {command.text}\n{done.stderr[-3000:]}")
    return len(commands)


def _run(script: str, folder: Path, address: str, *, seconds: float) -> subprocess.CompletedProcess[str] | None:
    """Run a script and end whatever it leaves behind; None if it takes too long."""
    command = ["bash", "-euo", "pipefail", "-c", script]
    process = subprocess.Popen(  # noqa: S603 - the project's own pages
        command,
        cwd=folder,
        env=_environment(address),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        # Servers of a page are children of a shell that is killed before them.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _script(commands: Sequence[tuple[Block, Command]]) -> Iterator[str]:
    yield "trap '[ -z \"$(jobs -p)\" ] || kill $(jobs -p) 2>/dev/null || true; wait' EXIT"
    texts = [command.text for _, command in commands]
    if any("xuanzang" in text for text in texts) and not any(map(_SERVER.match, texts)):
        yield from _served("xuanzang serve --models server/models")
    for block, command in commands:
        yield f"printf '{_STEP}'"
        if _SERVER.match(command.text):
            yield from _served(_real(command.text))
        elif block.speed == "fast":
            yield re.sub(r"^make\b", f"make --directory {shlex.quote(str(ROOT))} --dry-run >/dev/null", command.text)
        else:
            yield _real(command.text)


def _real(command: str) -> str:
    return re.sub(r"^make\b", f"make --directory {shlex.quote(str(ROOT))}", command)


def _served(command: str) -> Iterator[str]:
    yield '[ -z "${SERVER:-}" ] || { pkill -P $SERVER; wait $SERVER || true; }'
    yield f"{{ {command}\n}} >server.log 2>&1 & SERVER=$!"
    yield f"until {_PROBE} 2>/dev/null; do kill -0 $SERVER || {{ cat server.log >&2; exit 1; }}; done"


def _workplace(folder: Path) -> Path:
    """Return a folder that looks like the root of the repository, and into which a page may write."""
    for each in ROOT.iterdir():
        if not each.name.startswith(".") and each.name not in ("data", "runs", "models", "pairs", "dist", "build"):
            (folder / each.name).symlink_to(each)
    for environment in (".venv", ".venv-demo"):
        (folder / environment / "bin").mkdir(parents=True)
        # The commands of this interpreter are on PATH already.
        (folder / environment / "bin" / "activate").touch()
    return folder


def _environment(address: str) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XUANZANG_ADDRESS": address,
        "XUANZANG_METRICS_ADDRESS": "127.0.0.1:0",
        "ADDRESS": address,
        "METRICS_ADDRESS": "127.0.0.1:0",
    }


def _unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _list() -> Iterator[str]:
    for page in PAGES:
        for block in blocks_of(page.read_text(encoding="utf-8")):
            what = block.reason and f", {block.reason}"
            yield f"{page.relative_to(ROOT)}:{block.line}: {block.speed}{what}: {len(block.commands)} commands"


def main() -> int:
    """Run or list blocks; the status is 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("pages", nargs="*", type=Path, help="pages to run (default: all)")
    parser.add_argument("--slow", action="store_true", help="run the slow blocks too")
    parser.add_argument("--list", action="store_true", help="list the blocks and run none")
    arguments = parser.parse_args()
    if arguments.list:
        sys.stdout.writelines(f"{line}\n" for line in _list())
        return 0
    failed = 0
    for page in arguments.pages or PAGES:
        try:
            sys.stdout.write(f"{page}: {run(page.resolve(), slow=arguments.slow)} commands ran\n")
        except BlockError as error:
            failed = 1
            sys.stdout.write(f"FAILED: {error}\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
