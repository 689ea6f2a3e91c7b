"""Tell a caller the beginning of a text while the rest is being translated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xuanzang.server.engine.text.codec import Piece, TextCodec
from xuanzang.server.engine.types import Hypothesis

# Stands for the bytes of a character that is not complete yet.
_INCOMPLETE = "\ufffd"


class Progress:
    """What is known of a text, sentence by sentence: told in the order of the text, and never taken back."""

    def __init__(self, pieces: Sequence[Piece], codec: TextCodec, tell: Callable[[str], None]) -> None:
        """Begin with nothing known.

        Args:
            pieces: Of the text.
            codec: Of the model.
            tell: Is given what comes next of the text, never nothing.
        """
        numbers = iter(range(len(pieces)))
        # The number of its sentence for each piece that is translated; None for what is copied.
        self._pieces = [(piece.text, next(numbers) if piece.source_ids else None) for piece in pieces]
        self._joiner = codec.joiner()
        self._tell = tell
        self._known: dict[int, str] = {}
        self._done: set[int] = set()
        self._place = 0
        self._told = ""

    def begun(self, position: int, text: str) -> None:
        """Take what a sentence is sure to begin with.

        Args:
            position: Of the sentence.
            text: More than at the last time.
        """
        self._known[position] = text.rstrip(_INCOMPLETE)
        self._advance()

    def finished(self, position: int, hypotheses: Sequence[Hypothesis]) -> None:
        """Take what a sentence is translated by.

        Args:
            position: Of the sentence.
            hypotheses: Best first.
        """
        self._known[position] = hypotheses[0].text
        self._done.add(position)
        self._advance()

    def _advance(self) -> None:
        """Tell as much as is known without a gap."""
        if not any(position is not None for _, position in self._pieces):
            return
        while self._place < len(self._pieces):
            source, position = self._pieces[self._place]
            self._add(source if position is None else self._known.get(position, ""))
            if position is not None and position not in self._done:
                return
            self._place += 1
            self._told = ""

    def _add(self, text: str) -> None:
        """Tell what is new of the text of the current piece."""
        more = text[len(self._told) :]
        if more:
            self._tell(self._joiner.extend(more) if self._told else self._joiner.add(more))
            self._told = text
