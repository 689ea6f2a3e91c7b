"""All that one worker decodes of one model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby

from xuanzang.server.engine.decoding.batch import Batch, Kind
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.runtime.sessions import Runtime


class Decoder:
    """Running batches, one for each kind of sentence. Belongs to one thread."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._batches: dict[Kind, Batch] = {}

    def __len__(self) -> int:
        """Return the number of sentences that are being decoded."""
        return sum(len(batch) for batch in self._batches.values())

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values of all sentences."""
        return sum(batch.cache_bytes for batch in self._batches.values())

    def admit(self, sentences: Sequence[Sentence]) -> None:
        """Encode sentences and start their search beside those that are being decoded.

        Args:
            sentences: Of any kind.
        """
        by_kind = sorted(sentences, key=_kind)
        for kind, group in groupby(by_kind, key=_kind):
            self._batch(kind).admit(list(group))

    def _batch(self, kind: Kind) -> Batch:
        """Return the batch of a kind; the memory of an empty one is kept for the next of its kind, but not for ever."""
        if kind not in self._batches:
            self._batches = {kind: batch for kind, batch in self._batches.items() if len(batch)}
            self._batches[kind] = Batch(self._runtime, kind)
        return self._batches[kind]

    def step(self) -> list[tuple[Sentence, list[TargetHypothesis]]]:
        """Extend every hypothesis by one token.

        Returns:
            The sentences that are done, each with its hypotheses, best first.
        """
        return [found for batch in self._batches.values() if len(batch) for found in batch.step()]

    def discard(self, sentences: Collection[Sentence]) -> None:
        """Give up sentences; the others go on."""
        unwanted = set(sentences)
        for batch in self._batches.values():
            batch.discard(unwanted)

    def partial(self, sentence: Sentence) -> list[TargetHypothesis]:
        """Return the best hypotheses of a sentence so far; empty before its first step."""
        return self._batches[_kind(sentence)].partial(sentence)

    def committed(self, sentence: Sentence) -> list[int]:
        """Return the tokens that the best hypothesis of a sentence is sure to begin with."""
        return self._batches[_kind(sentence)].committed(sentence)


def _kind(sentence: Sentence) -> Kind:
    return Kind.of(sentence.options)
