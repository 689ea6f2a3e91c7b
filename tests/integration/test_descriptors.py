"""A crowd of idle connections takes no file descriptors that the server needs for files."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
from keyed_rpcs import KeysFile, bearer, code_of, unary

from xuanzang.translation.v1 import translation_pb2_grpc

CROWD = 300


@contextmanager
def crowd(port: int) -> Iterator[None]:
    """Hold more connections than the server may open files."""
    with ExitStack() as stack:
        for _ in range(CROWD):
            connection = stack.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
        yield


async def test_a_crowd_neither_ends_a_server_nor_keeps_a_revoked_key(start_process: Any, tmp_path: Path) -> None:
    keys = KeysFile(tmp_path / "keys.json")
    key = keys.add()
    flags = (f"--keys-file={keys.path}", "--no-anonymous", f"--tried-bundles={tmp_path / 'tried'}")
    async with start_process(*flags, descriptors=96) as server:
        port = (await server.until("listening"))["port"]
        with crowd(port):
            await server.until("serving")
            keys.change(revoked=True)
            await server.until("keys reloaded")
        async with grpc.aio.insecure_channel(server.address) as channel:
            # The server may close connections until it has seen the end of the crowd.
            await channel.channel_ready()
            served = type("Served", (), {"stub": translation_pb2_grpc.TranslationServiceStub(channel)})
            assert code_of(await unary(served, bearer(key))) is grpc.StatusCode.UNAUTHENTICATED
        assert await server.stop() == 0
        assert [line for line in server.events if line["level"] == "error"] == []
