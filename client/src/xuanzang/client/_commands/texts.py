"""The commands themselves, apart from their arguments: translate texts, list models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import IO, TextIO

from xuanzang.client._client import TranslationClient
from xuanzang.client._errors import InvalidRequestError, TranslationError
from xuanzang.client._values.offers import Model
from xuanzang.client._values.options import TranslateOptions
from xuanzang.client._values.results import GlossaryMatch, Hypothesis, StreamedTranslation, Translation

_LISTED_LANGUAGES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Format of the results."""

    json: bool
    """One JSON object per text instead of one line per hypothesis."""
    scores: bool
    """Score and a tab before each hypothesis."""
    by_line: bool
    """One line per result, because texts are lines; a text without a translation leaves an empty one."""


def translate(
    client: TranslationClient,
    texts: Iterable[str],
    options: TranslateOptions,
    *,
    layout: Layout,
    output: TextIO,
    report: Callable[[str], None],
    advance: Callable[[], None],
    keep: Callable[[Translation], None] = lambda _: None,
) -> int:
    """Translate texts and write the results in the same order.

    Args:
        client: Client to translate with.
        texts: Any number of texts, read only as fast as results are written.
        options: Options of every text.
        layout: Format of the results.
        output: Destination of the results.
        report: Callback for a message about each text without a translation.
        advance: Callback after each text.
        keep: Callback for each translation.

    Returns:
        Number of texts without a translation.

    Raises:
        TranslationError: The server could not be reached, or failed.
    """
    failures = 0
    for item in client.translate_stream(texts, ordered=True, **options):
        result = _result_or_retry(client, item, options)
        if isinstance(result, TranslationError):
            failures += 1
            report(_failure_message(item.index, item.source, result, layout))
        else:
            keep(result)
        output.writelines(line + "\n" for line in _lines(item, result, layout))
        output.flush()
        advance()
    return failures


def translate_progressively(
    client: TranslationClient,
    texts: Iterable[str],
    options: TranslateOptions,
    *,
    layout: Layout,
    output: TextIO,
    report: Callable[[str], None],
    advance: Callable[[], None],
) -> int:
    """Translate one text after another and write each part of a result as soon as it is final.

    Args:
        client: Client to translate with.
        texts: Any number of texts.
        options: Options of every text.
        layout: Format of the results; only `by_line` applies.
        output: Destination of the results.
        report: Callback for a message about each refused text.
        advance: Callback after each text.

    Returns:
        Number of refused texts.

    Raises:
        TranslationError: The server could not be reached, or failed.
    """
    failures = 0
    for index, text in enumerate(texts):
        try:
            for part in client.translate_progressively(text, **options):
                output.write(_one_line(part.text_delta, layout))
                output.flush()
                if part.translation is not None:
                    output.writelines("\n" + _plain(other, layout) for other in part.translation.hypotheses[1:])
        except InvalidRequestError as error:
            failures += 1
            report(_failure_message(index, text, error, layout))
        output.write("\n")
        output.flush()
        advance()
    return failures


def read_lines(file: IO[bytes]) -> Iterator[str]:
    r"""Yield the lines of a file without their "\n"; a "\r" before it is kept, a byte order mark is not.

    A byte that is not UTF-8 becomes a lone surrogate, which no request can hold: the client refuses such a line and
    goes on with the next one.

    The file is closed here, by the thread that reads it: another thread would block on a read that may never return.
    """
    with file:
        for number, line in enumerate(file, start=1):
            encoding = "utf-8-sig" if number == 1 else "utf-8"
            yield line.decode(encoding, errors="surrogateescape").removesuffix("\n")


def read_whole(file: IO[bytes]) -> Iterator[str]:
    """Yield the text of a file without a line break at its end, and without a byte order mark."""
    with file:
        yield file.read().decode("utf-8-sig", errors="surrogateescape").removesuffix("\n")


def write_models(models: Iterable[Model], *, as_json: bool, output: TextIO) -> None:
    """Write a table of models, or one JSON object per model."""
    if as_json:
        output.writelines(json.dumps(asdict(model), ensure_ascii=False) + "\n" for model in models)
        return
    rows = [("MODEL", "VERSION", "FROM", "TO", "PRECISION", "DEFAULT", "LICENCE", "MANIFEST")]
    for model in models:
        languages = _listed(model.source_languages), _listed(model.target_languages)
        default = "yes" if model.is_default else "no"
        facts = model.precision, default, model.licence or "-", model.manifest_sha256[:12]
        rows.append((model.name, model.version, *languages, *facts))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    output.writelines(line + "\n" for line in lines)


def _listed(languages: Sequence[str]) -> str:
    """Return codes of languages, or their number where there are many; `--json` has all."""
    return ",".join(languages) if len(languages) <= _LISTED_LANGUAGES else f"{len(languages)} languages"


def _result_or_retry(
    client: TranslationClient, item: StreamedTranslation, options: TranslateOptions
) -> Translation | TranslationError:
    """Return the result of a text, after one more call if its error is retryable; gRPC retries only whole calls."""
    if item.error is None or not item.error.retryable:
        return item.result
    try:
        return client.translate_one(item.source, **options)
    except TranslationError as error:
        return error


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


def _failure_message(index: int, text: str, error: TranslationError, layout: Layout) -> str:
    return f"{'line' if layout.by_line else 'text'} {index + 1}: {_reason(error, text)}"


def _reason(error: TranslationError, text: str) -> str:
    """Return the message of an error, or what is wrong with the bytes of a line that is not UTF-8."""
    try:
        text.encode("utf-8", errors="surrogateescape").decode()
    except UnicodeDecodeError as fault:
        return f"not UTF-8: {fault.reason} at byte {fault.start}"
    except UnicodeEncodeError:
        pass  # no text of a file
    return error.message


def _as_json(item: StreamedTranslation, result: Translation | TranslationError) -> dict[str, object]:
    # Bytes that are not UTF-8 cannot be written as they are.
    source = item.source.encode("utf-8", errors="surrogateescape").decode(errors="replace")
    about: dict[str, object] = {"index": item.index, "source": source}
    if isinstance(result, TranslationError):
        return about | {"error": {"code": result.code.name, "message": result.message}}
    hypotheses = [_hypothesis_as_json(each) for each in result.hypotheses]
    about |= {"model": result.model, "model_version": result.model_version, "hypotheses": hypotheses}
    if result.detected_language:
        about["detected_language"] = result.detected_language
        about["detected_language_confidence"] = result.detected_language_confidence
    if result.glossary_matches:
        about["glossary_matches"] = [_match_as_json(match) for match in result.glossary_matches]
    return about if result.provenance is None else about | {"provenance": asdict(result.provenance)}


def _match_as_json(match: GlossaryMatch) -> dict[str, object]:
    return asdict(match) | {"outcome": match.outcome.name, "pattern": match.pattern.name}


def _hypothesis_as_json(hypothesis: Hypothesis) -> dict[str, object]:
    known = asdict(hypothesis) | {"finish_reason": hypothesis.finish_reason.name}
    if not hypothesis.tokens:
        del known["tokens"]
    if hypothesis.quality is None:
        del known["quality"]
    else:
        names = sorted(flag.name for flag in hypothesis.quality.flags)
        known["quality"] = {"acceptable_probability": hypothesis.quality.acceptable_probability, "flags": names}
    return known
