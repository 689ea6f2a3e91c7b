"""Replay of a certificate's samples: whether the graphs of a bundle translate as they did at export."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from xuanzang.kernels.decode import Interrupt, StepLimit
from xuanzang.server.bundles.bundle import Sample
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.hardware import usable_cores
from xuanzang.server.engine.models.loaded import LoadedModel

# The samples of real bundles take a fraction of a second; those of a certificate that asks for 64 beams of the maximum
# length take hours, in which nothing else would be served.
MAX_REPLAY_SECONDS = 120.0
# An exporter writes no more; those of a hostile certificate must not fill the memory.
_TOGETHER = 8


def replay(model: LoadedModel, *, only_shortest: bool = False, max_seconds: float = MAX_REPLAY_SECONDS) -> None:
    """Decode the samples of a certificate, some together and on all cores; this also warms the graphs up.

    A sentence does not depend on its batch. Where it does, by rounding that nobody has seen yet, a sample that differs
    is decoded alone, as at export, before it counts.

    Args:
        model: Model with open graphs.
        only_shortest: Whether the sample with the fewest tokens is enough.
        max_seconds: Limit for all samples together, observed between two steps.

    Raises:
        BundleError: A sample gets other target ids than at export, or the limit is passed.
    """
    started = time.monotonic()
    samples = model.bundle.samples
    if only_shortest:
        samples = (min(samples, key=lambda sample: len(sample.source_ids) + len(sample.target_ids)),)
    count = min(usable_cores(), len(samples), _TOGETHER)
    with ThreadPoolExecutor(count, thread_name_prefix="replay") as threads:
        shares = [samples[number::count] for number in range(count)]
        found = threads.map(lambda share: _differences(model, share, started + max_seconds, _TOGETHER // count), shares)
        reasons = [reason for share in found for reason in share]
    if reasons:
        raise BundleError(model.bundle.directory, reasons)
    model.metrics.warmup_duration_seconds.set(time.monotonic() - started)


def _differences(model: LoadedModel, samples: Sequence[Sample], deadline: float, together: int) -> list[str]:
    """Return what is wrong with the translations of samples, decoded so many together."""
    decoder = model.new_decoder()
    batches = (samples[start : start + together] for start in range(0, len(samples), together))
    return [reason for batch in batches for reason in _of_batch(model, batch, decoder, deadline)]


def _of_batch(model: LoadedModel, samples: Sequence[Sample], decoder: Decoder, deadline: float) -> Iterator[str]:
    found = _target_ids(model, samples, decoder, deadline)
    for sample in [sample for sample in samples if found.get(sample) != sample.target_ids]:
        alone = _target_ids(model, [sample], decoder, deadline)
        if not alone:
            yield f"the replay of certificate.json does not end in time; it was at {sample.source!r:.100}"
        elif alone[sample] != sample.target_ids:
            yield f"the translation of {sample.source!r:.100} is not that of the certificate"


def _target_ids(
    model: LoadedModel, samples: Sequence[Sample], decoder: Decoder, deadline: float
) -> Mapping[Sample, tuple[int, ...]]:
    """Return the ids of the best hypotheses of samples; those that are not found in time are not among them."""
    running = {model.sample_sentence(sample): sample for sample in samples}
    found: dict[Sample, tuple[int, ...]] = {}
    decoder.admit(list(running))
    # A hypothesis ends at the maximum length; whatever the graphs compute, there are no more steps.
    left = max(sentence.options.max_target_length for sentence in running) + 1
    # As many at once as in a worker.
    while len(decoder) and left > 0 and (seconds := deadline - time.monotonic()) >= 0:
        steps, done = decoder.advance(StepLimit(left, seconds, Interrupt()))
        left -= steps
        found |= {running[sentence]: tuple(best.target_ids) for sentence, [best, *_] in done}
    decoder.discard([sentence for sentence, sample in running.items() if sample not in found])
    return found
