"""The files of a model directory."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
_INDEX = ".index.json"

_LFS = b"version https://git-lfs"
_HEADER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_LICENCE = re.compile(r"^license:[ \t]*['\"]?([^\s'\"]+)", re.MULTILINE)
_LANGUAGES = re.compile(r"^language:[ \t]*(.*(?:\n[ \t]*-[ \t]*\S+.*)*)", re.MULTILINE)


class DirectoryError(ValueError):
    """A directory that cannot be imported; the message lists everything that is missing, unexpected or unsupported."""

    def __init__(self, directory: Path, faults: list[str]) -> None:
        super().__init__(f"{directory} cannot be imported: {'; '.join(faults)}")


class Layout(NamedTuple):
    """Names of the files that a family keeps its vocabulary in."""

    models: tuple[str, ...]
    """SentencePiece models: of source and target, or of both."""
    vocabularies: tuple[str, ...]
    """Ids by piece, as JSON: of source and target, or of both; none where ids follow from the SentencePiece model."""


class Readme(NamedTuple):
    """The parts that a model card needs."""

    text: str
    """Text without the header."""
    licence: str
    """Licence that the header names, or empty."""
    languages: list[str]
    """Languages that the header names."""


class Directory(NamedTuple):
    """Contents of the small files of a directory that has the large ones as well."""

    folder: Path
    config: dict[str, Any]
    generation: dict[str, Any]
    """Settings that take precedence over `config`; may be empty."""
    tokenizer: dict[str, Any]
    """Contents of tokenizer_config.json; may be empty."""
    weights: tuple[Path, ...]
    """One file, or the parts that an index names; all of one format."""
    layout: Layout
    models: tuple[Path, ...]
    """SentencePiece models of the layout."""
    vocabularies: tuple[dict[str, int], ...]
    """Contents of the files of the layout."""
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

    def special_token(self, name: str, default: str) -> str:
        """Return a token such as "unk_token" of tokenizer_config.json, the default if that names none."""
        token = self.tokenizer.get(name) or default
        return str(token.get("content", default) if isinstance(token, dict) else token)


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json, which tells the family.

    Raises:
        DirectoryError: The folder or the file is missing or damaged.
    """
    faults: list[str] = []
    if not folder.is_dir():
        raise DirectoryError(folder, ["it is no directory"])
    config = read_object(folder / "config.json", faults)
    if faults:
        raise DirectoryError(folder, faults)
    return config


def read_directory(folder: Path, config: dict[str, Any], layout: Layout, models: tuple[Path, ...]) -> Directory:
    """Read the small files and see that the large ones are there.

    Args:
        layout: Files of the vocabulary.
        models: SentencePiece models of the layout.

    Raises:
        DirectoryError: Files are missing or damaged.
    """
    faults: list[str] = []
    tokenizer = read_object(folder / "tokenizer_config.json", faults, optional=True)
    generation = read_object(folder / "generation_config.json", faults, optional=True)
    weights = _weights(folder, faults)
    faults += _missing((*models, *weights))
    vocabularies = tuple(read_object(folder / name, faults) for name in layout.vocabularies)
    if faults:
        raise DirectoryError(folder, faults)
    return Directory(folder, config, generation, tokenizer, weights, layout, models, vocabularies, _readme(folder))


def _weights(folder: Path, faults: list[str]) -> tuple[Path, ...]:
    """Return the files of the weights: safetensors before pickles, a file of all before the parts of an index."""
    for name in (SAFETENSORS, PICKLE):
        if (folder / name).exists():
            return (folder / name,)
        if (index := folder / f"{name}{_INDEX}").exists():
            parts = read_object(index, faults).get("weight_map")
            names = sorted(set(parts.values()) if isinstance(parts, dict) else ())
            if not names or any(part != Path(str(part)).name for part in names):
                faults.append(f"{index.name} has no weight_map of files beside it")
                return ()
            return tuple(folder / part for part in names)
    faults.append(f"missing {SAFETENSORS} or {PICKLE}")
    return ()


def _missing(paths: Sequence[Path]) -> list[str]:
    faults = [f"missing {path.name}" for path in paths if not path.is_file()]
    return faults + [
        f"{path.name} is not there yet, only what Git LFS knows it by: git lfs pull"
        for path in paths
        if path.is_file() and _is_pointer(path)
    ]


def read_object(path: Path, faults: list[str], *, optional: bool = False) -> dict[str, Any]:
    """Read a file that holds a JSON object.

    Args:
        faults: List that receives faults.

    Returns:
        The object; empty if the file is missing or damaged.
    """
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


def parse_readme(text: str) -> Readme:
    """Parse a README, which may begin with the YAML header of a model hub."""
    text = text.replace("\r\n", "\n")
    header = _HEADER.match(text)
    fields = header[1] if header else ""
    licence, languages = _LICENCE.search(fields), _LANGUAGES.search(fields)
    return Readme(
        text=text[header.end() :].strip() if header else text.strip(),
        licence=licence[1] if licence else "",
        languages=re.findall(r"[\w-]*\w", languages[1]) if languages else [],
    )
