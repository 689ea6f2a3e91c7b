"""Keys of the translation memory: equal if the same text would get the same translation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict

from xuanzang.client._values.offers import Model
from xuanzang.client._values.options import SamplingOptions
from xuanzang.client._values.results import Translation

# They change what is told about a translation, not its text.
_IRRELEVANT = ("return_scores", "token_details", "return_provenance", "partial_on_deadline", "model")

KeyOf = Callable[[str], bytes]


def key_function(models: Iterable[Model], options: Mapping[str, object]) -> KeyOf | None:
    """Return the function from a text to its key.

    A key covers the text, the languages, the options, and the manifest's digest of every model that may answer, so that
    a changed bundle is asked again.

    Args:
        models: Models of the server.
        options: Options of the translation.

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
    known = {name: value for name, value in options.items() if value is not None and name not in _IRRELEVANT}
    request = json.dumps([manifests, known], sort_keys=True, default=asdict).encode()
    return lambda text: hashlib.sha256(request + b"\0" + text.encode("utf-8", errors="surrogatepass")).digest()


def may_answer(model: Model, options: Mapping[str, object]) -> bool:
    """Whether a model may answer a request with these options."""
    name, _, version = str(options.get("model") or "").partition("/")
    if name and name != model.name:
        return False
    if version != model.version if version else not model.is_default:
        return False
    wanted = ("source_language", model.source_languages), ("target_language", model.target_languages)
    return all(_covers(languages, options.get(key)) for key, languages in wanted)


def answered_by(models: Iterable[Model], options: Mapping[str, object], translation: Translation) -> bool:
    """Whether a translation is of one of the models that the keys cover, and not of one that has come since."""
    made = (translation.model, translation.model_version)
    return any(made == (model.name, model.version) for model in models if may_answer(model, options))


def _covers(languages: Iterable[str], wanted: object) -> bool:
    """Whether a language may be meant: the server matches "zh-CN" with "zh"."""
    primary = str(wanted or "").partition("-")[0].lower()
    return not primary or any(primary == each.partition("-")[0].lower() for each in languages)
