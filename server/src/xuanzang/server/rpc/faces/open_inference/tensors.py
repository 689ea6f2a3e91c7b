"""Tensors of texts: datatype BYTES, one element per text, in UTF-8."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from xuanzang.inference.v2 import inference_pb2 as v2
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError

BYTES = "BYTES"
INPUT = "text"
OUTPUT = "translation"

_FIELD = "inputs[0]"
# Before each element: its size, least significant byte first.
_SIZE_BYTES = 4


def read_texts(request: v2.ModelInferRequest) -> list[str]:
    """Read the texts of a request.

    Args:
        request: Request with one tensor, whose elements are in its contents or in the raw contents.

    Returns:
        Texts, row by row.

    Raises:
        InvalidInputError: There is another tensor, or this one is not well formed.
    """
    if [tensor.name for tensor in request.inputs] != [INPUT]:
        raise _fault("inputs", f"must be one tensor with the name {INPUT}")
    [tensor] = request.inputs
    if tensor.datatype != BYTES:
        raise _fault(f"{_FIELD}.datatype", f"must be {BYTES}")
    if tensor.parameters:
        raise _fault(f"{_FIELD}.parameters", "must be empty: there is no shared memory")
    elements = list(_elements(request, tensor))
    shape = tuple(tensor.shape)
    if len(shape) not in (1, 2) or min(shape) < 0 or shape[1:] not in ((), (1,)) or math.prod(shape) != len(elements):
        count = len(elements)
        raise _fault(f"{_FIELD}.shape", f"must be [{count}] or [{count}, 1] for {count} elements")
    return [_decoded(element, index) for index, element in enumerate(elements)]


def raw_contents(texts: Iterable[str]) -> bytes:
    """Write texts as the raw contents of a tensor.

    Args:
        texts: Any texts.
    """
    encoded = (text.encode() for text in texts)
    return b"".join(len(element).to_bytes(_SIZE_BYTES, "little") + element for element in encoded)


def _elements(request: v2.ModelInferRequest, tensor: v2.ModelInferRequest.InferInputTensor) -> Sequence[bytes]:
    if not request.raw_input_contents:
        return tensor.contents.bytes_contents
    if len(request.raw_input_contents) != 1 or tensor.HasField("contents"):
        raise _fault("raw_input_contents", f"must have one element, for {INPUT}, which then has no contents")
    return list(_split(request.raw_input_contents[0]))


def _split(raw: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(raw):
        begin = start + _SIZE_BYTES
        start = begin + int.from_bytes(raw[start:begin], "little")
        if begin > len(raw) or start > len(raw):
            raise _fault("raw_input_contents[0]", f"must have {_SIZE_BYTES} bytes of size before each whole element")
        yield raw[begin:start]


def _decoded(element: bytes, index: int) -> str:
    try:
        return element.decode()
    except UnicodeDecodeError:
        raise _fault(f"{_FIELD}.contents[{index}]", "must be UTF-8") from None


def _fault(field: str, description: str) -> InvalidInputError:
    return InvalidInputError([FieldViolation(field=field, description=description)])
