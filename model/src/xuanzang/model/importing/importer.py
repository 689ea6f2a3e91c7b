"""The import of a model directory as a checkpoint."""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from xuanzang.model.data.metadata import (
    METADATA_FILE,
    SOURCE_TABLE_FILE,
    SOURCE_TOKENIZER_FILE,
    TARGET_TABLE_FILE,
    TARGET_TOKENIZER_FILE,
    UNKNOWN_PAIRS,
    PreparedMetadata,
)
from xuanzang.model.importing.directory import Directory, DirectoryError, read_config, read_directory, read_object
from xuanzang.model.importing.family import Family, Languages, Vocabularies, Wanted
from xuanzang.model.importing.marian import MARIAN
from xuanzang.model.importing.multilingual import M2M_100, MBART
from xuanzang.model.importing.tokenizer_json import TOKENIZER_JSON, write_sentencepiece
from xuanzang.model.importing.weights import network_config, network_weights, read_weights
from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.network.positions import FloatArray
from xuanzang.model.stored_checkpoint import ORIGIN_FILE, write_checkpoint
from xuanzang.model.tokenizer import write_table

# By name: the value that transformers take where no file has one, what a bundle does, and which option makes it equal.
_DEFAULTS: dict[str, tuple[object, object, str]] = {
    "num_beams": (1, 4, "xuanzang export --beam-size {}, or beam_size of a request"),
    "early_stopping": (False, True, "xuanzang export --stopping none-better"),
    "length_penalty": (1.0, 1.0, "xuanzang export --length-penalty {}, or length_penalty of a request"),
    "min_length": (0, 1, "min_target_length={} of a request"),
    "max_length": (20, "2 × source tokens + 20", "max_target_length={} of a request"),
    "no_repeat_ngram_size": (0, 0, "no_repeat_ngram_size={} of a request"),
    "repetition_penalty": (1.0, 1.0, "repetition_penalty={} of a request"),
    "do_sample": (False, False, "sampling of a request"),
}
logger = logging.getLogger(__name__)
_FAMILIES: dict[object, Family] = {"marian": MARIAN, "m2m_100": M2M_100, "mbart": MBART}
_REASONS = {
    "FSMTForConditionalGeneration": "Its tokeniser is Moses with byte-pair merges; bundles hold SentencePiece models"
}
"""Reasons that architectures people may ask for are not read."""
PULLED_FILE = "pulled.json"
"""Facts that `xuanzang pull` has about the files: "name", "licence", "revision", and "files", SHA-256 by name."""
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_EVERYTHING = Wanted()


def different_defaults(directory: Directory) -> Iterator[str]:
    """Name the defaults of transformers that differ from a bundle's.

    Returns:
        One sentence for each, with the option that makes them equal.
    """
    searches = directory.generation_setting("num_beams") not in (None, 1)
    for name, (usual, ours, option) in _DEFAULTS.items():
        value = directory.generation_setting(name)
        value = usual if value is None else value
        if value != ours and (name != "early_stopping" or searches):
            yield f"{name} is {value} in transformers, {ours} here; equal by {option.format(value)}"


class _Model(NamedTuple):
    """Parts of a checkpoint."""

    config: TransformerConfig
    weights: dict[str, FloatArray]
    vocabularies: Vocabularies
    languages: Languages


def import_model(folder: Path, output: Path, wanted: Wanted = _EVERYTHING) -> Languages:
    """Write a checkpoint that translates as a model directory does.

    Args:
        folder: Directory in the layout of Hugging Face's models, of the family that its config.json names.
        output: Checkpoint to write; must not exist yet.

    Returns:
        Languages of the checkpoint.

    Raises:
        DirectoryError: The directory cannot be imported; nothing is written.
    """
    faults = [f"{output} exists"] if output.exists() else []
    if wanted.punctuation == "moses" and not find_spec("sacremoses"):
        faults.append("--punctuation moses needs sacremoses: install xuanzang-model[moses]")
    with tempfile.TemporaryDirectory() as remade, tempfile.TemporaryDirectory() as tokenizers:
        family, directory = _read(folder, Path(remade))
        model = _read_model(directory, family, wanted, faults)
        if faults or not model:
            raise DirectoryError(folder, faults)
        _write_tokenizers(Path(tokenizers), directory, model, wanted)
        write_checkpoint(output, model.weights, model.config, Path(tokenizers), _origin(directory))
    for note in different_defaults(directory):
        logger.warning("%s", note)
    return model.languages


