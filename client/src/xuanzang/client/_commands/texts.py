"""The command `xuanzang translate`, which translates texts as they arrive and writes results in the same order."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from xuanzang.client._calls.waits import run
from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.capsules import kept
from xuanzang.client._commands.progress import Progress
from xuanzang.client._commands.streams import (
    from_file,
    opened_input,
    opened_output,
    read_lines,
    read_whole,
    report,
    undecodable,
)
from xuanzang.client._commands.translation_arguments import translate_options
from xuanzang.client._errors import InvalidRequestError, TranslationError
from xuanzang.client._values.results import GlossaryMatch, Hypothesis, StreamedTranslation, Translation
from xuanzang.command.files import require_other_files
from xuanzang.values.options import TranslateOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Format of the results."""

    json: bool
    """One JSON object per text instead of one line per hypothesis."""
    scores: bool
    """Score and a tab before each hypothesis."""
    by_line: bool
    """One line per result, because texts are lines; a text without a translation leaves an empty one."""
    encoding: str
    """Encoding of the texts of a file."""


def translate(client: TranslationClient, arguments: argparse.Namespace) -> int:
    """Run the command.

    Returns:
        The exit code: 1 if a text has no translation.

    Raises:
        OSError: A file cannot be read or written.
        TranslationError: The server could not be reached, or failed.
        ValueError: Two arguments contradict each other, one needs another, or the output is the input.
    """
    source = Path(arguments.file) if from_file(arguments) else None
    require_other_files([arguments.capsule], [source, arguments.output])
    require_other_files([arguments.capsule, arguments.output], [arguments.glossary])
    options = translate_options(arguments)
    by_line = _by_line(arguments)
    layout = Layout(
        json=arguments.json, scores=bool(arguments.return_scores), by_line=by_line, encoding=arguments.encoding
    )
    texts = arguments.texts or (read_lines if by_line else read_whole)(opened_input(arguments))
    with opened_output(arguments.output) as output, _progress(arguments) as advance, kept(arguments.capsule) as keep:
        if arguments.progressive:
            results = _translate_progressively(client, texts, options, layout, output)
        else:
            results = _translate(client, texts, options, layout, output, keep)
        failures = 0
        for failure in results:
            if failure:
                failures += 1
                report(failure)
            output.flush()
            advance()
        if failures and source and arguments.output and _is_same_file(source, arguments.output):
            # Its texts that have no translation would be lost.
            raise ValueError(f"{source} is not replaced: {failures} of its texts have no translation")
    return 1 if failures else 0


def _is_same_file(source: Path, output: Path) -> bool:
    return source.is_file() and output.exists() and output.samefile(source)


def _translate(
    client: TranslationClient,
    texts: Iterable[str],
    options: TranslateOptions,
    layout: Layout,
    output: TextIO,
    keep: Callable[[Translation], None],
) -> Iterator[str]:
    """Write the result of each text, read only as fast as results are written; yield why it failed, or ""."""
    for item in client.translate_stream(texts, ordered=True, **options):
        result = run(client._result_or_retry(item, options))  # noqa: SLF001 - as for documents
        if isinstance(result, Translation):
            keep(result)
        output.writelines(line + "\n" for line in _lines(item, result, layout))
        yield _failure(item.index, item.source, result, layout)


def _translate_progressively(
    client: TranslationClient, texts: Iterable[str], options: TranslateOptions, layout: Layout, output: TextIO
) -> Iterator[str]:
    """Write each part of a result as soon as it is final; yield why a text has no translation, or ""."""
    for index, text in enumerate(texts):
        failure = ""
        try:
            for part in client.translate_progressively(text, **options):
                output.write(_one_line(part.text_delta, layout))
                output.flush()
                if part.translation is not None:
                    failure = _failure(index, text, part.translation, layout)
                    output.writelines("\n" + _plain(other, layout) for other in part.translation.hypotheses[1:])
        except InvalidRequestError as error:
            failure = _failure(index, text, error, layout)
        output.write("\n")
        yield failure


def _by_line(arguments: argparse.Namespace) -> bool:
    """Return whether texts are the lines of a file; one with tags is a single text."""
    return not arguments.texts and arguments.content_format in (None, "text")


@contextmanager
def _progress(arguments: argparse.Namespace) -> Iterator[Callable[[], None]]:
    """Draw progress for a file, unless standard error is not a terminal or the results go to the same screen."""
    results_on_screen = arguments.output is None and sys.stdout.isatty()
    if not (from_file(arguments) and _by_line(arguments)) or not sys.stderr.isatty() or results_on_screen:
        yield lambda: None
        return
    total = sum(1 for _ in read_lines(opened_input(arguments)))
    with closing(Progress(total, sys.stderr)) as progress:
        yield progress.advance


def _lines(item: StreamedTranslation, result: Translation | TranslationError, layout: Layout) -> list[str]:
    if layout.json:
        return [json.dumps(_as_json(item, result), ensure_ascii=False)]
    if isinstance(result, TranslationError):
        return [""] if layout.by_line else []
    return [_plain(hypothesis, layout) for hypothesis in result.hypotheses]


def _plain(hypothesis: Hypothesis, layout: Layout) -> str:
    text = _one_line(hypothesis.text, layout)
    return f"{hypothesis.score:.4f}\t{text}" if layout.scores and hypothesis.score is not None else text


def _one_line(text: str, layout: Layout) -> str:
    return text.replace("\n", " ") if layout.by_line else text


def _failure(index: int, text: str, result: Translation | TranslationError, layout: Layout) -> str:
    """Return why a text has no translation, or ""."""
    if isinstance(result, TranslationError):
        reason = undecodable(text, layout.encoding) or result.message
    elif lost := result.hypotheses[0].lost_placeholders:
        reason = f"the translation lost the placeholder {lost[0]}, so the text stays as it was"
    else:
        return ""
    return f"{'line' if layout.by_line else 'text'} {index + 1}: {reason}"


def _as_json(item: StreamedTranslation, result: Translation | TranslationError) -> dict[str, object]:
    # Bytes that are not UTF-8 cannot be written unchanged.
    source = item.source.encode("utf-8", errors="surrogateescape").decode(errors="replace")
    about: dict[str, object] = {"index": item.index, "source": source}
    if isinstance(result, TranslationError):
        return about | {"error": {"code": result.code.name, "message": result.message}}
    hypotheses = [_hypothesis_as_json(each) for each in result.hypotheses]
    about |= {"model": result.model, "model_version": result.model_version, "hypotheses": hypotheses}
    if result.pivot:
        about["pivot"] = {"language": result.pivot.language, "model": result.pivot.model}
    if result.detected_language:
        about["detected_language"] = result.detected_language
        about["detected_language_confidence"] = result.detected_language_confidence
    if result.glossary_matches:
        about["glossary_matches"] = [_match_as_json(match) for match in result.glossary_matches]
    return about if result.provenance is None else about | {"provenance": asdict(result.provenance)}


def _match_as_json(match: GlossaryMatch) -> dict[str, object]:
    return asdict(match) | {"outcome": match.outcome.name, "pattern": match.pattern.name}


def _hypothesis_as_json(hypothesis: Hypothesis) -> dict[str, object]:
    fields = asdict(hypothesis) | {"finish_reason": hypothesis.finish_reason.name}
    for name in ("tokens", "lost_placeholders"):
        if not fields[name]:
            del fields[name]
    if hypothesis.quality is None:
        del fields["quality"]
    else:
        names = sorted(flag.name for flag in hypothesis.quality.flags)
        fields["quality"] = {"acceptable_probability": hypothesis.quality.acceptable_probability, "flags": names}
    return fields
