"""A worker of documents that can do what documents must not: run it as a module."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from xuanzang.gateway.documents.worker import WORKS, Facts, Work, main

_kept: list[Any] = []


def _endless() -> None:
    while True:
        pass


def _deep() -> None:
    _deep()


def _mark_and_go_on(path: str) -> None:
    Path(path).touch()
    _endless()


def _work(function: Any) -> Work:
    def work(facts: Facts, _content: bytes) -> tuple[Facts, bytes]:
        return {"value": function(*facts.get("arguments", ()))}, b""

    return work


_FUNCTIONS = {
    "abort": os.abort,
    "deep": _deep,
    "endless": _endless,
    "grow": lambda size: _kept.append(b"a" * size),
    "large": lambda: len(bytes(2**30)),
    "mark": _mark_and_go_on,
    "number": int,
    "pid": os.getpid,
}

if __name__ == "__main__":
    WORKS.update({name: _work(function) for name, function in _FUNCTIONS.items()})
    main()
