"""Emission of a text's translation while the rest is still being searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xuanzang.server.engine.scheduling.request import SentenceResult
from xuanzang.text.codec import Segment, TextCodec

# Stands for the bytes of an incomplete character.
_INCOMPLETE = "\ufffd"


class TextStreamer:
    """Emits the known part of a translation in the order of the text, and never takes anything back."""

    def __init__(
        self,
        segments: Sequence[Segment],
        codec: TextCodec,
        emit: Callable[[str], None],
        *,
        settled: Callable[[str], str] | None = None,
    ) -> None:
        """Begin with nothing known; `emit` gets what comes next of the translation, never empty.

        `settled` returns what is certain of the beginning of a sentence, as it will be written; None: all of it.
        """
        self._settled = settled
        positions = iter(range(len(segments)))
        # Text of each segment, and the position of its sentence; None for copied text.
        self._segments = [(segment.text, next(positions) if segment.source_ids else None) for segment in segments]
        self._joiner = codec.joiner()
        self._emit = emit
        self._known: dict[int, str] = {}
        self._done: set[int] = set()
        self._current = 0
        self._emitted = ""

    def on_prefix(self, position: int, text: str) -> None:
        """Take the beginning of a sentence that will not change."""
        known = text.rstrip(_INCOMPLETE)
        self._known[position] = self._settled(known) if self._settled else known
        self._advance()

    def on_result(self, position: int, result: SentenceResult) -> None:
        """Take the result of a sentence, best hypothesis first."""
        self._known[position] = result.hypotheses[0].text
        self._done.add(position)
        self._advance()

    def _advance(self) -> None:
        """Emit as much as is known without a gap."""
        if not any(position is not None for _, position in self._segments):
            return
        while self._current < len(self._segments):
            source, position = self._segments[self._current]
            self._add(source if position is None else self._known.get(position, ""))
            if position is not None and position not in self._done:
                return
            self._current += 1
            self._emitted = ""

    def _add(self, text: str) -> None:
        """Emit what is new of the text of the current segment."""
        more, is_last = text[len(self._emitted) :], self._current + 1 == len(self._segments)
        if added := self._joiner.extend(more) if self._emitted else self._joiner.add(more, is_last=is_last):
            self._emit(added)
        self._emitted = text
