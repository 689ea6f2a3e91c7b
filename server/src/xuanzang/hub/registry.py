"""Firefox Translations' models as Mozilla's two registries list them: records of Remote Settings, and models.json.

Both say which files a model has and where they lie. Nothing that a registry says becomes a path on this machine.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Annotated, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from xuanzang.server.published import EVERY_PAIR, STUDENT_PREFIX, HubError

RECORDS_URL = "https://firefox.settings.services.mozilla.com/v1/buckets/main/collections/translations-models-v2/records"
ATTACHMENTS_URL = "https://firefox-settings-attachments.cdn.mozilla.net/"
MODELS_URL = "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data/db/models.json"
"""The other registry: it has scores, and a digest of models alone."""
LICENCE = (
    "MPL-2.0 by the archived repository (https://github.com/mozilla/firefox-translations-models); "
    "the registry states none"
)
"""As a bundle and its server state it."""

_PAIR = re.compile(r"([A-Za-z]{2,3}(?:-[A-Za-z]{4})?)-([A-Za-z]{2,3}(?:-[A-Za-z]{4})?)")
_ARCHITECTURES = ("tiny", "base-memory", "base")
_MAX_BYTES = 1 << 30
_FILE_NAMES = {
    "model": "model.bin",
    "vocab": "vocab.spm",
    "srcvocab": "srcvocab.spm",
    "trgvocab": "trgvocab.spm",
    "lex": "lex.bin",
}
"""Names on this machine, by the kind of file."""
_KINDS_IN_MODELS = {
    "model": "model",
    "vocab": "vocab",
    "srcVocab": "srcvocab",
    "trgVocab": "trgvocab",
    "lexicalShortlist": "lex",
}

_Text = Annotated[str, Field(pattern=r"^[ -~]{0,256}$")]
_Language = Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})?$")]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Size = Annotated[int, Field(ge=1, le=_MAX_BYTES)]
# Relative, and without a segment that begins with a dot.
_Location = Annotated[str, Field(max_length=512, pattern=r"^[A-Za-z0-9_-][\w.+-]*(/[A-Za-z0-9_-][\w.+-]*)*$")]
_Version = Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,6}){0,3}[a-z]?[0-9]{0,6}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Addresses of a registry and of its files."""

    records: str = RECORDS_URL
    """Address of the answer of Remote Settings, or of a models.json."""
    attachments: str = ""
    """Address of the files; empty: the registry's, or Mozilla's."""

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Addresses:
        """Return the addresses that XUANZANG_RECORDS_URL and XUANZANG_ATTACHMENTS_URL name, or Mozilla's."""
        return cls(
            records=environment.get("XUANZANG_RECORDS_URL") or RECORDS_URL,
            attachments=environment.get("XUANZANG_ATTACHMENTS_URL") or "",
        )


