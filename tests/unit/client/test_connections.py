from __future__ import annotations

import pytest

from xuanzang.client import TranslationClient
from xuanzang.client._calls.channel import connections


def test_each_address_has_as_many_connections_each_with_a_name() -> None:
    assert list(connections(["a:1", "b:2"], 1)) == [("a:1", "a:1"), ("b:2", "b:2")]
    assert list(connections(["a:1"], 3)) == [
        ("a:1", "a:1"),
        ("a:1 (connection 2)", "a:1"),
        ("a:1 (connection 3)", "a:1"),
    ]


@pytest.mark.parametrize("count", [0, -1, 65])
def test_a_number_of_connections_that_cannot_be_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="connections must be from 1 to 64"):
        TranslationClient("localhost:1", connections=count)
