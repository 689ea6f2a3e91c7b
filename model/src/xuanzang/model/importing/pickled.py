"""Tensors of files that torch.save wrote, read without torch and without running anything that the files hold.

A pickle is a program for a stack machine. This one knows the instructions of a table of tensors alone, and calls no
function: a tensor stays the name of torch's function with its arguments, and its values are a part of the file. Both
containers of torch.save are read: the zip archive, and the sequence of pickles of versions before 1.6.
"""

from __future__ import annotations

import math
import mmap
import os
import pickletools
import struct
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from xuanzang.model.network.positions import FloatArray
from xuanzang.model.stored_checkpoint import as_float32

_MAX_PICKLE_BYTES = 4 << 20
"""Limit for the pickle of a table, without the values of its tensors: a model has some thousand."""
_LEGACY_MAGIC, _LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
"""Header before each file of a zip archive; the last two numbers are the lengths of its name and of its extra field."""
_STORAGES: Mapping[str, np.dtype[Any]] = {
    "torch.DoubleStorage": np.dtype("<f8"),
    "torch.FloatStorage": np.dtype("<f4"),
    "torch.HalfStorage": np.dtype("<f2"),
    "torch.BFloat16Storage": np.dtype("<u2"),
}
_REBUILD_TENSOR, _REBUILD_PARAMETER = "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter"
_DICTIONARY = "collections.OrderedDict"
_MARK = object()
"""Item of a stack: start of the items of an instruction that takes any number."""
_NAMES = {*_STORAGES, _REBUILD_TENSOR, _REBUILD_PARAMETER, _DICTIONARY}


class PickledError(ValueError):
    """A file that is damaged; the message says where."""


class UnsafeError(PickledError):
    """A file with more than tensors of floats; the message names the first of it."""


class _Name(NamedTuple):
    """A function or class that a pickle names, which is never looked up."""

    name: str


class _Call(NamedTuple):
    """A call in a pickle, which is never made."""

    name: str
    arguments: tuple[Any, ...]


class _Storage(NamedTuple):
    """Values of one or several tensors, one after the other."""

    dtype: np.dtype[Any]
    key: str
    values: int
    """Number of values."""


