"""A stand-in for the hub of models and Mozilla's registries on 127.0.0.1, and what can go wrong on the way."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LARGE = (".safetensors", ".bin", ".spm", ".model", ".onnx")
"""Endings of the files that lie apart, by their SHA-256."""
_KINDS = {"lex": "lexicalShortlist", "srcvocab": "srcVocab", "trgvocab": "trgVocab"}
"""Names of files in models.json by those in the records."""


@dataclass
class HubStandIn:
    """Models and behaviour of the stand-in; tests change them while it runs."""

    folder: Path
    """Repositories, as OWNER/NAME/FILE."""
    tokens: dict[str, str] = field(default_factory=dict)
    """By repository, the token without which it is not shown."""
    faults: list[tuple[str, str]] = field(default_factory=list)
    """Pattern of a path and what happens to the next request for it, once: a status, "cut" after half of the body,
    "damage" of a byte of it, or "stop": nothing more comes, and `stopped` is released."""
    asked: list[str] = field(default_factory=list)
    """Method and path of every request."""
    records: list[dict[str, Any]] = field(default_factory=list)
    """Of Remote Settings, at /records; `publish` adds some."""
    entries: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Of models.json, by pair of languages; `publish` adds some."""
    attachments: dict[str, bytes] = field(default_factory=dict)
    """Files of both registries, by their place below /attachments/."""
    sent: int = 0
    """Bytes of files of registries that went out."""
    stopped: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    address: str = ""

    @property
    def elsewhere(self) -> str:
        """Address of large files: another host, as with the real one."""
        return self.address.replace("127.0.0.1", "localhost")

    def commit(self, repository: str) -> str:
        """Return the commit of a repository: a digest of its contents."""
        digest = hashlib.sha1()
        for path in self.files(repository):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()

    def files(self, repository: str) -> list[Path]:
        """Return the files of a repository."""
        return sorted(path for path in (self.folder / repository).iterdir() if path.is_file())

    @property
    def records_url(self) -> str:
        """Address of the records of Remote Settings."""
        return f"{self.address}/records"

    @property
    def models_url(self) -> str:
        """Address of models.json."""
        return f"{self.address}/db/models.json"

    @property
    def attachments_url(self) -> str:
        """Address of the files of Remote Settings: another host, as with the real one."""
        return f"{self.elsewhere}/attachments/"

    def publish(
        self, student: Path, source: str, target: str, *, version: str = "3.0", architecture: str = "base-memory"
    ) -> list[dict[str, Any]]:
        """Add a student, in a folder, to both registries, and return its records."""
        pair = f"{source.partition('-')[0]}{target}"
        added: list[dict[str, Any]] = []
        files: dict[str, dict[str, Any]] = {}
        for path in sorted(student.iterdir()):
            content = path.read_bytes()
            kind = path.name.partition(".")[0]
            name = path.name.replace(".", f".{pair}.", 1)
            whole = {"decompressedHash": hashlib.sha256(content).hexdigest(), "decompressedSize": len(content)}
            attachment = self._attach(f"main-workspace/{pair}-{version}/{name}.zst", zstd(content))
            record = {"name": name, "fileType": kind, "version": version, "architecture": architecture, **whole}
            record |= {"sourceLanguage": source, "targetLanguage": target, "filter_expression": ""}
            added.append(record | {"attachment": attachment, "id": name, "schema": 1, "last_modified": 2})
            place = f"models/{pair}/{version}/{name}.gz"
            self._attach(place, gzip.compress(content))
            files[_KINDS.get(kind, kind)] = {"path": place}
            if kind == "model":
                files["model"] |= {"uncompressedSize": len(content), "uncompressedHash": whole["decompressedHash"]}
        self.records += added
        entry = {"architecture": architecture, "releaseStatus": "Release", "sourceLanguage": source, "files": files}
        entry |= {"targetLanguage": target, "metrics": {"flores200-plus": {"bleu": 29.04, "comet22": 0.862}}}
        self.entries.setdefault(f"{source}-{target}", []).append(entry)
        return added

    def _attach(self, location: str, content: bytes) -> dict[str, Any]:
        self.attachments[location] = content
        digest = hashlib.sha256(content).hexdigest()
        return {"hash": digest, "size": len(content), "location": location, "mimetype": "application/zstd"}

    def fault(self, path: str) -> str:
        """Return the fault of a request for a path and forget it; empty if it has none."""
        for number, (pattern, fault) in enumerate(self.faults):
            if re.search(pattern, path):
                del self.faults[number]
                return fault
        return ""


def zstd(content: bytes) -> bytes:
    """Compress a file as Mozilla does."""
    import zstandard

    return zstandard.ZstdCompressor().compress(content)


