"""The command `xuanzang documents`, of the extra `documents`: its arguments and function."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.connection_arguments import Commands
from xuanzang.client._commands.progress import Progress
from xuanzang.client._commands.streams import report
from xuanzang.client._commands.translation_arguments import SEARCH, TERMS, TEXTS, add_options, given_options
from xuanzang.command.files import require_other_files
from xuanzang.documents import SUFFIXES, DocumentError, DocumentSummary, TranslationMemory

_DESCRIPTION = f"""\
Translates the texts of files ({" ".join(SUFFIXES)}) and leaves everything else in them as it is.
Without -o and -d, the translation of report.docx into en is report.en.docx, which is only replaced with --overwrite.

What was translated before the command was interrupted is not asked again by the next one: until a file is
finished, its translations are in a file beside the output, or else in the one of --memory.
"""
_OF_SINGLE_TEXTS = frozenset({"--num-hypotheses", "--min-target-length", "--coverage-penalty", "--target-prefix"})


def add_documents(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add `xuanzang documents`."""
    command = commands.add_parser(
        "documents",
        help="translate documents: Markdown, HTML, Word, subtitles, tables and others",
        description=_DESCRIPTION,
        parents=[shared],
    )
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="file to translate")
    _add_files(command.add_argument_group("files"))
    flags = [flag for flag in SEARCH if flag not in _OF_SINGLE_TEXTS]
    add_options(command.add_argument_group("translation"), (*flags, *TEXTS, *TERMS))
    command.set_defaults(command=_translate_documents)


def _add_files(group: argparse._ArgumentGroup) -> None:
    place = group.add_mutually_exclusive_group()
    place.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write, for a single FILE")
    place.add_argument(
        "-d",
        "--directory",
        type=Path,
        metavar="DIR",
        help="folder to write files of the same names to; made if missing",
    )
    group.add_argument("--overwrite", action="store_true", help="replace existing files even without -o and -d")
    group.add_argument(
        "--column",
        dest="columns",
        action="append",
        metavar="NAME",
        help="column of a table to translate, or key of JSON values; repeatable",
    )
    group.add_argument("--encoding", metavar="NAME", help="encoding of the files, such as gb18030 (default: declared)")
    group.add_argument(
        "--memory",
        type=Path,
        metavar="FILE",
        help="translation memory: what is in it is not asked again; created with mode 0600",
    )
    group.add_argument(
        "--memory-megabytes",
        type=int,
        default=256,
        metavar="N",
        help="maximum size of the memory; what was not used for longest goes first (default: 256)",
    )


def _translate_documents(client: TranslationClient, arguments: argparse.Namespace) -> int:
    outputs = {file: _output(file, arguments) for file in arguments.files}
    if len(set(outputs.values())) < len(arguments.files):
        raise ValueError("several files would have the same output: translate them one by one, or without -o and -d")
    refused, kept = 0, [*arguments.files, arguments.memory, arguments.glossary]
    require_other_files(outputs.values(), kept)
    if arguments.directory is not None:
        arguments.directory.mkdir(parents=True, exist_ok=True)
        _require_within(arguments.directory, outputs.values())
    for file, output in outputs.items():
        # Names that differ in their capitals may be one file, which is there once the first is written.
        require_other_files([output], kept)
        refused += _translate(client, file, output, arguments)
        kept.append(output)
    return 1 if refused else 0


def _require_within(folder: Path, outputs: Iterable[Path]) -> None:
    """Refuse outputs that are links out of the folder that the user names."""
    inside = os.path.realpath(folder)
    for output in outputs:
        if not Path(os.path.realpath(output)).is_relative_to(inside):
            raise ValueError(f"{output} is a link out of {folder}: remove it, or choose another folder")


def _translate(client: TranslationClient, file: Path, output: Path, arguments: argparse.Namespace) -> int:
    """Translate a file and return the number of refusals; of several files, a failed one counts as one."""
    try:
        return _written(client, file, output, arguments)
    except BrokenPipeError:
        raise
    except (DocumentError, OSError) as error:
        if len(arguments.files) == 1:
            raise
        report(str(error))
        return 1


def _written(client: TranslationClient, file: Path, output: Path, arguments: argparse.Namespace) -> int:
    if output.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(output))
    is_named = arguments.output is not None or arguments.directory is not None
    if output.exists() and not (is_named or arguments.overwrite):
        raise FileExistsError(f"{output} exists: replace it with --overwrite, or name another file or folder (-o, -d)")
    with _memory(output, arguments) as memory, _progress(file) as on_progress:
        translation = client.translate_document(
            file,
            encoding=arguments.encoding,
            columns=arguments.columns,
            memory=memory,
            on_progress=on_progress,
            **given_options(arguments),
        )
        translation.write(output)
    for refusal in translation.summary.refusals:
        sys.stderr.write(f"xuanzang: {file}: {refusal.where}: {refusal.message}\n")
    sys.stdout.write(f"{file} -> {output}: {_counts(translation.summary)}\n")
    sys.stdout.flush()
    return len(translation.summary.refusals)


def _output(file: Path, arguments: argparse.Namespace) -> Path:
    if arguments.output is not None:
        return Path(arguments.output)
    if arguments.directory is not None:
        return Path(arguments.directory) / file.name
    if arguments.target_language is None:
        raise ValueError("say where to write: -o FILE, -d DIR, or --target CODE for names such as report.en.docx")
    return file.with_suffix(f".{arguments.target_language}{file.suffix}")


@contextmanager
def _memory(output: Path, arguments: argparse.Namespace) -> Iterator[TranslationMemory]:
    """Open the memory or, without one, a memory that is removed once the file is finished."""
    size = arguments.memory_megabytes * 1024 * 1024
    if arguments.memory is not None:
        with TranslationMemory(arguments.memory, max_bytes=size) as memory:
            yield memory
        return
    path = output.with_name(f".{output.name[:200]}.unfinished")
    if path.is_symlink():
        raise ValueError(f"{path} is a link: remove it")
    try:
        memory = TranslationMemory(path, max_bytes=size)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(output)) from error
    with memory:
        try:
            yield memory
        except BaseException:
            if memory.is_empty():
                path.unlink()
            raise
    path.unlink()


@contextmanager
def _progress(file: Path) -> Iterator[Callable[[int, int], None]]:
    """Draw progress, unless standard error is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    lines: list[Progress] = []

    def draw(done: int, total: int) -> None:
        if not lines:
            sys.stderr.write(f"{file}\n")
            lines.append(Progress(max(total, 1), sys.stderr, noun="texts"))
        lines[0].reach(done)

    try:
        yield draw
    finally:
        for line in lines:
            line.close()


def _counts(summary: DocumentSummary) -> str:
    return (
        f"{summary.units} texts; {summary.remembered} known, {summary.asked} asked"
        f" ({summary.characters} characters, {summary.sentences} sentences), {len(summary.refusals)} refused"
        + (f", {summary.passed_through} passed through" if summary.passed_through else "")
    )
