"""Trained models on disk: safetensors and JSON, never pickle."""

from __future__ import annotations

import dataclasses
import json
import mmap
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from xuanzang.command.folders import replacing, settled, with_usual_mode
from xuanzang.model.data.metadata import (
    METADATA_FILE,
    SOURCE_TABLE_FILE,
    SOURCE_TOKENIZER_FILE,
    TARGET_TABLE_FILE,
    TARGET_TOKENIZER_FILE,
    PreparedMetadata,
)
from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.network.positions import PositionalEncoding
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.tokenizer import TableTokenizer, Tokenizer, normalize, read_table

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class MappedTensors:
    """Tensors mapped from a file: untouched parts take no memory, and touched ones can be released."""

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
        with safe_open(path, framework="pt"), path.open("rb") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(header_bytes))
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        header.pop("__metadata__", None)
        self.tensors = {name: self._tensor(name, entry, 8 + header_bytes) for name, entry in header.items()}
        """Tensors by name; a change of one stays in this process."""

    def release(self) -> None:
        """Give back the memory of the pages that were read; tensors that were changed are as in the file again."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def _tensor(self, name: str, entry: dict[str, object], first: int) -> Tensor:
        dtype, shape = _DTYPES.get(str(entry["dtype"])), torch.Size(entry["shape"])  # type: ignore[arg-type]
        if dtype is None:
            raise ValueError(f"{name} is of type {entry['dtype']}, not of floats")
        if not shape.numel():
            return torch.empty(shape, dtype=dtype)
        offset = first + entry["data_offsets"][0]  # type: ignore[index]
        return torch.frombuffer(self._map, dtype=dtype, count=shape.numel(), offset=offset).view(shape)


WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
TRAINING_FILE = "training.json"
ORIGIN_FILE = "origin.md"

_FILES = (WEIGHTS_FILE, CONFIG_FILE, TRAINING_FILE, METADATA_FILE, SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE)
# Only of models that were trained elsewhere; the last is their own README.
_OTHER_FILES = (SOURCE_TABLE_FILE, TARGET_TABLE_FILE, ORIGIN_FILE)

# A model of another shape differs in hundreds of tensors.
_NAMED = 5

T = TypeVar("T")


class CheckpointError(ValueError):
    """A checkpoint that cannot be loaded; the message says which file and why."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A model with its tokenisers and settings."""

    model: Transformer
    """In evaluation mode, float32."""
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
    weights: MappedTensors
    """The file that the model's parameters lie in, if they are float32 there."""

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

    def between(self, source_language: str = "", target_language: str = "") -> Checkpoint:
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


def save_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name; no two may share memory, as those of `named_parameters` never do.

    Raises:
        CheckpointError: A value is infinite or not a number; nothing is written.
    """
    _require_finite(path, tensors)
    values = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    with_usual_mode(path, lambda file: save_file(values, file))


def read_tensors(path: Path, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Read a file that must hold exactly the tensors asked for, in any float type.

    Args:
        shapes: Expected shapes by tensor name.

    Returns:
        Tensors by name, on the CPU.

    Raises:
        CheckpointError: The file is damaged, has missing, unexpected or misshapen tensors, or values that are infinite
            or not a number; some tensors are named.
    """
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    _require_shapes(path, tensors, shapes)
    _require_finite(path, tensors)
    return tensors


