"""The commands of `xuanzang` that use a server."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn, TextIO

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.arguments.connection import open_client
from xuanzang.client._commands.arguments.parser import Command, parser
from xuanzang.client._commands.arguments.translation import translate_options
from xuanzang.client._commands.detection import detections, write_languages
from xuanzang.client._commands.documents import translate_documents
from xuanzang.client._commands.explain import explain
from xuanzang.client._commands.glossaries import glossaries
from xuanzang.client._commands.progress import Progress
from xuanzang.client._commands.replay_report import report_lines
from xuanzang.client._commands.texts import (
    Layout,
    read_lines,
    read_whole,
    translate,
    translate_progressively,
    write_models,
)
from xuanzang.client._errors import DeadlineExceededError, TranslationError
from xuanzang.client._output import replaced_file
from xuanzang.client._values.capsule import MAX_EXCHANGES, Capsule
from xuanzang.client._values.results import Translation

_INTERRUPTED = 130
# Time for an orderly end after Ctrl-C.
_END_SECONDS = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program name; None: those of the process.

    Returns:
        The exit code.
    """
    commands = {
        "translate": _translate,
        "documents": translate_documents,
        "models": _models,
        "detect": _detect,
        "explain": explain,
        "replay": _replay,
        "glossaries": glossaries,
    }
    arguments = parser(os.environ, **commands).parse_args(argv)
    command: Command = arguments.command
    try:
        with _bounded_interrupt(), _warnings(), open_client(arguments) as client:
            return command(client, arguments)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout once more at exit; the flush must find an open file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except TranslationError as error:
        _report(str(error))
        return 3 if error.retryable or isinstance(error, DeadlineExceededError) else 1
    except (OSError, ValueError) as error:
        _report(str(error))
        return 2


def _translate(client: TranslationClient, arguments: argparse.Namespace) -> int:
    options = translate_options(arguments)
    by_line = _by_line(arguments)
    layout = Layout(json=arguments.json, scores=arguments.scores, by_line=by_line)
    texts = arguments.texts or (read_lines if by_line else read_whole)(_input(arguments))
    with _output(arguments.output) as output, _progress(arguments) as advance, _kept(arguments.capsule) as keep:
        run = translate_progressively if arguments.progressive else partial(translate, keep=keep)
        failures = run(client, texts, options, layout=layout, output=output, report=_report, advance=advance)
    return 1 if failures else 0


@contextmanager
def _kept(capsule: Path | None) -> Iterator[Callable[[Translation], None]]:
    """Yield a function that keeps a translation; write the capsule with all of them at the end, if asked."""
    translations: list[Translation] = []

    def keep(translation: Translation) -> None:
        if len(translations) == MAX_EXCHANGES:
            raise ValueError(f"--capsule: a capsule holds at most {MAX_EXCHANGES} texts")
        translations.append(translation)

    yield keep if capsule else lambda _: None
    if capsule and translations:
        Capsule.of(translations).write(capsule, report=_report)


def _replay(client: TranslationClient, arguments: argparse.Namespace) -> int:
    replays = client.replay(Capsule.read(arguments.capsule))
    with _output(None) as output:
        output.writelines(line + "\n" for line in report_lines(replays))
    return 0 if all(replay.is_identical for replay in replays) else 1


def _models(client: TranslationClient, arguments: argparse.Namespace) -> int:
    models = client.list_models()
    with _output(None) as output:
        write_models(models, as_json=arguments.json, output=output)
    return 0


def _detect(client: TranslationClient, arguments: argparse.Namespace) -> int:
    texts = arguments.texts or [line.rstrip("\r") for line in read_lines(_input(arguments))]
    with _output(None) as output:
        write_languages(detections(client, texts), as_json=arguments.json, output=output)
    return 0


def _by_line(arguments: argparse.Namespace) -> bool:
    """Return whether texts are the lines of a file; one with tags is a single text."""
    return not arguments.texts and getattr(arguments, "content_format", None) in (None, "text")


def _from_file(arguments: argparse.Namespace) -> bool:
    return arguments.file not in (None, "-")


def _input(arguments: argparse.Namespace) -> IO[bytes]:
    if _from_file(arguments):
        return Path(arguments.file).open("rb")
    # Not sys.stdin: a gRPC thread reads it, and Python aborts at exit if that thread still holds the lock of sys.stdin.
    return open(0, "rb", closefd=False)


def _output(path: Path | None) -> AbstractContextManager[TextIO]:
    if path is not None:
        return replaced_file(path, report=_report)
    return open(sys.stdout.fileno(), "w", encoding="utf-8", newline="\n", closefd=False)


@contextmanager
def _progress(arguments: argparse.Namespace) -> Iterator[Callable[[], None]]:
    """Draw progress for a file, unless standard error is no terminal or the results go to the same screen."""
    results_on_screen = arguments.output is None and sys.stdout.isatty()
    if not (_from_file(arguments) and _by_line(arguments)) or not sys.stderr.isatty() or results_on_screen:
        yield lambda: None
        return
    with Path(arguments.file).open("rb") as file:
        total = sum(1 for _ in file)
    with closing(Progress(total, sys.stderr)) as progress:
        yield progress.advance


@contextmanager
def _warnings() -> Iterator[None]:
    """Report what the client logs, such as a server that does not answer yet."""
    handler, logger = logging.StreamHandler(), logging.getLogger("xuanzang.client")
    handler.setFormatter(logging.Formatter("xuanzang: %(message)s"))
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def _bounded_interrupt() -> Iterator[None]:
    """Let the process end soon after Ctrl-C, also where gRPC would wait indefinitely.

    Interrupted between the registration of a call and the start of the thread that drives it, gRPC waits in vain for
    the end of that call when its channel is closed.
    """
    if not hasattr(signal, "setitimer") or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        # The interpreter takes its handlers away before it ends, and an alarm without one kills.
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGALRM, lambda *_: os._exit(_INTERRUPTED))
    signal.setitimer(signal.ITIMER_REAL, _END_SECONDS)
    raise KeyboardInterrupt


def _report(message: str) -> None:
    sys.stderr.write(f"xuanzang: {message}\n")


if __name__ == "__main__":
    sys.exit(main())
