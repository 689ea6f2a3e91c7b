"""The command `xuanzang replay`, its report, and the capsules that `xuanzang translate` writes for it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.connection_arguments import Commands
from xuanzang.client._commands.streams import opened_output, report
from xuanzang.client._values.capsule import MAX_EXCHANGES, Capsule, Difference, Replay
from xuanzang.client._values.results import Translation


def add_replay(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add `xuanzang replay`."""
    command = commands.add_parser(
        "replay",
        help="send the requests of a capsule again and compare the answers",
        description="Sends the requests of a file that `xuanzang translate --capsule` has written, and says whether "
        "the answers are identical, byte for byte, or else where they differ and what was made differently.",
        parents=[shared],
    )
    command.add_argument("capsule", type=Path, metavar="CAPSULE", help="file to replay")
    command.set_defaults(command=_replay)


@contextmanager
def kept(capsule: Path | None) -> Iterator[Callable[[Translation], None]]:
    """Yield a function that keeps a translation; write the capsule with all of them at the end, if asked."""
    translations: list[Translation] = []

    def keep(translation: Translation) -> None:
        if len(translations) == MAX_EXCHANGES:
            raise ValueError(f"--capsule: a capsule holds at most {MAX_EXCHANGES} texts")
        translations.append(translation)

    yield keep if capsule else lambda _: None
    if capsule and translations:
        Capsule.of(translations).write(capsule, report=report)


def _replay(client: TranslationClient, arguments: argparse.Namespace) -> int:
    replays = client.replay(Capsule.read(arguments.capsule))
    with opened_output() as output:
        output.writelines(line + "\n" for line in report_lines(replays))
    return 0 if all(replay.is_identical for replay in replays) else 1


def report_lines(replays: Sequence[Replay]) -> Iterator[str]:
    """Yield the lines of a report.

    Args:
        replays: Comparisons, at least one.
    """
    for number, replay in enumerate(replays, start=1):
        if len(replays) > 1 or not replay.is_identical:
            yield f"text {number}: {'identical' if replay.is_identical else 'the answer differs'}"
        yield from map(_line, replay.answer)
    # Most often they are the same for all texts.
    conditions = dict.fromkeys(condition for replay in replays for condition in replay.conditions)
    identical = sum(replay.is_identical for replay in replays)
    if conditions:
        yield "made under other conditions:"
        yield from map(_line, conditions)
    elif identical < len(replays):
        yield "made under the same conditions, as far as the server says: its processor may be another kind"
    yield "identical" if identical == len(replays) else f"{identical} of {len(replays)} answers are identical"


def _line(difference: Difference) -> str:
    place = "" if difference.first_byte is None else f", from byte {difference.first_byte} on"
    return f"  {difference.field}{place}: was {difference.recorded}, is {difference.replayed}"
