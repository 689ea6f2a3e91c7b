"""Binary files of Marian, read without trust: the items of a model, and a lexical shortlist.

A model is little-endian: u64 version 1, u64 count; per item four u64, namely length of the name with its NUL, type,
number of dimensions, bytes of data; the names; the shapes in i32; a u64 count of zero bytes; the data.

Source: marian-dev, src/common/binary.cpp and src/data/shortlist.h. The layout gives the size of each of the 137 models
of mozilla/firefox-translations-models to the byte.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_FILE_BYTES = 1 << 30
_MAX_ITEMS = 4096
_MAX_NAME_BYTES = 256
_MAX_DIMENSIONS = 4
_BLOCK = 256
"""Bytes that data of an item are padded to a multiple of."""
_INT8, _FLOAT32, _INTGEMM8 = 0x0101, 0x0404, 0x4101
_TYPES: Final[Mapping[int, str]] = MappingProxyType({_INT8: "int8", _FLOAT32: "float32", _INTGEMM8: "intgemm8"})
_TEXT = "special:model.yml"
_SHORTLIST_MAGIC = 0xF11A48D5013417F5


class MalformedFileError(Exception):
    """A file that is not what its name says; the message says where it departs from the format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """Parameter of a model."""

    array: NDArray[np.float32] | NDArray[np.int8]
    """[in, out]; a bias or norm [1, out]; an embedding [vocab, model]. Read-only, not always contiguous."""
    scale: float | None = None
    """Multiplier of quantisation of an int8 array, which stands for array / scale; None for float32."""
    activation_scale: float | None = None
    """Multiplier of quantisation of the array's input; None if the file has none."""

    @property
    def floats(self) -> NDArray[np.float32]:
        """The values in single precision, of the same shape."""
        values = self.array.astype(np.float32)
        return values if self.scale is None else values * np.float32(1 / np.float32(self.scale))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortlist:
    """Target pieces that may translate each source piece.

    A translation chooses among the ids below `first`, the entries of each of its source pieces, and the source pieces
    themselves.
    """

    first: int
    offsets: NDArray[np.int64]
    """[source vocab + 1]: entries of piece i are `entries[offsets[i] : offsets[i + 1]]`."""
    entries: NDArray[np.int32]
    """[entry], target ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    name: str
    kind: int
    shape: tuple[int, ...]
    data: memoryview


class _Header(NamedTuple):
    name_length: int
    kind: int
    dimensions: int
    size: int
    """Bytes of data, padding included."""


class _Cursor:
    """Reading position in a file."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self.place = 0

    def bytes_(self, count: int, what: str) -> memoryview:
        if count > len(self.data) - self.place:
            raise MalformedFileError(
                f"{what}: {count} bytes from byte {self.place} on, and the file ends at {len(self.data)}"
            )
        self.place += count
        return self.data[self.place - count : self.place]

    def numbers(self, form: str, what: str) -> tuple[int, ...]:
        return struct.unpack(f"<{form}", self.bytes_(struct.calcsize(f"<{form}"), what))


def read_items(data: bytes) -> tuple[str, dict[str, Tensor]]:
    """Return the text `special:model.yml` of a model and its tensors by name.

    Raises:
        MalformedFileError: The bytes are no model of Marian's, or of a type that students do not have.
    """
    texts: list[str] = []
    tensors: dict[str, Tensor] = {}
    for item in _items(data):
        if item.name in tensors or (item.name == _TEXT and texts):
            raise MalformedFileError(f"the item {item.name} is there twice")
        if item.name == _TEXT:
            texts.append(_text(item))
        else:
            tensors[item.name] = _tensor(item)
    if not texts:
        raise MalformedFileError(f"the file has no {_TEXT}, which says what network its tensors are of")
    return texts[0], _with_activation_scales(tensors)


def _items(data: bytes) -> Iterator[_Item]:
    cursor = _Cursor(data)
    version, count = cursor.numbers("2Q", "version and count of items")
    if version != 1:
        raise MalformedFileError(f"version {version} of the format, not 1: this is no model of Marian's in binary form")
    if not 1 <= count <= _MAX_ITEMS:
        raise MalformedFileError(f"{count} items, outside 1 to {_MAX_ITEMS}")
    headers = [_Header(*cursor.numbers("4Q", f"header {number}")) for number in range(count)]
    names = [_name(cursor, header, number) for number, header in enumerate(headers)]
    shapes = [
        cursor.numbers(f"{header.dimensions}i", f"shape of {name}") for name, header in zip(names, headers, strict=True)
    ]
    (gap,) = cursor.numbers("Q", "count of zero bytes")
    if gap > _BLOCK or any(cursor.bytes_(gap, "zero bytes")):
        raise MalformedFileError(f"{gap} bytes before the data, which must be at most {_BLOCK}, all of them zero")
    for name, shape, header in zip(names, shapes, headers, strict=True):
        if min(shape) < 1:
            raise MalformedFileError(f"{name}: shape {list(shape)} has a dimension below 1")
        yield _Item(name=name, kind=header.kind, shape=shape, data=cursor.bytes_(header.size, f"data of {name}"))
    if cursor.place != len(data):
        raise MalformedFileError(f"{len(data) - cursor.place} bytes follow the last item")


