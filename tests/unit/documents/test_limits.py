"""What cannot be translated is refused with the file's name, the reason and the limit."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from document_texts import package, read, translated, word

from xuanzang.documents import SUFFIXES, DocumentError, Limits
from xuanzang.documents.opening import DocumentFile

BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("suffix", "content", "message"),
    [
        (".srt", "1\n".encode("utf-16le"), "looks like UTF-16 without a byte order mark"),
        (".txt", b"\xff", "not utf-8: invalid start byte at byte 0; name its encoding"),
        (".txt", b"\xef\xbb\xbfa\xff", "not utf-8: invalid start byte at byte 4"),
        (".json", b'{"a": }', "not JSON: Expecting value: line 1 column 7"),
        (".json", b"[" * 201 + b"]" * 201, "values are nested more than 200 deep"),
        (".jsonl", b'{}\n{"a\n', "line 2: not JSON"),
        (".csv", b"a,b\n1,2\n", r"name the columns to translate, of: a, b"),
        (".vtt", b"no", "does not begin with WEBVTT"),
        (".po", b'msgid "a\n', "line 1: neither a keyword with a string nor a comment"),
        (".po", b'"a"\n', "line 1: a string without a keyword"),
        (".xliff", b"<xliff><a></xliff>", "not well-formed XML: mismatched tag"),
        (".xliff", b"<other/>", "its root is not <xliff>"),
        (".xliff", BOMB.encode() + b"<xliff>&b;</xliff>", "it has a document type"),
        (".xliff", b"<a>" * 201 + b"</a>" * 201, "elements are nested more than 200 deep"),
        (".html", b"<svg>" * 300, "elements are nested more than 200 deep"),
        (".docx", b"PK", "no readable .docx"),
        (".parquet", b"PAR1", "no readable Parquet file|name the columns"),
        (".pdf", b"", r"no format has the suffix '\.pdf'; known: \.txt \.md"),
    ],
)
def test_what_is_not_of_its_format_is_refused(suffix: str, content: bytes, message: str) -> None:
    with pytest.raises(DocumentError, match=f"^the document: .*({message})"):
        read(suffix, content)


def test_an_encoding_must_exist_and_restore_the_bytes() -> None:
    with pytest.raises(DocumentError, match="unknown encoding 'klingon'"):
        read(".txt", b"a", encoding="klingon")
    for name in ("hex", "utf-7", "punycode", "idna", "raw_unicode_escape", "klingon" * 10_000):
        with pytest.raises(DocumentError, match=r"unknown encoding '\w{,40}.*'; known: utf-8, .{150,250}$"):
            read(".txt", b"61", encoding=name)
    with pytest.raises(DocumentError, match="the bytes cannot be restored from cp932"):
        read(".txt", b"\x87\x90", encoding="cp932")
    with pytest.raises(DocumentError, match=r"ascii has no U\+00E9"):
        translated(".txt", b"a", lambda _: "\xe9", encoding="ascii")


def test_columns_must_exist_and_hold_strings(parquet: Callable[..., bytes]) -> None:
    with pytest.raises(DocumentError, match="no column 'c'; it has: a, b"):
        read(".tsv", b"a\tb\n", columns=("c",))
    with pytest.raises(DocumentError, match="column 'id' holds int64, not strings"):
        read(".parquet", parquet(["a"]), columns=("id",))
    with pytest.raises(TypeError, match="columns must be a sequence of names"):
        read(".csv", b"a\n", columns="a")


def test_a_quotation_mark_that_is_not_closed_is_refused_with_its_line() -> None:
    with pytest.raises(DocumentError, match="line 3: a quotation mark is not closed"):
        read(".csv", b'a,b\n"x\ny",z\n1,"2\n'.replace(b"x\ny", b"xy"), columns=("a",))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(file_bytes=100), "larger than 100 bytes, the limit of file_bytes"),
        (Limits(expanded_bytes=5000), "larger than 5000 bytes, the limit of expanded_bytes"),
        (Limits(archive_entries=1), "more than 1 files inside, the limit of archive_entries"),
        (Limits(units=1), "more than 1 texts, the limit of units"),
        (Limits(depth=3), "word/document.xml: elements are nested more than 3 deep"),
    ],
)
def test_a_document_over_a_limit_is_refused(limits: Limits, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.docx"
    path.write_bytes(word("<w:p><w:r><w:t>word</w:t></w:r></w:p>" * 2, other="\0" * 10_000))
    with pytest.raises(DocumentError, match=f"x.docx: {message}"):
        DocumentFile.of(path, limits=limits).texts()


def test_a_parquet_file_is_decompressed_no_further_than_to_the_limit(parquet: Callable[..., bytes]) -> None:
    raw = parquet(["a" * 10_000] * 1000)
    assert len(raw) < 50_000
    with pytest.raises(DocumentError, match="larger than 1000000 bytes, the limit of expanded_bytes"):
        read(".parquet", raw, columns=("text",), limits=Limits(expanded_bytes=1_000_000))


def test_an_encrypted_or_ambiguous_archive_is_refused() -> None:
    raw = bytearray(word("<w:p/>"))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(signature) + offset] |= 1
    with pytest.raises(DocumentError, match="it is encrypted"):
        read(".docx", bytes(raw))
    twice = word("<w:p/>", documenu="").replace(b"word/documenu.xml", b"word/document.xml")
    with pytest.raises(DocumentError, match="two files of one name"):
        read(".docx", twice)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_of_an_unusual_method_is_refused(method: int) -> None:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", method) as writer:
        writer.writestr("word/document.xml", "<a/>" * 100)
    with pytest.raises(DocumentError, match=f"compressed by method {method}; only deflate"):
        read(".docx", output.getvalue())


def test_a_damaged_archive_is_refused_whatever_is_damaged() -> None:
    raw = word("<w:p><w:r><w:t>some words</w:t></w:r></w:p>", other="x" * 1000)
    for place in range(0, len(raw), 7):
        damaged = raw[:place] + bytes([raw[place] ^ 0xFF]) + raw[place + 1 :]
        for each in (damaged, raw[:place]):
            with contextlib.suppress(DocumentError):
                assert translated(".docx", each)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB + "<w:document>&b;</w:document>", "it has a document type"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>', "it has a document type"),
        ('<?xml version="1.0" encoding="gb2312"?><x/>', "not well-formed XML: multi-byte encodings are not supported"),
        ('<?xml version="1.0" encoding="klingon"?><x/>', "not well-formed XML: unknown encoding"),
        ("<a>" * 201 + "</a>" * 201, "elements are nested more than 200 deep"),
        ("<a>" * 100_000, "not well-formed XML: .*[Dd]epth"),
        ("<a>&x;</a>", "not well-formed XML: Entity 'x' not defined"),
        ("", "not well-formed XML: it has no element"),
    ],
)
def test_xml_of_an_archive_is_refused_by_what_is_wrong_with_it(content: str, message: str) -> None:
    raw = package("word/document.xml", {"word/document.xml": content})
    with pytest.raises(DocumentError, match=f"^the document: word/document.xml: {message}"):
        read(".docx", raw)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if "formats.parquet" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DocumentError, match=r"\.parquet needs pyarrow, of the extra `parquet`"):
        read(".parquet", b"a", columns=("a",))


_CATALOGUES = (".arb", ".resx", ".stringsdict", ".ts", ".xml", ".yaml", ".yml")
_OFFICE = (".docx", ".pptx", ".xlsx", ".odt", ".odp", ".ods", ".epub")
_NEVER_EMPTY = (*_CATALOGUES, ".json", ".vtt", ".xliff", ".xlf", *_OFFICE, ".parquet", ".csv", ".tsv")


@pytest.mark.parametrize("suffix", sorted(set(SUFFIXES) - set(_NEVER_EMPTY)))
def test_an_empty_file_stays_empty(suffix: str) -> None:
    assert translated(suffix, b"") == b""


@pytest.mark.parametrize("suffix", _NEVER_EMPTY)
def test_an_empty_file_is_refused_where_the_format_needs_something(suffix: str) -> None:
    with pytest.raises(DocumentError):
        read(suffix, b"", columns=("a",))


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "x.txt"
    os.mkfifo(pipe)
    with pytest.raises(DocumentError, match=r"x.txt: not a regular file"):
        DocumentFile.of(pipe)
