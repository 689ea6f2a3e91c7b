"""Ended calls: their gRPC objects must not wait for the garbage collector.

The collector runs once more while Python ends. gRPC's threads are gone then, and the object's end waits for ever for a
lock that one of them held.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import cast

import grpc
import pytest
from tests.unit.client.conftest import Script, Silent, aborting

from xuanzang.client import TranslationClient, TranslationError

Use = Callable[[TranslationClient], object]


def left_early(client: TranslationClient) -> None:
    with closing(cast("Generator[object]", client.translate_stream(["a"] * 100))) as results:
        next(results)


USES: dict[str, Use] = {
    "translate": lambda client: client.translate(["a"]),
    "stream": lambda client: list(client.translate_stream(["a", "b"])),
    "stream left early": left_early,
    "stream of endless texts": lambda client: next(client.translate_stream(iter(lambda: "a", None))),
    "progressive": lambda client: list(client.translate_progressively("a")),
    "progressive left early": lambda client: next(client.translate_progressively("abc")),
}


def is_call(found: object) -> bool:
    # By type: `isinstance` asks the object for its class, and some of other libraries warn.
    return issubclass(type(found), grpc.Call) and issubclass(type(found), grpc.RpcError)


def calls_left_by(use: Use, client: TranslationClient) -> list[object]:
    """Return the gRPC calls that live on after a use, without garbage collection."""
    gc.disable()
    gc.freeze()  # what exists by now is not listed
    try:
        with suppress(TranslationError):
            use(client)
        return [each for each in gc.get_objects() if is_call(each)]
    finally:
        gc.unfreeze()
        gc.enable()


@pytest.mark.parametrize("addresses", [1, 2])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_an_ended_call_is_freed_at_once(script: Script, use: Use, addresses: int) -> None:
    with TranslationClient([script.address, script.address.replace("127.0.0.1", "localhost")][:addresses]) as client:
        client.translate(["a"])
        assert calls_left_by(use, client) == []


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_failed_call_is_freed_at_once(script: Script, use: Use) -> None:
    script.on_translate = script.on_stream = script.on_progressive = aborting(grpc.StatusCode.INVALID_ARGUMENT)
    with TranslationClient(script.address) as client:
        assert calls_left_by(use, client) == []


def test_a_stream_that_timed_out_is_freed_at_once(script: Script) -> None:
    Silent(script)
    with TranslationClient(script.address) as client:
        assert calls_left_by(lambda client: list(client.translate_stream(["a"], timeout=0.2)), client) == []
