"""Addresses of servers, and connections to them."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from xuanzang import client as sdk
from xuanzang.client import AsyncTranslationClient, TranslationClient
from xuanzang.client._calls.channel import connections, connections_for
from xuanzang.client._calls.targets import endpoints, targets


def test_each_address_has_as_many_connections_each_with_a_name() -> None:
    assert list(connections(["a:1", "b:2"], 1)) == [("a:1", "a:1"), ("b:2", "b:2")]
    named = [("a:1", "a:1"), ("b:2", "b:2"), ("a:1 (connection 2)", "a:1"), ("b:2 (connection 2)", "b:2")]
    assert list(connections(["a:1", "b:2"], 2)) == named


def test_a_number_of_connections_that_cannot_be_is_refused() -> None:
    for count in (0, -1, 65):
        with pytest.raises(ValueError, match="connections must be from 1 to 64"):
            TranslationClient("localhost:1", connections=count)


def test_no_more_connections_are_opened_for_what_is_no_number_of_processes() -> None:
    values: list[str | bytes] = ["1", "", "-3", "many", "9" * 5000, b"4"]
    assert [connections_for([("x-processes", value)]) for value in values] == [1] * len(values)


class SeveralProcesses:
    """Answers that say that 3 processes share the address; those after the first wait until 6 calls are there."""

    def __init__(self, script: Any) -> None:
        self.peers: list[str] = []
        self._barrier = threading.Barrier(6)
        self._echo, script.on_translate = script.on_translate, self._answer

    def _answer(self, request: Any, context: Any) -> Any:
        self.peers.append(context.peer())
        context.set_trailing_metadata((("x-processes", "3"),))
        if len(self.peers) > 1:
            self._barrier.wait(20)
        return self._echo(request, context)


def test_a_server_of_several_processes_gets_several_connections(script: Any) -> None:
    answers = SeveralProcesses(script)
    with TranslationClient(script.address, timeout=20) as client, ThreadPoolExecutor(6) as pool:
        client.translate(["a"])
        assert [each.text for each in pool.map(client.translate_one, "b" * 6)] == ["B"] * 6
    assert len(set(answers.peers[1:])) == 6


def test_asyncio_clients_open_them_too_and_share_them_with_other_callers(script: Any) -> None:
    answers = SeveralProcesses(script)

    async def call() -> None:
        async with AsyncTranslationClient(script.address, timeout=20) as client:
            await client.for_caller(client_id="first").translate(["a"])
            await asyncio.gather(*(client.translate(["b"]) for _ in range(6)))

    asyncio.run(call())
    assert len(set(answers.peers[1:])) == 6


def test_a_client_keeps_to_one_connection_if_the_server_does_not_ask_for_more(script: Any) -> None:
    peers = set()
    before = script.on_translate

    def answer(request: Any, context: Any) -> Any:
        peers.add(context.peer())
        return before(request, context)

    script.on_translate = answer
    with TranslationClient(script.address, timeout=20) as client, ThreadPoolExecutor(8) as pool:
        list(pool.map(client.translate_one, "b" * 24))
    assert len(peers) == 1


def test_a_server_on_this_machine_is_reached_without_a_proxy(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with TranslationClient(script.address, timeout=20) as client:
        assert client.translate_one("a").text == "A"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("host:1", ["host:1"]),
        ("dns:///host:1", ["dns:///host:1"]),
        (["a:1", "10.0.0.2:2", "[::1]:3"], ["a:1", "10.0.0.2:2", "[::1]:3"]),
        (["a:1", " b:1 ", "a:1"], ["a:1", "b:1"]),
        # gRPC's own default is 443.
        ("127.0.0.1", ["127.0.0.1:50051"]),
        ("localhost", ["localhost:50051"]),
        (["::1", "[::1]"], ["[::1]:50051"]),
        ("dns:///host", ["dns:///host:50051"]),
        ("dns:host", ["dns:host:50051"]),
        ("ipv4:10.0.0.1,10.0.0.2:7", ["ipv4:10.0.0.1:50051,10.0.0.2:7"]),
        ("unix:/run/server", ["unix:/run/server"]),
        ("xds:///service", ["xds:///service"]),
    ],
)
def test_each_address_has_a_channel_of_its_own_and_a_port(address: Any, expected: list[str]) -> None:
    assert targets(address) == expected


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        (["", " ", [], ["10.0.0.1:1", ""]], "address is empty"),
        (["http://10.0.0.1:8080/v2"], r"is a URL: give '10.0.0.1:8080'; it is a server's gRPC port"),
        (["https://mt.example.com"], r"give 'mt.example.com', and TLS by tls=TLSConfig\(\) \(--tls\); it"),
        (["grpc://localhost:50051"], r"is a URL: give 'localhost:50051'$"),
        (["grpcs://user@localhost:50051"], r"give 'localhost:50051', and TLS by"),
        (["HTTP://"], "give 'host:port'"),
        (["host:", "host:x", "host:0", "host:65536", "host:١", ":1", "a b:1"], "is not host:port, such as"),
        (["[::1", "host/path:1", "1:2:3", "[x]:1"], "is not host:port, such as"),
    ],
)
def test_what_is_no_address_is_refused_with_what_to_give_in_its_place(addresses: list[Any], message: str) -> None:
    for address in addresses:
        with pytest.raises(ValueError, match=message):
            sdk.TranslationClient(address)


def test_hosts_and_ports_of_a_target_are_told() -> None:
    assert endpoints("dns:///[::1]:7") == [("::1", 7)]
    assert endpoints("ipv4:10.0.0.1:1,10.0.0.2:2") == [("10.0.0.1", 1), ("10.0.0.2", 2)]
    assert endpoints("unix:/run/server") is None
