"""Replay of a certificate's samples: whether the graphs of a bundle translate as they did at export."""

from __future__ import annotations

import time
from collections.abc import Sequence

from xuanzang.server.bundles.bundle import Sample
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.models.loaded import LoadedModel


def replay(model: LoadedModel) -> None:
    """Decode the samples of a certificate, each alone as at export; this also warms the graphs up.

    Args:
        model: Model with open graphs.

    Raises:
        BundleError: A sample gets other target ids than at export.
    """
    started = time.monotonic()
    decoder = model.new_decoder()
    reasons = [
        f"the translation of {sample.source!r} is not that of the certificate"
        for sample in model.bundle.samples
        if _target_ids(model, sample, decoder) != sample.target_ids
    ]
    if reasons:
        raise BundleError(model.bundle.directory, reasons)
    model.metrics.warmup_duration_seconds.set(time.monotonic() - started)


def _target_ids(model: LoadedModel, sample: Sample, decoder: Decoder) -> tuple[int, ...]:
    decoder.admit([model.sample_sentence(sample)])
    finished: Sequence[tuple[Sentence, Sequence[TargetHypothesis]]] = []
    while not finished:
        finished = decoder.step()
    [(_, hypotheses)] = finished
    return tuple(hypotheses[0].target_ids)
