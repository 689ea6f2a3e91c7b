"""A suite of another project that is in no package: its requests are recorded once, and sent again by `make e2e`.

`python tests/support/recorded_suite.py CHECKOUT PYTHON` records the tests of a checkout of deepl-python, run by a
Python that has what they need. Sent again, requests must be answered as they were when the tests passed or failed.
Tests with requests of more than 64 KiB, of which there are two, are only counted.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import runpy
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
from gateways import running_gateway
from stand_in_server import StandIn, standing_in

RECORDING = Path(__file__).parent / "recorded_suites" / "deepl-python.jsonl.gz"
_SENT = ("authorization", "content-type")
_IDS = ("document_id", "document_key", "glossary_id")
_CHANGING = ("character_count", "seconds_remaining")
"""Members of answers that depend on what was asked before, or on time."""
_MAX_BODY = 64 * 1024
_UNSETTLED = ("queued", "translating")
_PLUGIN = """
import os
import urllib.request


def send(path, text):
    with urllib.request.urlopen(urllib.request.Request(os.environ["RECORDER"] + path, data=text.encode())):
        pass


def pytest_runtest_logstart(nodeid, location):
    send("/__test__", nodeid)


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        send("/__outcome__", f"{report.outcome} {report.nodeid}")
"""


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


class _Recorder(ThreadingHTTPServer):
    """Passes requests on to a gateway and remembers them."""

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = url
        self.test = ""
        self.outcomes: dict[str, str] = {}
        self.exchanges: list[Exchange] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Recorder

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._pass_on
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Log nothing."""

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        status, data = 200, b""
        if self.path == "/__test__":
            self.server.test = body.decode()
        elif self.path == "/__outcome__":
            outcome, _, test = body.decode().partition(" ")
            self.server.outcomes[test] = outcome
        else:
            headers = {name: self.headers[name] for name in _SENT if name in self.headers}
            status, data = _sent(self.server.url + self.path, self.command, headers, body)
            exchange = Exchange(
                test=self.server.test,
                method=self.command,
                path=self.path,
                headers=headers,
                body=body.decode("latin-1"),
                status=status,
                answer=data.decode("latin-1"),
            )
            self.server.exchanges.append(exchange)
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


async def record(checkout: Path, python: Path) -> None:
    """Run the tests of a checkout as for DeepL's mock server, and keep their requests."""
    suite = (checkout / "tests" / "conftest.py").read_text()
    phrases: dict[str, str] = {}
    (checkout / "build").mkdir(exist_ok=True)
    texts = checkout / "build" / "texts.py"
    texts.write_text(suite[suite.index("example_text = {") :])
    for code, text in runpy.run_path(str(texts))["example_text"].items():
        phrases.setdefault(code.partition("-")[0].lower(), text)
    (checkout / "build" / "recording.py").write_text(_PLUGIN)
    async with standing_in(stand_in(phrases)) as address, running_gateway(address) as gateway:
        recorder = _Recorder(gateway.url)
        threading.Thread(target=recorder.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{recorder.server_port}"
        settings = {"DEEPL_SERVER_URL": url, "RECORDER": url, "DEEPL_MOCK_SERVER_PORT": str(recorder.server_port)}
        process = await asyncio.create_subprocess_exec(
            *(python, "-m", "pytest", "-q", "-p", "recording", "-p", "no:cacheprovider", "tests"),
            cwd=checkout,
            env={**os.environ, **settings, "DEEPL_AUTH_KEY": "right", "PYTHONPATH": str(checkout / "build")},
        )
        await process.wait()
        recorder.shutdown()
    lines = [json.dumps({"phrases": phrases, "outcomes": recorder.outcomes}, ensure_ascii=False)]
    large = {each.test for each in recorder.exchanges if len(each.body) > _MAX_BODY}
    lines += [json.dumps(asdict(each), ensure_ascii=False) for each in recorder.exchanges if each.test not in large]
    RECORDING.parent.mkdir(exist_ok=True)
    RECORDING.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    asyncio.run(record(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).absolute()))
