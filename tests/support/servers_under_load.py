"""Servers that are killed, or drained and replaced in turn, while checked calls come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter

import envoy
from checked_calls import CheckedCalls, Outcome, answers, capacity, stream_faults
from replica_set import ReplicaSet

from xuanzang.client import AsyncTranslationClient

_CALLERS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Killing:
    """A load in the middle of which a server was killed."""

    rate: float
    """Calls per second."""
    outcomes: Sequence[Outcome]
    faults: Sequence[str]
    """Faults of calls and of the results of a stream."""
    killed: float
    """Time of the kill on the clock of `time.perf_counter`."""
    replaced_seconds: float
    """Time from the kill until another server served at its address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """A load during which servers were drained."""

    outcomes: Sequence[Outcome]
    faults: Sequence[str]
    """Faults of calls and of the results of streams."""
    statuses: Sequence[int]
    """Exit status of each server that was drained."""


async def kill_under_load(
    servers: ReplicaSet, addresses: Sequence[str], *, share: float, seconds: float, victim: int = 0
) -> Killing:
    """Kill a server in the middle of an open loop, and replace it.

    Args:
        share: Rate of the calls, as a share of the capacity.
        victim: Place of the server that is killed.
    """
    async with AsyncTranslationClient(addresses) as client:
        expected = await answers(client)
        rate = share * await capacity(client, expected, seconds / 4)
        calls = CheckedCalls(client, expected)
        loading = asyncio.create_task(calls.open_loop(rate, seconds))
        streaming = asyncio.create_task(stream_faults(client, expected, int(4 * seconds)))
        await asyncio.sleep(seconds / 3)
        killed = perf_counter()
        await servers.kill(victim)
        await servers.replace(victim)
        replaced = perf_counter() - killed
        await loading
        faults = [*calls.faults, *await streaming]
    return Killing(rate=rate, outcomes=calls.outcomes, faults=faults, killed=killed, replaced_seconds=replaced)


async def drain_in_turn(servers: ReplicaSet, addresses: Sequence[str], *, drains: int, wait: float) -> Draining:
    """Let servers under full load be ended, as Kubernetes ends pods, and replaced in turn.

    Args:
        drains: Number of servers to end.
        wait: Seconds of the `preStop` hook.
    """
    over, statuses, faults = asyncio.Event(), [], []
    async with AsyncTranslationClient(addresses) as client:
        expected = await answers(client)
        calls = CheckedCalls(client, expected)
        loading = asyncio.create_task(calls.closed_loop(_CALLERS, over.is_set))
        for number in range(drains):
            streaming = asyncio.create_task(stream_faults(client, expected, 100))
            statuses.append(await servers.drain(number % 2, wait))
            await servers.replace(number % 2)
            faults += await streaming
        over.set()
        await loading
    return Draining(outcomes=calls.outcomes, faults=[*calls.faults, *faults], statuses=statuses)


def known_addresses(stack: ExitStack, servers: ReplicaSet, through: str) -> list[str]:
    """Return the addresses for a client: those of the servers, or that of an Envoy that is started before them.

    Args:
        stack: Exit stack that ends Envoy.
        through: Who fails over, "sdk" or "envoy".

    Raises:
        FileNotFoundError: Envoy is not installed.
    """
    if through == "sdk":
        return servers.addresses
    program = envoy.program()
    if program is None:
        raise FileNotFoundError("there is no envoy: `.ci/peers envoy` installs it")
    return [stack.enter_context(envoy.Proxy(program, servers=servers.addresses)).address]
