"""Loading of a bundle: its files and graphs are opened, and the samples of its certificate replayed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from xuanzang.kernels.decode import Interrupt, StepLimit
from xuanzang.server.bundles.bundle import Sample
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import changed_files
from xuanzang.server.bundles.manifest import manifest_digest
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.hardware import flush_denormals, usable_cores
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.settings import EngineSettings

_LOGGER = logging.getLogger(__name__)

# The samples of real bundles take a fraction of a second; those of a certificate that asks for 64 beams of the maximum
# length take hours, during which nothing else would be served.
MAX_REPLAY_SECONDS = 120.0
# The exporter's maximum; a hostile certificate must not fill the memory.
_TOGETHER = 8


def replay(model: LoadedModel, *, only_shortest: bool = False, max_seconds: float = MAX_REPLAY_SECONDS) -> None:
    """Decode the samples of a certificate, some together and on all cores; this also warms the graphs up.

    A sentence does not depend on its batch. Where it does, by unexpected rounding, a sample that differs
    is decoded alone, as at export, before it counts. `only_shortest`: whether the sample with the fewest tokens is
    enough.

    Raises:
        BundleError: A sample gets other target ids than at export, or the seconds for all together are passed.
    """
    started = time.monotonic()
    samples = model.bundle.samples
    if only_shortest:
        samples = (min(samples, key=lambda sample: len(sample.source_ids) + len(sample.target_ids)),)
    count = min(usable_cores(), len(samples), _TOGETHER)
    with ThreadPoolExecutor(count, thread_name_prefix="replay") as threads:
        shares = [samples[number::count] for number in range(count)]
        found = threads.map(lambda share: [*_faults(model, share, started + max_seconds, _TOGETHER // count)], shares)
        reasons = [reason for share in found for reason in share]
    if reasons:
        raise BundleError(model.bundle.directory, reasons)
    model.metrics.warmup_duration_seconds.value = time.monotonic() - started


def _faults(model: LoadedModel, samples: Sequence[Sample], deadline: float, together: int) -> Iterator[str]:
    """Yield faults of the translations of samples, decoded in batches of the given size."""
    decoder = model.new_decoder()
    for start in range(0, len(samples), together):
        batch = samples[start : start + together]
        found = _target_ids(model, batch, decoder, deadline)
        for sample in [sample for sample in batch if found.get(sample) != sample.target_ids]:
            alone = _target_ids(model, [sample], decoder, deadline)
            if not alone:
                yield f"the replay of certificate.json does not end in time; it was at {sample.source!r:.100}"
            elif alone[sample] != sample.target_ids:
                yield f"the translation of {sample.source!r:.100} is not that of the certificate"


def _target_ids(
    model: LoadedModel, samples: Sequence[Sample], decoder: Decoder, deadline: float
) -> Mapping[Sample, tuple[int, ...]]:
    """Return the ids of the best hypotheses of samples; without those not found in time."""
    running = {model.sample_sentence(sample): sample for sample in samples}
    found: dict[Sample, tuple[int, ...]] = {}
    decoder.admit(list(running))
    # A hypothesis ends at the maximum length; whatever the graphs compute, the steps end there.
    left = max(sentence.options.max_target_length for sentence in running) + 1
    # As many at once as in a worker.
    while len(decoder) and left > 0 and (seconds := deadline - time.monotonic()) >= 0:
        steps, done, _ = decoder.advance(StepLimit(left, seconds, Interrupt(), steps_after_done=left))
        left -= steps
        found |= {running[sentence]: tuple(best.target_ids) for sentence, [best, *_] in done}
    decoder.discard([sentence for sentence, sample in running.items() if sample not in found])
    return found


def load_model(
    directory: Path, open_model: Callable[[Path], LoadedModel], has_replayed: Callable[[str], bool] = lambda _: False
) -> LoadedModel | BundleError:
    """Load one bundle, open its graphs and replay its samples, unless it is to rest.

    If all samples of a bundle were replayed on this machine before, as `has_replayed` says of the SHA-256 of its
    manifest, one is enough to detect a difference and to warm the graphs up.
    """
    # The threads of sessions and of the replay, which this one starts, must compute as the workers do.
    flush_denormals()
    stage = "opening of its files and graphs"
    try:
        model = open_model(directory)
        if model.is_resting:
            return model
        stage = "replay of the samples of certificate.json"
        replay(model, only_shortest=has_replayed(model.bundle.manifest_sha256))
        model.release_packed_weights()
        if reasons := list(changed_files(directory, model.bundle.file_states)):
            return BundleError(directory, reasons)
    except BundleError as error:
        return error
    except Exception as error:  # what a library raises of a hostile bundle must refuse this bundle only
        _LOGGER.debug("bundle cannot be loaded", exc_info=True, extra={"bundle": str(directory)})
        return BundleError(directory, [f"cannot be loaded: {type(error).__name__} in the {stage}: {error}"])
    return model


def load_again(model: LoadedModel, has_replayed: Callable[[str], bool]) -> LoadedModel | BundleError:
    """Load a model that rests, as `load_model` does; one that cannot be loaded rests on."""

    def opened(_: Path) -> LoadedModel:
        model.load()
        return model

    outcome = load_model(model.bundle.directory, opened, has_replayed)
    if isinstance(outcome, BundleError):
        model.close()
    return outcome


def is_unchanged(model: LoadedModel, directory: Path) -> bool:
    """Return whether the bundle in a folder is the loaded one."""
    try:
        same = manifest_digest(directory) == model.bundle.manifest_sha256
    except BundleError:
        return False
    return same and not any(changed_files(directory, model.bundle.file_states))


def require_models(
    repository: Path, models: Collection[LoadedModel], refusals: Sequence[BundleError], settings: EngineSettings
) -> None:
    """Log the bundles that are refused; raise BundleError if no model, or none that a setting needs, is left."""
    for refusal in refusals:
        _LOGGER.error("bundle refused", extra={"bundle": str(refusal.directory), "reasons": refusal.reasons})
    if not models:
        raise BundleError(repository, [str(refusal) for refusal in refusals])
    names = {model.name for model in models}
    if missing := settings.shortlists - {"*"} - names:
        wanted, served = ", ".join(sorted(missing)), ", ".join(sorted(names))
        raise BundleError(repository, [f"--shortlist names {wanted}, which are not served; served: {served}"])
    if gone := settings.pins.items() - {(model.name, model.version) for model in models}:
        raise BundleError(repository, [f"{name}/{version} is pinned and not served" for name, version in sorted(gone)])
    if unserved := settings.limited_models - names:
        _LOGGER.warning("limits of models that are not served", extra={"models": sorted(unserved)})
