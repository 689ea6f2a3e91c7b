from __future__ import annotations

import asyncio
import socket
from typing import Any

import grpc

from xuanzang.serving import event_loop


def test_events_that_came_together_wake_the_loop_once() -> None:
    async def woken() -> bytes:
        reader, writer = socket.socketpair()
        read, loop = asyncio.Queue[bytes](), asyncio.get_running_loop()
        with reader, writer:
            loop.add_reader(reader, lambda: read.put_nowait(reader.recv(1)))
            writer.send(b"\0" * 3)
            together = await read.get()
            loop.remove_reader(reader)
        return together

    assert event_loop.run(woken()) == b"\0" * 3


def test_grpc_serves_in_such_a_loop() -> None:
    async def answered() -> set[bytes]:
        server = grpc.aio.server()
        echo: Any = grpc.unary_unary_rpc_method_handler(lambda request, _: request)
        server.add_registered_method_handlers("s", {"m": echo})
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call: Any = channel.unary_unary("/s/m")
            answers: list[bytes] = await asyncio.gather(*[call(b"%d" % number) for number in range(100)])
        await server.stop(None)
        return set(answers)

    assert event_loop.run(answered()) == {b"%d" % number for number in range(100)}
