from __future__ import annotations

from typing import Any

import pytest

from xuanzang import client as sdk
from xuanzang.client._calls.targets import endpoints, targets


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
