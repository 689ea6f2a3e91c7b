"""Checkpoints on disk, read and written without torch: safetensors and JSON, never pickle."""

from __future__ import annotations

import dataclasses
import json
import mmap
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from xuanzang.command.folders import replacing, settled, with_usual_mode
from xuanzang.model.data.metadata import (
    METADATA_FILE,
    SOURCE_TABLE_FILE,
    SOURCE_TOKENIZER_FILE,
    TARGET_TABLE_FILE,
    TARGET_TOKENIZER_FILE,
    PreparedMetadata,
)
from xuanzang.model.network.arrays import ArrayNetwork, parameter_shapes
from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.network.positions import FloatArray
from xuanzang.model.tokenizer import TableTokenizer, Tokenizer, normalize, read_table

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
TRAINING_FILE = "training.json"
ORIGIN_FILE = "origin.md"

_FILES = (WEIGHTS_FILE, CONFIG_FILE, TRAINING_FILE, METADATA_FILE, SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE)
# Only of models that were trained elsewhere; the last is their own README.
_OTHER_FILES = (SOURCE_TABLE_FILE, TARGET_TABLE_FILE, ORIGIN_FILE)

# A model of another shape differs in hundreds of tensors.
_NAMED = 5
_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}

T = TypeVar("T")


class MappedArrays:
    """Arrays mapped from a file: untouched parts take no memory, and touched ones can be released."""

    def __init__(self, path: Path) -> None:
        """Map a file.

        Args:
            path: A safetensors file of floats. It may be replaced meanwhile, but not changed in place.

        Raises:
            SafetensorError: The file is damaged.
            OSError: The file cannot be read.
            ValueError: A tensor is of another type.
        """
        # Finds every damage of the header.
        with safe_open(path, framework="numpy"), path.open("rb") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(header_bytes))
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        header.pop("__metadata__", None)
        self.arrays = {name: self._array(name, entry, 8 + header_bytes) for name, entry in header.items()}
        """Arrays by name; a change of one stays in this process. Those of another type than float32 are copies."""

    def release(self) -> None:
        """Give back the memory of the pages that were read; arrays that were changed are as in the file again."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def _array(self, name: str, entry: dict[str, Any], first: int) -> FloatArray:
        dtype, shape = _DTYPES.get(str(entry["dtype"])), tuple(entry["shape"])
        if dtype is None:
            raise ValueError(f"{name} is of type {entry['dtype']}, not of floats")
        start, stop = entry["data_offsets"]
        count = (stop - start) // np.dtype(dtype).itemsize
        if not count:
            return np.empty(shape, np.float32)
        return as_float32(np.frombuffer(self._map, dtype, count, first + start)).reshape(shape)


def as_float32(values: npt.NDArray[Any]) -> FloatArray:
    """Return floats in single precision; 16-bit integers are the bits of bfloat16. No copy of what is float32."""
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32, copy=False)


class CheckpointError(ValueError):
    """A checkpoint that cannot be loaded; the message says which file and why."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """A model with its tokenisers and settings."""

    network: ArrayNetwork
    """Sizes and weights."""
    source_tokenizer: Tokenizer
    """Text to source ids."""
    target_tokenizer: Tokenizer
    """Target ids to text."""
    metadata: PreparedMetadata
    """Description of the data that the model was trained on."""
    training: dict[str, Any]
    """Facts of the run, such as its "step" and "settings"."""
    folder: Path
    """Folder of the checkpoint."""
    weights: MappedArrays
    """The file that the parameters lie in, if they are float32 there."""

    @property
    def config(self) -> TransformerConfig:
        """Sizes and choices of the network."""
        return self.network.config

    def source_ids(self, text: str) -> list[int]:
        """Return the ids of a sentence for the encoder: with eos, and with the ids of the languages."""
        metadata = self.metadata
        ids = self.source_tokenizer.encode(normalize(text, metadata.source_normalization, metadata.source_language))
        asked = _ids_of(metadata.language_prefix_ids, metadata.target_language)
        named = _ids_of(metadata.source_language_ids, metadata.source_language)
        return [*asked, *ids, *named] if metadata.source_language_place == "after_end" else [*asked, *named, *ids]

    @property
    def target_prefix_ids(self) -> list[int]:
        """Ids that every translation begins with: the target language's, if there is one."""
        return _ids_of(self.metadata.target_language_ids, self.metadata.target_language)

    def between(self, source_language: str = "", target_language: str = "") -> Self:
        """Return the same model for another pair of its languages.

        Args:
            source_language: BCP-47 code as the metadata spell it, or empty for the first.

        Raises:
            CheckpointError: The model has no such language.
        """
        source = _chosen("source", source_language, self.metadata.source_languages)
        target = _chosen("target", target_language, self.metadata.target_languages)
        others = [code for code in self.metadata.source_languages if code != source]
        update = {"source_language": source, "target_language": target, "other_source_languages": others}
        return dataclasses.replace(self, metadata=self.metadata.model_copy(update=update))


