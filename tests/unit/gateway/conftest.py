"""Gateways in front of a server that stands in: one of a kind for all tests of a file; the server forgets each test."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from gateways import RunningGateway, running_gateway
from stand_in_server import StandIn, standing_in


@pytest.fixture(scope="session")
def background() -> Iterator[BlockingPortal]:
    """Return an event loop in a thread, where servers go on from test to test."""
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="module")
def stand_in() -> StandIn:
    """Return the server of a file's tests, as it is before each of them."""
    return StandIn()


@pytest.fixture
def server(stand_in: StandIn) -> Iterator[StandIn]:
    """Return the server of a test, which may change it."""
    before = copy.deepcopy(vars(stand_in))
    yield stand_in
    vars(stand_in).update(before)


@pytest.fixture(scope="module")
def address(background: BlockingPortal, stand_in: StandIn) -> Iterator[str]:
    """Return the address of the server."""
    with background.wrap_async_context_manager(standing_in(stand_in)) as address:
        yield address


@pytest.fixture(scope="module")
def anonymous_gateway(background: BlockingPortal, address: str) -> Iterator[RunningGateway]:
    started = running_gateway(address, grpc_address="127.0.0.1:0", anonymous=True)
    with background.wrap_async_context_manager(started) as running:
        yield running


@pytest.fixture(scope="module")
def asking_gateway(background: BlockingPortal, address: str) -> Iterator[RunningGateway]:
    with background.wrap_async_context_manager(running_gateway(address, anonymous=False)) as running:
        yield running


@pytest.fixture
def gateway(server: StandIn, anonymous_gateway: RunningGateway) -> RunningGateway:
    """Return a gateway that takes calls without a key."""
    return anonymous_gateway


@pytest.fixture
def guarded(server: StandIn, asking_gateway: RunningGateway) -> RunningGateway:
    """Return a gateway that asks for keys, in front of a server that does."""
    server.needs_key = True
    return asking_gateway
