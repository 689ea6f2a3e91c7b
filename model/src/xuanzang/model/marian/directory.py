"""The files of a model directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from xuanzang.model.marian.readme import Readme, parse_readme

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
SOURCE_SPM, TARGET_SPM = "source.spm", "target.spm"
VOCAB, TARGET_VOCAB = "vocab.json", "target_vocab.json"

_ARCHITECTURE = "MarianMTModel"
_LFS = b"version https://git-lfs"


class MarianError(ValueError):
    """A directory that cannot be imported; the message lists everything that is missing, unexpected or unsupported."""

    def __init__(self, directory: Path, faults: list[str]) -> None:
        super().__init__(f"{directory} cannot be imported: {'; '.join(faults)}")


class MarianDirectory(NamedTuple):
    """Contents of the small files of a directory that has the large ones as well."""

    folder: Path
    config: dict[str, Any]
    generation: dict[str, Any]
    """Settings that take precedence over `config`; may be empty."""
    tokenizer: dict[str, Any]
    """Contents of tokenizer_config.json; may be empty."""
    weights: Path
    source_vocab: dict[str, int]
    """Ids by piece."""
    target_vocab: dict[str, int]
    """The same for the target; often the same."""
    readme: Readme

    @property
    def vocab_sizes(self) -> tuple[Any, Any]:
        """Pieces of source and target, according to `config`."""
        source = self.config.get("vocab_size")
        if self.config.get("share_encoder_decoder_embeddings", True):
            return source, source
        return source, self.config.get("decoder_vocab_size") or source

    def generation_setting(self, name: str) -> Any:
        """Return a setting of generation, None if neither file has it."""
        value = self.generation.get(name)
        return self.config.get(name) if value is None else value


def read_directory(folder: Path) -> MarianDirectory:
    """Read the small files and see that the large ones are there.

    Raises:
        MarianError: Files are missing or damaged, or are of another architecture.
    """
    faults: list[str] = []
    if not folder.is_dir():
        raise MarianError(folder, ["it is no directory"])
    config = _read_object(folder / "config.json", faults)
    if not faults and (other := _other_architecture(config)):
        raise MarianError(folder, [f"config.json: the architecture is {other}, only {_ARCHITECTURE} can be read"])
    tokenizer = _read_object(folder / "tokenizer_config.json", faults, optional=True)
    generation = _read_object(folder / "generation_config.json", faults, optional=True)
    weights = folder / (SAFETENSORS if (folder / SAFETENSORS).exists() else PICKLE)
    if not weights.is_file():
        faults.append(f"missing {SAFETENSORS} or {PICKLE}")
    faults += [f"missing {name}" for name in (SOURCE_SPM, TARGET_SPM) if not (folder / name).is_file()]
    faults += [
        f"{path.name} is not there yet, only what Git LFS knows it by: git lfs pull"
        for path in (weights, folder / SOURCE_SPM, folder / TARGET_SPM)
        if path.is_file() and _is_pointer(path)
    ]
    vocab = _read_object(folder / VOCAB, faults)
    separate = tokenizer.get("separate_vocabs") or (folder / TARGET_VOCAB).is_file()
    target_vocab = _read_object(folder / TARGET_VOCAB, faults) if separate else vocab
    if faults:
        raise MarianError(folder, faults)
    return MarianDirectory(folder, config, generation, tokenizer, weights, vocab, target_vocab, _readme(folder))


def _other_architecture(config: dict[str, Any]) -> str:
    """Return the architecture that is not Marian's, empty if it is."""
    architectures = config.get("architectures") or [_ARCHITECTURE]
    if architectures != [_ARCHITECTURE]:
        return ", ".join(map(str, architectures))
    return "" if config.get("model_type", "marian") == "marian" else str(config["model_type"])


def _read_object(path: Path, faults: list[str], *, optional: bool = False) -> dict[str, Any]:
    if not path.is_file():
        if not optional:
            faults.append(f"missing {path.name}")
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        faults.append(f"{path.name} is damaged: {error}")
        return {}
    if not isinstance(value, dict):
        faults.append(f"{path.name} is no JSON object")
        return {}
    return value


def _is_pointer(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_LFS)) == _LFS


def _readme(folder: Path) -> Readme:
    path = folder / "README.md"
    return parse_readme(path.read_text(encoding="utf-8", errors="replace") if path.is_file() else "")
