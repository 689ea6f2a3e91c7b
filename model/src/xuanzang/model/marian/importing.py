"""The import of a model directory as a checkpoint."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from xuanzang.model.checkpoint import ORIGIN_FILE, save_checkpoint
from xuanzang.model.config import TransformerConfig
from xuanzang.model.data.dataset import (
    METADATA_FILE,
    SOURCE_TABLE_FILE,
    SOURCE_TOKENIZER_FILE,
    TARGET_TABLE_FILE,
    TARGET_TOKENIZER_FILE,
    PreparedMetadata,
)
from xuanzang.model.marian.directory import SOURCE_SPM, TARGET_SPM, MarianDirectory, MarianError, read_directory
from xuanzang.model.marian.languages import Languages, find_languages
from xuanzang.model.marian.network import network_config
from xuanzang.model.marian.vocabulary import Vocabularies, read_vocabularies
from xuanzang.model.marian.weights import network_weights, read_weights
from xuanzang.model.tokenizer import write_table

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def import_marian(
    folder: Path, output: Path, *, source_languages: Sequence[str] = (), target_languages: Sequence[str] = ()
) -> Languages:
    """Write a checkpoint that translates as a model directory does.

    Args:
        folder: Directory in the layout of Hugging Face's MarianMT.
        output: Checkpoint to write; must not exist yet.
        source_languages: BCP-47 codes; none takes those that the directory names.
        target_languages: The same. CODE=NAME gives a code to the language that the vocabulary calls NAME; the others of
            a model of several languages are then left out.

    Returns:
        Languages of the checkpoint.

    Raises:
        MarianError: The directory cannot be imported; nothing is written.
    """
    directory, faults = read_directory(folder), list[str]()
    if output.exists():
        faults.append(f"{output} exists")
    tables = read_vocabularies(directory, faults)
    languages = find_languages(directory, tables.source, faults, sources=source_languages, targets=target_languages)
    network = _network(directory, tables.unk_id, faults)
    if faults or not network:
        raise MarianError(folder, faults)
    config, weights = network
    with tempfile.TemporaryDirectory() as temporary:
        _write_tokenizers(Path(temporary), directory, tables, _metadata(config, languages))
        save_checkpoint(output, weights, config, Path(temporary), {"step": 0, "imported": _origin(directory)})
    return languages


def _network(
    directory: MarianDirectory, unk_id: int, faults: list[str]
) -> tuple[TransformerConfig, dict[str, Tensor]] | None:
    config = network_config(directory, unk_id, faults)
    tensors = read_weights(directory.weights, faults)
    if config is None or tensors is None:
        return None
    return network_weights(
        tensors,
        config,
        faults,
        tied=directory.config.get("tie_word_embeddings", True),
        renormalized=bool(directory.generation_setting("renormalize_logits")),
    )


def _write_tokenizers(
    folder: Path, directory: MarianDirectory, tables: Vocabularies, metadata: PreparedMetadata
) -> None:
    (folder / METADATA_FILE).write_text(metadata.model_dump_json(indent=2) + "\n", encoding="utf-8")
    shutil.copyfile(directory.folder / SOURCE_SPM, folder / SOURCE_TOKENIZER_FILE)
    shutil.copyfile(directory.folder / TARGET_SPM, folder / TARGET_TOKENIZER_FILE)
    write_table(folder / SOURCE_TABLE_FILE, tables.source)
    write_table(folder / TARGET_TABLE_FILE, tables.target)
    if directory.readme.text:
        (folder / ORIGIN_FILE).write_text(directory.readme.text + "\n", encoding="utf-8")


def _metadata(config: TransformerConfig, languages: Languages) -> PreparedMetadata:
    """Return a description of data that others have prepared."""
    return PreparedMetadata(
        source_language=languages.sources[0],
        target_language=languages.targets[0],
        source_normalization="none",
        share_vocabulary=False,
        source_vocab_size=config.source_vocab_size,
        target_vocab_size=config.target_vocab_size,
        corpora=[],
        weights=[],
        train_pairs=0,
        valid_pairs=0,
        filter_counts={},
        data_sha256="",
        other_source_languages=languages.sources[1:],
        language_prefix_ids=languages.prefix_ids,
    )


def _origin(directory: MarianDirectory) -> dict[str, str]:
    name = directory.config.get("_name_or_path") or ""
    return {
        "name": name if _HUB_NAME.fullmatch(name) else directory.folder.resolve().name,
        "licence": directory.readme.licence,
    }
