"""The library and the package around it: which kernels there are, and why there are none."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path

import onnxruntime
import pytest
from packaging.requirements import Requirement

import xuanzang.kernels
from xuanzang.kernels import find_kernels, supported_isas

USED_SLOTS = (
    *(0, 2, 3, 7, 10, 17, 22, 24, 25, 26, 27, 28, 30, 31, 36, 37, 39, 49, 51, 60, 61, 62, 65, 69, 76, 78, 90, 91, 93),
    *(94, 95, 96, 97, 99, 100, 101, 120, 130, 133, 134, 135, 136, 137, 165, 249, 274),
)
"""Functions of onnxruntime's table that the library calls."""
OUT_OF_RANGE = b"not 1.23 or a later 1.x"
CREATE_STATUS, GET_MESSAGE, RELEASE_STATUS = 0, 2, 93


class FakeOnnxruntime:
    """An onnxruntime whose table holds nothing but statuses, and counts those that are not released."""

    def __init__(self, library: Path, version: bytes | None) -> None:
        self.statuses: dict[int, bytes] = {}
        self.table = (ctypes.c_void_p * 300)()
        self.has_api = self.has_first_api = True
        self._kept: list[object] = []
        self.functions = ctypes.CDLL(str(library))
        self.functions.RegisterCustomOps.restype = ctypes.c_void_p
        self.functions.XuanzangLastFault.restype = ctypes.c_char_p
        void = ctypes.c_void_p
        for slot in USED_SLOTS:
            self.set(slot, ctypes.CFUNCTYPE(void)(lambda: self.create(1, b"refused")))
        self.set(CREATE_STATUS, ctypes.CFUNCTYPE(void, ctypes.c_int, ctypes.c_char_p)(self.create))
        self.set(RELEASE_STATUS, ctypes.CFUNCTYPE(None, void)(self.statuses.pop))
        self.set(GET_MESSAGE, ctypes.CFUNCTYPE(void, void)(self.message))
        get_api = ctypes.CFUNCTYPE(void, ctypes.c_uint32)(self.get_api)
        get_version = ctypes.CFUNCTYPE(void)(lambda: self.address(version))
        self._kept += [get_api, get_version]
        self.base = (void * 2)(*(ctypes.cast(function, void) for function in (get_api, get_version)))

    def set(self, slot: int, function: object) -> None:
        self._kept.append(function)
        self.table[slot] = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]

    def create(self, _code: int, message: bytes) -> int:
        self.statuses[len(self._kept) + 1000] = message
        self._kept.append(message)
        return len(self._kept) + 999

    def message(self, status: int) -> int | None:
        return self.address(self.statuses[status])

    def address(self, text: bytes | None) -> int | None:
        if text is None:
            return None
        self._kept.append(ctypes.create_string_buffer(text))
        return ctypes.addressof(self._kept[-1])  # type: ignore[arg-type]

    def get_api(self, version: int) -> int | None:
        has = self.has_first_api if version == 1 else self.has_api
        return ctypes.addressof(self.table) if has else None

    def register(self) -> tuple[bytes, bytes | None]:
        """Return the fault that the library keeps, and the message of the only status that is not released."""
        status = self.functions.RegisterCustomOps(None, self.base)
        message = self.statuses.pop(status) if status else None
        assert not self.statuses
        return self.functions.XuanzangLastFault(), message


