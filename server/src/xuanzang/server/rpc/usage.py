"""What an RPC has used, for its caller's books."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

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
        self._caller = caller
        self._characters = 0
        self._sentences = 0

    @contextmanager
    def charged(self, texts: Sequence[str]) -> Iterator[TextsUsage]:
        """Charge texts to the caller, and count them once they are translated.

        Args:
            texts: Texts of a request.

        Yields:
            The places of their sentences.

        Raises:
            UnauthenticatedError: The caller's key has been revoked since.
            InvalidInputError: The caller's quota is smaller than the request.
            OverloadedError: The caller's quota is used up.
        """
        with self._caller.charged(texts):
            used = TextsUsage(self._caller)
            yield used
        self._characters += sum(map(len, texts))
        self._sentences += used.sentences

    def send(self, context: Context) -> None:
        """Send what has been used with the status of the RPC.

        Args:
            context: Context of the RPC, which is about to end.
        """
        used = ((USAGE_CHARACTERS, str(self._characters)), (USAGE_SENTENCES, str(self._sentences)))
        context.set_trailing_metadata((*context.trailing_metadata(), *used))


class TextsUsage:
    """Number of the sentences of some texts, which is known once they are split."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.sentences = 0

    def hold_sentences(self, count: int) -> AbstractContextManager[None]:
        """Count sentences and hold places for them, as `Caller.hold_sentences` does.

        Args:
            count: Number of sentences.
        """
        self.sentences += count
        return self._caller.hold_sentences(count)
