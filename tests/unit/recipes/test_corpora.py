"""Public corpora from a stand-in for the machine that has them: made once, resumed, and refused if they are others."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import corpora
import corpus_readers
import pytest

FILES = {
    "/owner/repo/c0/zh.txt": "我有一只猫。\n你 有一只狗。\n我有一只猫\n<b>他</b>\nabc\n",
    "/owner/repo/c0/en.txt": "I have a cat.\nYou  have a dog.\nI have a cat\nhe\nabc\n",
    "/owner/repo/c0/both.csv": 'sentence,translation\n"好，走吧。","OK, let us go."\n',
    "/owner/repo/c0/zh.conllu": "# sent_id = a\n# text = 我們有書。\n1\t我們\n# sent_id = b\n# text = 沒有。\n",
    "/other/repo/c1/en.conllu": "# sent_id = a\n# text = We have books.\n",
    "/owner/repo/c0/zh.json": '{"a": "太阳", "b": "月亮", "c": 1}',
    "/owner/repo/c0/en.json": '{"a": "sun", "c": "x"}',
}
TREE = {
    "zh/a/one.md": "---\ntitle: 一\n---\n# 猫 {#cat}\n\n我有一只**猫**。\n它很[大](x.md)。\n\n"
    "```\ncode\n```\n\n- 好。\n",
    "en/a/one.md": "# Cat {#cat}\n\nI have a *cat*. It is big.\n\n```\ncode\n```\n\n- Good.\n\nMore.\n",
    "zh/two.md": "# 只有这里\n",
    "zh/b.ipynb": '{"cells": [{"cell_type": "markdown", "source": ["# 狗"]}, {"cell_type": "code", "source": ["x"]}]}',
    "en/b.ipynb": '{"cells": [{"cell_type": "markdown", "source": ["# Dog"]}, {"cell_type": "code", "source": ["y"]}]}',
    "po/a.po": 'msgid "Use :func:`f <x.f>` here."\nmsgstr "在此使用 :func:`f <x.f>`\\\\ 。"\n\n'
    '#, fuzzy\nmsgid "No."\nmsgstr "不。"\n',
    "laws/zh.json": '{"最新異動日期": "1", "法規內容": '
    '[{"編章節": "總則"}, {"條號": "第 1-1 條", "條文內容": "甲法。\\r\\n乙法。"}]}',
    "laws/en.json": '{"最新英文異動日期": "1", "法規內容": '
    '[{"條號": "Article 1-1", "條文內容": "First law.\\r\\nSecond law."}]}',
}
LINES = "我有一只猫。\tI have a cat.\n你 有一只狗。\tYou have a dog.\n"
ENTRY = {
    "about": "a toy",
    "licence": "CC0-1.0",
    "address": "https://raw.githubusercontent.com/owner/repo/c0",
    "read": "lines",
    "files": [["zh.txt", "en.txt"]],
}


class Host(ThreadingHTTPServer):
    """A machine with files, whose next answers may be faults: a status, or "cut" after half of what is left."""

    daemon_threads = True

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.asked: list[tuple[str, str | None]] = []
        self.files = {path: text.encode() for path, text in FILES.items()}
        self.files["/owner/repo/c0/zh.tar.gz"] = archive({"zh.txt": FILES["/owner/repo/c0/zh.txt"]})
        self.files["/owner/repo/tar.gz/c0"] = archive({f"repo-c0/{name}": text for name, text in TREE.items()})
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        span = self.headers["Range"]
        self.server.asked.append((self.path, span))
        fault = self.server.faults.pop(0) if self.server.faults else ""
        content = self.server.files.get(self.path)
        if fault.isdecimal() or content is None:
            self.send_error(int(fault or 404))
            return
        start = int(re.findall(r"\d+", span)[0]) if span else 0
        body = content[start:]
        self.send_response(206 if span else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        pass


def archive(texts: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as file:
        for name, text in texts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            file.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr("corpora.time.sleep", lambda _: None)
    with Host() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def listed(tmp_path: Path, text: str = LINES, **changes: object) -> Path:
    """Write a list of one corpus whose cleaned text is given."""
    entry = ENTRY | {"name": "toy", "pairs": 2, "sha256": hashlib.sha256(text.encode()).hexdigest()} | changes
    lines = [
        f"{name} = {str(value) if isinstance(value, (int, list)) or value == 'true' else repr(value)}"
        for name, value in entry.items()
    ]
    (tmp_path / "list.toml").write_text("[[corpus]]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "list.toml"


def run(host: Host, tmp_path: Path, path: Path) -> int:
    return corpora.main([str(tmp_path / "pairs"), "--list", str(path), "--mirror", host.address])


def made(tmp_path: Path) -> str:
    return gzip.decompress((tmp_path / "pairs" / "toy.tsv.gz").read_bytes()).decode()


def test_a_corpus_is_cleaned_and_made_once(host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = listed(tmp_path)
    assert run(host, tmp_path, path) == 0
    assert made(tmp_path) == LINES
    assert capsys.readouterr().out == "toy\t2 pairs\tmade\tCC0-1.0\n"
    host.asked.clear()
    assert run(host, tmp_path, path) == 0
    assert "there already" in capsys.readouterr().out
    assert host.asked == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"read": "csv", "files": [["both.csv"]]}, "好，走吧。\tOK, let us go.\n"),
        ({"read": "json", "files": [["zh.json", "en.json"]]}, "太阳\tsun\n"),
        ({"files": [["zh.tar.gz#zh.txt", "en.txt"]]}, LINES),
        (
            {
                "read": "conllu",
                "files": [["zh.conllu", "https://raw.githubusercontent.com/other/repo/c1/en.conllu"]],
                "traditional": "tw2s",
            },
            "我们有书。\tWe have books.\n",
        ),
    ],
)
def test_every_kind_of_source_is_read(host: Host, tmp_path: Path, changes: dict[str, object], text: str) -> None:
    if "traditional" in changes:
        pytest.importorskip("opencc")
    assert run(host, tmp_path, listed(tmp_path, text, **changes)) == 0
    assert made(tmp_path) == text


@pytest.mark.parametrize(
    ("read", "files", "text"),
    [
        ("markdown", ["#zh/**.md", "#en/**.md"], "猫\tCat\n我有一只猫。\tI have a cat.\n它很大。\tIt is big.\n"),
        ("notebook", ["#zh/**.ipynb", "#en/**.ipynb"], "狗\tDog\n"),
        ("gettext", ["#po/*.po"], "在此使用 f。\tUse f here.\n"),
        ("laws", ["#laws/zh.json", "#laws/en.json"], "甲法。\tFirst law.\n乙法。\tSecond law.\n"),
    ],
)
def test_files_of_a_repository_are_read_and_cut_where_both_sides_agree(
    host: Host, tmp_path: Path, read: str, files: list[str], text: str
) -> None:
    address = "https://codeload.github.com/owner/repo/tar.gz/c0"
    assert run(host, tmp_path, listed(tmp_path, text, address=address, read=read, files=[files], cut="true")) == 0
    assert made(tmp_path) == text


def test_downloads_go_on_where_they_were_cut_off(host: Host, tmp_path: Path) -> None:
    host.faults += ["cut", "503", "cut"]
    assert run(host, tmp_path, listed(tmp_path)) == 0
    assert made(tmp_path) == LINES
    size = len(host.files["/owner/repo/c0/zh.txt"])
    assert [span for path, span in host.asked if path.endswith("zh.txt")] == [
        None,
        f"bytes={size // 2}-",
        f"bytes={size // 2}-",
        f"bytes={size // 2 + (size - size // 2) // 2}-",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"files": [["nowhere.txt", "en.txt"]]}, r"toy: http\S+/nowhere\.txt: 404 Not Found"),
        ({"sha256": "0" * 64}, r"toy: its text has SHA-256 [0-9a-f]{64} \(2 pairs\), the list says 0{64}"),
        (
            {"files": [["zh.txt", "en.json"]]},
            r"toy: zh\.txt cannot be read as 'lines': one side has 5 lines, the other 1",
        ),
        ({"read": "xml"}, r"toy: read is 'xml', none of csv, tsv, lines, conllu, json"),
        ({"files": [["zh.tar.gz#zh.md", "en.txt"]]}, r"toy: no file is in zh\.tar\.gz#zh\.md and in en\.txt"),
        ({"read": "json"}, r"toy: zh\.txt cannot be read as 'json': "),
    ],
)
def test_what_cannot_be_made_is_said_in_one_line_and_nothing_is_written(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    assert run(host, tmp_path, listed(tmp_path, **changes)) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert re.search(message, line), line
    assert not (tmp_path / "pairs" / "toy.tsv.gz").exists()


REPOSITORY: dict[str, Any] = {
    "address": "https://codeload.github.com/owner/repo/tar.gz/c0",
    "read": "gettext",
    "files": [["#po/*.po"]],
}


@pytest.mark.parametrize(("module", "package"), [("polib", "polib"), ("markdown_it", "markdown-it-py")])
def test_a_missing_library_is_named_and_the_downloads_stay(
    host: Host,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    package: str,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    markdown: dict[str, Any] = {"read": "markdown", "files": [["#zh/**.md", "#en/**.md"]]}
    path = listed(tmp_path, **(REPOSITORY | (markdown if module == "markdown_it" else {})))
    assert run(host, tmp_path, path) == 1
    assert capsys.readouterr().err == f"corpora: error: toy: it needs pip install {package}\n"
    host.asked.clear()
    assert run(host, tmp_path, path) == 1
    assert host.asked == []


def test_a_wrong_download_is_not_kept(host: Host, tmp_path: Path) -> None:
    right = host.files["/owner/repo/c0/zh.txt"]
    host.files["/owner/repo/c0/zh.txt"] = b"<html>Sign in</html>"
    path = listed(tmp_path)
    assert run(host, tmp_path, path) == 1
    host.files["/owner/repo/c0/zh.txt"] = right
    assert run(host, tmp_path, path) == 0
    assert made(tmp_path) == LINES


def test_damaged_gzip_is_said_in_one_line_and_a_damaged_result_is_made_again(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = gzip.compress(b"")[:10] + b"\xff" * 40
    host.files["/owner/repo/c0/zh.tar.gz"] = damaged
    assert run(host, tmp_path, listed(tmp_path, files=[["zh.tar.gz#zh.txt", "en.txt"]])) == 1
    assert "toy: zh.tar.gz#zh.txt cannot be read" in capsys.readouterr().err
    (tmp_path / "pairs" / "toy.tsv.gz").write_bytes(damaged)
    assert run(host, tmp_path, listed(tmp_path)) == 0
    assert made(tmp_path) == LINES


def test_downloads_and_files_in_archives_have_a_limit(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "MAX_BYTES", 20)
    assert run(host, tmp_path, listed(tmp_path)) == 1
    assert "has more than 20 bytes" in capsys.readouterr().err


def test_the_list_of_the_recipes_can_be_read_and_names_commits() -> None:
    entries = corpora.read_list(corpora.LIST)
    assert len({each.name for each in entries}) == len(entries) >= 22
    for entry in entries:
        for address in [entry.address, *(file for side in entry.files for file in side if file.startswith("https:"))]:
            assert re.match(
                r"https://(raw\.githubusercontent\.com/[\w.-]+/[\w.-]+|codeload\.github\.com/[\w.-]+/[\w.-]+/tar\.gz)/[0-9a-f]{40}",
                address,
            )
        assert entry.read in corpus_readers.READERS
        assert re.fullmatch("[0-9a-f]{64}", entry.sha256)
        assert entry.licence
