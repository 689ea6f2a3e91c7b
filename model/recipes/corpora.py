r"""Downloads the public corpora of corpora.toml at their commits, and cleans them, for `xuanzang prepare --train`.

    python model/recipes/corpora.py PAIRS                # all of them
    python model/recipes/corpora.py PAIRS --only tatoeba --only 3am

Writes PAIRS/NAME.tsv.gz, zh<TAB>en, one by one, and keeps existing correct ones. Repeat the command after an
interruption: finished downloads stay, and a download continues where it stopped if the host can do that (GitHub's
archives begin again). A corpus whose text differs from what corpora.toml says is refused; the others are still made.
"""

from __future__ import annotations

import argparse
import csv
import functools
import gzip
import hashlib
import http.client
import re
import sys
import tarfile
import time
import tomllib
import unicodedata
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import corpus_readers
from pydantic import BaseModel, ConfigDict, ValidationError

from xuanzang.model.data.corpus import Pair
from xuanzang.model.data.filters import PairFilter, repeat_key

LIST = Path(__file__).with_name("corpora.toml")
ATTEMPTS = 4
BLOCK = 1 << 16
MAX_BYTES = 2 << 30
"""Of a download, and of a file in an archive: far more than any corpus of the list has."""
TIMEOUT_SECONDS = 60.0
HOSTS = re.compile(r"^https://(raw\.githubusercontent|codeload\.github)\.com")
MAX_CHINESE, MAX_ENGLISH = 200, 80
"""Characters and words of the longest sides that are kept."""
LIBRARIES = {"markdown_it": "markdown-it-py"}
"""Packages whose names are not those of their modules."""
KEPT = PairFilter(max_length_ratio=6.0, min_script_share=0.4, languages=("zh", "en"))


class SourceError(Exception):
    """A corpus that cannot be made; the message says why."""


class MissingLibrary(SourceError):  # noqa: N818 - what is wrong is not the corpus
    """A library that is not installed."""


class Corpus(BaseModel):
    """An entry of corpora.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    address: str
    """Address at a commit: of the folder of its files, or of the archive of a repository."""
    files: list[list[str]]
    """Files of the Chinese and the English side, or one file with both: paths below `address`, or whole addresses.
    ARCHIVE#PATTERN names files in an archive, #PATTERN those in the archive at `address`: * is any part of a name, **
    any part of a path, and files belong together if these parts are the same on both sides."""
    read: str
    """A kind of `corpus_readers.READERS`."""
    without: list[str] = []
    """Files in archives that are left out though a pattern names them."""
    cut: bool = False
    """True if rows are cut into lines and sentences where both sides have as many."""
    columns: tuple[int, int] = (0, 1)
    """Of "tsv" and "csv": those of Chinese and English."""
    traditional: str = ""
    """OpenCC's conversion, such as "tw2s"; empty: it is simplified already."""
    licence: str
    about: str
    pairs: int
    sha256: str
    """SHA-256 of the cleaned text."""


