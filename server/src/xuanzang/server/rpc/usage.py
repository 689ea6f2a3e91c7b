"""What an RPC has used, for its caller's books."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from xuanzang.server.access.callers import Caller
from xuanzang.server.rpc.context import Context

USAGE_CHARACTERS = "x-usage-characters"
USAGE_SENTENCES = "x-usage-sentences"


class Usage:
    """Characters of the texts that an RPC has translated, and their sentences; sent as its trailing metadata."""

    def __init__(self, caller: Caller) -> None:
        """Begin with nothing used.

        Args:
            caller: Caller to charge.
        """
        self.caller = caller
        """Caller who is charged."""
        self.characters = 0
        """Characters of the texts that were translated."""
        self.sentences = 0
        """Sentences of these texts."""

    def charged(self, texts: Sequence[str]) -> TextsUsage:
        """Charge texts to the caller, and count them once they are translated.

        Args:
            texts: Texts of a request.

        Returns:
            The places of their sentences; to enter it raises the errors of `Caller.charged`.
        """
        return TextsUsage(self, texts)

    def send(self, context: Context) -> None:
        """Send what has been used with the status of the RPC.

        Args:
            context: Context of the RPC, which is about to end.
        """
        used = ((USAGE_CHARACTERS, str(self.characters)), (USAGE_SENTENCES, str(self.sentences)))
        context.set_trailing_metadata((*context.trailing_metadata(), *used))


class TextsUsage:
    """What is charged for some texts while they are translated; their sentences are known once they are split."""

    def __init__(self, usage: Usage, texts: Sequence[str]) -> None:
        self._usage, self._texts = usage, texts
        self._charge = usage.caller.charged(texts)
        self._sentences = 0

    def __enter__(self) -> TextsUsage:
        """Charge the texts.

        Raises:
            UnauthenticatedError: The caller's key has been revoked since.
            InvalidInputError: The caller's quota is smaller than the request.
            OverloadedError: The caller's quota is used up.
        """
        self._charge.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Count the texts, or let the caller have back what is not charged for those with an error."""
        self._charge.__exit__(kind, error, traceback)
        if error is None:
            self._usage.characters += sum(map(len, self._texts))
            self._usage.sentences += self._sentences

    def hold_sentences(self, count: int) -> AbstractContextManager[None]:
        """Count sentences and hold places for them, as `Caller.hold_sentences` does.

        Args:
            count: Number of sentences.
        """
        self._sentences += count
        return self._usage.caller.hold_sentences(count)