def read_pickled(path: Path) -> dict[str, FloatArray]:
    """Read a table of tensors.

    Args:
        path: File that torch.save wrote; it is mapped, and may be replaced meanwhile, but not changed in place.

    Returns:
        Arrays by name, which take no memory until they are used if they are float32.

    Raises:
        UnsafeError: The file holds more than tensors of floats.
        PickledError: The file is damaged.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            table, places = _from_archive(file) if zipfile.is_zipfile(file) else _from_sequence(file)
            return _tensors(table, lambda storage: _values(storage, mapped, places))
        except PickledError:
            raise
        except (
            *(zipfile.BadZipFile, struct.error, ValueError, OverflowError, RuntimeError, NotImplementedError),
            *(KeyError, IndexError, TypeError, AttributeError, EOFError),
        ) as error:
            raise PickledError(f"it is no table of tensors: {error or type(error).__name__}") from error


def _from_archive(file: BinaryIO) -> tuple[object, dict[str, tuple[int, int]]]:
    """Return the table of an archive, and the place of each storage: its first byte, and its bytes."""
    with zipfile.ZipFile(file) as archive:
        infos = {info.filename.partition("/")[2]: info for info in archive.infolist()}
        for name, info in infos.items():
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                raise PickledError(f"{name} is compressed, which torch.save never does")
        if "byteorder" in infos and infos["byteorder"].file_size < 16 and archive.read(infos["byteorder"]) != b"little":
            raise PickledError("its numbers are big-endian")
        if infos["data.pkl"].file_size > _MAX_PICKLE_BYTES:
            raise PickledError(f"the pickle of its table has more than {_MAX_PICKLE_BYTES >> 20} MB")
        table = _Machine().run(BytesIO(archive.read(infos["data.pkl"])))
    places = dict[str, tuple[int, int]]()
    for name, info in infos.items():
        if name.startswith("data/"):
            file.seek(info.header_offset)
            *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            first = info.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
            places[name.removeprefix("data/")] = first, info.file_size
    if sum(size for _, size in places.values()) > os.fstat(file.fileno()).st_size:
        raise PickledError("its storages overlap")
    return table, places


def _from_sequence(file: BinaryIO) -> tuple[object, dict[str, tuple[int, int]]]:
    """Return the same for a file of torch before 1.6: pickles, then each storage behind its count."""
    file.seek(0)
    machine = _Machine()
    if machine.run(file) != _LEGACY_MAGIC:
        raise PickledError("it is not a file of torch.save")
    protocol, system, table, keys = (machine.run(file) for _ in range(4))
    if protocol != _LEGACY_PROTOCOL or not system["little_endian"]:
        raise PickledError("it is of another protocol, or its numbers are big-endian")
    storages, places = machine.storages, dict[str, tuple[int, int]]()
    for key in _of_type(keys, list):
        (count,) = struct.unpack("<q", file.read(8))
        size = count * storages[_of_type(key, str)].dtype.itemsize
        if not 0 <= size <= os.fstat(file.fileno()).st_size:
            raise PickledError(f"storage {key} has {count} values, more than the file")
        places[key] = file.tell(), size
        file.seek(places[key][1], 1)
    return table, places


def _values(storage: _Storage, mapped: mmap.mmap, places: Mapping[str, tuple[int, int]]) -> FloatArray:
    first, size = places[storage.key]
    wanted = storage.values * storage.dtype.itemsize
    if size != wanted or not 0 <= first <= first + size <= len(mapped):
        raise PickledError(f"storage {storage.key} has not the {wanted} bytes of its tensors")
    return as_float32(np.frombuffer(mapped, storage.dtype, storage.values, first))


def _tensors(table: object, values: Callable[[_Storage], FloatArray]) -> dict[str, FloatArray]:
    if not isinstance(table, dict) or not all(isinstance(name, str) for name in table):
        raise PickledError("it is no table of tensors")
    read, arrays = dict[str, FloatArray](), dict[str, FloatArray]()
    for name, call in table.items():
        while isinstance(call, _Call) and call.name == _REBUILD_PARAMETER:
            call = call.arguments[0]  # noqa: PLW2901 - a parameter is a tensor with a flag
        if not isinstance(call, _Call) or call.name != _REBUILD_TENSOR:
            raise UnsafeError(f"{name} is no tensor")
        storage, offset, shape, strides, *others = call.arguments
        if any(others[2:]):  # such as a lazy change of the sign
            raise UnsafeError(f"{name} is a tensor with {str(others[2])[:80]}")
        if storage.key not in read:
            read[storage.key] = values(storage)
        arrays[name] = _view(name, read[storage.key], offset, shape, strides)
    return arrays


def _view(name: str, values: FloatArray, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> FloatArray:
    """Return the part of a storage that a tensor is."""
    numbers = (offset, *shape, *strides)
    if len(shape) != len(strides) or any(type(number) is not int or number < 0 for number in numbers):
        raise PickledError(f"{name} has a shape or strides that are none")
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if 0 in shape:
        return np.empty(shape, np.float32)
    if max(last, math.prod(shape) - 1) >= values.size:
        raise PickledError(f"{name} reaches beyond its storage")
    steps = tuple(stride * values.itemsize for stride in strides)
    return np.lib.stride_tricks.as_strided(values[offset:], shape, steps, writeable=False)


class _Machine:
    """Interpreter of the pickles of a file."""

    def __init__(self) -> None:
        self.storages: dict[str, _Storage] = {}
        """Storages that the pickles named, by key."""
        self._stack, self._memo = list[Any](), dict[int, Any]()
        push = self._stack.append
        self._instructions: dict[str, Callable[[Any], object]] = {
            **dict.fromkeys(("PROTO", "FRAME"), lambda _: None),
            **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"), push),
            **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE"), push),
            "NONE": lambda _: push(None),
            "NEWTRUE": lambda _: push(True),
            "NEWFALSE": lambda _: push(False),
            "MARK": lambda _: push(_MARK),
            "EMPTY_DICT": lambda _: push({}),
            "EMPTY_LIST": lambda _: push([]),
            "EMPTY_TUPLE": lambda _: push(()),
            "TUPLE": lambda _: push(tuple(self._marked())),
            "TUPLE1": lambda _: push(tuple(self._last(1))),
            "TUPLE2": lambda _: push(tuple(self._last(2))),
            "TUPLE3": lambda _: push(tuple(self._last(3))),
            "SETITEM": lambda _: self._set(self._last(2)),
            "SETITEMS": lambda _: self._set(self._marked()),
            "APPEND": lambda _: self._append(self._last(1)),
            "APPENDS": lambda _: self._append(self._marked()),
            **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda place: self._memo.update({place: self._stack[-1]})),
            "MEMOIZE": lambda _: self._memo.update({len(self._memo): self._stack[-1]}),
            **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda place: push(self._memo[place])),
            "GLOBAL": lambda name: push(_known(name.replace(" ", "."))),
            "STACK_GLOBAL": lambda _: push(_known(".".join(self._last(2)))),
            "REDUCE": lambda _: push(self._call(*self._last(2))),
            # Attributes of the table, such as versions of its modules.
            "BUILD": lambda _: self._last(1),
            "BINPERSID": lambda _: push(self._storage(*self._last(1))),
        }

    def run(self, file: BinaryIO) -> Any:
        """Run the pickle that begins at the place of a file, and return its value.

        Raises:
            UnsafeError: It has an instruction or a name that no table of tensors needs.
            PickledError: It is damaged.
        """
        self._stack.clear()
        self._memo.clear()
        first, pickled = file.tell(), BytesIO(file.read(_MAX_PICKLE_BYTES))
        for instruction, argument, _ in pickletools.genops(pickled):
            if instruction.name == "STOP":
                file.seek(first + pickled.tell())
                return self._stack.pop()
            if instruction.name not in self._instructions:
                raise UnsafeError(f"it has the instruction {instruction.name}")
            self._instructions[instruction.name](argument)
        raise PickledError("its pickle has no end")

    def _last(self, count: int) -> list[Any]:
        """Take the last items."""
        items = [self._stack.pop() for _ in range(count)]
        return items[::-1]

    def _marked(self) -> list[Any]:
        """Take the items since the last mark, and this."""
        items = list[Any]()
        while (item := self._stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _set(self, items: list[Any]) -> None:
        # Other keys would have to be hashed, and nested ones overflow the stack of C.
        names = [_of_type(name, str) for name in items[::2]]
        _of_type(self._stack[-1], dict).update(zip(names, items[1::2], strict=True))

    def _append(self, items: list[Any]) -> None:
        _of_type(self._stack[-1], list).extend(items)

    def _call(self, function: _Name, arguments: tuple[Any, ...]) -> dict[Any, Any] | _Call:
        name = _of_type(function, _Name).name
        call = _Call(name, _of_type(arguments, tuple))
        if name != _DICTIONARY:
            return call
        if call.arguments:
            raise UnsafeError(f"it makes a {_DICTIONARY} of arguments")
        return {}

    def _storage(self, parts: tuple[Any, ...]) -> _Storage:
        kind, storage_type, key, _device, count, *view = _of_type(parts, tuple)
        name = _of_type(storage_type, _Name).name
        if (
            kind != "storage"
            or name not in _STORAGES
            or any(part is not None for part in view)
            or _of_type(count, int) < 0
        ):
            raise PickledError("a storage is not as torch.save describes it")
        storage = _Storage(_STORAGES[name], _of_type(key, str), count)
        if self.storages.setdefault(key, storage) != storage:
            raise PickledError(f"storage {key} has two types")
        return storage


def _known(name: str) -> _Name:
    if name not in _NAMES:
        raise UnsafeError(f"it names {name[:80]!r}")
    return _Name(name)


def _of_type(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise PickledError(f"its pickle has {type(value).__name__} in place of {kind.__name__}")
    return value
