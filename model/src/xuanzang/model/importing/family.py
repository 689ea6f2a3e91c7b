"""Differences between the families of models, and the result of reading one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from xuanzang.model.importing.directory import Directory, Layout
from xuanzang.model.network.config import Norm, Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Choices for an import."""

    sources: Sequence[str] = ()
    """BCP-47 codes of source languages; none takes the directory's. CODE=NAME gives a code to the
    language that the vocabulary of a model of several languages calls NAME; the others are then left out."""
    targets: Sequence[str] = ()
    """The same for the target."""
    punctuation: Literal["as-is", "moses"] = "as-is"
    """"moses" to normalise that of sources, as the training data of many of these models was; the tokenisers of
    transformers leave it unchanged."""


class Languages(NamedTuple):
    """Languages of a model."""

    sources: list[str]
    """BCP-47 codes."""
    targets: list[str]
    """BCP-47 codes; the first is what an export measures unless told otherwise."""
    prefix_ids: dict[str, int]
    """Source id that asks for each target language; empty if none does."""
    source_ids: Mapping[str, int] = MappingProxyType({})
    """Source id that names each source language; empty if none does."""
    source_place: Literal["before", "after_end"] = "before"
    """Position of that id: before the sentence, or after its end token."""
    target_ids: Mapping[str, int] = MappingProxyType({})
    """Target id that begins translations into each language; empty for none."""


class Vocabularies(NamedTuple):
    """Pieces of both sides."""

    source: list[str]
    """Pieces by id."""
    target: list[str]
    """Pieces by id."""
    unk_id: int
    """Id of pieces outside a table, on both sides."""
    silent_ids: Sequence[int] = ()
    """Ids without text, other than end and padding."""


class ReadText(Protocol):
    """Reader of the vocabularies and the languages of a family."""

    def __call__(self, directory: Directory, faults: list[str], wanted: Wanted) -> tuple[Vocabularies, Languages]:
        """Read them.

        Args:
            faults: List that receives faults.
            wanted: Languages to take over.
        """


class Family(NamedTuple):
    """A family of models: what its network is, and how its text is read."""

    architecture: str
    """Name of the class in transformers, as in config.json."""
    layout: Callable[[Path, dict[str, Any]], Layout]
    """Files of the vocabulary in a folder, whose tokenizer_config.json holds the given values."""
    read_text: ReadText
    norm: Norm
    positions: Positions
    embedding_norm: bool
    fixed: dict[str, object]
    """Settings of config.json that must have these values if they are there."""
    unsupported: tuple[str, ...]
    """Settings of generation that can be expressed neither by the network nor by the options of a request."""