@contextmanager
def serving(hub: HubStandIn) -> Iterator[HubStandIn]:
    """Answer requests until the block ends."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        hub.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: HubStandIn

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        pass

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path}")
        self._body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._fault = self.hub.fault(f"{self.command} {path}")
        if self._fault == "stop":
            self.hub.stopped.release()
            # Until the caller is gone.
            self.rfile.read(1)
            return
        if self._fault.isdecimal():
            self._send(int(self._fault), b"")
            return
        for pattern, answer in _ROUTES:
            if match := re.fullmatch(pattern, path):
                answer(self, *match.groups())
                return
        self._send(404, b"", {"X-Error-Code": "RepoNotFound"})

    def _hidden(self, repository: str) -> bool:
        """Answer for a repository that is not there, or not for this caller."""
        if not (self.hub.folder / repository).is_dir():
            self._send(404, b"", {"X-Error-Code": "RepoNotFound"})
            return True
        token = self.hub.tokens.get(repository)
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            self._send(401, b"", {"X-Error-Code": "RepoNotFound"})
            return True
        return False

    def _info(self, repository: str, revision: str | None = None) -> None:
        if self._hidden(repository):
            return
        commit = self.hub.commit(repository)
        if revision not in (None, "main", commit):
            self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
            return
        siblings = [{"rfilename": path.name, **_facts(path)} for path in self.hub.files(repository)]
        licence = re.search(r"^license: (\S+)", self._readme(repository), re.MULTILINE)
        card = {"license": licence[1]} if licence else {}
        facts = {"id": repository, "modelId": repository, "sha": commit, "siblings": siblings, "cardData": card}
        self._send_json(facts | {"tags": [], "private": False, "downloads": 0, "likes": 0})

    def _readme(self, repository: str) -> str:
        path = self.hub.folder / repository / "README.md"
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def _tree(self, repository: str, revision: str) -> None:
        if not self._hidden(repository):
            entries = [
                {"type": "file", "path": path.name, "oid": "0" * 40, **_facts(path)}
                for path in self.hub.files(repository)
            ]
            self._send_json(entries)

    def _resolve(self, repository: str, revision: str, name: str) -> None:
        if self._hidden(repository):
            return
        path = self.hub.folder / repository / name
        commit = self.hub.commit(repository)
        if revision not in ("main", commit) or not path.is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        content = path.read_bytes()
        facts = {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(content).hexdigest()}"'}
        if not name.endswith(LARGE):
            self._send_file(content, facts)
            return
        # Large files lie elsewhere; what they are stands in the answer that leads there.
        digest = hashlib.sha256(content).hexdigest()
        linked = {"X-Linked-Size": str(len(content)), "X-Linked-ETag": f'"{digest}"'}
        self._send(302, b"", facts | linked | {"Location": f"{self.hub.elsewhere}/large/{repository}/{name}"})

    def _large(self, repository: str, name: str) -> None:
        content = (self.hub.folder / repository / name).read_bytes()
        self._send_file(content, {"ETag": f'"{hashlib.sha256(content).hexdigest()}"'})

    def _records(self) -> None:
        self._send_json({"data": self.hub.records})

    def _models(self) -> None:
        found = {"generated": "2025-10-17T00:00:00Z", "baseUrl": f"{self.hub.elsewhere}/attachments"}
        self._send_json(found | {"models": self.hub.entries})

    def _attachment(self, location: str) -> None:
        if location in self.hub.attachments:
            self._send_file(self.hub.attachments[location], {})
        else:
            self._send(404, b"")

    def _validate(self) -> None:
        self._send_json({"errors": [], "warnings": []})

    def _create(self) -> None:
        wanted = json.loads(self._body)
        name = "/".join(filter(None, (wanted.get("organization"), wanted["name"])))
        (self.hub.folder / name).mkdir(parents=True, exist_ok=True)
        self._send_json({"url": f"{self.hub.address}/{name}", "name": name})

    def _preupload(self, _repository: str, _revision: str) -> None:
        files = [each["path"] for each in json.loads(self._body)["files"]]
        self._send_json({"files": [{"path": each, "uploadMode": "regular", "shouldIgnore": False} for each in files]})

    def _commit(self, repository: str, _revision: str) -> None:
        for line in self._body.decode().splitlines():
            entry = json.loads(line)
            if entry["key"] == "file":
                content = base64.b64decode(entry["value"]["content"])
                (self.hub.folder / repository / entry["value"]["path"]).write_bytes(content)
        commit = self.hub.commit(repository)
        self._send_json(
            {"commitUrl": f"{self.hub.address}/{repository}/commit/{commit}", "commitOid": commit, "success": True}
        )

    def _send_file(self, content: bytes, headers: dict[str, str]) -> None:
        start = int((re.match(r"bytes=(\d+)-", self.headers.get("Range") or "") or ["", "0"])[1])
        if start >= len(content) > 0:
            self._send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        if start:
            headers = headers | {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        self._send(206 if start else 200, content[start:], headers | {"Accept-Ranges": "bytes"})

    def _send_json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD" or not body:
            return
        if self._fault == "cut":
            body = body[: len(body) // 2]
            self.close_connection = True
        if self.path.startswith("/attachments/"):
            # Before they are written: a client that has them all may look at once.
            self.hub.sent += len(body)
        self.wfile.write(bytes([body[0] ^ 1]) + body[1:] if self._fault == "damage" else body)


def _facts(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {"size": path.stat().st_size}
    if path.name.endswith(LARGE):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        facts["lfs"] = {"sha256": digest, "oid": digest, "size": path.stat().st_size, "pointerSize": 130}
    return facts


_NAME = r"([\w.-]+/[\w.-]+)"
_ROUTES: tuple[tuple[str, Callable[..., None]], ...] = (
    (rf"/api/models/{_NAME}", _Handler._info),
    (rf"/api/models/{_NAME}/revision/([^/]+)", _Handler._info),
    (rf"/api/models/{_NAME}/tree/([^/]+)/?", _Handler._tree),
    (rf"/{_NAME}/resolve/([^/]+)/(.+)", _Handler._resolve),
    (rf"/large/{_NAME}/(.+)", _Handler._large),
    (r"/records", _Handler._records),
    (r"/db/models.json", _Handler._models),
    (r"/attachments/(.+)", _Handler._attachment),
    (r"/api/repos/create", _Handler._create),
    (r"/api/validate-yaml", _Handler._validate),
    (rf"/api/models/{_NAME}/preupload/([^/]+)", _Handler._preupload),
    (rf"/api/models/{_NAME}/commit/([^/]+)", _Handler._commit),
)
