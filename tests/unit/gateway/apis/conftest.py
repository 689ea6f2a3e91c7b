"""A gateway in front of a server that stands in."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from gateways import RunningGateway, running_gateway
from stand_in_server import StandIn, standing_in


@pytest.fixture
def server() -> StandIn:
    return StandIn()


@pytest.fixture
async def gateway(server: StandIn) -> AsyncIterator[RunningGateway]:
    async with (
        standing_in(server) as address,
        running_gateway(address, grpc_address="127.0.0.1:0", anonymous=True) as running,
    ):
        yield running


@pytest.fixture
async def guarded(server: StandIn) -> AsyncIterator[RunningGateway]:
    server.needs_key = True
    async with standing_in(server) as address, running_gateway(address, anonymous=False) as running:
        yield running