def _name(cursor: _Cursor, header: _Header, number: int) -> str:
    """Read the name of an item, and check that the rest of its header can be of one."""
    if not 2 <= header.name_length <= _MAX_NAME_BYTES:
        raise MalformedFileError(
            f"header {number}: a name of {header.name_length} bytes, outside 2 to {_MAX_NAME_BYTES}"
        )
    *letters, end = cursor.bytes_(header.name_length, f"name {number}")
    if end or not all(0x20 < letter < 0x7F for letter in letters):
        raise MalformedFileError(f"name {number}: not printable ASCII with a NUL at its end")
    name = bytes(letters).decode()
    if header.kind not in _TYPES:
        known = ", ".join(f"{kind} ({code:#06x})" for code, kind in _TYPES.items())
        raise MalformedFileError(f"{name}: type {header.kind:#06x}, none of {known}")
    if not 1 <= header.dimensions <= _MAX_DIMENSIONS:
        raise MalformedFileError(f"{name}: {header.dimensions} dimensions, outside 1 to {_MAX_DIMENSIONS}")
    return name


def _text(item: _Item) -> str:
    if item.kind != _INT8:
        raise MalformedFileError(f"{item.name}: type {_TYPES[item.kind]}, not int8")
    try:
        return bytes(item.data).rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise MalformedFileError(f"{item.name}: not UTF-8 at byte {error.start}") from error


def _tensor(item: _Item) -> Tensor:
    elements = math.prod(item.shape)
    needed = {_INT8: -1, _FLOAT32: 4 * elements, _INTGEMM8: elements + 4}[item.kind]
    if item.kind == _INT8:
        raise MalformedFileError(f"{item.name}: type int8, which only {_TEXT} has")
    if len(item.data) not in (needed, -(-needed // _BLOCK) * _BLOCK):
        have = len(item.data)
        raise MalformedFileError(f"{item.name}: {have} bytes of data; shape {list(item.shape)} takes {needed}")
    if item.kind == _FLOAT32:
        array = np.frombuffer(item.data, "<f4", elements)
        if not np.isfinite(array).all():
            raise MalformedFileError(f"{item.name}: not all of its numbers are finite")
        return Tensor(array=array.reshape(item.shape))
    values = np.frombuffer(item.data, "i1", elements)
    scale = _positive(struct.unpack_from("<f", item.data, elements)[0], f"multiplier of {item.name}")
    if "Wemb" in item.name:
        return Tensor(array=values.reshape(item.shape), scale=scale)
    # The shape is that of the matrix, the values are those of the transposed one.
    return Tensor(array=values.reshape(item.shape[::-1]).T, scale=scale)


def _positive(value: float, what: str) -> float:
    if not 0 < value < math.inf:
        raise MalformedFileError(f"{what}: {value}, not a finite number above 0")
    return value


def _with_activation_scales(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors, each with its activations' multiplier."""
    suffix = "_QuantMultA"
    scales = {}
    for name, tensor in tensors.items():
        if name.endswith(suffix):
            if tensor.array.size != 1:
                raise MalformedFileError(f"{name}: shape {list(tensor.array.shape)}, not one number")
            scales[name.removesuffix(suffix)] = _positive(float(tensor.floats.item()), name)
    return {
        name: Tensor(array=tensor.array, scale=tensor.scale, activation_scale=scales.get(name))
        for name, tensor in tensors.items()
        if not name.endswith(suffix)
    }


def read_shortlist(data: bytes, source_size: int, target_size: int) -> Shortlist:
    """Return a shortlist `lex.*.bin`.

    Six u64, namely magic, checksum, first, best, number of offsets, number of entries; u64 offsets; u32 entries.

    Args:
        source_size: Pieces of the source vocabulary.
        target_size: Pieces of the target vocabulary.

    Raises:
        MalformedFileError: The bytes are no such file, or it is not for these vocabularies.
    """
    cursor = _Cursor(data)
    magic, _, first, _, offset_count, entry_count = cursor.numbers("6Q", "head")
    if magic != _SHORTLIST_MAGIC:
        raise MalformedFileError("not a shortlist of Marian's in binary form")
    if offset_count != source_size + 1:
        raise MalformedFileError(f"a shortlist for {offset_count - 1} source pieces; the vocabulary has {source_size}")
    if len(data) != 48 + 8 * offset_count + 4 * entry_count:
        raise MalformedFileError(f"{offset_count} offsets and {entry_count} entries do not fill {len(data)} bytes")
    offsets = np.frombuffer(data, "<u8", offset_count, 48)
    entries = np.frombuffer(data, "<u4", entry_count, 48 + 8 * offset_count)
    if offsets[0] != 0 or offsets[-1] != entry_count or (offsets[1:] < offsets[:-1]).any():
        raise MalformedFileError(f"its offsets do not rise from 0 to the number of entries, {entry_count}")
    if first > target_size or (entry_count and entries.max() >= target_size):
        raise MalformedFileError(f"it names target pieces beyond the vocabulary's {target_size}")
    return Shortlist(first=first, offsets=offsets.astype(np.int64), entries=entries.astype(np.int32))
