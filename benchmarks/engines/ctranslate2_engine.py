"""CTranslate2 as an engine of the benchmark."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path

import ctranslate2

from benchmarks.engines.workload import Translated, Workload

PIECES_FILE = "shared_vocabulary.json"
"""File of a converted model with the pieces of the shared vocabulary, in the order of their ids."""


class CTranslate2:
    """CTranslate2 with a loaded model."""

    def __init__(self, folder: Path, *, precision: str, workers: int, threads: int, shortlist: bool) -> None:
        """Load a model.

        Args:
            folder: Model folder, written by `save_as_ctranslate2`.
            precision: "float32" or "int8".
            workers: Batches translated at the same time.
            shortlist: Whether target tokens are limited to the shortlist of each source.
        """
        self._translator = ctranslate2.Translator(
            str(folder), device="cpu", compute_type=precision, inter_threads=workers, intra_threads=threads
        )
        self._workers, self._shortlist = workers, shortlist
        self._pieces: list[str] = json.loads((folder / PIECES_FILE).read_text(encoding="utf-8"))
        self._ids = {piece: index for index, piece in enumerate(self._pieces)}

    def translate(self, batch: Sequence[Sequence[int]], workload: Workload) -> Translated:
        """Translate one batch and time it."""
        source = [[self._pieces[i] for i in ids] for ids in batch]
        started = time.perf_counter()
        results = self._translator.translate_batch(
            source,
            # CTranslate2 sorts by length and gives each worker its share; 0 leaves the batch whole.
            max_batch_size=workload.max_batch or (math.ceil(len(batch) / self._workers) if self._workers > 1 else 0),
            beam_size=workload.beam_size,
            length_penalty=1.0,
            min_decoding_length=0,
            max_decoding_length=workload.max_target_length,
            use_vmap=self._shortlist,
        )
        seconds = time.perf_counter() - started
        return Translated(seconds, [[self._ids[piece] for piece in result.hypotheses[0]] for result in results])
