"""Everything that one worker decodes with one model: a running batch for each shape."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xuanzang.kernels.decode import ONE_STEP, StepLimit
from xuanzang.server.engine.decoding.batch import Batch, BatchShape
from xuanzang.server.engine.decoding.hypotheses import Advance, SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.runtime.sessions import Sessions
from xuanzang.server.engine.types import DecodingOptions


class Decoder:
    """Running batches of one model, one for each shape of sentences. Belongs to one thread."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._batches: dict[BatchShape, Batch] = {}

    def __len__(self) -> int:
        return sum(len(batch) for batch in self._batches.values())

    @property
    def held_bytes(self) -> dict[BatchShape, int]:
        """Bytes of keys and values of each batch, empty ones included."""
        return {shape: batch.cache_bytes for shape, batch in self._batches.items()}

    def trim(self) -> None:
        """Give back the memory for keys and values that the sentences do not need."""
        self._batches = {shape: batch for shape, batch in self._batches.items() if len(batch)}
        for batch in self._batches.values():
            batch.trim()

    def admit(self, sentences: Sequence[Sentence]) -> None:
        """Encode sentences and begin their search beside those in the batches."""
        groups: dict[BatchShape, list[Sentence]] = {}
        for sentence in sentences:
            groups.setdefault(_shape(sentence), []).append(sentence)
        for shape, group in sorted(groups.items()):
            self._batch(shape).admit(group)

    def _batch(self, shape: BatchShape) -> Batch:
        """Return the batch of a shape. An empty one keeps its memory until a batch of another shape is begun."""
        if shape not in self._batches:
            self._batches = {shape: batch for shape, batch in self._batches.items() if len(batch)}
            self._batches[shape] = Batch(self._sessions, shape)
        return self._batches[shape]

    def step(self) -> list[tuple[Sentence, list[TargetHypothesis]]]:
        """Extend every hypothesis by one token; return sentences that are done with their hypotheses, best first."""
        return self.advance(ONE_STEP).done

    def advance(self, limit: StepLimit) -> Advance[Sentence]:
        """Extend every hypothesis until a sentence is done or the limit reached; several shapes by one token."""
        running = [batch for batch in self._batches.values() if len(batch)]
        if len(running) == 1:
            return running[0].advance(limit)
        advances = [batch.advance(ONE_STEP) for batch in running]
        steps = max((advance.steps for advance in advances), default=0)
        return Advance(steps, [found for advance in advances for found in advance.done])

    def discard(self, sentences: Collection[Sentence]) -> None:
        """Give up sentences; the others go on."""
        unwanted = set(sentences)
        for batch in self._batches.values():
            batch.discard(unwanted)

    def shrink(self) -> None:
        """Let the graphs free the memory that they keep for intermediate results; what other threads use stays."""
        options = DecodingOptions(
            beam_size=1, num_hypotheses=1, length_penalty=0.0, min_target_length=0, max_target_length=1
        )
        ids = [self._sessions.special_ids.source_pad_id]
        # onnxruntime frees this memory only at the end of a run, so any sentence is decoded.
        batch = Batch(self._sessions, BatchShape.of(options), shrinks=True)
        batch.admit([Sentence(source_ids=ids, options=SearchOptions(decoding=options, max_target_length=1))])
        batch.advance(ONE_STEP)

    def partial(self, sentence: Sentence) -> list[TargetHypothesis]:
        """Return the best hypotheses of a sentence so far; empty before its first step."""
        return self._batches[_shape(sentence)].partial(sentence)

    def committed(self, sentence: Sentence) -> list[int]:
        """Return the tokens at the beginning of a sentence's best hypothesis that will not change any more."""
        return self._batches[_shape(sentence)].committed(sentence)


def _shape(sentence: Sentence) -> BatchShape:
    return BatchShape.of(sentence.options.decoding)