@pytest.fixture
def fake(built: Path, tmp_path: Path) -> Callable[..., FakeOnnxruntime]:
    """Makes an onnxruntime with a library of its own, which has not seen the real one."""
    # A copy is another library to the loader.
    copy = Path(shutil.copy(built, tmp_path / "copy.so"))
    return lambda version=b"1.31.1": FakeOnnxruntime(copy, version)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package without a library."""
    monkeypatch.setattr(xuanzang.kernels, "_FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize("version", [b"0.30", b"1", b"", b"nonsense", None])
def test_other_versions_of_onnxruntime_are_refused(fake: Callable[..., FakeOnnxruntime], version: bytes | None) -> None:
    runtime = fake(version)
    runtime.has_api = False  # nothing of the table is used
    fault, message = runtime.register()
    assert fault == message
    assert fault.endswith(OUT_OF_RANGE)


@pytest.mark.parametrize("version", ["1.22.9", "1.23.0", "1.99", "2.0.0", "10.30"])
def test_the_library_and_its_package_declare_one_range_of_versions(
    fake: Callable[..., FakeOnnxruntime], version: str
) -> None:
    declared = [Requirement(line) for line in requires("xuanzang-kernels") or ()]
    assert {requirement.name for requirement in declared} == {"onnxruntime", "onnxruntime-gpu"}
    runtime = fake(version.encode())
    runtime.has_api = False
    fault, _ = runtime.register()
    for requirement in declared:
        assert requirement.specifier.contains(version) != fault.endswith(OUT_OF_RANGE)


def test_an_onnxruntime_without_the_interface_is_refused(fake: Callable[..., FakeOnnxruntime]) -> None:
    runtime = fake()
    runtime.has_api = False
    assert runtime.register() == (2 * (b"onnxruntime lacks version 18 of its C interface",))
    runtime.has_first_api = False
    assert runtime.register() == (b"onnxruntime lacks version 18 of its C interface", None)


@pytest.mark.parametrize("slot", USED_SLOTS)
def test_a_missing_function_is_refused(fake: Callable[..., FakeOnnxruntime], slot: int) -> None:
    runtime = fake()
    runtime.table[slot] = None
    fault, message = runtime.register()
    assert fault == b"onnxruntime's C interface lacks a function"
    assert message == (None if slot == CREATE_STATUS else fault)


def test_an_error_of_onnxruntime_is_passed_on_and_released(fake: Callable[..., FakeOnnxruntime]) -> None:
    assert fake().register() == (b"refused", b"refused")


def test_a_table_with_functions_in_other_slots_is_refused(fake: Callable[..., FakeOnnxruntime]) -> None:
    runtime = fake()
    other = ctypes.create_string_buffer(b"another function")
    runtime.set(GET_MESSAGE, ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: ctypes.addressof(other)))
    fault, _ = runtime.register()
    assert fault == b"onnxruntime's C interface does not return what it is given"


def test_the_best_instruction_set_is_chosen_unless_one_is_forced(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert supported_isas()[-1] == "generic"
    for forced, chosen in (("", supported_isas()[0]), *((isa, isa) for isa in supported_isas())):
        monkeypatch.setenv("XUANZANG_KERNELS_ISA", forced)
        assert find_kernels().isa == chosen


def test_an_unknown_instruction_set_is_refused(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XUANZANG_KERNELS_ISA", "sse9")
    assert find_kernels().reason == "isa"
    assert "generic" in find_kernels().detail
    with pytest.raises(Exception, match="XUANZANG_KERNELS_ISA"):
        onnxruntime.SessionOptions().register_custom_ops_library(str(built))


@pytest.mark.parametrize(
    ("record", "reason", "detail"),
    [
        ("no_compiler\nthere is no C++ compiler g++\n", "no_compiler", "there is no C++ compiler g++"),
        ("compile_error\nfailed\n", "compile_error", "failed"),
        (None, "not_loadable", "the library is missing from the installed package"),
    ],
)
def test_a_library_that_was_not_built_has_its_reason(
    folder: Path, record: str | None, reason: str, detail: str
) -> None:
    if record is not None:
        (folder / "not_built.txt").write_text(record)
    kernels = find_kernels()
    assert (kernels.library, kernels.isa, kernels.reason, kernels.detail) == (None, "none", reason, detail)
    assert supported_isas() == ()


def test_a_library_of_another_platform_is_not_loaded(folder: Path) -> None:
    (folder / "_operators.so").write_bytes(b"no library")
    assert find_kernels().reason == "not_loadable"
    assert "_operators.so" in find_kernels().detail


def test_a_library_with_other_structures_is_not_loaded(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Longer(xuanzang.kernels.steps.SlotStep):
        _fields_ = (("more", ctypes.c_int64),)

    assert find_kernels().library
    monkeypatch.setattr("xuanzang.kernels._STRUCTURES", (Longer, *xuanzang.kernels._STRUCTURES[1:]))
    assert find_kernels().reason == "not_loadable"
    assert "built from other sources" in find_kernels().detail


def test_a_refusal_of_onnxruntime_is_the_reason(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Options:
        def register_custom_ops_library(self, _: str) -> None:
            raise RuntimeError("refused")

    monkeypatch.setattr(onnxruntime, "SessionOptions", Options)
    kernels = find_kernels()
    assert (kernels.library, kernels.reason, kernels.detail) == (None, "onnxruntime", "refused")
