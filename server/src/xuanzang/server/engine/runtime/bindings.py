"""Inputs and outputs of a graph in tensors that stay where they are from run to run, on a CPU or another device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnxruntime
from onnxruntime import OrtValue

from xuanzang.server.engine.arrays import Array
from xuanzang.server.engine.runtime.pages import Tensor

# Kernels of GPUs read aligned vectors.
_ALIGNMENT = 256
_PADDING = np.zeros(_ALIGNMENT, np.uint8)


class Binding:
    """Inputs and outputs of a graph in tensors that stay where they are from run to run. Belongs to one thread.

    Binding a tensor costs as much as a small operation, so only new ones are bound. An output may be the
    same tensor as an input: the graph then works in place. A device with its own memory gets the arrays of the host by
    one copy for each run.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        options: onnxruntime.RunOptions | None = None,
        *,
        staged_on: str | None = None,
    ) -> None:
        """Start with nothing bound.

        `staged_on`: device that arrays are copied to, as onnxruntime names it; None if the graph reads them where they
        are. In tests "cpu" stands for a device.
        """
        self._session = session
        self._options = options
        self._binding = session.io_binding()
        # Keeps arrays alive while onnxruntime has their addresses.
        self._bound: dict[str, Tensor] = {}
        self._staged = _StagedArrays(staged_on) if staged_on else None
        self._on_device = _inputs_on(staged_on, session) if staged_on else frozenset[str]()
        # Arrays that the graph may read elsewhere: onnxruntime copies them there when they are bound.
        self._elsewhere: dict[str, Array] = {}

    def bind(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
        """Bind tensors by their names in the graph: contiguous arrays of the graph's types, or tensors of pools."""
        arrays: dict[str, Array] = {}
        for name, value in inputs.items():
            if self._bound.get(name) is value:
                continue
            self._bound[name] = value
            if isinstance(value, OrtValue):
                self._binding.bind_ortvalue_input(name, value)
            elif name in self._on_device:
                arrays[name] = value
            elif self._staged:
                self._elsewhere[name] = value
            else:
                self._binding.bind_cpu_input(name, value)
        if self._staged and arrays:
            device = self._staged.device
            for name, (array, address) in self._staged.replace(arrays).items():
                self._binding.bind_input(name, device, 0, array.dtype.type, array.shape, address)
        for name, value in outputs.items():
            if self._bound.get(name) is not value:
                self._bound[name] = value
                tensor = value if isinstance(value, OrtValue) else OrtValue.ortvalue_from_numpy(value)
                self._binding.bind_ortvalue_output(name, tensor)

    def run(self) -> None:
        """Run the graph on the present content of the tensors."""
        if self._staged:
            self._staged.copy()
        for name, array in self._elsewhere.items():
            self._binding.bind_cpu_input(name, array)
        self._session.run_with_iobinding(self._binding, self._options)


class _StagedArrays:
    """Arrays of the host, which lie next to each other in one tensor of a device."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._arrays: dict[str, Array] = {}
        self._parts: list[memoryview] = []
        """The bytes of each array, and the padding after them."""
        self._host = np.zeros(0, np.uint8)
        self._begin = self._host.data
        self._tensor: OrtValue | None = None

    def replace(self, arrays: Mapping[str, Array]) -> dict[str, tuple[Array, int]]:
        """Take new arrays in the place of those of the same names; return all with their addresses on the device.

        ValueError: An array is not contiguous, so that its present content cannot be copied as one block.
        """
        if scattered := [name for name, array in arrays.items() if not array.flags.c_contiguous]:
            raise ValueError(f"the arrays of {', '.join(scattered)} are not contiguous")
        self._arrays |= arrays
        offsets, end, self._parts = [], 0, []
        for array in self._arrays.values():
            offsets.append(end)
            padding = -array.nbytes % _ALIGNMENT
            self._parts += [array.reshape(-1).view(np.uint8).data, _PADDING[:padding].data]
            end += array.nbytes + padding
        # Arrays without elements need an address, too.
        if self._tensor is None or end >= len(self._host):
            self._host = np.zeros(2 * end + _ALIGNMENT, np.uint8)
            # Not of the host's own array, even on a CPU.
            self._tensor = OrtValue.ortvalue_from_shape_and_type(self._host.shape, np.uint8, self.device)
        self._begin = self._host.data[:end]
        address = self._tensor.data_ptr()
        return {name: (array, address + at) for (name, array), at in zip(self._arrays.items(), offsets, strict=True)}

    def copy(self) -> None:
        """Copy the present content of all arrays to the device."""
        if self._tensor is not None:
            # Unlike numpy's ways, these two are no functions in Python.
            self._begin[:] = b"".join(self._parts)
            self._tensor.update_inplace(self._host)


def _inputs_on(device: str, session: onnxruntime.InferenceSession) -> frozenset[str]:
    """Return the names of the inputs that a graph reads in the memory of a device: not shapes, for example."""
    memories = zip(session.get_inputs(), session.get_input_memory_infos(), strict=True)
    return frozenset(given.name for given, memory in memories if memory.name.lower() == device)
