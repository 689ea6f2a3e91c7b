from __future__ import annotations

import pytest

from xuanzang.server.observation.callers import address_class, sender_of


@pytest.mark.parametrize(
    ("peer", "expected", "network"),
    [
        ("ipv4:127.0.0.1:50051", "loopback", "ipv4:127.0.0.1"),
        ("ipv6:%5B::1%5D:50051", "loopback", "::/64"),
        ("ipv6:[::1]:50051", "loopback", "::/64"),
        ("ipv4:10.1.2.3:1", "private", "ipv4:10.1.2.3"),
        ("ipv6:%5Bfd00::1%5D:2", "private", "fd00::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:2", "private", None),
        ("ipv4:8.8.8.8:53", "public", "ipv4:8.8.8.8"),
        ("ipv6:%5B2001:4860:1:2:3:4:5:6%5D:53", "public", "2001:4860:1:2::/64"),
        ("unix:/run/socket", "unix", None),
        ("unix:", "unix", None),
        ("", "unknown", None),
        ("nonsense", "unknown", None),
    ],
)
def test_peers_are_known_by_their_network_and_the_class_of_their_address(
    peer: str, expected: str, network: str | None
) -> None:
    sender = sender_of(peer)
    assert address_class(sender.host) == expected
    assert network in {None, sender.network}
