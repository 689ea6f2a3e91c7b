r"""Download the public corpora of corpora.toml at their commits, and clean them, for `xuanzang prepare --train`.

    python model/recipes/corpora.py PAIRS                # all of them
    python model/recipes/corpora.py PAIRS --only tatoeba --only 3am

Writes PAIRS/NAME.tsv.gz, zh<TAB>en, one by one; what is there already and right stays. A download that was cut off goes
on where it stopped. A corpus whose text is another than corpora.toml says is refused, and the others are still made.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import http.client
import io
import json
import sys
import tarfile
import time
import tomllib
import unicodedata
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from xuanzang.model.data.corpus import Pair
from xuanzang.model.data.filters import PairFilter, repeat_key

LIST = Path(__file__).with_name("corpora.toml")
ATTEMPTS = 4
BLOCK = 1 << 16
TIMEOUT_SECONDS = 60.0
MAX_CHINESE, MAX_ENGLISH = 200, 80
"""Characters and words of the longest sides that are kept."""
KEPT = PairFilter(max_length_ratio=6.0, min_script_share=0.4, languages=("zh", "en"))


class SourceError(Exception):
    """A corpus that cannot be had; the message says why."""


class Corpus(BaseModel):
    """An entry of corpora.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    address: str
    """Address of the folder of its files, at a commit."""
    files: list[list[str]]
    """Files of the Chinese and the English side, or one that has both: paths below `address`, or whole addresses;
    ARCHIVE#FILE is a file in an archive."""
    read: str
    columns: tuple[int, int] = (0, 1)
    """Of "tsv" and "csv": those of Chinese and English."""
    traditional: str = ""
    """OpenCC's conversion, such as "tw2s"; empty: it is simplified already."""
    licence: str
    about: str
    pairs: int
    sha256: str
    """Of the cleaned text."""


class Result(NamedTuple):
    """What came of a corpus."""

    name: str
    pairs: int
    state: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the corpora and print a row for each.

    Args:
        arguments: Flags, without the program's name; None takes those of the process.

    Returns:
        Exit status: 0, 1 if one could not be made, 2 if the flags are wrong.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, metavar="PAIRS", help="folder to write")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a corpus (default: all)")
    parser.add_argument("--list", type=Path, default=LIST, help="list to read (default: corpora.toml beside this)")
    parser.add_argument("--mirror", metavar="URL", help="address in place of https://raw.githubusercontent.com")
    options = parser.parse_args(arguments)
    try:
        corpora = read_list(options.list)
    except SourceError as error:
        parser.error(str(error))
    if unknown := set(options.only) - {each.name for each in corpora}:
        parser.error(f"no corpus {', '.join(sorted(unknown))}; there are {', '.join(each.name for each in corpora)}")
    options.output.mkdir(parents=True, exist_ok=True)
    status = 0
    for corpus in corpora:
        if options.only and corpus.name not in options.only:
            continue
        try:
            done = make(corpus, options.output, options.mirror)
            print(f"{done.name}\t{done.pairs:,} pairs\t{done.state}\t{corpus.licence}", flush=True)
        except SourceError as error:
            print(f"corpora: error: {corpus.name}: {error}", file=sys.stderr, flush=True)
            status = 1
    return status


