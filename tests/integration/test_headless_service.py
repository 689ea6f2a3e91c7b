"""A client and two servers behind one name, as behind a headless service of Kubernetes: one port, many addresses."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.integration.conftest import fixture

from xuanzang.client import AsyncTranslationClient
from xuanzang.server.settings import split_address

_HEADER_BYTES = 12
_ADDRESS_TYPE, _INTERNET = 1, 1
# Authoritative answer without recursion.
_FLAGS = 0x8400
# The name of the question, by reference.
_SAME_NAME = b"\xc0\x0c"
_SECONDS = 5


@dataclass
class NameServer(asyncio.DatagramProtocol):
    """Answers questions for addresses of IPv4; others have an empty answer."""

    addresses: Sequence[str]
    questions: int = 0
    port: int = 0
    _transport: Any = field(default=None, repr=False)

    def connection_made(self, transport: Any) -> None:
        """Remember the socket."""
        self._transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Answer a question."""
        end = data.index(b"\0", _HEADER_BYTES) + 5
        (kind,) = struct.unpack(">H", data[end - 4 : end - 2])
        found = self.addresses if kind == _ADDRESS_TYPE else ()
        self.questions += len(found) > 0
        header = data[:2] + struct.pack(">HHHHH", _FLAGS, 1, len(found), 0, 0)
        self._transport.sendto(header + data[_HEADER_BYTES:end] + b"".join(map(_record, found)), addr)

    def target(self, name: str, port: int) -> str:
        """Return the gRPC target of a name that this server answers for."""
        return f"dns://127.0.0.1:{self.port}/{name}:{port}"


def _record(address: str) -> bytes:
    return _SAME_NAME + struct.pack(">HHIH", _ADDRESS_TYPE, _INTERNET, _SECONDS, 4) + socket.inet_aton(address)


@asynccontextmanager
async def name_server(addresses: Sequence[str]) -> AsyncIterator[NameServer]:
    """Answer with these addresses until the context ends; `addresses` may be replaced at any time."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: NameServer(addresses), local_addr=("127.0.0.1", 0), family=socket.AF_INET
    )
    try:
        yield server
    finally:
        transport.close()


NAME = "xuanzang-server.translation.svc.cluster.local"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has every address of 127.0.0.0/8")


@fixture
async def pods(start_server: Any) -> AsyncIterator[list[Any]]:
    """Yield two servers on two addresses and one port."""
    async with start_server(address="127.0.0.2:0") as first:
        port = split_address(first.address).port
        async with start_server(address=f"127.0.0.3:{port}") as second:
            yield [first, second]


@fixture
async def service(pods: list[Any]) -> AsyncIterator[AsyncTranslationClient]:
    """Yield a client that knows the name of both."""
    port = split_address(pods[0].address).port
    async with (
        name_server(["127.0.0.2", "127.0.0.3"]) as names,
        AsyncTranslationClient(names.target(NAME, port)) as client,
    ):
        yield client
        assert names.questions >= 1


async def served(pod: Any) -> float:
    scrape = await pod.scrape()
    return float(scrape.value("nmt_requests_total"))


async def until_both_serve(pods: list[Any], service: AsyncTranslationClient) -> None:
    # The first calls may go to the address that was connected first.
    while 0 in [await served(pod) for pod in pods]:
        await service.translate_one("你好。")


async def test_calls_are_spread_over_the_addresses_of_a_name(pods: list[Any], service: AsyncTranslationClient) -> None:
    await until_both_serve(pods, service)
    before = [await served(pod) for pod in pods]
    for _ in range(10):
        await service.translate_one("你好。")
    assert [await served(pod) - count for pod, count in zip(pods, before, strict=True)] == [5, 5]
