"""Replay of a certificate's samples: whether the graphs of a bundle translate as they did at export."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from xuanzang.server.bundles.bundle import Sample
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.models.loaded import LoadedModel

# The samples of real bundles take a fraction of a second; those of a certificate that asks for 64 beams of the maximum
# length take hours, in which nothing else would be served.
MAX_REPLAY_SECONDS = 120.0
# An exporter writes no more; those of a hostile certificate must not fill the memory.
_TOGETHER = 8


def replay(model: LoadedModel, *, max_seconds: float = MAX_REPLAY_SECONDS) -> None:
    """Decode the samples of a certificate, some together; this also warms the graphs up.

    A sentence does not depend on its batch. Where it does, by rounding that nobody has seen yet, a sample that differs
    is decoded alone, as at export, before it counts.

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
    samples = model.bundle.samples
    for start in range(0, len(samples), _TOGETHER):
        together = samples[start : start + _TOGETHER]
        found = _target_ids(model, together, decoder, deadline)
        differing = [sample for sample in together if found.get(sample) != sample.target_ids]
        for sample in differing:
            alone = _target_ids(model, [sample], decoder, deadline)
            if not alone:
                yield f"the replay of certificate.json does not end in time; it was at {sample.source!r:.100}"
                return
            if alone[sample] != sample.target_ids:
                yield f"the translation of {sample.source!r:.100} is not that of the certificate"


def _target_ids(
    model: LoadedModel, samples: Sequence[Sample], decoder: Decoder, deadline: float
) -> Mapping[Sample, tuple[int, ...]]:
    """Return the ids of the best hypotheses of samples; those that are not found in time are not among them."""
    running = {model.sample_sentence(sample): sample for sample in samples}
    found: dict[Sample, tuple[int, ...]] = {}
    decoder.admit(list(running))
    # A hypothesis ends at the maximum length; whatever the graphs compute, there are no more steps.
    for _ in range(max(sentence.options.max_target_length for sentence in running) + 1):
        if not len(decoder) or time.monotonic() > deadline:
            break
        found |= {running[sentence]: tuple(best.target_ids) for sentence, [best, *_] in decoder.step()}
    decoder.discard([sentence for sentence, sample in running.items() if sample not in found])
    return found
