"""Real server processes that are stopped, killed and restarted under a client with several addresses."""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from free_ports import free_port
from replicas import Replica

from xuanzang.client import AsyncTranslationClient, TranslationClient
from xuanzang.client._calls.channel import options
from xuanzang.client._calls.status import fault_of
from xuanzang.client._reliability.tries import FaultKind
from xuanzang.translation.v1 import translation_pb2, translation_pb2_grpc

pytestmark = pytest.mark.slow

TIMEOUT = 30.0
CALLERS = 8


class Faults:
    """Actions that are due once a number of calls have been answered."""

    def __init__(self, *actions: tuple[int, Callable[[], None]]) -> None:
        self._answered = itertools.count(1)
        self._actions = dict(actions)
        self._lock = threading.Lock()

    def answered(self) -> None:
        with self._lock:
            self._actions.pop(next(self._answered), lambda: None)()

    def all_happened(self) -> bool:
        return not self._actions


def call_from_threads(addresses: list[str], calls: int, faults: Faults) -> list[str]:
    with (
        TranslationClient(addresses, timeout=TIMEOUT, wait_for_server=True) as client,
        ThreadPoolExecutor(CALLERS) as pool,
    ):

        def call(number: int) -> str:
            text = client.translate_one("我有一只猫。").text
            faults.answered()
            return text

        return list(pool.map(call, range(calls)))


def call_from_tasks(addresses: list[str], calls: int, faults: Faults) -> list[str]:
    async def run() -> list[str]:
        slots = asyncio.Semaphore(CALLERS)
        async with AsyncTranslationClient(addresses, timeout=TIMEOUT, wait_for_server=True) as client:

            async def call() -> str:
                async with slots:
                    text = (await client.translate_one("我有一只猫。")).text
                faults.answered()
                return text

            return list(await asyncio.gather(*(call() for _ in range(calls))))

    return asyncio.run(run())


def call(addresses: list[str], calls: int, faults: Faults) -> list[str]:
    """Call from threads and from tasks at once, half of the calls each."""
    with ThreadPoolExecutor(2) as pool:
        ways = [pool.submit(way, addresses, calls // 2, faults) for way in (call_from_threads, call_from_tasks)]
        return [text for way in ways for text in way.result()]


def test_no_call_fails_while_one_of_two_replicas_is_frozen(replicas: tuple[Replica, Replica]) -> None:
    frozen, other = replicas
    faults = Faults((50, lambda: frozen.send(signal.SIGSTOP)), (400, lambda: frozen.send(signal.SIGCONT)))
    texts = call([frozen.address, other.address], 500, faults)
    assert faults.all_happened()
    assert len(texts) == 500
    assert len(set(texts)) == 1


def test_grpc_says_that_a_frozen_server_answered_no_ping(start: Callable[..., Replica]) -> None:
    frozen = start()
    frozen.ready()
    with grpc.insecure_channel(frozen.address, options(max_message_bytes=1024, tls=None)) as channel:
        stub = translation_pb2_grpc.TranslationServiceStub(channel)
        stub.ListModels(translation_pb2.ListModelsRequest())
        frozen.send(signal.SIGSTOP)
        with pytest.raises(grpc.RpcError) as caught:
            stub.ListModels(translation_pb2.ListModelsRequest(), timeout=TIMEOUT)
    assert fault_of(caught.value).kind is FaultKind.SILENT


def test_no_call_fails_when_one_of_two_replicas_is_killed(replicas: tuple[Replica, Replica]) -> None:
    killed, other = replicas
    faults = Faults((50, lambda: killed.send(signal.SIGKILL)))
    assert len(call([killed.address, other.address], 300, faults)) == 300
    assert faults.all_happened()


def test_a_replica_frozen_from_the_beginning_is_avoided(replicas: tuple[Replica, Replica]) -> None:
    frozen, other = replicas
    frozen.send(signal.SIGSTOP)
    assert len(call([frozen.address, other.address], 50, Faults())) == 50


def test_no_call_fails_while_the_only_server_restarts(start: Callable[..., Replica]) -> None:
    first = start()
    first.ready()
    port = int(first.address.rpartition(":")[2])

    starting = threading.Thread(target=start, args=(port,))

    def restart() -> None:
        first.end()
        starting.start()

    faults = Faults((20, restart))
    assert len(call([first.address], 100, faults)) == 100
    assert faults.all_happened()
    starting.join()


def test_a_stream_goes_on_elsewhere_when_its_server_freezes(replicas: tuple[Replica, Replica]) -> None:
    texts = [f"我有一只猫。{number}" for number in range(300)]
    first, second = replicas
    with TranslationClient([first.address, second.address], timeout=TIMEOUT) as client:
        stream = client.translate_stream(iter(texts), ordered=True, max_in_flight=16)
        results = [next(stream) for _ in range(20)]
        # Whichever has the stream: the first of equals has the first call.
        first.send(signal.SIGSTOP)
        results += stream
    assert [(each.index, each.source, each.error) for each in results] == [
        (number, text, None) for number, text in enumerate(texts)
    ]


async def test_an_asynchronous_stream_goes_on_elsewhere_when_its_server_is_killed(
    replicas: tuple[Replica, Replica],
) -> None:
    texts = [f"我有一只猫。{number}" for number in range(300)]
    first, second = replicas
    async with AsyncTranslationClient([first.address, second.address], timeout=TIMEOUT) as client:
        stream = client.translate_stream(texts, ordered=True, max_in_flight=16)
        results = [await anext(stream) for _ in range(20)]
        first.send(signal.SIGKILL)
        results += [each async for each in stream]
    assert [(each.index, each.source, each.error) for each in results] == [
        (number, text, None) for number, text in enumerate(texts)
    ]


def test_a_port_that_nobody_listens_on_yet_is_waited_for(start: Callable[..., Replica]) -> None:
    port = free_port()
    starting = threading.Thread(target=start, args=(port,))
    starting.start()
    try:
        assert len(call([f"127.0.0.1:{port}"], 8, Faults())) == 8
    finally:
        # Only then does the fixture know the server, which it ends.
        starting.join()
