"""Sentences that join and leave one batch."""

from __future__ import annotations

from collections.abc import Sequence

from xuanzang.kernels.decode import ONE_STEP, StepLimit
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis


def decoded(
    decoder: Decoder,
    arrivals: Sequence[tuple[int, Sentence]],
    leavers: Sequence[tuple[int, Sentence]] = (),
    limit: StepLimit = ONE_STEP,
) -> dict[Sentence, list[TargetHypothesis]]:
    """Admit and discard each sentence at its turn, of one step each if there is no other limit; return hypotheses."""
    found: dict[Sentence, list[TargetHypothesis]] = {}
    turn = 0
    while len(decoder) or turn <= max(arrival for arrival, _ in arrivals):
        if newcomers := [sentence for arrival, sentence in arrivals if arrival == turn]:
            decoder.admit(newcomers)
        decoder.discard([sentence for leaving, sentence in leavers if leaving == turn and sentence not in found])
        if len(decoder):
            found.update(decoder.advance(limit).done)
        turn += 1
    return found
