"""The translation of a document by a server: options and keys of its texts, and what a server's answers mean for them.

The one module of the client that imports documents; it is loaded when a document is translated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from xuanzang.client._errors import InvalidRequestError, TranslationError
from xuanzang.client._values.results import FinishReason, Translation, Usage
from xuanzang.documents import (
    Answer,
    Copied,
    DocumentTexts,
    Job,
    KeyFunction,
    OnProgress,
    TranslatedTexts,
    TranslationMemory,
)
from xuanzang.values.models import Model
from xuanzang.values.options import TranslateOptions
from xuanzang.values.provenance import SamplingOptions

# They change the details of a translation, not its text.
_IRRELEVANT = ("return_scores", "token_details", "return_provenance", "partial_on_deadline", "model")
_COPIED = {FinishReason.UNSERVED_LANGUAGE: Copied.UNSERVED_LANGUAGE, FinishReason.COPIED: Copied.NOTHING_TO_TRANSLATE}


class ServerJob(Job):
    """The translation of one document by the models of a server.

    Args:
        models: Models of the server; needed with a memory only.
    """

    def __init__(
        self,
        texts: DocumentTexts,
        models: Sequence[Model],
        options: TranslateOptions,
        *,
        memory: TranslationMemory | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.options: TranslateOptions = _with_defaults(options, texts)
        """Options of its texts."""
        self._models = models
        key = key_function(models, self.options) if memory else None
        self._sentences = 0
        super().__init__(texts, memory=memory, key=key, on_progress=on_progress)

    def count(self, usage: Usage) -> None:
        """Count what a call has used."""
        self._sentences += usage.sentences

    def translated(self) -> TranslatedTexts:
        """Return the translations."""
        return self.finish(sentences=self._sentences)

    def answer(self, result: Translation | TranslationError) -> Answer:
        """Return the answer for a text.

        Raises:
            TranslationError: The error concerns other texts as well.
        """
        if isinstance(result, TranslationError):
            # Any other error concerns the other texts as well.
            is_of_the_text = all(each.field.startswith("content") for each in result.violations)
            if not (isinstance(result, InvalidRequestError) and is_of_the_text):
                raise result
            return Answer(refusal=result.message)
        reasons = [hypothesis.finish_reason for hypothesis in result.hypotheses]
        copied = _COPIED.get(reasons[0])
        if copied is Copied.NOTHING_TO_TRANSLATE and result.detected_language:
            copied = Copied.IN_TARGET_LANGUAGE
        may_be_kept = FinishReason.DEADLINE not in reasons and answered_by(self._models, self.options, result)
        lost = result.hypotheses[0].lost_placeholders
        return Answer(translation=result.text, copied=copied, lost_placeholders=lost, may_be_kept=may_be_kept)


def _with_defaults(options: TranslateOptions, texts: DocumentTexts) -> TranslateOptions:
    """Return options with the additions of a document's format."""
    chosen = options
    if options.get("placeholders") is None and not options.get("target_prefix"):
        chosen = {**chosen, "placeholders": texts.placeholders}
    # Carried placeholders and tags have no tokens.
    if texts.is_html:
        chosen = {**chosen, "content_format": "html"}
    return {**chosen, "token_details": None} if texts.is_html or chosen.get("placeholders") else chosen


def key_function(models: Iterable[Model], options: Mapping[str, object]) -> KeyFunction | None:
    """Return the function from a text to its key.

    A key covers the text, the languages, the options, and the manifest's digest of every model that may answer, so that
    a changed bundle is asked again.

    Returns:
        The function; None if nothing can be kept, because tokens are drawn at random, no model is known to answer, or a
        glossary of the server is named, which may change under its name.
    """
    if options.get("glossary_name"):
        return None
    sampling = options.get("sampling")
    if isinstance(sampling, SamplingOptions) and sampling.seed is None:
        return None
    manifests = sorted(model.manifest_sha256 for model in models if may_answer(model, options))
    if not all(manifests) or not manifests:
        return None
    relevant = {name: value for name, value in options.items() if value is not None and name not in _IRRELEVANT}
    request = json.dumps([manifests, relevant], sort_keys=True, default=asdict).encode()
    return lambda text: hashlib.sha256(request + b"\0" + text.encode("utf-8", errors="surrogatepass")).digest()


def may_answer(model: Model, options: Mapping[str, object]) -> bool:
    """Return whether a model may answer a request with these options."""
    name, _, version = str(options.get("model") or "").partition("/")
    if name and name != model.name:
        return False
    if version != model.version if version else not model.is_default:
        return False
    wanted = ("source_language", model.source_languages), ("target_language", model.target_languages)
    return all(_covers(languages, options.get(key)) for key, languages in wanted)


def answered_by(models: Iterable[Model], options: Mapping[str, object], translation: Translation) -> bool:
    """Return whether a translation is by a model that the keys cover, and not by a newer one."""
    made = (translation.model, translation.model_version)
    return any(made == (model.name, model.version) for model in models if may_answer(model, options))


def _covers(languages: Iterable[str], wanted: object) -> bool:
    """Return whether a language may be meant: the server matches "zh-CN" with "zh"."""
    primary = str(wanted or "").partition("-")[0].lower()
    return not primary or any(primary == each.partition("-")[0].lower() for each in languages)
