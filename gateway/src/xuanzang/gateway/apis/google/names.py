"""Names in the API of Google Cloud Translation: of projects, models, glossaries and languages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from xuanzang.client import FieldViolation, Model
from xuanzang.gateway.errors import bad_request
from xuanzang.gateway.languages import name_of, pivoted_targets, targets_by_source

MAX_NAME_CHARACTERS = 512
MAX_PAGE_SIZE = 1000
_MAX_CODE_CHARACTERS = 64
_DETECTOR = "language-detection/default"
_PARENT = re.compile(r"projects/[^/]+(/locations/[^/]+)?")
_MODEL = re.compile(r"(projects/[^/]+/locations/[^/]+/models/)?(?P<model>[^/]+(/[^/]+)?)")
_GLOSSARY = re.compile(r"(?P<location>projects/[^/]+/locations/[^/]+)/glossaries/(?P<name>[^/]+)")
# Names of Google's own models: the model of the languages answers.
_GENERAL = re.compile(r"general/.*|nmt|base")
# Google's codes of languages that have other codes here.
_SPELLINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"zh": ("zh-CN",), "zh-Hans": ("zh-CN",), "zh-Hant": ("zh-TW",), "he": ("iw",), "nb": ("no",), "jv": ("jw",)}
)

Item = TypeVar("Item")


def parent_violations(parent: str) -> Iterable[FieldViolation]:
    """Yield the faults of the name of a project; any project will do.

    Args:
        parent: Name such as "projects/any" or "projects/any/locations/global".
    """
    if len(parent) > MAX_NAME_CHARACTERS or not _PARENT.fullmatch(parent):
        form = f"projects/PROJECT or projects/PROJECT/locations/LOCATION, of at most {MAX_NAME_CHARACTERS} characters"
        yield FieldViolation(field="parent", description=f"must be {form}")


def model_violations(model: str) -> Iterable[FieldViolation]:
    """Yield the faults in the form of a model's name.

    Args:
        model: Name of a model, or nothing.
    """
    if model and (len(model) > MAX_NAME_CHARACTERS or not _MODEL.fullmatch(model)):
        resource = f"projects/PROJECT/locations/LOCATION/models/MODEL, of at most {MAX_NAME_CHARACTERS} characters"
        form = f"{resource}, with general/nmt, or a served model, as MODEL"
        yield FieldViolation(field="model", description=f"must be {form}")


def detector_violations(model: str) -> Iterable[FieldViolation]:
    """Yield the faults of the name of a model that detects languages.

    Args:
        model: Name of the model, or nothing.
    """
    if model and not (len(model) <= MAX_NAME_CHARACTERS and served_model(model) == _DETECTOR):
        description = f"must be unset, or end in /models/{_DETECTOR}: there is one detector"
        yield FieldViolation(field="model", description=description)


def served_model(model: str, *, is_bare: bool = False) -> str:
    """Return the server's name of a model, such as "zh-en" or "zh-en/2"; empty for any.

    Args:
        model: Name of a model in a valid form, or nothing.
        is_bare: Whether a name of another form is that of the server.
    """
    match = _MODEL.fullmatch(model)
    name = match["model"] if match else model if is_bare else ""
    return "" if _GENERAL.fullmatch(name) else name


def model_resource(parent: str, model: str) -> str:
    """Return Google's name of a served model.

    Args:
        parent: Valid name of a project, with or without location.
        model: Name and version, such as "zh-en/2".
    """
    return f"{_location(parent)}/models/{model}"


def stored_glossary(resource: str, *, field: str) -> str:
    """Return the server's name of a glossary, without capital letters.

    Args:
        resource: Name such as "projects/any/locations/global/glossaries/animals".

    Raises:
        RefusedError: It has another form.
    """
    match = _GLOSSARY.fullmatch(resource) if len(resource) <= MAX_NAME_CHARACTERS else None
    if match is None:
        form = "projects/PROJECT/locations/LOCATION/glossaries/GLOSSARY"
        raise bad_request(field, f"must be {form}, of at most {MAX_NAME_CHARACTERS} characters")
    return match["name"].lower()


def glossary_resource(parent: str, name: str) -> str:
    """Return Google's name of a glossary of the server.

    Args:
        parent: Valid name of a project, with or without location.
    """
    return f"{_location(parent)}/glossaries/{name}"


def page_of(items: Sequence[Item], *, size: int, token: str) -> tuple[Sequence[Item], str]:
    """Return a page of a list, and the token of the next one, which is the index of its first item, or nothing.

    Args:
        size: Size that the caller wants; 0: any.
        token: Token of the page; empty: the first.

    Raises:
        RefusedError: The token is none, or the size negative.
    """
    token = token or "0"
    if not (token.isascii() and token.isdecimal() and len(token) <= len(str(len(items)))):
        raise bad_request("page_token", "must be that of an answer, or unset")
    if size < 0:
        raise bad_request("page_size", "must not be negative")
    start = int(token)
    end = start + min(size or MAX_PAGE_SIZE, MAX_PAGE_SIZE)
    return items[start:end], str(end) if end < len(items) else ""


class Languages:
    """The languages of models, by Google's codes."""

    def __init__(self, models: Iterable[Model]) -> None:
        """List the languages.

        Args:
            models: Models that the caller may use.
        """
        listed = list(models)
        pairs = targets_by_source(listed)
        self.sources = _spelled(pairs)
        self.targets = _spelled(code for targets in pairs.values() for code in targets)
        self.pivoted_targets = {
            spelling: sorted(_spelled(targets))
            for source, targets in pivoted_targets(listed).items()
            for spelling in _spelled([source])
        }
        """Targets that two models translate a source into, by the source."""

    @property
    def all(self) -> list[str]:
        """All codes, in order."""
        return sorted(self.sources | self.targets)


def display_names(codes: Iterable[str], language: str, *, field: str) -> dict[str, str]:
    """Return the names of languages, as the Unicode CLDR has them.

    Args:
        codes: BCP-47 codes.

    Raises:
        RefusedError: There are no names in that language; without the extra `google` only in English.
    """
    try:
        from babel import Locale, UnknownLocaleError  # noqa: PLC0415 - only with the extra
    except ImportError:
        if language.partition("-")[0].lower() != "en":
            raise bad_request(field, "must be en: the gateway lacks the extra google for other names") from None
        return {code: name_of(code) for code in codes}

    def locale(code: str) -> Locale | None:
        try:
            return Locale.parse(code, sep="-") if 0 < len(code) <= _MAX_CODE_CHARACTERS else None
        except (UnknownLocaleError, ValueError):
            return None

    naming = locale(language)
    if naming is None:
        raise bad_request(field, "must be the BCP-47 code of a language that has names for others, such as en")
    return {code: ((named := locale(code)) and named.get_display_name(naming)) or code for code in codes}


def google_code(code: str) -> str:
    """Return Google's code of a language, such as "zh-CN" for "zh".

    Args:
        code: Code of the server.
    """
    return _SPELLINGS.get(code, (code,))[0]


def _spelled(codes: Iterable[str]) -> set[str]:
    return {spelling for code in codes for spelling in (code, *_SPELLINGS.get(code, ()))}


def _location(parent: str) -> str:
    return parent if "/locations/" in parent else f"{parent}/locations/global"
