"""Files of torch.save, read without torch; torch.load is the oracle."""

from __future__ import annotations

import collections
import copy
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from xuanzang.model.importing.pickled import PickledError, UnsafeError, read_pickled

CONTAINERS = pytest.mark.parametrize("zipped", [True, False], ids=["archive", "sequence"])


def a_state() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    table = torch.randn(7, 4, generator=generator)
    return {
        "float32": table,
        "tied": table,
        "float64": table.double(),
        "float16": table.half(),
        "bfloat16": table.bfloat16(),
        "transposed": table.T,
        "part": table[2:5, 1:3],
        "parameter": nn.Parameter(table + 1),
        "scalar": torch.tensor(0.5),
        "empty": torch.zeros(0, 3),
    }


def save(value: object, path: Path, *, zipped: bool = True) -> Path:
    torch.save(value, path, _use_new_zipfile_serialization=zipped)
    return path


@CONTAINERS
def test_tensors_of_all_floats_and_views_are_those_of_torch(tmp_path: Path, zipped: bool) -> None:
    path = save(a_state(), tmp_path / "state.bin", zipped=zipped)
    expected, found = torch.load(path, weights_only=True), read_pickled(path)
    assert list(found) == list(expected)
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name].detach().float().numpy(), strict=True)


@CONTAINERS
def test_the_state_of_a_module_is_read_with_its_metadata(tmp_path: Path, zipped: bool) -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    found = read_pickled(save(module.state_dict(), tmp_path / "state.bin", zipped=zipped))
    assert found.keys() == module.state_dict().keys()


class _Reduced:
    def __init__(self, *parts: object) -> None:
        self.parts = parts

    def __reduce__(self) -> tuple[object, ...]:
        return self.parts


@CONTAINERS
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"x": torch.arange(3)}, "it names 'torch.LongStorage'"),
        ({"x": np.ones(3)}, "it names 'numpy"),
        ({"x": nn.Linear(2, 2)}, "it names 'torch.nn"),
        ({"x": collections.Counter("ab")}, "it names 'collections.Counter'"),
        ({"x": torch.ones(2).to_sparse()}, "it names 'torch._utils._rebuild_sparse_tensor'"),
        ({"x": _Reduced(eval, ("1 + 1",))}, "eval'"),
        ({"x": 3}, "x is no tensor"),
        ({"x": {"y": torch.ones(2)}}, "x is no tensor"),
        ([torch.ones(2)], "no table of tensors"),
    ],
    ids=["integers", "numpy", "module", "counter", "sparse", "code", "number", "nested", "list"],
)
def test_more_than_a_table_of_floats_is_refused_by_name(
    tmp_path: Path, zipped: bool, value: object, reason: str
) -> None:
    with pytest.raises(PickledError, match=reason):
        read_pickled(save(value, tmp_path / "state.bin", zipped=zipped))


@pytest.mark.parametrize("protocol", range(5))
def test_a_plain_pickle_is_no_file_of_torch(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "plain").write_bytes(pickle.dumps({"x": [1.5, "text"]}, protocol=protocol))
    with pytest.raises(PickledError):
        read_pickled(tmp_path / "plain")


def test_a_compressed_archive_cannot_expand(tmp_path: Path) -> None:
    path = save({"x": torch.zeros(1 << 20)}, tmp_path / "state.bin")
    with zipfile.ZipFile(path) as plain, zipfile.ZipFile(tmp_path / "small", "w", zipfile.ZIP_DEFLATED) as small:
        for info in plain.infolist():
            small.writestr(info.filename, plain.read(info))
    with pytest.raises(PickledError, match="is compressed"):
        read_pickled(tmp_path / "small")


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def _number(number: int) -> bytes:
    return b"J" + struct.pack("<i", number)


def _tensor(*, kind: str = "Float", key: str = "0", values: int = 4, others: bytes = b"") -> bytes:
    """Return the pickle of a tensor of one value at the start of a storage."""
    parts = _text("storage"), b"ctorch\n" + kind.encode() + b"Storage\n", _text(key), _text("cpu"), _number(values)
    storage, one = b"(" + b"".join(parts) + b"tQ", b"(" + _number(1) + b"t"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + _number(0) + one + one + b"\x89}" + others + b"tR"


def _table(**tensors: bytes) -> bytes:
    return b"\x80\x02}" + b"".join(_text(name) + tensor + b"s" for name, tensor in tensors.items()) + b"."


@pytest.mark.parametrize(
    ("pickled", "reason"),
    [
        (b"\x80\x02})" + b"\x85" * 200_000 + b"Ns.", "tuple in place of str"),
        (_table(x=_tensor(), y=_tensor(kind="Half", values=8)), "storage 0 has two types"),
        (_table(x=_tensor(others=b"}" + _text("neg") + b"\x88s")), "x is a tensor with {'neg': True}"),
        (b"\x80\x02ccollections\nOrderedDict\n(]tR.", "OrderedDict of arguments"),
        (b"\x80\x04\x8d" + struct.pack("<Q", 1 << 40) + b".", "1099511627776 bytes"),
    ],
    ids=["nested-key", "two-types", "negative", "arguments", "long-text"],
)
def test_a_hostile_table_is_refused(tmp_path: Path, pickled: bytes, reason: str) -> None:
    with zipfile.ZipFile(tmp_path / "hostile", "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        archive.writestr("a/data/0", bytes(16))
    with pytest.raises(PickledError, match=reason):
        read_pickled(tmp_path / "hostile")


def test_storages_that_overlap_cannot_take_the_memory_of_many(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "small", "w") as archive:
        tensors = {f"x{key}": _tensor(kind="Half", key=str(key), values=1024) for key in range(9)}
        archive.writestr("a/data.pkl", _table(**tensors))
        archive.writestr("a/data/0", bytes(2048))
        for key in range(1, 9):
            archive.filelist.append(copy.copy(archive.infolist()[-1]))
            archive.filelist[-1].filename = archive.filelist[-1].orig_filename = f"a/data/{key}"
    with pytest.raises(PickledError, match="its storages overlap"):
        read_pickled(tmp_path / "small")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compressed_table_is_refused_without_expanding_it(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "small", "w", method) as archive:
        archive.writestr("a/data.pkl", bytes(1 << 20))
    with pytest.raises(PickledError, match="is compressed"):
        read_pickled(tmp_path / "small")


def test_a_tensor_is_never_larger_than_its_values(tmp_path: Path) -> None:
    with pytest.raises(PickledError, match="x reaches beyond its storage"):
        read_pickled(save({"x": torch.zeros(1).expand(1 << 40)}, tmp_path / "state.bin"))


@CONTAINERS
@given(changes=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4)), min_size=1, max_size=3))
def test_a_changed_file_is_read_or_refused_as_damaged(
    tmp_path_factory: pytest.TempPathFactory, zipped: bool, changes: list[tuple[float, bytes]]
) -> None:
    path = save({"x": torch.ones(3, 2), "y": torch.zeros(2)}, tmp_path_factory.mktemp("f") / "state", zipped=zipped)
    content = bytearray(path.read_bytes())
    for share, value in changes:
        place = int(share * len(content))
        content[place : place + len(value)] = value
    path.write_bytes(content)
    try:
        arrays = read_pickled(path)
    except PickledError:
        return
    assert sum(array.size for array in arrays.values()) <= len(content)


def test_code_is_named_and_never_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with pytest.raises(UnsafeError, match=r"it names '(posix|nt)\.mkdir'"):
        read_pickled(save({"x": _Reduced(__import__("os").mkdir, (str(ran),))}, tmp_path / "state.bin"))
    assert not ran.exists()
