"""Random bytes, frames, headers and messages against a server process, beside a caller who must notice nothing.

Takes some seconds for each test, or a share of the variable `FUZZ_MINUTES`, which also changes the
seed from round to round.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from typing import Any

from http2 import EMPTY_MESSAGE, HEALTH, PREFACE, Header, Request, exchange, opening
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from xuanzang.translation.v1 import translation_pb2 as pb

SERVICE = b"/xuanzang.translation.v1.TranslationService/"
PATHS = (
    HEALTH,
    b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    *(
        SERVICE + name
        for name in (b"TranslateText", b"StreamTranslateText", b"TranslateTextProgressively", b"ListModels")
    ),
)
NAMES = (
    *(b":path", b":method", b":scheme", b":authority", b":status", b":protocol", b"te", b"content-type", b"host", b""),
    *(b"grpc-timeout", b"grpc-encoding", b"grpc-accept-encoding", b"grpc-trace-bin", b"grpc-tags-bin", b"grpc-status"),
    *(b"grpc-previous-rpc-attempts", b"grpc-message", b"user-agent", b"x-client-id", b"x-any-bin", b"Connection"),
)
VALUES = (
    *(b"", b"\xff", b"\0", b"\r\nx: y", b"POST", b"GET", b"http", b"trailers", b"application/grpc", b"text/html"),
    *(b"1S", b"0n", b"-1S", b"99999999H", b"1X", b"gzip", b"deflate", b"identity", b"zstd", b"!!!!", b"AA==", b"AAAA"),
    *("\ud800".encode("utf-8", "surrogatepass"), "猫".encode(), b"a" * 9000),
)
MINUTES = float(os.environ.get("FUZZ_MINUTES", "0"))
ATTACKERS = int(os.environ.get("FUZZ_ATTACKERS", "4"))

Attack = Callable[[random.Random], bytes]


def some_bytes(chance: random.Random, longest: int = 200) -> bytes:
    return chance.randbytes(chance.randrange(longest))


def some_headers(chance: random.Random) -> list[Header]:
    def name() -> bytes:
        return chance.choice(NAMES) if chance.random() < 0.9 else some_bytes(chance, 20)

    def value() -> bytes:
        return chance.choice(VALUES) if chance.random() < 0.7 else some_bytes(chance)

    return [(name(), value()) for _ in range(chance.randrange(4))]


def some_message(chance: random.Random) -> bytes:
    """Return the bytes of a message, valid or damaged, with a prefix that may not fit."""
    request = pb.TranslateTextRequest(contents=[chance.choice(("猫", "", "\0", "a" * 3000, "😀" * 20))])
    request.settings.options.beam_size = chance.choice((1, 2, 0, -1, 2**31 - 1))
    request.settings.options.max_target_length = chance.choice((1, 8, 0))
    message = bytearray(request.SerializeToString())
    for _ in range(chance.choice((0, 0, 1, 5))):
        message[chance.randrange(len(message))] = chance.randrange(256)
    length = chance.choice((len(message), len(message), len(message), 0, 2**32 - 1, 5))
    return chance.choice((b"\0", b"\0", b"\0", b"\1", b"\2", b"\xff")) + length.to_bytes(4, "big") + bytes(message)


def raw(chance: random.Random) -> bytes:
    start = chance.choice((b"", PREFACE, PREFACE[:10], opening(), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00"))
    return start + some_bytes(chance, 2000)


def requests(chance: random.Random) -> bytes:
    written = opening()
    for stream in range(1, 2 * chance.randrange(1, 12), 2):
        path = chance.choice(PATHS) if chance.random() < 0.8 else b"/" + some_bytes(chance, 40)
        request = Request(
            path=path,
            extra=some_headers(chance),
            dropped=[chance.choice(NAMES)],
            body=chance.choice(
                (None, EMPTY_MESSAGE, some_message(chance), some_message(chance) * 3, some_bytes(chance))
            ),
            is_ended=chance.random() < 0.8,
        )
        written += request.frames(stream)
    return written


def frames(chance: random.Random) -> bytes:
    written = opening() + Request(path=chance.choice(PATHS), is_ended=False).frames()
    for _ in range(chance.randrange(1, 30)):
        written += _damaged(_frame(chance).serialize(), chance)
    return written


def _frame(chance: random.Random) -> Frame:
    stream = chance.choice((1, 1, 3, 5, 2, 2**31 - 1))
    block = some_bytes(chance, 60)
    return chance.choice(
        (
            lambda: DataFrame(stream, some_bytes(chance), flags=["END_STREAM"] if chance.random() < 0.3 else []),
            lambda: HeadersFrame(stream, block, flags=["END_HEADERS"] if chance.random() < 0.7 else []),
            lambda: ContinuationFrame(stream, block, flags=["END_HEADERS"] if chance.random() < 0.5 else []),
            lambda: PriorityFrame(stream, depends_on=chance.choice((0, stream)), stream_weight=chance.randrange(256)),
            lambda: RstStreamFrame(stream, error_code=chance.randrange(20)),
            lambda: SettingsFrame(0, {chance.randrange(10): chance.choice((0, 1, 2**16, 2**31, 2**32 - 1))}),
            lambda: PushPromiseFrame(stream, promised_stream_id=chance.choice((2, 4)), data=block),
            lambda: PingFrame(0, chance.randbytes(8)),
            lambda: GoAwayFrame(0, last_stream_id=chance.randrange(9), error_code=chance.randrange(20)),
            lambda: WindowUpdateFrame(chance.choice((0, stream)), window_increment=chance.choice((1, 2**31 - 1))),
        )
    )()


def _damaged(data: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.7:
        return data
    # The header of a frame is its first nine bytes.
    damaged = bytearray(data)
    damaged[chance.randrange(9)] = chance.randrange(256)
    return bytes(damaged)


async def _attack(server: Any, make: Attack, seed: int, *, rounds: int) -> None:
    """Let attackers send what was made from the seed, while a caller is served."""
    chance = random.Random(seed)
    payloads = [make(chance) for _ in range(rounds)]

    async def send() -> None:
        while payloads:
            await exchange(server.port, payloads.pop(), seconds=0.3)

    sending = [asyncio.create_task(send()) for _ in range(ATTACKERS)]
    while not all(task.done() for task in sending):
        assert await server.translated() == server.expected, seed
    await asyncio.gather(*sending)
    await server.check()


async def test_nothing_on_the_wire_harms_other_callers(attack: Any) -> None:
    async with attack("--stream-idle-seconds=5") as server:
        for make in (raw, requests, frames):
            ends = time.monotonic() + MINUTES * 60 / 4
            seed = 0
            await _attack(server, make, seed, rounds=250)
            while time.monotonic() < ends:
                seed += 1
                await _attack(server, make, seed, rounds=500)
