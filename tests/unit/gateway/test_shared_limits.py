"""Shared limits: nobody takes those of others, whatever it takes of its own."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.gateway.entry.limits import SharedLimit, Shares, network_of
from xuanzang.gateway.errors import RefusedError

SHARES = Shares(address=0.75, caller=0.5)
WHO = st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(1, 9))


@given(st.lists(st.tuples(st.booleans(), WHO), max_size=60))
def test_no_share_is_exceeded_and_all_places_come_back(steps: list[tuple[bool, tuple[str, str, int]]]) -> None:
    places, held = SharedLimit("things", total=40, shares=SHARES), list[tuple[str, str, int]]()
    for is_taking, who in steps:
        if not is_taking and held:
            places.release(*held.pop())
            continue
        try:
            places.take(*who)
        except RefusedError:
            continue
        held.append(who)
        of_address, of_caller = Counter[str](), Counter[str]()
        for address, caller, number in held:
            of_address[address] += number
            of_caller[caller] += number
        assert places.taken == of_address.total() <= 40
        assert max(of_address.values()) <= 30
        assert max(of_caller.values()) <= 20
    while held:
        places.release(*held.pop())
    places.take("a", "x", 20)


@pytest.mark.parametrize(
    ("taken", "newcomer", "status", "limit"),
    [
        ([("a", "x", 20)], ("a", "x", 1), 429, "20 things of one caller"),
        ([("a", "x", 20), ("a", "y", 10)], ("a", "z", 1), 429, "30 things of one network address"),
        ([("a", "x", 18), ("b", "y", 17)], ("b", "z", 1), 503, "35 things outside the reserve"),
        ([("a", "x", 18), ("b", "y", 17), ("c", "z", 5)], ("d", "w", 1), 503, "40 things"),
    ],
)
def test_a_refusal_names_its_limit(
    taken: list[tuple[str, str, int]], newcomer: tuple[str, str, int], status: int, limit: str
) -> None:
    places = SharedLimit("things", total=40, shares=SHARES)
    for each in taken:
        places.take(*each)
    with pytest.raises(RefusedError, match=limit) as refused:
        places.take(*newcomer)
    assert refused.value.fault.status == status
    assert refused.value.fault.retry_after == 1


def test_an_address_without_places_finds_the_reserve() -> None:
    places = SharedLimit("things", total=40, shares=SHARES)
    places.take("a", "x", 18)
    places.take("b", "y", 17)
    places.take("c", "z", 5)
    assert places.taken == 40


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("", ""),
    ],
)
def test_a_host_is_counted_by_its_network(host: str, network: str) -> None:
    assert network_of(host) == network