def _ids_of(table: Mapping[str, int], language: str) -> list[int]:
    return [table[language]] if language in table else []


def _chosen(side: str, language: str, known: Sequence[str]) -> str:
    if language and language not in known:
        raise CheckpointError(f"{side}-language is {language!r}, the model has {', '.join(sorted(known))}")
    return language or known[0]


def write_checkpoint(
    folder: Path,
    weights: Mapping[str, FloatArray],
    config: TransformerConfig,
    tokenizer_folder: Path,
    training: Mapping[str, Any],
) -> None:
    """Write a checkpoint; see `write_files`.

    Args:
        weights: Parameters by name.

    Raises:
        CheckpointError: A weight is infinite or not a number; the old checkpoint stays.
    """

    def save(path: Path) -> None:
        require_finite(path, [name for name, array in weights.items() if not np.isfinite(array).all()])
        arrays = {name: np.ascontiguousarray(array) for name, array in weights.items()}
        with_usual_mode(path, lambda file: save_file(arrays, file))

    write_files(folder, save, config, tokenizer_folder, training)


def write_files(
    folder: Path,
    save: Callable[[Path], None],
    config: TransformerConfig,
    tokenizer_folder: Path,
    training: Mapping[str, Any],
) -> None:
    """Write a checkpoint; a reader sees the old one or the new one, never half of one.

    Args:
        folder: Folder to write or replace.
        save: Writes the file of the weights.
        tokenizer_folder: Folder of the tokenisers and metadata.json: prepared data, or a checkpoint.
    """
    with replacing(folder, marker=TRAINING_FILE) as scratch:
        save(scratch / WEIGHTS_FILE)
        _write_json(scratch / CONFIG_FILE, dataclasses.asdict(config))
        _write_json(scratch / TRAINING_FILE, training)
        for name in (METADATA_FILE, SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE):
            shutil.copyfile(tokenizer_folder / name, scratch / name)
        for name in _OTHER_FILES:
            if (tokenizer_folder / name).is_file():
                shutil.copyfile(tokenizer_folder / name, scratch / name)


def require_finite(path: Path, faulty: Sequence[str]) -> None:
    """Raise CheckpointError if values of some tensors are infinite or not a number.

    Args:
        path: File to name.
        faulty: Names of these tensors.
    """
    if faulty:
        raise CheckpointError(f"{path}: {_few(faulty)} has values that are infinite or not a number")


def _few(items: Sequence[str]) -> str:
    """Return a few of many names or faults, and how many more there are."""
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return "; ".join(sorted(items)[:_NAMED]) + more


