"""The commands of `xuanzang` that use a server."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import NoReturn

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.capsules import add_replay
from xuanzang.client._commands.connection_arguments import open_client, server_options
from xuanzang.client._commands.explain import add_explain
from xuanzang.client._commands.glossaries import add_glossaries
from xuanzang.client._commands.questions import add_detect, add_models
from xuanzang.client._commands.streams import report
from xuanzang.client._commands.texts import translate
from xuanzang.client._commands.translation_arguments import add_translate
from xuanzang.client._errors import DeadlineExceededError, TranslationError
from xuanzang.command.parser import CommandParser, output_closed

_INTERRUPTED = 130
# Time for an orderly end after Ctrl-C.
_END_SECONDS = 2.0
_EXIT_CODES = """\
exit codes:
  0    all texts were translated, or all answers of a capsule are identical
  1    an answer of a capsule differs, some texts were refused, or the request, or the server failed; results of the
       other texts were written
  2    wrong arguments, or a file that cannot be read or written
  3    no server could be reached, or it was overloaded or too slow: try again later
  130  interrupted with Ctrl-C
  141  the reader of the output closed it
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program name; None: those of the process.

    Returns:
        The exit code.
    """
    arguments = parser(os.environ).parse_args(argv)
    command: Callable[[TranslationClient, argparse.Namespace], int] = arguments.command
    try:
        with _bounded_interrupt(), _warnings(), open_client(arguments) as client:
            return command(client, arguments)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        return output_closed()
    except TranslationError as error:
        report(str(error))
        return 3 if error.retryable or isinstance(error, DeadlineExceededError) else 1
    except (OSError, ValueError) as error:
        report(str(error))
        return 2


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Build the parser, which stores the implementation of the chosen command in `command`.

    Args:
        environment: Environment variables; XUANZANG_ADDRESS is the default address.
    """
    top: argparse.ArgumentParser = CommandParser(
        prog="xuanzang", description="Translates text through a xuanzang server."
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    shared = server_options(environment.get("XUANZANG_ADDRESS", "localhost:50051"))
    add_translate(commands, shared).set_defaults(command=translate)
    if find_spec("xuanzang.documents"):
        # A separate distribution, whose command this is.
        from xuanzang.client._commands.documents import add_documents  # noqa: PLC0415

        add_documents(commands, shared)
    for add in (add_models, add_detect, add_explain, add_replay, add_glossaries):
        add(commands, shared)
    for command in commands.choices.values():
        command.epilog = _EXIT_CODES
    return top


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


if __name__ == "__main__":
    sys.exit(main())
