from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.conftest import Client, Script

from xuanzang.client import TranslationClient, Usage
from xuanzang.client._values.results import usage_of

USED = Usage(characters=12, sentences=3)


@pytest.fixture
def counting(script: Script) -> Script:
    """Return a server that reports the usage of every call."""
    for name in ("on_translate", "on_stream", "on_progressive"):
        setattr(script, name, counted(getattr(script, name)))
    return script


def counted(method: Any) -> Any:
    def translate(request: Any, context: Any) -> Any:
        context.set_trailing_metadata((("x-usage-characters", "12"), ("x-usage-sentences", "3")))
        return method(request, context)

    return translate


@pytest.mark.parametrize("hosts", [["127.0.0.1"], ["127.0.0.1", "localhost"]])
def test_every_kind_of_call_reports_what_it_has_used(
    client_type: type[Client], counting: Script, hosts: list[str]
) -> None:
    seen: list[Usage] = []
    client = client_type([counting.address.replace("127.0.0.1", host) for host in hosts], on_usage=seen.append)
    client.translate(["a", "b"])
    assert seen == [USED]
    assert len(client.translate_stream(["a", "b"])) == 2
    assert seen == [USED] * 2
    assert client.translate_progressively("a")
    assert seen == [USED] * 3


def test_a_server_that_does_not_count_is_no_fault(script: Script) -> None:
    seen: list[Usage] = []
    with TranslationClient(script.address, on_usage=seen.append) as client:
        client.translate_one("a")
    assert seen == []


def test_other_metadata_is_no_usage() -> None:
    characters = ("x-usage-characters", "1")
    negative, binary = ("x-usage-sentences", "-1"), ("x-usage-characters", b"1")
    others: list[Any] = [None, [], [characters], [characters, negative], [binary, ("x-usage-sentences", "1")]]
    assert [usage_of(metadata) for metadata in others] == [None] * len(others)
