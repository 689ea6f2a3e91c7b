"""Terms to keep, as arguments and as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from xuanzang.client import InvalidRequestError, ProtectedPattern
from xuanzang.client._commands.translation_arguments import read_glossary
from xuanzang.client._methods.requests import progressive_request, stream_request, translate_request
from xuanzang.translation.v1 import translation_pb2 as pb


def test_terms_are_part_of_every_kind_of_request() -> None:
    request = translate_request(
        ["a"], glossary={"源": "spring", "表": ["table", "watch"]}, glossary_name="tech", protected_patterns=["url"]
    )
    entries = [("源", ["spring"]), ("表", ["table", "watch"])]
    progressive = progressive_request("a", glossary=dict(entries), glossary_name="tech", protected_patterns=["URL"])
    for each in (request, stream_request(request.settings, index=0, text="b"), progressive):
        assert [(entry.source, list(entry.targets)) for entry in each.settings.glossary_entries] == entries
        assert each.settings.glossary == "tech"
        assert list(each.settings.protected_patterns) == [pb.PROTECTED_PATTERN_URL]


def test_patterns_may_be_members_or_names() -> None:
    request = translate_request(["a"], protected_patterns=[ProtectedPattern.TAG, "email"])
    assert list(request.settings.protected_patterns) == [pb.PROTECTED_PATTERN_TAG, pb.PROTECTED_PATTERN_EMAIL]
    with pytest.raises(InvalidRequestError, match="protected_patterns"):
        translate_request(["a"], protected_patterns=["phone"])
    with pytest.raises(TypeError):
        translate_request(["a"], protected_patterns="url")


def test_a_file_of_terms_is_read_and_a_faulty_line_named(tmp_path: Path) -> None:
    file = tmp_path / "names.tsv"
    file.write_text("# a remark\n\n源\tspring\tsource\n", encoding="utf-8")
    assert read_glossary(file) == {"源": ["spring", "source"]}
    file.write_text("源\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 1"):
        read_glossary(file)
