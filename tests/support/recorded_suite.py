"""A suite of another project that is in no package: its requests, which were recorded once, are sent by `make e2e`.

Sent again, requests must be answered as they were when the tests passed or failed. Tests with requests of more than
64 KiB, of which there are two, are only counted.
"""

from __future__ import annotations

import gzip
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from stand_in_server import StandIn

RECORDING = Path(__file__).parent / "recorded_suites" / "deepl-python.jsonl.gz"
_IDS = ("document_id", "document_key", "glossary_id")
_CHANGING = ("character_count", "seconds_remaining")
"""Members of answers that depend on what was asked before, or on time."""
_UNSETTLED = ("queued", "translating")


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A request of a test, and its answer."""

    test: str
    method: str
    path: str
    headers: dict[str, str]
    body: str
    """Its bytes as characters."""
    status: int
    answer: str
    """Its bytes as characters."""


class KeyedStandIn(StandIn):
    """A server that knows all keys but none and "invalid"."""

    async def _begin(self, context: Any) -> None:
        key = dict(context.invocation_metadata()).get("authorization", "").removeprefix("Bearer ")
        if key in ("", "invalid"):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "a wrong key")


def stand_in(phrases: Mapping[str, str]) -> StandIn:
    """Return the server that the suite expects: it has its languages, and translates one phrase."""
    return KeyedStandIn(sources=tuple(phrases), targets=tuple(phrases), phrases=[phrases])


def replayed(url: str) -> dict[str, str]:
    """Send the recorded requests to a gateway and return the outcomes of the tests.

    A test has its recorded outcome; if a request is answered in another way, "changed".
    """
    head, *lines = gzip.decompress(RECORDING.read_bytes()).decode().splitlines()
    outcomes: dict[str, str] = json.loads(head)["outcomes"]
    ids: dict[str, str] = {}
    for line in lines:
        exchange = Exchange(**json.loads(line))
        if not _is_unsettled(_read(exchange.answer)) and not _is_answered_alike(url, exchange, ids):
            outcomes[exchange.test] = "changed"
    return outcomes


def recorded_phrases() -> dict[str, str]:
    """Return the phrase book of the recorded suite."""
    with gzip.open(RECORDING, "rt") as lines:
        phrases: dict[str, str] = json.loads(next(lines))["phrases"]
        return phrases


def _is_unsettled(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.get("status") in _UNSETTLED


def _is_answered_alike(url: str, exchange: Exchange, ids: dict[str, str]) -> bool:
    path, body = exchange.path, exchange.body.encode("latin-1")
    for old, new in ids.items():
        path, body = path.replace(old, new), body.replace(old.encode(), new.encode())
    deadline = time.monotonic() + 60
    while True:
        status, data = _sent(url + path, exchange.method, exchange.headers, body)
        answer = _read(data.decode("latin-1"))
        if not _is_unsettled(answer) or time.monotonic() > deadline:
            break
    old = _read(exchange.answer)
    if isinstance(old, dict) and isinstance(answer, dict):
        ids.update({old[name]: answer[name] for name in _IDS if name in old and name in answer})
    return (status, _comparable(answer, {})) == (exchange.status, _comparable(old, ids))


def _comparable(value: Any, ids: Mapping[str, str]) -> Any:
    match value:
        case dict():
            return {name: _comparable(each, ids) for name, each in value.items() if name not in _CHANGING}
        case list():
            return [_comparable(each, ids) for each in value]
        case str():
            return ids.get(value, value)
        case _:
            return value


def _sent(url: str, method: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
    request = urllib.request.Request(url, data=body or None, headers=dict(headers), method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def _read(answer: str) -> Any:
    try:
        return json.loads(answer.encode("latin-1"))
    except ValueError:
        return answer