def read_list(path: Path) -> list[Corpus]:
    """Read corpora.toml.

    Raises:
        SourceError: It cannot be read, or an entry is wrong.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["corpus"]
        return [Corpus.model_validate(entry) for entry in entries]
    except (OSError, tomllib.TOMLDecodeError, KeyError, ValidationError) as error:
        raise SourceError(f"{path}: {error}") from error


def make(corpus: Corpus, output: Path, mirror: str | None) -> Result:
    """Write one corpus, unless it is there.

    Raises:
        SourceError: A file does not come or cannot be read, or the text is not the one that the list says.
    """
    place = output / f"{corpus.name}.tsv.gz"
    if place.is_file() and _digest_of(place) == corpus.sha256:
        return Result(corpus.name, corpus.pairs, "there already")
    downloads = output / ".downloads" / corpus.name
    downloads.mkdir(parents=True, exist_ok=True)
    addresses = {file: _address(corpus, file, mirror) for files in corpus.files for file in files}
    paths = {file: download(address, downloads) for file, address in addresses.items()}
    rows = (row for files in corpus.files for row in _rows(corpus, [_content(file, paths[file]) for file in files]))
    lines = [f"{pair.source}\t{pair.target}\n" for pair in cleaned(rows, corpus.traditional)]
    content = "".join(lines).encode()
    if (digest := hashlib.sha256(content).hexdigest()) != corpus.sha256:
        raise SourceError(f"its text has SHA-256 {digest} ({len(lines)} pairs), the list says {corpus.sha256}")
    scratch = place.with_name(f".{place.name}.partial")
    scratch.write_bytes(gzip.compress(content, mtime=0))
    scratch.replace(place)
    return Result(corpus.name, len(lines), "made")


def _digest_of(path: Path) -> str:
    try:
        return hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()
    except (OSError, EOFError):
        return ""


def _address(corpus: Corpus, file: str, mirror: str | None) -> str:
    path = file.partition("#")[0]
    address = path if path.startswith("https://") else f"{corpus.address.rstrip('/')}/{path}"
    return address.replace("https://raw.githubusercontent.com", mirror.rstrip("/")) if mirror else address


def download(address: str, folder: Path) -> Path:
    """Download a file, unless it is there, going on where an earlier download stopped.

    Raises:
        SourceError: It does not come.
    """
    place = folder / hashlib.sha256(address.encode()).hexdigest()[:16]
    partial = place.with_suffix(".partial")
    reason = ""
    for attempt in range(ATTEMPTS):
        if place.is_file():
            return place
        if attempt:
            time.sleep(2.0**attempt / 4)
        reason = _attempt(address, partial, place)
    if place.is_file():
        return place
    raise SourceError(f"{address}: {reason}; the next run goes on where it stopped")


def _attempt(address: str, partial: Path, place: Path) -> str:
    """Download what a file lacks, and return why it is not whole then, if it is not and may be later."""
    try:
        if not _append(address, partial):
            return "it was cut off"
        partial.replace(place)
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            # What is there is no part of this file.
            partial.unlink(missing_ok=True)
        elif error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code != HTTPStatus.TOO_MANY_REQUESTS:
            raise SourceError(f"{address}: {error.code} {error.reason}") from error
        return f"{error.code} {error.reason}"
    except (OSError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", error) or type(error).__name__)
    return ""


def _append(address: str, partial: Path) -> bool:
    """Append what a file lacks, and return whether it is whole."""
    start = partial.stat().st_size if partial.is_file() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={start}-"} if start else {})  # noqa: S310
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - addresses of our list
        if answer.status != HTTPStatus.PARTIAL_CONTENT:  # all of it, from the start
            start = 0
        expected = start + int(answer.headers["Content-Length"]) if answer.headers["Content-Length"] else None
        with partial.open("ab" if start else "wb") as file:
            while block := answer.read(BLOCK):
                file.write(block)
    return expected is None or partial.stat().st_size == expected


def _content(file: str, path: Path) -> str:
    """Return the text of a file, or of one in an archive."""
    member = file.partition("#")[2]
    try:
        if not member:
            return path.read_text(encoding="utf-8")
        with tarfile.open(path) as archive:
            found = archive.extractfile(member)
            if found is None:
                raise SourceError(f"{file} is no file")
            return found.read().decode("utf-8")
    except (OSError, KeyError, UnicodeDecodeError, tarfile.TarError, EOFError) as error:
        raise SourceError(f"{file} cannot be read: {error}") from error


def _lines(chinese: str, english: str) -> Iterator[tuple[str, str]]:
    sides = [text.removesuffix("\n").split("\n") for text in (chinese, english)]
    if len(sides[0]) != len(sides[1]):
        raise SourceError(f"one side has {len(sides[0])} lines, the other {len(sides[1])}")
    yield from zip(*sides, strict=True)


def _keyed(chinese: Mapping[str, str], english: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield from ((chinese[key], text) for key, text in english.items() if key in chinese)


def _sentences(conllu: str) -> dict[str, str]:
    """Return the texts of a treebank by the ids of its sentences."""
    fields = (line[2:].partition(" = ")[::2] for line in conllu.splitlines() if line.startswith("# "))
    texts, number = {}, ""
    for name, value in fields:
        if name == "sent_id":
            number = value
        elif name == "text":
            texts[number] = value
    return texts


def _strings(content: str) -> dict[str, str]:
    value = json.loads(content)
    return {key: text for key, text in value.items() if isinstance(text, str)}


def _table(content: str, columns: tuple[int, int], **dialect: Any) -> Iterator[tuple[str, str]]:
    for row in csv.reader(io.StringIO(content), **dialect):
        if len(row) > max(columns):
            yield row[columns[0]], row[columns[1]]


_READERS: dict[str, Callable[..., Iterator[tuple[str, str]]]] = {
    "lines": lambda _, zh, en: _lines(zh, en),
    "conllu": lambda _, zh, en: _keyed(_sentences(zh), _sentences(en)),
    "json": lambda _, zh, en: _keyed(_strings(zh), _strings(en)),
    "csv": lambda corpus, both: _table(both, corpus.columns),
    "tsv": lambda corpus, both: _table(both, corpus.columns, delimiter="\t", quoting=csv.QUOTE_NONE),
}


def _rows(corpus: Corpus, contents: Sequence[str]) -> Iterator[tuple[str, str]]:
    if corpus.read not in _READERS:
        raise SourceError(f"read is {corpus.read!r}, none of {', '.join(_READERS)}")
    try:
        yield from _READERS[corpus.read](corpus, *contents)
    except (ValueError, TypeError, AttributeError, csv.Error) as error:
        raise SourceError(f"it is not as {corpus.read!r} is: {error}") from error


def cleaned(rows: Iterable[tuple[str, str]], traditional: str) -> Iterator[Pair]:
    """Yield pairs in one form, each once: normalised, simplified, without markup, placeholders and misfits."""
    simplified = _converter(traditional)
    seen: set[bytes] = set()
    for chinese, english in rows:
        pair = Pair(_plain(simplified(chinese)), _plain(english))
        if len(pair.source) > MAX_CHINESE or len(pair.target.split()) > MAX_ENGLISH or KEPT.fault(pair):
            continue
        if any(mark in text for mark in "<>{}%\\" for text in pair):
            continue
        if (key := repeat_key(pair)) not in seen:
            seen.add(key)
            yield pair


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _converter(traditional: str) -> Callable[[str], str]:
    if not traditional:
        return str
    try:
        import opencc  # noqa: PLC0415 - for the corpora of Taiwan
    except ImportError as error:
        raise SourceError("it is in traditional characters, and needs pip install opencc") from error
    convert: Callable[[str], str] = opencc.OpenCC(traditional).convert
    return convert


if __name__ == "__main__":
    raise SystemExit(main())
