"""Replay of a certificate's samples: whether the graphs of a bundle translate as they did at export."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from xuanzang.server.bundles.bundle import Sample
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.models.loaded import LoadedModel

# The samples of real bundles take a fraction of a second; those of a certificate that asks for 64 beams of the maximum
# length take hours, in which nothing else would be served.
MAX_REPLAY_SECONDS = 120.0


def replay(model: LoadedModel, *, max_seconds: float = MAX_REPLAY_SECONDS) -> None:
    """Decode the samples of a certificate, each alone as at export; this also warms the graphs up.

    Args:
        model: Model with open graphs.
        max_seconds: Limit for all samples together, observed between two steps.

    Raises:
        BundleError: A sample gets other target ids than at export, or the limit is passed.
    """
    started = time.monotonic()
    decoder = model.new_decoder()
    reasons = list(_differences(model, decoder, started + max_seconds))
    if reasons:
        raise BundleError(model.bundle.directory, reasons)
    model.metrics.warmup_duration_seconds.set(time.monotonic() - started)


def _differences(model: LoadedModel, decoder: Decoder, deadline: float) -> Iterator[str]:
    for sample in model.bundle.samples:
        target_ids = _target_ids(model, sample, decoder, deadline)
        if target_ids is None:
            yield f"the replay of certificate.json does not end in time; it was at {sample.source!r:.100}"
            return
        if target_ids != sample.target_ids:
            yield f"the translation of {sample.source!r:.100} is not that of the certificate"


def _target_ids(model: LoadedModel, sample: Sample, decoder: Decoder, deadline: float) -> tuple[int, ...] | None:
    """Return the ids of the best hypothesis; None if it is not found in time."""
    sentence = model.sample_sentence(sample)
    decoder.admit([sentence])
    finished: Sequence[tuple[Sentence, Sequence[TargetHypothesis]]] = []
    # A hypothesis ends at the maximum length; whatever the graphs compute, there are no more steps.
    for _ in range(sentence.options.max_target_length + 1):
        if time.monotonic() > deadline:
            return None
        finished = decoder.step()
        if finished:
            [(_, hypotheses)] = finished
            return tuple(hypotheses[0].target_ids)
    return None
