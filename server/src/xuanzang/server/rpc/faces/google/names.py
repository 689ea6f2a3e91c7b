"""Names of resources in the API of Google Cloud Translation: projects, locations, models, glossaries, entries."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError

MAX_NAME_CHARACTERS = 512
_DETECTOR = "language-detection/default"

_PARENT = re.compile(r"projects/[^/]+(/locations/[^/]+)?")
_MODEL = re.compile(r"(projects/[^/]+/locations/[^/]+/models/)?(?P<model>[^/]+(/[^/]+)?)")
_GLOSSARY = re.compile(r"(?P<location>projects/[^/]+/locations/[^/]+)/glossaries/(?P<name>[^/]+)")
_ENTRY = re.compile(r"(?P<glossary>projects/[^/]+/locations/[^/]+/glossaries/[^/]+)/glossaryEntries/(?P<entry>[^/]+)")
# Google's own models, of which a caller need know nothing more: the one that fits the languages answers.
_GENERAL = re.compile(r"general/.*")


def parent_violations(parent: str) -> Iterable[FieldViolation]:
    """Find what is wrong with the name of a project; which one it is does not matter.

    Args:
        parent: Name such as "projects/any" or "projects/any/locations/global".

    Yields:
        One violation at most.
    """
    if len(parent) > MAX_NAME_CHARACTERS or not _PARENT.fullmatch(parent):
        form = f"projects/PROJECT or projects/PROJECT/locations/LOCATION, of at most {MAX_NAME_CHARACTERS} characters"
        yield FieldViolation(field="parent", description=f"must be {form}")


def model_violations(model: str) -> Iterable[FieldViolation]:
    """Find what is wrong with the form of a model's name.

    Args:
        model: Name of a model, or nothing.

    Yields:
        One violation at most.
    """
    if model and (len(model) > MAX_NAME_CHARACTERS or not _MODEL.fullmatch(model)):
        form = "projects/PROJECT/locations/LOCATION/models/MODEL with general/nmt, or a served model, as MODEL"
        yield FieldViolation(field="model", description=f"must be {form}")


def detector_violations(model: str) -> Iterable[FieldViolation]:
    """Find what is wrong with the name of a model that detects languages.

    Args:
        model: Name of the model, or nothing.

    Yields:
        One violation at most.
    """
    if model and not (len(model) <= MAX_NAME_CHARACTERS and served_name(model) == _DETECTOR):
        description = f"must be unset, or end in /models/{_DETECTOR}: there is one detector"
        yield FieldViolation(field="model", description=description)


def served_name(model: str) -> str:
    """Return the name by which the server knows a model.

    Args:
        model: Name of a model in a valid form, or nothing.

    Returns:
        Such as "zh-en" or "zh-en/2"; empty for any.
    """
    match = _MODEL.fullmatch(model)
    name = match["model"] if match else ""
    return "" if _GENERAL.fullmatch(name) else name


def stored_name(resource: str, *, field: str) -> str:
    """Return the name by which the server knows a glossary.

    Args:
        resource: Name such as "projects/any/locations/global/glossaries/animals".
        field: Field that holds it.

    Raises:
        InvalidInputError: It has another form.
    """
    return _matched(_GLOSSARY, resource, field=field, form="glossaries/GLOSSARY")["name"]


def entry_name(resource: str, *, field: str) -> tuple[str, str]:
    """Return the resource of a glossary, and the id of one of its entries.

    Args:
        resource: Name such as "projects/any/locations/global/glossaries/animals/glossaryEntries/0a1b".
        field: Field that holds it.

    Raises:
        InvalidInputError: It has another form.
    """
    form = "glossaries/GLOSSARY/glossaryEntries/ENTRY"
    match = _matched(_ENTRY, resource, field=field, form=form)
    return match["glossary"], match["entry"]


def glossary_resource(parent: str, name: str) -> str:
    """Return the name that Google's API has for a glossary of the server.

    Args:
        parent: Valid name of a project, with or without location.
        name: Name of the glossary.
    """
    return f"{_location(parent)}/glossaries/{name}"


def location_of(resource: str) -> str:
    """Return the location of a glossary.

    Args:
        resource: Valid name of a glossary.
    """
    return resource.partition("/glossaries/")[0]


def _matched(pattern: re.Pattern[str], resource: str, *, field: str, form: str) -> re.Match[str]:
    match = pattern.fullmatch(resource) if len(resource) <= MAX_NAME_CHARACTERS else None
    if match is None:
        description = f"must be projects/PROJECT/locations/LOCATION/{form}"
        raise InvalidInputError([FieldViolation(field=field, description=description)])
    return match


def resource_name(parent: str, model: str) -> str:
    """Return the name that Google's API has for a served model.

    Args:
        parent: Valid name of a project, with or without location.
        model: Name and version, such as "zh-en/2".
    """
    return f"{_location(parent)}/models/{model}"


def _location(parent: str) -> str:
    return parent if "/locations/" in parent else f"{parent}/locations/global"
