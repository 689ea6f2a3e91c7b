"""Write the descriptors that Envoy turns JSON into messages by: `make proto`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.rpc import error_details_pb2

from xuanzang.translation.v1 import translation_pb2

FILE = Path(__file__).with_name("descriptors.binpb")


def with_imports(file: FileDescriptor) -> Iterator[FileDescriptor]:
    """Yield the files that a file imports, each after its own imports, and then the file."""
    for imported in file.dependencies:
        yield from with_imports(imported)
    yield file


def descriptors() -> bytes:
    """Return the descriptors of the translation service and of the details of errors, serialised."""
    files = [*with_imports(translation_pb2.DESCRIPTOR), *with_imports(error_details_pb2.DESCRIPTOR)]
    by_name = {file.name: file.serialized_pb for file in files}
    described = FileDescriptorSet()
    for content in by_name.values():
        described.file.add().ParseFromString(content)
    return described.SerializeToString(deterministic=True)


if __name__ == "__main__":
    FILE.write_bytes(descriptors())
