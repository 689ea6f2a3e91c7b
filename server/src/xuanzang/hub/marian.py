"""Students of Firefox Translations in Marian's files: configuration, tensors, vocabularies, shortlist, checked.

A student is a Transformer with a decoder of simpler simple recurrent units (Kim et al. 2019, "From Research to
Production and Back", WNGT, D19-5632). Any other network is refused by the option that differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, Self

import sentencepiece
import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from xuanzang.hub.marian_items import (
    MAX_FILE_BYTES,
    MalformedFileError,
    Shortlist,
    Tensor,
    read_items,
    read_shortlist,
)
from xuanzang.server.published import HubError

__all__ = ["Network", "Origin", "Shortlist", "Student", "StudentFiles", "Tensor", "read_student"]

_MAX_CONFIG_CHARACTERS = 65_536

_Size = Annotated[int, Field(ge=1, le=512_000)]
_Width = Annotated[int, Field(ge=2, le=16_384, multiple_of=2)]
_Depth = Annotated[int, Field(ge=1, le=48)]
_Shape = tuple[int, int]


class Network(BaseModel, frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-")):
    """Options of `special:model.yml` that make a network a student; defaults may be left out."""

    type: Literal["transformer"]
    dec_cell: Literal["ssru"]
    transformer_decoder_autoreg: Literal["rnn"]
    transformer_postprocess: Literal["dan"]
    transformer_postprocess_emb: Literal["d"]
    transformer_ffn_activation: Literal["relu"]
    transformer_ffn_depth: Literal[2]
    transformer_preprocess: Literal[""] = ""
    transformer_postprocess_top: Literal[""] = ""
    transformer_tied_layers: Annotated[list[int], Field(max_length=0)] = []
    transformer_train_position_embeddings: Literal[False] = False
    transformer_no_projection: Literal[False] = False
    layer_normalization: Literal[False] = False
    right_left: Literal[False] = False
    output_omit_bias: Literal[False] = False
    dim_emb: _Width
    transformer_dim_ffn: _Width
    transformer_heads: Annotated[int, Field(ge=1, le=256)]
    enc_depth: _Depth
    dec_depth: _Depth
    dim_vocabs: Annotated[list[_Size], Field(min_length=2, max_length=2)]
    tied_embeddings_all: bool
    """True: one table, `Wemb`, embeds both sides. False: `encoder_Wemb` and `decoder_Wemb`."""
    tied_embeddings: bool = False
    """True: the table of the target side is the output layer as well."""

    @model_validator(mode="after")
    def _require_sizes_that_agree(self) -> Self:
        if self.dim_emb % self.transformer_heads:
            raise ValueError(f"dim-emb {self.dim_emb} is no multiple of transformer-heads {self.transformer_heads}")
        if not (self.tied_embeddings_all or self.tied_embeddings):
            raise ValueError("tied-embeddings and tied-embeddings-all are false: the output layer has its own table")
        if self.tied_embeddings_all and self.dim_vocabs[0] != self.dim_vocabs[1]:
            raise ValueError(f"tied-embeddings-all is true, and dim-vocabs has two sizes, {self.dim_vocabs}")
        return self

    def tables(self) -> dict[str, _Shape]:
        """Return the names and shapes of the embeddings, the target side's last."""
        names = ["Wemb"] if self.tied_embeddings_all else ["encoder_Wemb", "decoder_Wemb"]
        return {name: (size, self.dim_emb) for name, size in zip(names, self.dim_vocabs, strict=False)}

    def matrices(self) -> dict[str, _Shape]:
        """Return the names and shapes, [in, out], of all tensors that may be int8, the tables excepted."""
        d, inner = self.dim_emb, self.transformer_dim_ffn
        attention = {f"W{each}": (d, d) for each in "qkvo"}
        feed_forward = {"W1": (d, inner), "W2": (inner, d)}
        return self._by_layer(attention, feed_forward, {"W": (d, d), "Wf": (d, d)})

    def vectors(self) -> dict[str, _Shape]:
        """Return the names and shapes, [1, out], of biases and of what norms scale and shift by."""
        d, inner = self.dim_emb, self.transformer_dim_ffn
        norm = {"ln_scale": (1, d), "ln_bias": (1, d)}
        over_ffn = {f"ffn_{name}": shape for name, shape in norm.items()}
        attention = {f"b{each}": (1, d) for each in "qkvo"} | {f"Wo_{name}": shape for name, shape in norm.items()}
        feed_forward = {"b1": (1, inner), "b2": (1, d)} | over_ffn
        layers = self._by_layer(attention, feed_forward, {"bf": (1, d)} | over_ffn)
        return layers | {"decoder_ff_logit_out_b": (1, self.dim_vocabs[1])}

    def _by_layer(
        self, attention: Mapping[str, _Shape], feed_forward: Mapping[str, _Shape], unit: Mapping[str, _Shape]
    ) -> dict[str, _Shape]:
        sides = (
            ("encoder", self.enc_depth, {"self": attention, "ffn": feed_forward}),
            ("decoder", self.dec_depth, {"rnn": unit, "context": attention, "ffn": feed_forward}),
        )
        return {
            f"{side}_l{layer}_{part}_{name}": shape
            for side, depth, parts in sides
            for layer in range(1, depth + 1)
            for part, parameters in parts.items()
            for name, shape in parameters.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Origin of a student, for its bundle."""

    name: str
    """As it was asked for, such as "firefox:zh-en", or the name of its folder."""
    revision: str = ""
    """Version of the model where it was published; empty for a folder."""
    licence: str = ""
    """A line on its licence; empty if nothing is known."""
    architecture: str = ""
    """As the registry names it, such as "base-memory"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Student:
    """A model of Firefox Translations, with every tensor that its configuration asks for and no other."""

    config: Mapping[str, object]
    """`special:model.yml`, parsed."""
    network: Network
    """The options of it that make the network."""
    tensors: Mapping[str, Tensor]
    """By Marian's names, without `_QuantMultA`."""
    source_vocabulary: bytes
    """Model of SentencePiece."""
    target_vocabulary: bytes
    """The same bytes as the source's if both sides share it."""
    shortlist: Shortlist | None = None
    """Only where both sides share their vocabulary: elsewhere it costs quality (mozilla/translations#1068)."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each file that was read, by its name."""
    origin: Origin

    @property
    def shares_vocabulary(self) -> bool:
        """True if both sides have the same vocabulary."""
        return self.source_vocabulary == self.target_vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentFiles:
    """Files of a student."""

    model: Path
    source_vocabulary: Path
    target_vocabulary: Path
    shortlist: Path | None = None

    @classmethod
    def of_folder(cls, folder: Path) -> StudentFiles:
        """Find the files by the names that Mozilla gives them; raise HubError if one is missing or not the only one."""
        shared = _matching(folder, "vocab*.spm")
        sides = [shared] if shared else [_matching(folder, f"{side}vocab*.spm") for side in ("src", "trg")]
        files = {
            "model*.bin": _matching(folder, "model*.bin"),
            **dict(zip(["vocab*.spm"] if shared else ["srcvocab*.spm", "trgvocab*.spm"], sides, strict=True)),
        }
        if missing := [pattern for pattern, found in files.items() if not found]:
            raise HubError(f"{folder} has no {' and no '.join(missing)}, which a student of Firefox Translations has")
        shortlists = _matching(folder, "lex*.bin")
        for found in (*files.values(), shortlists):
            if len(found) > 1:
                names = ", ".join(path.name for path in found)
                raise HubError(f"{folder} has several files of one kind, of which a student has one: {names}")
        return cls(
            model=files["model*.bin"][0],
            source_vocabulary=sides[0][0],
            target_vocabulary=sides[-1][0],
            shortlist=shortlists[0] if shortlists else None,
        )


def _matching(folder: Path, pattern: str) -> list[Path]:
    return sorted(path for path in folder.glob(pattern) if path.is_file())


def read_student(files: Path | StudentFiles, origin: Origin | None = None) -> Student:
    """Read a student and check that it is whole.

    Args:
        files: The files, or a folder that has them by Mozilla's names.
        origin: Where it comes from; None: from the folder.

    Raises:
        HubError: A file is missing, damaged or of another network; the message names it and says how.
        OSError: A file cannot be read.
    """
    if isinstance(files, Path):
        origin = origin or Origin(name=files.resolve().name)
        files = StudentFiles.of_folder(files)
    paths = (files.model, files.source_vocabulary, files.target_vocabulary)
    contents = {path: _read(path) for path in dict.fromkeys(paths)}
    with _Named(files.model):
        text, tensors = read_items(contents[files.model])
        config = _config(text)
        network = _network(config)
        _require_tensors(network, tensors)
    source, target = (contents[path] for path in paths[1:])
    for path, size in zip(paths[1:], network.dim_vocabs, strict=True):
        with _Named(path):
            _require_vocabulary(contents[path], size)
    shortlist = None
    if files.shortlist and source == target:
        contents[files.shortlist] = _read(files.shortlist)
        with _Named(files.shortlist):
            shortlist = read_shortlist(contents[files.shortlist], *network.dim_vocabs)
    return Student(
        config=MappingProxyType(config),
        network=network,
        tensors=MappingProxyType(tensors),
        source_vocabulary=source,
        target_vocabulary=target,
        shortlist=shortlist,
        digests={path.name: hashlib.sha256(data).hexdigest() for path, data in contents.items()},
        origin=origin or Origin(name=files.model.resolve().parent.name),
    )


class _Named:
    """Names the file of a MalformedFileError within the block."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, MalformedFileError):
            raise HubError(f"{self._path.name} cannot be imported: {error}") from error


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise HubError(f"{path.name} has more than {MAX_FILE_BYTES} bytes, the most that is read of a file")
    return data


def _config(text: str) -> dict[str, object]:
    if len(text) > _MAX_CONFIG_CHARACTERS:
        raise MalformedFileError(f"its configuration has {len(text)} characters, more than {_MAX_CONFIG_CHARACTERS}")
    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise MalformedFileError("its configuration is not YAML") from error
    if not isinstance(config, dict):
        raise MalformedFileError("its configuration is not a mapping of options")
    return config


def _network(config: Mapping[str, object]) -> Network:
    """Return the options of a student; MalformedFileError names the options of another network."""
    try:
        return Network.model_validate(config)
    except ValidationError as error:
        faults = [
            " ".join(filter(None, (".".join(map(str, each["loc"])), _shown(each["input"], each["type"]), each["msg"])))
            for each in error.errors(include_url=False)
        ]
        raise MalformedFileError(f"its network is none that can be imported: {'; '.join(faults)}") from error


def _shown(value: object, kind: str) -> str:
    return f"is {value!r:.80}:" if kind not in ("missing", "value_error") else ""


def _require_tensors(network: Network, tensors: Mapping[str, Tensor]) -> None:
    """Raise MalformedFileError unless the tensors are those of the network."""
    tables, matrices, vectors = network.tables(), network.matrices(), network.vectors()
    shapes = tables | matrices | vectors
    faults = [f"{name} belongs to no part of the network" for name in tensors if name not in shapes]
    for name, shape in shapes.items():
        tensor = tensors.get(name)
        if tensor is None:
            faults.append(f"{name} is missing")
        elif tensor.array.shape != shape:
            faults.append(f"{name} has shape {list(tensor.array.shape)}, not {list(shape)}")
        elif tensor.scale is not None and name in vectors:
            faults.append(f"{name} is int8, which only matrices are")
    if faults:
        more = f"; and {len(faults) - 5} more faults" if len(faults) > 5 else ""
        raise MalformedFileError(f"{'; '.join(faults[:5])}{more}")


def _require_vocabulary(data: bytes, size: int) -> None:
    """Raise MalformedFileError unless the bytes are a model of SentencePiece of a size, as students have it."""
    if not data:
        raise MalformedFileError("the file is empty")
    try:
        pieces = sentencepiece.SentencePieceProcessor(model_proto=data)
    except (RuntimeError, ValueError) as error:
        raise MalformedFileError("not a model of SentencePiece") from error
    if pieces.get_piece_size() != size:
        raise MalformedFileError(f"{pieces.get_piece_size()} pieces; the model's dim-vocabs says {size}")
    if (pieces.eos_id(), pieces.unk_id()) != (0, 1):
        raise MalformedFileError(f"eos and unk are {pieces.eos_id()} and {pieces.unk_id()}, not 0 and 1")