class LanguagePair(NamedTuple):
    """Requested languages of a model, such as "zh" and "en"."""

    source: str
    target: str

    @classmethod
    def of_name(cls, name: str) -> LanguagePair:
        """Return the pair of a name such as "firefox:zh-en"; raise HubError if it has none."""
        match = _PAIR.fullmatch(name.removeprefix(STUDENT_PREFIX))
        if not match:
            raise HubError(f"{name[:80]!r} names no pair of languages, as {STUDENT_PREFIX}zh-en does")
        return cls(*match.groups())


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryFile:
    """A file of a model, and what its registry knows of it."""

    name: str
    """Name on this machine, such as "model.bin"."""
    location: str
    """Path below the address of the files."""
    size: int | None = None
    """Bytes of the sent form; None if the registry does not say."""
    sha256: str | None = None
    """Digest of the sent form, in lower-case hexadecimal."""
    content_size: int | None = None
    """Bytes after decompression."""
    content_sha256: str | None = None
    """Digest after decompression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryModel:
    """A model as a registry lists it."""

    source_language: str
    """As the registry writes it, such as "zh-Hans"."""
    target_language: str
    architecture: str
    version: str = ""
    """Such as "3.0"; empty where a registry numbers no versions."""
    files: Sequence[RegistryFile]
    scores: Mapping[str, float] = field(default_factory=dict)
    """By metric, on FLORES-200-plus, as the registry has them."""

    @property
    def name(self) -> str:
        """The pair that it is asked for by, such as "firefox:zh-en"."""
        return f"{STUDENT_PREFIX}{'-'.join(self.languages)}"

    @property
    def languages(self) -> LanguagePair:
        """The pair as a bundle offers it, such as "zh" and "en"."""
        return LanguagePair(_short(self.source_language), _short(self.target_language))

    @property
    def revision(self) -> str:
        """Version and the first digits of the digest of its weights."""
        digest = next((file.content_sha256 for file in self.files if file.name == _FILE_NAMES["model"]), None)
        return "-".join(filter(None, (self.version, (digest or "")[:12])))

    @property
    def sent_size(self) -> int:
        """Bytes to download, as far as the registry says; the files are sent compressed."""
        return sum(file.size or file.content_size or 0 for file in self.files)

    @property
    def content_size(self) -> int:
        """Bytes of all files, as far as the registry says."""
        return sum(file.content_size or 0 for file in self.files)

    def translates(self, pair: LanguagePair) -> bool:
        """Return whether it is for a pair of languages; "zh" means "zh-Hans" as well."""
        return _means(pair.source, self.source_language) and _means(pair.target, self.target_language)


def _short(language: str) -> str:
    return language.removesuffix("-Hans")


def _means(wanted: str, language: str) -> bool:
    return wanted.lower() in (language.lower(), _short(language).lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """Models that a registry has released, for any device."""

    models: Sequence[RegistryModel]
    """One or more for each pair."""
    files_address: str
    """Address that the registry says its files lie below; empty if it says none."""
    unread: int = 0
    """Number of its entries that are of unknown form."""

    def of_name(self, name: str) -> list[RegistryModel]:
        """Return the models of a pair, or of all for "firefox:" and "firefox:all"; raise HubError if there is none."""
        pair = None if name in (STUDENT_PREFIX, EVERY_PAIR) else LanguagePair.of_name(name)
        found = [model for model in self.models if pair is None or model.translates(pair)]
        if not found:
            instead = self._instead(pair) if pair else ""
            raise HubError(f"Firefox Translations has no model {name}{instead}{self._unread()}")
        return sorted(found, key=lambda model: (model.languages, _version_key(model.version)))

    def names(self) -> list[str]:
        """Return the names of all pairs, such as "firefox:zh-en"."""
        return sorted({model.name for model in self.models})

    def newest(self, name: str) -> RegistryModel:
        """Return the newest model of a pair, of these the largest.

        Args:
            name: Name that it is asked for by, such as "firefox:zh-en".

        Raises:
            HubError: There is none, or none that can be imported.
        """
        LanguagePair.of_name(name)
        model = max(self.of_name(name), key=lambda each: (_version_key(each.version), each.content_size))
        if model.architecture not in _ARCHITECTURES:
            known = ", ".join(_ARCHITECTURES)
            raise HubError(
                f"{name} is of the architecture {model.architecture!r}, none of those that can be imported: {known}"
            )
        names = [file.name for file in model.files]
        kinds = [kind for kind, file in _FILE_NAMES.items() if file in names]
        if "model" not in kinds or not ("vocab" in kinds or {"srcvocab", "trgvocab"} <= {*kinds}):
            has = ", ".join(kinds) or "none"
            raise HubError(f"the registry lists only a part of the files of {name}: {has}{self._unread()}")
        if len(set(names)) < len(names):
            raise HubError(f"the registry lists several files of one kind for {name} {model.version}")
        return model

    def _unread(self) -> str:
        return f"; {self.unread} entries of the registry are of unknown form" if self.unread else ""

    def _instead(self, pair: LanguagePair) -> str:
        """Say which models there are for each side of a pair."""
        near = sorted(
            {
                model.name
                for model in self.models
                if _means(pair.source, model.source_language) or _means(pair.target, model.target_language)
            }
        )
        return f"; it has {', '.join(near[:8])}" + (" and others" if len(near) > 8 else "") if near else ""


class _Attachment(BaseModel):
    hash: _Digest
    size: _Size
    location: _Location


class _Record(BaseModel, alias_generator=to_camel):
    file_type: Literal["model", "vocab", "srcvocab", "trgvocab", "lex"]
    source_language: _Language
    target_language: _Language
    architecture: _Text
    version: _Version
    decompressed_hash: _Digest
    decompressed_size: _Size
    filter_expression: Annotated[str, Field(max_length=4096, alias="filter_expression")] = ""
    attachment: _Attachment

    @property
    def is_released(self) -> bool:
        """False for trial versions, and for other devices."""
        return self.version.startswith("3.") and "a" not in self.version and not _is_for_android(self.filter_expression)

    @property
    def model(self) -> tuple[str, str, str, str]:
        """The model that the file belongs to."""
        return self.source_language, self.target_language, self.version, self.architecture


def _is_for_android(expression: str) -> bool:
    return "== 'Android'" in expression.replace('"', "'")


class _ModelFile(BaseModel, alias_generator=to_camel):
    path: _Location
    uncompressed_size: _Size | None = None
    uncompressed_hash: _Digest | None = None


class _Model(BaseModel, alias_generator=to_camel):
    architecture: _Text
    release_status: _Text | None = None
    source_language: _Language
    target_language: _Language
    files: Annotated[dict[_Text, _ModelFile], Field(max_length=32)]
    metrics: Annotated[dict[_Text, dict[_Text, float]], Field(max_length=32)] = {}

    @property
    def is_released(self) -> bool:
        status = self.release_status or ""
        return status.startswith("Release") and "Android" not in status


class _Records(BaseModel):
    data: Annotated[list[object], Field(max_length=20_000)]


class _Models(BaseModel, alias_generator=to_camel):
    base_url: _Text
    models: Annotated[dict[_Text, list[object]], Field(max_length=10_000)]


_Entry = TypeVar("_Entry", _Record, _Model)


def parse_registry(content: bytes, address: str) -> Registry:
    """Return the models that a registry lists; entries of unknown form are counted, since registries grow.

    Args:
        content: An answer of Remote Settings, or a models.json.
        address: Its address, for messages.

    Raises:
        HubError: It is neither.
    """
    try:
        listing = TypeAdapter(_Records | _Models).validate_json(content)
    except ValidationError as error:
        raise HubError(f"{address} answers with no list of Firefox Translations' models") from error
    if isinstance(listing, _Records):
        records = _valid(_Record, listing.data)
        return Registry(models=list(_of_records(records)), files_address="", unread=len(listing.data) - len(records))
    entries = [entry for several in listing.models.values() for entry in several]
    models = _valid(_Model, entries)
    return Registry(
        models=[_of_model(model) for model in models if model.is_released],
        files_address=listing.base_url,
        unread=len(entries) - len(models),
    )


def _valid(form: type[_Entry], entries: Iterable[object]) -> list[_Entry]:
    valid = []
    for entry in entries:
        with contextlib.suppress(ValidationError):
            valid.append(form.model_validate(entry))
    return valid


def _of_records(records: Iterable[_Record]) -> Iterator[RegistryModel]:
    released = sorted((record for record in records if record.is_released), key=lambda record: record.model)
    for (source, target, version, architecture), group in groupby(released, key=lambda record: record.model):
        yield RegistryModel(
            source_language=source,
            target_language=target,
            architecture=architecture,
            version=version,
            files=[
                RegistryFile(
                    name=_FILE_NAMES[record.file_type],
                    location=record.attachment.location,
                    size=record.attachment.size,
                    sha256=record.attachment.hash,
                    content_size=record.decompressed_size,
                    content_sha256=record.decompressed_hash,
                )
                for record in group
            ],
        )


def _of_model(model: _Model) -> RegistryModel:
    return RegistryModel(
        source_language=model.source_language,
        target_language=model.target_language,
        architecture=model.architecture,
        files=[
            RegistryFile(
                name=_FILE_NAMES[_KINDS_IN_MODELS[kind]],
                location=file.path,
                content_size=file.uncompressed_size,
                content_sha256=file.uncompressed_hash,
            )
            for kind, file in model.files.items()
            if kind in _KINDS_IN_MODELS
        ],
        scores=model.metrics.get("flores200-plus", {}),
    )


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
