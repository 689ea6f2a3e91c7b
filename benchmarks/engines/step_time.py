"""Time of the encoder and of a decoder step in onnxruntime, bundles in turns, one thread and batches that empty.

    python -m benchmarks.engines.step_time OLD/zh-en/3 server/models/zh-en/4 --rounds 3

Prints the processor time of the thread for a step in the decoder's graph, for a sentence's share of the encoder's runs,
for the work outside of both, and for a sentence in all: the best of the rounds, the median of the ratios to the
first bundle within a round, and how many translations are the first bundle's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from sentencepiece import SentencePieceProcessor

from benchmarks.engines.xuanzang_engine import steps_of
from benchmarks.harness.bundled_model import sentences
from xuanzang.kernels.graphs import Graph
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence
from xuanzang.server.engine.hardware import flush_denormals
from xuanzang.server.engine.runtime.bindings import Binding
from xuanzang.server.engine.runtime.sessions import Sessions
from xuanzang.server.engine.types import DecodingOptions

CELLS = [(beam, batch, count) for beam in (4, 1) for batch, count in ((1, 24), (8, 96), (32, 256))]


class Measured(NamedTuple):
    """Translations of a cell, and microseconds."""

    step: float
    """A step in the decoder's graph, with the kernels' bookkeeping where several follow each other."""
    encoder: float
    """The encoder's graph, for a sentence."""
    sentence: float
    """All that is done for a sentence."""
    outside: float
    """Work for a sentence outside of graphs and kernels."""
    translations: list[list[int]]


def measure(sessions: Sessions, sources: list[list[int]], beam: int, batch: int) -> Measured:
    """Translate all sentences in batches that are begun when the one before is empty."""
    options = SearchOptions(
        decoding=DecodingOptions(
            beam_size=beam, num_hypotheses=1, length_penalty=1.0, min_target_length=0, max_target_length=None
        ),
        max_target_length=100,
    )
    decoder, found, steps = Decoder(sessions), dict[Sentence, list[int]](), 0
    sentences = [Sentence(source_ids=ids, options=options) for ids in sources]
    start = time.thread_time()
    with timed_runs(sessions) as (encoder, decoding):
        for first in range(0, len(sentences), batch):
            decoder.admit(sentences[first : first + batch])
            while len(decoder):
                advance = decoder.advance(steps_of(decoder))
                steps += advance.steps
                found |= {sentence: hypotheses[0].target_ids for sentence, hypotheses in advance.done}
    seconds = time.thread_time() - start
    return Measured(
        step=1e6 * sum(decoding) / steps,
        encoder=1e6 * sum(encoder) / len(sources),
        sentence=1e6 * seconds / len(sources),
        outside=1e6 * (seconds - sum(encoder) - sum(decoding)) / len(sources),
        translations=[found[sentence] for sentence in sentences],
    )


@contextmanager
def timed_runs(sessions: Sessions) -> Iterator[tuple[list[float], list[float]]]:
    """Collect the processor time of each run of an encoder, and of each run or steps of a decoder."""
    encoder, decoding, run = list[float](), list[float](), Binding.run

    def timed(function: Callable[..., Any], times: list[float]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            start = time.thread_time()
            result = function(*arguments)
            times.append(time.thread_time() - start)
            return result

        return call

    def timed_run(binding: Binding) -> None:
        timed(run, decoding if "token_ids" in binding._bound else encoder)(binding)

    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Binding, "run", timed_run))
        if isinstance(sessions._decoder, Graph):
            functions = sessions._decoder.functions
            for name in ("run", "decode"):
                patches.enter_context(mock.patch.object(functions, name, timed(getattr(functions, name), decoding)))
        yield encoder, decoding


def main() -> None:
    """Measure each bundle in each cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    flush_denormals()
    opened = [Sessions(load_bundle(path), provider="cpu", intra_op_threads=1) for path in arguments.bundles]
    tokenizer = SentencePieceProcessor(model_file=str(arguments.bundles[0] / "source.spm"))
    sources = [[*tokenizer.encode(line), opened[0].special_ids.eos_id] for line in sentences()]
    for beam, batch, count in CELLS:
        rounds = [[measure(each, sources[:count], beam, batch) for each in opened] for _ in range(arguments.rounds + 1)]
        for index, path in enumerate(arguments.bundles):
            times = [
                f"{name} {min(getattr(turn[index], name) for turn in rounds[1:]):5.0f} µs × "
                f"{statistics.median(getattr(turn[index], name) / getattr(turn[0], name) for turn in rounds[1:]):.2f}"
                for name in ("step", "encoder", "outside", "sentence")
            ]
            pairs = zip(rounds[0][index].translations, rounds[0][0].translations, strict=True)
            same = sum(ours == first for ours, first in pairs)
            print(f"beam {beam}, {batch:2} at once: {', '.join(times)}, {same} of {count} the same, {path}")


if __name__ == "__main__":
    main()