class Result(NamedTuple):
    """The result of one corpus."""

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
    parser.add_argument("--mirror", metavar="URL", help="address in place of GitHub's two hosts of files")
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
        SourceError: A file does not come or cannot be read, or the text differs from the listed one.
    """
    place = output / f"{corpus.name}.tsv.gz"
    if place.is_file() and _digest_of(place) == corpus.sha256:
        return Result(corpus.name, corpus.pairs, "there already")
    downloads = output / ".downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    addresses = {file: _address(corpus, file, mirror) for files in corpus.files for file in files}
    paths = {file: download(address, downloads) for file, address in addresses.items()}
    try:
        lines = _lines(corpus, paths)
    except MissingLibrary:
        raise
    except SourceError:
        # The download may be wrong, such as a page of a proxy; kept, it would stay wrong.
        for path in paths.values():
            path.unlink(missing_ok=True)
        raise
    scratch = place.with_name(f".{place.name}.partial")
    scratch.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    scratch.replace(place)
    return Result(corpus.name, len(lines), "made")


def _lines(corpus: Corpus, paths: Mapping[str, Path]) -> list[str]:
    lines = [f"{pair.source}\t{pair.target}\n" for pair in cleaned(_rows(corpus, paths), corpus.traditional)]
    if (digest := hashlib.sha256("".join(lines).encode()).hexdigest()) != corpus.sha256:
        raise SourceError(f"its text has SHA-256 {digest} ({len(lines)} pairs), the list says {corpus.sha256}")
    return lines


def _digest_of(path: Path) -> str:
    try:
        return hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()
    except (OSError, EOFError, zlib.error):
        return ""


def _address(corpus: Corpus, file: str, mirror: str | None) -> str:
    path = file.partition("#")[0]
    address = path if path.startswith("https://") else f"{corpus.address.rstrip('/')}/{path}".rstrip("/")
    return HOSTS.sub(mirror.rstrip("/"), address) if mirror else address


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
            # The existing file is not a part of this one.
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
                if file.tell() > MAX_BYTES:
                    raise SourceError(f"{address} has more than {MAX_BYTES:,} bytes; {partial} may be deleted")
    return expected is None or partial.stat().st_size == expected


def _contents(corpus: Corpus, files: Sequence[str], paths: Mapping[str, Path]) -> Iterator[list[str]]:
    """Yield the texts of a file, or of each of those in archives that a pattern names and both sides have."""
    sides = [_texts(file, paths[file], corpus.without) for file in files]
    if not (names := [name for name in sorted(sides[0]) if all(name in side for side in sides)]):
        raise SourceError(f"no file is in {' and in '.join(files)}")
    yield from ([side[name] for side in sides] for name in names)


def _texts(file: str, path: Path, without: Sequence[str]) -> dict[tuple[str, ...], str]:
    """Return the text of a file; of the files in an archive, by what the pattern leaves open of their names."""
    address, _, pattern = file.partition("#")
    try:
        if not pattern:
            return {(): path.read_text(encoding="utf-8")}
        with tarfile.open(path) as archive:
            # An archive of a repository has a folder around its files.
            members = archive if address.endswith(".gz") else _without_folder(archive)
            return {
                match.groups(): archive.extractfile(member).read().decode("utf-8")  # type: ignore[union-attr]
                for member in map(_of_size, members)
                if member.isfile()
                and member.name not in without
                and (match := _expression(pattern).fullmatch(member.name))
            }
    except (OSError, UnicodeDecodeError, tarfile.TarError, EOFError, zlib.error) as error:
        raise SourceError(f"{file} cannot be read: {error}") from error


def _of_size(member: tarfile.TarInfo) -> tarfile.TarInfo:
    if member.size > MAX_BYTES:
        raise SourceError(f"{member.name} has {member.size:,} bytes, more than {MAX_BYTES:,}")
    return member


def _without_folder(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    yield from (member.replace(name=member.name.partition("/")[2], deep=False) for member in archive)


@functools.cache
def _expression(pattern: str) -> re.Pattern[str]:
    """Return a pattern of paths, * for any part of a name and ** for any part of a path, as an expression."""
    return re.compile(re.escape(pattern).replace(r"\*\*", "(.*)").replace(r"\*", "([^/]*)"))


def _rows(corpus: Corpus, paths: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    if corpus.read not in corpus_readers.READERS:
        raise SourceError(f"read is {corpus.read!r}, none of {', '.join(corpus_readers.READERS)}")
    for files in corpus.files:
        for contents in _contents(corpus, files, paths):
            try:
                rows = corpus_readers.read(corpus.read, contents, corpus.columns)
                yield from corpus_readers.sentences(rows) if corpus.cut else rows
            except ImportError as error:
                raise MissingLibrary(f"it needs pip install {LIBRARIES.get(str(error.name), error.name)}") from error
            except (ValueError, KeyError, TypeError, AttributeError, OSError, csv.Error) as error:
                raise SourceError(f"{files[0]} cannot be read as {corpus.read!r}: {error}") from error


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
        raise MissingLibrary("it is in traditional characters, and needs pip install opencc") from error
    convert: Callable[[str], str] = opencc.OpenCC(traditional).convert
    return convert


if __name__ == "__main__":
    raise SystemExit(main())
