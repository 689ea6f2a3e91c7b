"""The shards of a job: the same ones whenever the same input is cut."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

from xuanzang.batch.errors import ChangedInputError, InputError
from xuanzang.batch.formats import format_of
from xuanzang.batch.job import FormatName, Job, Shard, Source

_SUFFIXES: dict[str, FormatName] = {
    ".txt": "text",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Files of the input, and the shards of all of them in order."""

    sources: tuple[Source, ...]
    shards: tuple[Shard, ...]

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(source.rows for source in self.sources)

    def require_unchanged(self) -> None:
        """Compare the files with their planned state.

        Raises:
            ChangedInputError: One has changed.
        """
        for source in self.sources:
            if digest(source.path) != source.sha256:
                raise ChangedInputError(f"{source.path} changed while it was translated: begin again with a new output")


def make_plan(job: Job) -> Plan:
    """Cut the input into shards.

    Args:
        job: Input, its format, and the maximum rows of a shard.

    Raises:
        InputError: The input cannot be read.
    """
    cutter = format_of(job.format)
    sources: list[Source] = []
    shards: list[Shard] = []
    for path in input_files(job.input):
        cuts = list(cutter.cuts(path, job.shard_rows))
        sources.append(Source(path=path, rows=sum(cut.rows for cut in cuts), sha256=digest(path)))
        shards += [Shard(number=len(shards) + index, path=path, **asdict(cut)) for index, cut in enumerate(cuts)]
    return Plan(sources=tuple(sources), shards=tuple(shards))


def input_files(path: Path) -> list[Path]:
    """Return the files of an input in the order of their names; hidden files, and those named "_…", are left out.

    Args:
        path: A file, or a folder of files.

    Raises:
        InputError: There is no file.
    """
    if not path.is_dir():
        if not path.is_file():
            raise InputError(f"{path} is neither a file nor a folder")
        return [path.absolute()]
    files = sorted(each.absolute() for each in path.iterdir() if each.is_file() and each.name[0] not in "._")
    if not files:
        raise InputError(f"{path} holds no files")
    return files


def guess_format(path: Path) -> FormatName:
    """Tell the format from the names of the files.

    Args:
        path: A file, or a folder of files.

    Raises:
        InputError: The names do not tell, or tell several.
    """
    suffixes = {file.suffix.lower() for file in input_files(path)}
    formats = {_SUFFIXES.get(suffix) for suffix in suffixes}
    found = formats.pop()
    if found is None or formats:
        raise InputError(f"the format of {', '.join(sorted(suffixes)) or path} is not known: give --format")
    return found


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal.

    Args:
        path: File of any size.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
