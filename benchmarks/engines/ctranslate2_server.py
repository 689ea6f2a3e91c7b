"""CTranslate2 behind our gRPC service with dynamic batching, as one would serve it in production.

Each request has one sentence. As in our server, sentences wait in a queue until a worker is free.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import ctranslate2
import grpc
from sentencepiece import SentencePieceProcessor

from benchmarks.engines.workload import target_limit
from benchmarks.harness.processes import METHOD
from xuanzang.translation.v1 import translation_pb2

BEAM_SIZE = 4
LENGTH_PENALTY = 1.0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Waiting:
    """A sentence in the queue."""

    pieces: list[str]
    since: float
    """Time of arrival on the monotonic clock, seconds."""
    translation: asyncio.Future[list[str]]
    """Future of the best hypothesis, as pieces."""


class Batcher:
    """Dynamic batching of the sentences of many callers."""

    def __init__(self, translator: ctranslate2.Translator, *, workers: int, max_batch: int, delay: float) -> None:
        """Create an empty queue.

        Args:
            translator: Translator with `workers` workers.
            workers: Batches translated at the same time.
            max_batch: Maximum number of sentences in a batch.
            delay: Maximum time that a free worker waits for a batch to fill, seconds.
        """
        self._translator = translator
        self._workers, self._max_batch, self._delay = workers, max_batch, delay
        self._pool = ThreadPoolExecutor(workers)
        self._queue: list[Waiting] = []
        self._arrival = asyncio.Event()
        self._forming = asyncio.Lock()

    async def translate(self, pieces: list[str]) -> list[str]:
        """Return the best hypothesis for a sentence."""
        waiting = Waiting(pieces=pieces, since=time.monotonic(), translation=asyncio.Future())
        self._queue.append(waiting)
        self._arrival.set()
        return await waiting.translation

    async def run(self) -> None:
        """Translate until cancelled."""
        await asyncio.gather(*(self._work() for _ in range(self._workers)))

    async def _work(self) -> None:
        while True:
            async with self._forming:  # one free worker at a time waits for a batch to fill
                batch = await self._next_batch()
            found = await asyncio.get_running_loop().run_in_executor(self._pool, self._translate_batch, batch)
            for waiting, hypothesis in zip(batch, found, strict=True):
                if not waiting.translation.cancelled():
                    waiting.translation.set_result(hypothesis)

    async def _next_batch(self) -> list[Waiting]:
        while not self._queue:
            await self._arrived()
        rest = self._queue[0].since + self._delay - time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(rest):
                while len(self._queue) < self._max_batch:
                    await self._arrived()
        batch = choose_batch(self._queue, self._max_batch)
        self._queue = [waiting for waiting in self._queue if waiting not in batch]
        return batch

    async def _arrived(self) -> None:
        self._arrival.clear()
        await self._arrival.wait()

    def _translate_batch(self, batch: Sequence[Waiting]) -> list[list[str]]:
        results = self._translator.translate_batch(
            [waiting.pieces for waiting in batch],
            beam_size=BEAM_SIZE,
            length_penalty=LENGTH_PENALTY,
            max_decoding_length=max(target_limit(waiting.pieces) for waiting in batch),
        )
        return [result.hypotheses[0] for result in results]


def choose_batch(queue: Sequence[Waiting], max_batch: int) -> list[Waiting]:
    """Choose sentences of similar length, among them the oldest.

    Args:
        queue: Waiting sentences in the order of arrival.
        max_batch: Maximum number of sentences to choose.
    """
    window = sorted(queue[: 2 * max_batch], key=lambda waiting: len(waiting.pieces))
    oldest = window.index(queue[0])
    start = min(max(0, oldest - max_batch // 2), max(0, len(window) - max_batch))
    return window[start : start + max_batch]


def handlers(batcher: Batcher, processor: SentencePieceProcessor) -> grpc.GenericRpcHandler:
    """Return the handler of TranslateText for one sentence with the defaults of our bundles.

    Args:
        batcher: Batcher that translates the sentences.
        processor: Tokeniser of source and target.
    """

    async def translate_text(
        request: translation_pb2.TranslateTextRequest, _context: object
    ) -> translation_pb2.TranslateTextResponse:
        text = unicodedata.normalize("NFKC", request.contents[0])
        found = await batcher.translate([*processor.encode_as_pieces(text), "</s>"])
        hypothesis = translation_pb2.Hypothesis(text=processor.decode_pieces(found), token_count=len(found) + 1)
        return translation_pb2.TranslateTextResponse(
            translations=[translation_pb2.Translation(hypotheses=[hypothesis])]
        )

    handler = grpc.unary_unary_rpc_method_handler(
        translate_text,
        request_deserializer=translation_pb2.TranslateTextRequest.FromString,
        response_serializer=translation_pb2.TranslateTextResponse.SerializeToString,
    )
    service, method = METHOD.strip("/").split("/")
    return grpc.method_handlers_generic_handler(service, {method: handler})


async def serve(
    *, folder: Path, tokenizer: Path, address: str, workers: int, threads: int, max_batch: int, delay: float
) -> None:
    """Serve until the process is terminated.

    Args:
        folder: Model folder, written by `save_as_ctranslate2`.
        tokenizer: SentencePiece model of source and target.
        address: Host and port of the gRPC service.
        workers: Batches translated at the same time.
        max_batch: Maximum number of sentences in a batch.
        delay: Maximum time that a free worker waits for a batch to fill, seconds.
    """
    translator = ctranslate2.Translator(
        str(folder), device="cpu", compute_type="int8", inter_threads=workers, intra_threads=threads
    )
    batcher = Batcher(translator, workers=workers, max_batch=max_batch, delay=delay)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([handlers(batcher, SentencePieceProcessor(model_file=str(tokenizer)))])
    server.add_insecure_port(address)
    await server.start()
    await batcher.run()


def main() -> None:
    """Run the server with the settings of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("address")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--max-batch", type=int, required=True)
    parser.add_argument("--delay", type=float, required=True)
    asyncio.run(serve(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
