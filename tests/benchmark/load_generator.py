"""Process of many callers: reads a load from each line of standard input and answers with its result.

It shares the cores with the server, so it does little during a load: requests are serialised before it, answers are
parsed after it.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import itertools
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
from load import Answer, Load, LoadResult, arrival_times, summarize
from processes import METHOD, metadata

from xuanzang.translation.v1 import translation_pb2

TIMEOUT_SECONDS = 60.0
"""Time limit of a request; a later answer is an error."""
MIN_ANSWERS = 3
"""Minimum number of answers for each caller of a closed loop: a shorter window would not hold whole rounds."""


class Callers:
    """Callers of one load."""

    def __init__(self, load: Load, requests: Sequence[bytes]) -> None:
        """Prepare the callers.

        Args:
            load: Load to put on the server.
            requests: Serialised requests, each for one sentence.
        """
        self._load = load
        order = list(requests)
        random.Random(load.seed).shuffle(order)
        # Every sentence is sent once before any is repeated, so that short loads have the real mix of lengths.
        self._requests: Iterator[bytes] = itertools.cycle(order)
        self._answers: list[Answer] = []
        self._contents: list[bytes] = []
        self._failures = 0

    async def run(self) -> LoadResult:
        """Call, wait for the last answer and sum up."""
        async with grpc.aio.insecure_channel(self._load.address) as channel:
            await channel.channel_ready()
            # Without serialisers it takes and returns bytes.
            self._translate: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
            self._started = time.perf_counter()
            load = self._load
            if load.rate is None:
                load = dataclasses.replace(load, seconds=await self._closed_loop())
            else:
                await self._open_loop(load.rate)
        return summarize(self._answers, self._failures + sum(map(_is_empty, self._contents)), load)

    async def _closed_loop(self) -> float:
        """Run a closed loop and return the seconds during which requests were sent."""
        minimum = MIN_ANSWERS * self._load.callers

        async def call_repeatedly() -> float:
            while (now := self._now()) < self._load.seconds or len(self._answers) + self._failures < minimum:
                await self._call(now)
            return now

        return min(await asyncio.gather(*(call_repeatedly() for _ in range(self._load.callers))))

    async def _open_loop(self, rate: float) -> None:
        calls: list[asyncio.Task[None]] = []
        for due in arrival_times(rate, self._load.seconds, self._load.seed):
            if (wait := due - self._now()) > 0:
                await asyncio.sleep(wait)
            calls.append(asyncio.create_task(self._call(due)))
        await asyncio.gather(*calls)

    async def _call(self, due: float) -> None:
        try:
            content = await self._translate(
                next(self._requests), timeout=TIMEOUT_SECONDS, metadata=metadata(self._load.key)
            )
        except grpc.aio.AioRpcError:
            self._failures += 1
            return
        self._answers.append(Answer(due=due, ended=self._now()))
        self._contents.append(content)

    def _now(self) -> float:
        return time.perf_counter() - self._started


def _is_empty(content: bytes) -> bool:
    translations = translation_pb2.TranslateTextResponse.FromString(content).translations
    return len(translations) != 1 or not translations[0].hypotheses or not translations[0].hypotheses[0].text.strip()


def main() -> None:
    """Read the sentences, then answer loads until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", type=Path, help="JSON list of texts")
    texts = json.loads(parser.parse_args().sentences.read_text(encoding="utf-8"))
    requests = [translation_pb2.TranslateTextRequest(contents=[text]).SerializeToString() for text in texts]
    for line in sys.stdin:
        result = asyncio.run(Callers(Load(**json.loads(line)), requests).run())
        print(json.dumps(dataclasses.asdict(result)), flush=True)


if __name__ == "__main__":
    main()
