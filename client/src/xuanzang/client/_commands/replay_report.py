"""Report of a replay for people: what became of each answer, and under which conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xuanzang.client._values.replay import Difference, Replay


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
