"""Load a bundle as the server does, translate, and print seconds and resident memory of each part as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry

from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.hardware import flush_denormals, return_free_memory
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.replay import replay
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.metrics import Metrics

T = TypeVar("T")

_SENTENCES, _SOURCE_TOKENS = 8, 24


def main() -> None:
    """Measure the bundle of the command line."""
    flush_denormals()
    folder, figures = Path(sys.argv[1]), {"before": _resident()}

    def measure(part: str, work: Callable[[], T]) -> T:
        started = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - started
        return_free_memory()
        figures[part] = f"{seconds:.2f} s, {_resident()}"
        return result

    load = partial(LoadedModel, folder, Metrics(CollectorRegistry()))
    model = measure("digests, graphs, weights, tables and tokenisers", load)
    measure("opening of the graphs", lambda: model.open(EngineSettings(workers=1)))
    measure("replay of the samples", lambda: replay(model))
    measure("8 sentences, beam 4", lambda: _translate(model))
    print(json.dumps(figures))


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
