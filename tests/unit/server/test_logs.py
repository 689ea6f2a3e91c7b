from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest

from xuanzang.server import logs
from xuanzang.server.logs import configure_logging


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_headers_that_are_no_text_leave_a_line_a_second_without_their_bytes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_logging(level="info", log_format="json")
    # One comes when the second is over.
    for now in (*[7.0] * 50, 8.0):
        monkeypatch.setattr(logs, "time", SimpleNamespace(monotonic=partial(float, now)))
        try:
            b"secret\xff".decode()
        except UnicodeDecodeError:
            # As grpc._cython.cygrpc does.
            logging.getLogger("grpc._cython.cygrpc").exception("Invalid encoding on %s", b"secret\xff")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["level"], line["repeated"]) for line in lines] == [
        ("a header is not UTF-8", "info", 0),
        ("a header is not UTF-8", "info", 49),
    ]
    assert "secret" not in json.dumps(lines)


def test_other_lines_of_grpc_keep_their_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(level="info", log_format="json")
    try:
        int("no number")
    except ValueError:
        logging.getLogger("grpc._cython.cygrpc").exception("Unexpected %s", "error")
    [line] = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert line["event"] == "Unexpected error"
    assert "ValueError: invalid literal" in line["exception"]


def test_a_caller_that_hangs_up_leaves_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(level="info", log_format="json")
    logging.getLogger("grpc._cython.cygrpc").error("ExecuteBatchError raised in core by servicer method [/s/m]")
    [line] = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (line["event"], line["level"]) == ("a caller hung up while it was answered", "info")
    assert "exception" not in line


@pytest.mark.parametrize(
    ("log_format", "is_terminal", "is_json"),
    [("auto", True, False), ("auto", False, True), ("json", True, True), ("console", False, False)],
)
def test_lines_are_for_people_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    log_format: str,
    is_terminal: bool,
    is_json: bool,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    configure_logging(level="info", log_format=log_format)
    logging.getLogger("xuanzang").info("settings", extra={"address": "a"})
    logging.getLogger("xuanzang").info("listening", extra={"port": 1})
    lines = capsys.readouterr().err.splitlines()
    assert [line.startswith("{") for line in lines] == ([True, True] if is_json else [False])


def test_a_terminal_shows_what_to_type_once_the_server_serves(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(level="info", log_format="console")
    for models, address in ((["en-zh", "zh-en"], "127.0.0.1:50051"), (["zh-en"], "[::1]:1")):
        logging.getLogger("xuanzang").info("serving", extra={"models": models, "address": address})
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("Serving")] == [
        'Serving en-zh, zh-en on 127.0.0.1:50051. Try: xuanzang translate "Good morning."',
        'Serving zh-en on [::1]:1. Try: xuanzang translate --address [::1]:1 "早上好。"',
    ]