def require_shapes(path: Path, found: Mapping[str, Sequence[int]], shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise CheckpointError if tensors are not those expected; some are named.

    Args:
        path: File to name.
        found: Shapes in the file, by name.
        shapes: Expected shapes, by name.
    """
    faults = [f"missing {name}" for name in shapes.keys() - found.keys()]
    faults += [f"unexpected {name}" for name in found.keys() - shapes.keys()]
    faults += [
        f"{name} has shape {list(found[name])}, expected {list(shapes[name])}"
        for name in shapes.keys() & found.keys()
        if tuple(shapes[name]) != tuple(found[name])
    ]
    if faults:
        raise CheckpointError(f"{path} does not fit the model: {_few(faults)}")


def load_config(folder: Path) -> TransformerConfig:
    """Read the shape of a checkpoint.

    Raises:
        CheckpointError: It is missing or damaged.
    """
    return _parsed(settled(folder) / CONFIG_FILE, lambda text: TransformerConfig(**json.loads(text)))


def origin_of(folder: Path) -> dict[str, Any]:
    """Return what a model that is trained further from a checkpoint inherits.

    Its "name", "licence" and "revision", and "defaults", those of requests where they are known.

    Raises:
        CheckpointError: The facts of its training are missing or damaged.
    """
    training = _parsed(settled(folder) / TRAINING_FILE, json.loads)
    inherited = training.get("imported") or training.get("parent") or {}
    name = inherited.get("name") or training.get("bundle") or folder.resolve().name
    facts = {"name": name, "licence": inherited.get("licence", ""), "revision": inherited.get("revision", "")}
    return facts | {"defaults": inherited_defaults(training)}


def inherited_defaults(training: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of requests that a model has from the bundle that its weights began as, by flag of export."""
    parent = training.get("parent") or {}
    return dict(training.get("defaults") or parent.get("defaults") or {})


def read_checkpoint(folder: Path) -> StoredCheckpoint:
    """Read a checkpoint.

    Raises:
        CheckpointError: Anything is missing, damaged or does not fit.
    """
    folder = settled(folder)
    if missing := [name for name in _FILES if not (folder / name).is_file()]:
        raise CheckpointError(f"{folder}: missing {', '.join(missing)}")
    config = load_config(folder)
    metadata = _parsed(folder / METADATA_FILE, PreparedMetadata.model_validate_json)
    source_tokenizer, target_tokenizer = _load_tokenizers(folder, config, metadata.silent_ids)
    weights = _map_weights(folder / WEIGHTS_FILE, config)
    return StoredCheckpoint(
        network=ArrayNetwork(config, weights.arrays),
        weights=weights,
        source_tokenizer=source_tokenizer,
        target_tokenizer=target_tokenizer,
        metadata=metadata,
        training=_parsed(folder / TRAINING_FILE, json.loads),
        folder=folder,
    )


def _map_weights(path: Path, config: TransformerConfig) -> MappedArrays:
    try:
        weights = MappedArrays(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    require_shapes(path, {name: array.shape for name, array in weights.arrays.items()}, parameter_shapes(config))
    return weights


def _parsed(path: Path, parse: Callable[[str], T]) -> T:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _load_tokenizers(folder: Path, config: TransformerConfig, silent_ids: Sequence[int]) -> list[Tokenizer]:
    tokenizers = []
    for name, table_name, vocab_size in (
        (SOURCE_TOKENIZER_FILE, SOURCE_TABLE_FILE, config.source_vocab_size),
        (TARGET_TOKENIZER_FILE, TARGET_TABLE_FILE, config.target_vocab_size),
    ):
        try:
            tokenizer = _load_tokenizer(folder / name, folder / table_name, config, silent_ids)
        except (OSError, ValueError) as error:
            raise CheckpointError(str(error)) from error
        if len(tokenizer) != vocab_size:
            raise CheckpointError(f"{folder / name}: has {len(tokenizer)} pieces, the model {vocab_size}")
        tokenizers.append(tokenizer)
    return tokenizers


def _load_tokenizer(path: Path, table: Path, config: TransformerConfig, silent_ids: Sequence[int]) -> Tokenizer:
    if not table.is_file():
        return Tokenizer(path)
    return TableTokenizer(
        path,
        read_table(table),
        unk_id=config.unk_id,
        eos_id=config.eos_id,
        pad_id=config.pad_id,
        silent_ids=silent_ids,
    )


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
