"""A name server on a free port of the loopback that answers every question with the same addresses, as cluster DNS does
for a headless service."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

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
