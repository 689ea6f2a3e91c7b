"""Links of the documentation's site, and its references."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

pytest.importorskip("mkdocs", reason="needs the tools of `make setup`")

from mkdocs.exceptions import PluginError
from site_pages import linked
from site_protos import ProtoPage
from site_references import described

from xuanzang.translation.v1 import translation_pb2

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("source", "page", "markdown", "expected"),
    [
        ("README.md", "index.md", "[a](docs/protocols.md#google)", "[a](protocols.md#google)"),
        ("docs/protocols.md", "protocols.md", "[a](../README.md)", "[a](index.md)"),
        ("docs/tutorials/train.md", "tutorials/train.md", "[a](../training.md)", "[a](../training.md)"),
        ("docs/protocols.md", "protocols.md", "[compose](../docker-compose.yml)", "compose (`docker-compose.yml`)"),
        ("docs/protocols.md", "protocols.md", "[a](https://example.org/x)", "[a](https://example.org/x)"),
        ("docs/protocols.md", "protocols.md", "```\n[a](nowhere.md)\n```", "```\n[a](nowhere.md)\n```"),
    ],
)
def test_links_lead_to_pages_or_name_files(source: str, page: str, markdown: str, expected: str) -> None:
    assert linked(markdown, source=source, page=page) == expected


def test_a_link_to_nothing_ends_the_build() -> None:
    with pytest.raises(PluginError, match="nowhere"):
        linked("[a](nowhere.md)", source="docs/protocols.md", page="protocols.md")


@pytest.fixture(scope="module")
def protos() -> FileDescriptorSet:
    return described(ROOT)


def test_the_reference_has_every_method_message_and_field_with_its_comment(protos: FileDescriptorSet) -> None:
    [file] = [each for each in protos.file if each.name == translation_pb2.DESCRIPTOR.name]
    page = ProtoPage("Translation service", file).text()
    for method in translation_pb2.DESCRIPTOR.services_by_name["TranslationService"].methods:
        assert f"### {method.name}\n" in page
    for name, message in translation_pb2.DESCRIPTOR.message_types_by_name.items():
        assert f"## {name}\n" in page
        for field in message.fields:
            [row] = [
                line
                for line in page.partition(f"## {name}\n")[2].partition("\n## ")[0].splitlines()
                if line.startswith(f"| `{field.name}` |")
            ]
            assert len(row.split(" | ")[3]) > 5
