"""Load a bundle as the server does, translate, and print seconds and resident memory of each part as JSON.

Then each part of the loading once more, alone.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry

from xuanzang.server.bundles.files import digest_of, open_regular
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.hardware import flush_denormals, return_free_memory
from xuanzang.server.engine.language_detector import shared_detector
from xuanzang.server.engine.models.loaded import LoadedModel, open_codec
from xuanzang.server.engine.models.loading import replay
from xuanzang.server.engine.runtime.sessions import Sessions
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.metrics import Metrics

T = TypeVar("T")

_SENTENCES, _SOURCE_TOKENS = 8, 24


class Figures:
    """Seconds and memory by part."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {"before": _resident()}

    def measure(self, part: str, work: Callable[[], T]) -> T:
        """Measure a part."""
        started = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - started
        return_free_memory()
        self.of[part] = f"{seconds:.2f} s, {_resident()}"
        return result


def main() -> None:
    """Measure the bundle of the command line."""
    flush_denormals()
    folder, figures = Path(sys.argv[1]), Figures()
    _measure_loading(folder, figures)
    _measure_parts(folder, figures)
    print(json.dumps(figures.of))


def _measure_loading(folder: Path, figures: Figures) -> None:
    load = partial(LoadedModel, folder, Metrics(CollectorRegistry()), EngineSettings(workers=1))
    model = figures.measure("files, graphs and tokenisers beside each other", load)
    lengths = sorted(len(sample.target_ids) for sample in model.bundle.samples)
    figures.measure(f"replay of the samples, of {lengths} tokens", lambda: replay(model))
    figures.measure(f"replay of the shortest of them, {lengths[0]} tokens", lambda: replay(model, only_shortest=True))
    figures.measure("8 sentences, beam 4", lambda: _translate(model))


def _measure_parts(folder: Path, figures: Figures) -> None:
    bundle = figures.measure("alone: digests, manifest, graphs checked, tables", lambda: load_bundle(folder))
    figures.measure("alone: digest of the weights", lambda: _digest(folder, bundle.manifest.weights))
    figures.measure("alone: tokenisers and classes of pieces", lambda: open_codec(bundle))
    figures.measure("alone: both graphs", lambda: Sessions(bundle, provider="cpu", intra_op_threads=1))
    figures.measure("alone: detection of languages", shared_detector().open)


def _digest(folder: Path, name: str) -> str:
    with open_regular(folder, name) as file:
        return digest_of(file)[0]


def _translate(model: LoadedModel) -> Decoder:
    """Return the decoder, which holds keys and values."""
    decoder, options = model.new_decoder(), model.served(is_default=True).default_options
    ids = (*range(100, 100 + _SOURCE_TOKENS), 2)
    decoder.admit([model.sentence(ids, options) for _ in range(_SENTENCES)])
    while len(decoder):
        decoder.step()
    return decoder


def _resident() -> str:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    kilobytes = {
        name: int(value.split()[0])
        for name, _, value in (line.partition(":") for line in lines)
        if "Rss" in name or name == "VmRSS"
    }
    whole, files = (kilobytes[name] * 1024 / 1e9 for name in ("VmRSS", "RssFile"))
    return f"{whole:.2f} GB, {files:.2f} of it mapped files"


if __name__ == "__main__":
    main()
