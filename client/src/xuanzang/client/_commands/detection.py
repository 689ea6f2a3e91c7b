"""The command `xuanzang detect`: the languages of any number of texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TextIO

from xuanzang.client._client import TranslationClient
from xuanzang.client._values.results import DetectedLanguage

_TEXTS_PER_CALL = 256


def detections(client: TranslationClient, texts: Iterable[str]) -> Iterator[Sequence[DetectedLanguage]]:
    """Detect the languages of texts, some hundred at a time.

    Args:
        client: Client to ask.
        texts: Any number of texts.

    Yields:
        Languages of each text, likeliest first.

    Raises:
        TranslationError: The server could not be reached, or failed.
    """
    rest = iter(texts)
    while some := list(islice(rest, _TEXTS_PER_CALL)):
        yield from client.detect_languages(some)


def write_languages(detected: Iterable[Sequence[DetectedLanguage]], *, as_json: bool, output: TextIO) -> None:
    """Write a line for each text: its likeliest language, or all of them as JSON.

    Args:
        detected: Languages of each text, likeliest first.
        as_json: Whether to write JSON.
        output: Destination of the lines.
    """
    for languages in detected:
        if as_json:
            output.write(json.dumps([asdict(language) for language in languages]) + "\n")
        else:
            best = languages[0] if languages else DetectedLanguage(code="und", confidence=0.0)
            output.write(f"{best.code}\t{best.confidence:.2f}\n")
