"""What kept answers save, and what they cost where nothing repeats.

    python -m benchmarks.kept_answers FILE-WITH-A-SENTENCE-A-LINE --rounds 5

Two servers, one that keeps answers and one that does not, get the same closed loops in turns: sentences that never
repeat, and sentences of which half were asked before. Prints sentences per second of each, the medians of the ratios
within a round, and the time of a lone call whose answer is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness.bundled_model import ServedModel, newest_bundle, our_server
from benchmarks.harness.light_calls import LightConnection, body_of, headers_of
from xuanzang.loadtest.loops import closed_loop
from xuanzang.translation.v1 import translation_pb2 as pb

METHOD = "/xuanzang.translation.v1.TranslationService/TranslateText"
CALLERS = 64
SECONDS = 60.0
_REMEMBERED = 200


def requests(texts: Iterator[str], *, repeated: float) -> Iterator[bytes]:
    """Return requests of one sentence each, a share of them asked lately."""
    draw, asked = random.Random(1), list[bytes]()
    while True:
        if asked and draw.random() < repeated:
            yield draw.choice(asked[-_REMEMBERED:])
            continue
        settings = pb.TranslationSettings(source_language_code="zh", target_language_code="en")
        body = body_of(pb.TranslateTextRequest(contents=[next(texts)], settings=settings).SerializeToString())
        asked.append(body)
        yield body


async def throughput(address: str, bodies: Iterator[bytes], seconds: float) -> float:
    """Return the sentences per second of a closed loop."""
    connection, answered = await LightConnection.open(address), 0
    block, end = headers_of(METHOD, SECONDS), time.perf_counter() + seconds

    async def call(due: float) -> None:
        nonlocal answered
        ended = await connection.call(block, next(bodies), timeout=SECONDS, due=due)
        if ended.code:
            raise RuntimeError(f"status {ended.code}")
        answered += 1

    started = time.perf_counter()
    await closed_loop(call, callers=CALLERS, is_over=lambda: time.perf_counter() > end)
    connection.close()
    return answered / (time.perf_counter() - started)


async def lone_calls(address: str, text: str, count: int = 300) -> float:
    """Return the median of the seconds of equal calls, one after the other."""
    connection = await LightConnection.open(address)
    body, block = next(requests(iter([text]), repeated=0)), headers_of(METHOD, SECONDS)
    seconds = [
        (await connection.call(block, body, timeout=SECONDS, due=time.perf_counter())).seconds for _ in range(count)
    ]
    connection.close()
    return statistics.median(seconds[1:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    texts = [*dict.fromkeys(filter(None, map(str.strip, arguments.sentences.read_text(encoding="utf-8").splitlines())))]
    fresh = _numbered(texts)
    model = ServedModel(bundle=newest_bundle(), texts=texts)
    rates: dict[float, list[tuple[float, float]]] = {0.0: [], 0.5: []}
    with ExitStack() as stack:
        without = stack.enter_context(our_server(model, "--answer-cache-mb", "0"))
        keeping = stack.enter_context(our_server(model, "--answer-cache-mb", "64"))
        for server in (without, keeping):
            asyncio.run(throughput(server.address, requests(fresh, repeated=0.0), 2.0))
        for _, share in itertools.product(range(arguments.rounds), rates):
            pair = [
                asyncio.run(throughput(server.address, requests(fresh, repeated=share), arguments.seconds))
                for server in (without, keeping)
            ]
            rates[share].append((pair[0], pair[1]))
            print(f"{share:.0%} repeated: {pair[0]:6.1f} sentences/s without, {pair[1]:6.1f} with kept answers")
        for share, pairs in rates.items():
            print(f"{share:.0%} repeated, median of the ratios: {statistics.median(b / a for a, b in pairs):.3f}")
        lone = [asyncio.run(lone_calls(server.address, texts[0])) for server in (without, keeping)]
        print(f"a lone call, median: {1e3 * lone[0]:.2f} ms without, {1e3 * lone[1]:.2f} ms with its answer kept")


def _numbered(texts: Sequence[str]) -> Iterator[str]:
    """Return texts that never repeat: when all were used, once more with a number in front."""
    yield from texts
    for number in itertools.count(1):
        yield from (f"{number}、{text}" for text in texts)


if __name__ == "__main__":
    main()
