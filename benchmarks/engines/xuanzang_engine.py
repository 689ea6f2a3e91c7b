"""Our engine as an engine of the benchmark."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from benchmarks.engines.workload import Translated, Workload
from xuanzang.kernels.decode import Interrupt, StepLimit
from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.manifest import read_manifest
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.hardware import flush_denormals
from xuanzang.server.engine.runtime.sessions import Sessions
from xuanzang.server.engine.scheduling.decide import dealt
from xuanzang.server.engine.scheduling.worker import step_limit
from xuanzang.server.engine.types import DecodingOptions

MAX_SENTENCES = 32
"""Maximum number of sentences in one decoder, as in the server."""


class Xuanzang:
    """Our engine, run as in the server: threads share the graphs, and each takes waiting sentences."""

    def __init__(self, folder: Path, *, workers: int, threads: int, shortlist: bool) -> None:
        """Open a bundle without checking its certificate.

        Args:
            workers: Number of decoders, one per thread.
            shortlist: Whether target tokens are limited to the shortlist of each source.
        """
        manifest, digest = read_manifest(folder)
        bundle = Bundle(directory=folder, manifest=manifest, manifest_sha256=digest, samples=())
        sessions = Sessions(bundle, provider="cpu", intra_op_threads=threads, shortlist=shortlist)
        self._decoders = [Decoder(sessions) for _ in range(workers)]
        self._pool = ThreadPoolExecutor(workers, initializer=flush_denormals)

    def translate(self, batch: Sequence[Sequence[int]], workload: Workload) -> Translated:
        """Translate one batch and time it."""
        started = time.perf_counter()
        decoding = DecodingOptions(
            beam_size=workload.beam_size,
            num_hypotheses=1,
            length_penalty=1.0,
            min_target_length=0,
            max_target_length=None,
        )
        options = SearchOptions(decoding=decoding, max_target_length=workload.max_target_length)
        sentences = [Sentence(source_ids=list(ids), options=options) for ids in batch]
        workers = len(self._decoders)
        # The first worker's share, then the others.
        first = dict.fromkeys(dealt([len(ids) for ids in batch], workers))
        waiting = deque(sentences[index] for index in {**first, **dict.fromkeys(range(len(sentences)))})
        share = min(MAX_SENTENCES, math.ceil(len(waiting) / workers))
        found: dict[Sentence, TargetHypothesis] = {}
        for part in self._pool.map(lambda decoder: _decode(decoder, waiting, share), self._decoders):
            found.update(part)
        seconds = time.perf_counter() - started
        return Translated(seconds, [found[sentence].target_ids for sentence in sentences])


def steps_of(decoder: Decoder, *, has_newcomers: bool = False) -> StepLimit:
    """Return the steps that a decoder takes one after another, as in an uninterrupted worker, for a request."""
    return step_limit(len(decoder), is_whole=not has_newcomers, steps=64, seconds=math.inf, interrupt=Interrupt())


def _decode(decoder: Decoder, waiting: deque[Sentence], share: int) -> dict[Sentence, TargetHypothesis]:
    best: dict[Sentence, TargetHypothesis] = {}
    while True:
        newcomers = list(_take(waiting, share - len(decoder)))
        if newcomers:
            decoder.admit(newcomers)
        if not len(decoder):
            return best
        limit = steps_of(decoder, has_newcomers=bool(waiting))
        best.update((sentence, hypotheses[0]) for sentence, hypotheses in decoder.advance(limit).done)


def _take(waiting: deque[Sentence], count: int) -> Iterator[Sentence]:
    # Several threads take from the same queue, whose operations are atomic.
    with suppress(IndexError):
        for _ in range(count):
            yield waiting.popleft()
