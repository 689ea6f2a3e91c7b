"""Our engine for the benchmark."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine import Translated
from workload import Workload

from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.manifest import read_manifest
from xuanzang.server.engine.decoding import Decoder, Sentence, TargetHypothesis
from xuanzang.server.engine.runtime import Runtime
from xuanzang.server.engine.search import SearchOptions


class Xuanzang:
    """Our engine, used as the server's workers use it: each thread has graphs of its own and takes part of a batch."""

    def __init__(self, folder: Path, *, workers: int, threads: int) -> None:
        """Open a bundle without certificate.

        Args:
            folder: Of the bundle.
            workers: Decoders working side by side.
            threads: Of each.
        """
        manifest, digest = read_manifest(folder)
        bundle = Bundle(directory=folder, manifest=manifest, manifest_sha256=digest, samples=())
        self._runtimes = [Runtime(bundle, provider="cpu", intra_op_threads=threads) for _ in range(workers)]
        self._pool = ThreadPoolExecutor(workers)

    def translate(self, batch: Sequence[Sequence[int]], workload: Workload) -> Translated:
        """Translate one batch and time it."""
        started = time.perf_counter()
        options = SearchOptions(
            beam_size=workload.beam_size,
            num_hypotheses=1,
            length_penalty=1.0,
            min_target_length=workload.min_target_length,
            max_target_length=workload.max_target_length,
        )
        sentences = [Sentence(source_ids=list(ids), options=options) for ids in batch]
        # As the scheduler deals them out: an equal share for each worker, of like lengths.
        ordered = sorted(sentences, key=lambda sentence: len(sentence.source_ids))
        share = math.ceil(len(ordered) / len(self._runtimes))
        parts = [ordered[start : start + share] for start in range(0, len(ordered), share)]
        found: dict[Sentence, TargetHypothesis] = {}
        for part in self._pool.map(_decode, self._runtimes, parts):
            found.update(part)
        seconds = time.perf_counter() - started
        return Translated(seconds, [found[sentence].target_ids for sentence in sentences])


def _decode(runtime: Runtime, sentences: Sequence[Sentence]) -> dict[Sentence, TargetHypothesis]:
    decoder = Decoder(runtime)
    decoder.admit(sentences)
    best: dict[Sentence, TargetHypothesis] = {}
    while len(decoder):
        best.update((sentence, hypotheses[0]) for sentence, hypotheses in decoder.step())
    return best
