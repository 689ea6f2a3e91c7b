"""The command `xuanzang documents`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.arguments.documents import document_options
from xuanzang.client._commands.progress import Progress
from xuanzang.client.documents.job import DocumentSummary
from xuanzang.client.documents.memory import TranslationMemory


def translate_documents(client: TranslationClient, arguments: argparse.Namespace) -> int:
    """Translate files and write a line about each.

    Args:
        client: Client to translate with.
        arguments: Arguments of the command.

    Returns:
        The exit code: 1 if a text has stayed as it was.

    Raises:
        OSError: A file cannot be read or written.
        TranslationError: The server could not be reached, failed, or refused more than single texts.
        ValueError: The arguments contradict each other, or a file is over a limit or not of its format.
    """
    outputs = {file: _output(file, arguments) for file in arguments.files}
    if len(set(outputs.values())) < len(arguments.files):
        raise ValueError("several files would have the same output: translate them one by one, or without -o and -d")
    refused = [_translate(client, file, output, arguments) for file, output in outputs.items()]
    return 1 if any(refused) else 0


def _translate(client: TranslationClient, file: Path, output: Path, arguments: argparse.Namespace) -> int:
    with _memory(output, arguments) as memory, _progress(file) as on_progress:
        translation = client.translate_document(
            file,
            encoding=arguments.encoding,
            columns=arguments.columns,
            memory=memory,
            on_progress=on_progress,
            **document_options(arguments),
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
    if arguments.target is None:
        raise ValueError("say where to write: -o FILE, -d DIR, or --target CODE for names such as report.en.docx")
    return file.with_suffix(f".{arguments.target}{file.suffix}")


@contextmanager
def _memory(output: Path, arguments: argparse.Namespace) -> Iterator[TranslationMemory]:
    """Open the memory or, without one, a memory that is removed once the file is finished."""
    size = arguments.memory_megabytes * 1024 * 1024
    if arguments.memory is not None:
        with TranslationMemory(arguments.memory, max_bytes=size) as memory:
            yield memory
        return
    path = output.with_name(f".{output.name[:200]}.unfinished")
    memory = TranslationMemory(path, max_bytes=size)
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
