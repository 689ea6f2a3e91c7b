"""A job: the rows to translate, how they are translated, and how they are cut into shards."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

FormatName = Literal["text", "tsv", "jsonl", "parquet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFormat:
    """Places of the text of a row and of its translation."""

    name: FormatName
    """Format of input and output."""
    column: int = 1
    """Column of the text in TSV, 1 for the first; the translation becomes the last."""
    field: str = "text"
    """Key or column of the text in JSON lines and Parquet."""
    output_field: str = "translation"
    """Key or column of the translation in JSON lines and Parquet; the input must not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Model and options; None stands for the model's default."""

    model: str
    """Name and version, such as "zh-en/2"."""
    manifest_sha256: str
    """Digest of the bundle's manifest, which holds the digests of its files."""
    source_language: str = ""
    """One of the model's, or empty for its first."""
    target_language: str = ""
    """One of the model's, or empty for its first."""
    beam_size: int | None = None
    length_penalty: float | None = None
    max_target_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file of the input."""

    path: Path
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Consecutive rows of one file, translated and written as a whole."""

    number: int
    """Position among all shards of the job, counted from 0."""
    path: Path
    first_row: int
    """Rows before it in the file."""
    rows: int
    offset: int = 0
    """Bytes before it in a file of lines."""
    size: int = 0
    """Its bytes in a file of lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything that decides what the output is, and where it goes."""

    input: Path
    """A file, or a folder of files."""
    output: Path
    """A file, or a folder of files with the names of the input's."""
    format: RowFormat
    decoding: Decoding
    shard_rows: int
    """Maximum rows of a shard."""

    def identity(self, sources: tuple[Source, ...]) -> dict[str, Any]:
        """Describe the job in JSON; jobs with equal descriptions have equal outputs.

        Args:
            sources: Files of the input.
        """
        files = [{"name": each.path.name, "rows": each.rows, "sha256": each.sha256} for each in sources]
        return {
            "decoding": asdict(self.decoding),
            "files": files,
            "format": asdict(self.format),
            "shard_rows": self.shard_rows,
            "version": version("xuanzang-server"),
        }
