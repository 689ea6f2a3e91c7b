from __future__ import annotations

import pytest

from xuanzang.server.observation.callers import address_class, sender_of


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("ipv4:127.0.0.1:50051", "loopback"),
        ("ipv6:%5B::1%5D:50051", "loopback"),
        ("ipv6:[::1]:50051", "loopback"),
        ("ipv4:10.1.2.3:1", "private"),
        ("ipv6:%5Bfd00::1%5D:2", "private"),
        ("ipv6:%5Bfe80::1%25eth0%5D:2", "private"),
        ("ipv4:8.8.8.8:53", "public"),
        ("ipv6:%5B2001:4860:4860::8888%5D:53", "public"),
        ("unix:/run/socket", "unix"),
        ("unix:", "unix"),
        ("", "unknown"),
        ("nonsense", "unknown"),
    ],
)
def test_peers_are_known_by_the_class_of_their_address_only(peer: str, expected: str) -> None:
    assert address_class(sender_of(peer).host) == expected
