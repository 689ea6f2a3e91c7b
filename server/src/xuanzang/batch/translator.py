"""The server's translator with the options of a job: rows that are refused get reasons instead of errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xuanzang import server
from xuanzang.batch.errors import InputError
from xuanzang.batch.job import Decoding
from xuanzang.server import InvalidInputError, StreamedTranslation, TranslateOptions

_SWITCH_SECONDS = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why a text has no translation."""

    reason: str


class Translator:
    """Translates lists of texts; several threads may call it at once."""

    def __init__(self, models: Path, decoding: Decoding, *, cores: int) -> None:
        """Load and warm the model.

        Args:
            models: Folder of bundles.
            decoding: Model and options.
            cores: Threads that translate; 0 for one per usable core.

        Raises:
            BundleError: The bundle cannot be served.
            EngineError: The model does not take the options.
            InputError: The model has changed.
        """
        # As the server does, and for its reason: the event loop must not wait for long for a worker's Python.
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._translator = server.Translator(models, workers=cores)
        self._options = _options(decoding)
        try:
            self._check(decoding)
        except BaseException:
            self.close()
            raise

    def translate(self, texts: Sequence[str]) -> list[str | Refusal]:
        """Translate texts; a refused one does not disturb the others.

        Args:
            texts: Texts in the source language.

        Returns:
            Best translation of each text, or the reason why it has none.
        """
        return [_row(result) for result in self._translator.translate_stream(texts, ordered=True, **self._options)]

    def close(self) -> None:
        """Stop the threads."""
        self._translator.close()

    def _check(self, decoding: Decoding) -> None:
        bundles = {f"{model.name}/{model.version}": model for model in self._translator.list_models()}
        bundle = bundles.get(decoding.model)
        if bundle is not None and bundle.manifest_sha256 != decoding.manifest_sha256:
            raise InputError(f"the bundle {decoding.model} is not the one that the job began with")
        self._translator.translate([], **self._options)


def check_options(decoding: Decoding) -> None:
    """Refuse options that no model takes, before a model is loaded.

    Raises:
        InputError: A value is outside of its range.
    """
    try:
        server.check_options(**_options(decoding))
    except InvalidInputError as error:
        raise InputError(str(error)) from error


def _options(decoding: Decoding) -> TranslateOptions:
    return TranslateOptions(
        model=decoding.model,
        source_language=decoding.source_language,
        target_language=decoding.target_language,
        num_hypotheses=1,
        beam_size=decoding.beam_size,
        length_penalty=decoding.length_penalty,
        max_target_length=decoding.max_target_length,
    )


def _row(result: StreamedTranslation) -> str | Refusal:
    if isinstance(result.error, InvalidInputError):
        return Refusal(reason=str(result.error))
    return result.translation.text
