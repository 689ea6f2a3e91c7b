"""Tables of calls are complete: all that official clients can ask for is said to work or to be refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


def test_the_table_of_deepl_names_every_resource_of_its_client() -> None:
    deepl = pytest.importorskip("deepl")
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(deepl.__file__).parent.glob("*.py"))
    resources = set(re.findall(r"[\"'](v\d/(?:write/)?[a-z_-]+)", sources))
    assert len(resources) >= 8
    page = (DOCS / "protocols.md").read_text(encoding="utf-8")
    assert {each for each in resources if not re.search(rf"/{each}\b", page)} == set()


def test_the_table_of_deepl_names_every_parameter_of_a_translation() -> None:
    deepl = pytest.importorskip("deepl")
    source = Path(deepl.translator.__file__).read_text(encoding="utf-8")
    parameters = set(re.findall(r"request_data\[\"([a-z_]+)\"\]", source))
    assert {"context", "glossary_id"} <= parameters
    page = (DOCS / "protocols.md").read_text(encoding="utf-8")
    assert {each for each in parameters if f"`{each}`" not in page} == set()


def test_the_table_of_google_names_every_call_of_its_client() -> None:
    translate = pytest.importorskip("google.cloud.translate_v3")
    transport = translate.TranslationServiceClient.get_transport_class("grpc")
    calls = {name for name, each in vars(transport).items() if isinstance(each, property) and not name.startswith("_")}
    named = {
        name.title().replace("_", "")
        for name in calls
        if not re.search(r"(_operations?|_locations?|_channel|_client|^kind)$", name)
    }
    assert len(named) > 30
    page = (DOCS / "protocols-cloud.md").read_text(encoding="utf-8")
    assert {name for name in named if f"`{name}`" not in page} == set()