def non_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the tensors with a value that is infinite or not a number."""
    return [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]


def _require_finite(path: Path, tensors: Mapping[str, Tensor]) -> None:
    if names := non_finite(tensors):
        raise CheckpointError(f"{path}: {_few(names)} has values that are infinite or not a number")


def _few(items: Sequence[str]) -> str:
    """Return a few of many names or faults, and how many more there are."""
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return "; ".join(sorted(items)[:_NAMED]) + more


def _require_shapes(path: Path, tensors: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]) -> None:
    faults = [f"missing {name}" for name in shapes.keys() - tensors.keys()]
    faults += [f"unexpected {name}" for name in tensors.keys() - shapes.keys()]
    faults += [
        f"{name} has shape {list(tensors[name].shape)}, expected {list(shapes[name])}"
        for name in shapes.keys() & tensors.keys()
        if shapes[name] != tensors[name].shape
    ]
    if faults:
        raise CheckpointError(f"{path} does not fit the model: {_few(faults)}")


@torch.no_grad()
def load_weights(model: nn.Module, path: Path) -> None:
    """Fill a model from a file of any float type.

    Raises:
        CheckpointError: The file is damaged or of another shape; see `read_tensors`.
    """
    parameters = dict(model.named_parameters())
    tensors = read_tensors(path, {name: parameter.shape for name, parameter in parameters.items()})
    for name, parameter in parameters.items():
        parameter.copy_(tensors[name])


def save_checkpoint(
    folder: Path,
    weights: Mapping[str, Tensor],
    config: TransformerConfig,
    tokenizer_folder: Path,
    training: Mapping[str, Any],
) -> None:
    """Write a checkpoint; a reader sees the old one or the new one, never half of one.

    Args:
        folder: Folder to write or replace.
        tokenizer_folder: Folder of the tokenisers and metadata.json: prepared data, or a checkpoint.

    Raises:
        CheckpointError: A weight is infinite or not a number; the old checkpoint stays.
    """
    with replacing(folder, marker=TRAINING_FILE) as scratch:
        save_weights(scratch / WEIGHTS_FILE, weights)
        _write_json(scratch / CONFIG_FILE, dataclasses.asdict(config))
        _write_json(scratch / TRAINING_FILE, training)
        for name in (METADATA_FILE, SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE):
            shutil.copyfile(tokenizer_folder / name, scratch / name)
        for name in _OTHER_FILES:
            if (tokenizer_folder / name).is_file():
                shutil.copyfile(tokenizer_folder / name, scratch / name)


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


def load_checkpoint(folder: Path) -> Checkpoint:
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
    weights = _map_weights(folder / WEIGHTS_FILE)
    return Checkpoint(
        model=_model_of(config, weights, folder / WEIGHTS_FILE),
        weights=weights,
        source_tokenizer=source_tokenizer,
        target_tokenizer=target_tokenizer,
        metadata=metadata,
        training=_parsed(folder / TRAINING_FILE, json.loads),
        folder=folder,
    )


def _map_weights(path: Path) -> MappedTensors:
    try:
        return MappedTensors(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _model_of(config: TransformerConfig, weights: MappedTensors, path: Path) -> Transformer:
    """Return a model whose parameters are those of a file, which are not copied if they are float32."""
    with torch.device("meta"):  # neither memory nor random numbers
        model = Transformer(config)
    parameters = dict(model.named_parameters())
    _require_shapes(path, weights.tensors, {name: parameter.shape for name, parameter in parameters.items()})
    found = {id(parameter): nn.Parameter(weights.tensors[name].float()) for name, parameter in parameters.items()}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            setattr(module, name, found[id(parameter)])
    if config.positions != "learned":
        model.source_positions, model.target_positions = PositionalEncoding(config), PositionalEncoding(config)
    return model.eval()


def start_from(model: Transformer, folder: Path, tokenizer_folder: Path) -> None:
    """Fill a model with the weights of a checkpoint, for further training.

    Args:
        model: Model of the same shape.
        tokenizer_folder: Folder of the tokenisers of the new training data.

    Raises:
        CheckpointError: Shape or tokenisers differ.
    """
    folder = settled(folder)
    load_weights(model, folder / WEIGHTS_FILE)
    for name in (SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE):
        if (folder / name).read_bytes() != (tokenizer_folder / name).read_bytes():
            raise CheckpointError(f"{folder / name} is not the tokeniser of {tokenizer_folder}")


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
