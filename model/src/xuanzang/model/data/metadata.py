"""Metadata of prepared data: languages, vocabularies, corpora, and the names of the files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.tokenizer import Normalization

METADATA_FILE = "metadata.json"
SOURCE_TOKENIZER_FILE = "source.spm"
TARGET_TOKENIZER_FILE = "target.spm"
# Only of models that were trained elsewhere, whose pieces have ids other than SentencePiece's.
SOURCE_TABLE_FILE = "source.vocab.json"
TARGET_TABLE_FILE = "target.vocab.json"

# Message about metadata of data prepared elsewhere.
UNKNOWN_PAIRS: Mapping[str, Any] = MappingProxyType(
    {"corpora": [], "weights": [], "train_pairs": 0, "valid_pairs": 0, "filter_counts": {}, "data_sha256": ""}
)


class PreparedMetadata(BaseModel):
    """Description of prepared data, kept in metadata.json next to the ids."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, extra="forbid")

    source_language: str
    """BCP-47 code."""
    target_language: str
    """BCP-47 code."""
    source_normalization: Normalization
    """Unicode form of the sources."""
    share_vocabulary: bool
    """True if both sides use one tokeniser."""
    source_vocab_size: int
    """Pieces of the source tokeniser."""
    target_vocab_size: int
    """Pieces of the target tokeniser."""
    corpora: list[str]
    """Names of the training files."""
    weights: list[float]
    """Uses of each file's pairs per epoch."""
    train_pairs: int
    """Pairs to train on."""
    valid_pairs: int
    """Pairs held out."""
    filter_counts: dict[str, int]
    """Pairs kept and dropped, by reason, before the limit on tokens."""
    data_sha256: str
    """Digest of the training ids."""
    other_source_languages: list[str] = []
    """BCP-47 codes that can be translated from in addition to source_language."""
    language_prefix_ids: dict[str, int] = {}
    """Target languages of a model that has several: the source id that stands before a sentence to ask for each, by
    BCP-47 code."""
    source_language_ids: dict[str, int] = {}
    """Source id that names the language of a sentence, by BCP-47 code; empty if nothing does."""
    source_language_place: Literal["before", "after_end"] = "before"
    """Position of the id of source_language_ids: before the sentence, or after its end token."""
    target_language_ids: dict[str, int] = {}
    """Target id that begins a translation into each language, by BCP-47 code; empty for none."""
    forces_end: bool = False
    """True if a translation at its limit ends there at no cost, as with transformers' forced_eos_token_id."""
    silent_ids: list[int] = []
    """Ids without text on either side, other than end and padding."""

    @property
    def source_languages(self) -> list[str]:
        """BCP-47 codes of all source languages, first that of the measurements."""
        return [self.source_language, *self.other_source_languages]

    @property
    def target_languages(self) -> list[str]:
        """BCP-47 codes of all target languages, first that of the measurements."""
        return list(dict.fromkeys([self.target_language, *self.language_prefix_ids, *self.target_language_ids]))


def read_metadata(folder: Path) -> PreparedMetadata:
    """Read the description of a folder that `prepare` wrote.

    Raises:
        CorpusError: The folder was not written by `prepare`.
    """
    try:
        return PreparedMetadata.model_validate_json((folder / METADATA_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CorpusError(f"{folder} holds no prepared data: {error}") from error