def _read(folder: Path, remade: Path) -> tuple[Family, Directory]:
    """Read the small files.

    Args:
        remade: Folder for what the directory lacks and another of its files can be turned into.
    """
    config = read_config(folder)
    family = _family(folder, config)
    tokenizer = read_object(folder / "tokenizer_config.json", [], optional=True)
    layout = family.layout(folder, tokenizer)
    models = tuple(folder / name for name in layout.models)
    if len(models) == 1 and not models[0].exists() and (folder / TOKENIZER_JSON).exists():
        models = (remade / models[0].name,)
        write_sentencepiece(folder / TOKENIZER_JSON, models[0])
    return family, read_directory(folder, config, layout, models)


def _family(folder: Path, config: dict[str, Any]) -> Family:
    """Return the family of a model.

    Raises:
        DirectoryError: Its family is not supported.
    """
    architectures = config.get("architectures")
    names = {family.architecture: family for family in _FAMILIES.values()}
    if not architectures and (family := _FAMILIES.get(str(config.get("model_type", "marian")))):
        return family
    if isinstance(architectures, list) and len(architectures) == 1 and (family := names.get(str(architectures[0]))):
        return family
    listed = ", ".join(sorted(names))
    shown = ", ".join(map(str, architectures)) if isinstance(architectures, list) else config.get("model_type")
    reason = f". {_REASONS[shown]}" if shown in _REASONS else ""
    raise DirectoryError(folder, [f"config.json: the architecture is {shown}, none of {listed}{reason}"])


def _read_model(directory: Directory, family: Family, wanted: Wanted, faults: list[str]) -> _Model | None:
    vocabularies, languages = family.read_text(directory, faults, wanted)
    config = network_config(directory, family, vocabularies.unk_id, faults)
    if config and (banned := {*languages.target_ids.values()}.intersection(config.banned_ids)):
        faults.append(f"unsupported: bad_words_ids has {min(banned)}, with which translations begin")
    tensors = read_weights(directory.weights, faults)
    if config is None or tensors is None:
        return None
    found = network_weights(
        tensors,
        config,
        faults,
        # Only of Marian are there models that share none.
        shared=bool(directory.config.get("share_encoder_decoder_embeddings", True)),
        tied=bool(directory.config.get("tie_word_embeddings", True)),
        renormalized=bool(directory.generation_setting("renormalize_logits")),
    )
    return _Model(*found, vocabularies, languages)


def _write_tokenizers(folder: Path, directory: Directory, model: _Model, wanted: Wanted) -> None:
    metadata = _metadata(directory, model, wanted)
    (folder / METADATA_FILE).write_text(metadata.model_dump_json(indent=2) + "\n", encoding="utf-8")
    shutil.copyfile(directory.models[0], folder / SOURCE_TOKENIZER_FILE)
    shutil.copyfile(directory.models[-1], folder / TARGET_TOKENIZER_FILE)
    write_table(folder / SOURCE_TABLE_FILE, model.vocabularies.source)
    write_table(folder / TARGET_TABLE_FILE, model.vocabularies.target)
    if directory.readme.text:
        (folder / ORIGIN_FILE).write_text(directory.readme.text + "\n", encoding="utf-8")


def _metadata(directory: Directory, model: _Model, wanted: Wanted) -> PreparedMetadata:
    """Return a description of data that others have prepared."""
    languages, config = model.languages, model.config
    return PreparedMetadata(
        source_language=languages.sources[0],
        target_language=languages.targets[0],
        source_normalization="moses" if wanted.punctuation == "moses" else "none",
        share_vocabulary=len(directory.models) == 1,
        source_vocab_size=config.source_vocab_size,
        target_vocab_size=config.target_vocab_size,
        other_source_languages=languages.sources[1:],
        language_prefix_ids=languages.prefix_ids,
        source_language_ids=dict(languages.source_ids),
        source_language_place=languages.source_place,
        target_language_ids=dict(languages.target_ids),
        silent_ids=list(model.vocabularies.silent_ids),
        forces_end=directory.generation_setting("forced_eos_token_id") == config.eos_id,
        **UNKNOWN_PAIRS,
    )


def _origin(directory: Directory) -> dict[str, Any]:
    """Return what the checkpoint says of its training."""
    name = directory.config.get("_name_or_path") or ""
    shown = name if _HUB_NAME.fullmatch(name) else directory.folder.resolve().name
    pulled = read_object(directory.folder / PULLED_FILE, [], optional=True)
    facts: dict[str, Any] = {"name": shown, "licence": directory.readme.licence, "revision": "", "files": {}}
    return {"step": 0, "imported": facts | {name: pulled[name] for name in facts if pulled.get(name)}}
