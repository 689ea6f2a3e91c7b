"""Servers that are killed, or drained as Kubernetes does it, under the load of an SDK: no call is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import envoy
import pytest
from replica_set import replica_set
from servers_under_load import drain_in_turn, kill_under_load, known_addresses

pytestmark = pytest.mark.e2e

MODELS = Path(__file__).parents[2] / "server" / "models"

NO_ENVOY = "NOT TESTED: no server was killed behind Envoy: there is none: `.ci/peers envoy` installs it"


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
    servers = stack.enter_context(replica_set(MODELS))
    known = known_addresses(stack, servers, through)
    found = await kill_under_load(servers, known, share=0.6, seconds=9, victim=victim)
    assert found.outcomes
    assert found.faults == []


async def test_no_call_is_lost_in_twenty_drains_under_full_load(stack: ExitStack) -> None:
    servers = stack.enter_context(replica_set(MODELS))
    found = await drain_in_turn(servers, servers.addresses, drains=20, wait=0.5)
    assert found.faults == []
    assert found.statuses == [0] * 20


async def test_no_call_is_lost_in_drains_behind_envoy(stack: ExitStack) -> None:
    if envoy.program() is None:
        pytest.skip(NO_ENVOY)
    servers = stack.enter_context(replica_set(MODELS))
    found = await drain_in_turn(servers, known_addresses(stack, servers, "envoy"), drains=4, wait=0.5)
    assert found.faults == []
    assert found.statuses == [0] * 4
