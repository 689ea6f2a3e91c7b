from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.lexicon import LEXICON, MAX_LEXICON_BYTES, read_lexicon
from xuanzang.server.bundles.quality_head import QUALITY, read_quality_head
from xuanzang.server.bundles.vocabulary import Vocabulary

LISTED = manifest_pb2.Manifest(files=[manifest_pb2.File(name=QUALITY)])


def document() -> dict[str, Any]:
    return {
        "format": 1,
        "features": [{"name": "min_score", "mean": -1, "deviation": 0.5, "weight": 2, "square_weight": -0.1}],
        "intercept": 0.25,
        "limits": {"min_token_ratio": 0.5, "max_token_ratio": 8, "max_low_attention_share": 0.4},
        "reports": {},
    }


def test_a_head_that_is_listed_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / QUALITY).write_text(json.dumps(document()))
    head = read_quality_head(tmp_path, LISTED)
    assert head
    assert (head.intercept, head.features[0].square_weight, head.limits.max_token_ratio) == (0.25, -0.1, 8)
    assert read_quality_head(tmp_path, manifest_pb2.Manifest()) is None


def changed(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    def change(whole: Any) -> None:
        for key in path[:-1]:
            whole = whole[key]
        whole[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        changed("format", value=2),
        changed("features", value=[]),
        changed("features", value=[document()["features"][0]] * 2),
        changed("features", value=[{"name": str(number)} for number in range(100)]),
        changed("features", 0, "name", value=1),
        changed("features", 0, "deviation", value=0),
        changed("features", 0, "weight", value="1"),
        changed("features", 0, "weight", value=True),
        changed("intercept", value=float("nan")),
        changed("intercept", value=1e300),
        changed("limits", value=[]),
        changed("limits", "min_token_ratio", value=9),
        changed("limits", "max_low_attention_share", value=1.5),
    ],
)
def test_a_malformed_head_refuses_the_bundle(tmp_path: Path, change: Callable[[Any], None]) -> None:
    whole = document()
    change(whole)
    (tmp_path / QUALITY).write_text(json.dumps(whole))
    with pytest.raises(BundleError, match="not a quality head"):
        read_quality_head(tmp_path, LISTED)


@pytest.mark.parametrize(
    ("content", "reason"),
    [*((each, "not a quality head") for each in ("", "[]", "null", "[" * 100_000)), (" " * (1 << 20), "more than")],
)
def test_what_is_no_head_at_all_refuses_the_bundle(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / QUALITY).write_text(content)
    with pytest.raises(BundleError, match=reason):
        read_quality_head(tmp_path, LISTED)


WITH_LEXICON = manifest_pb2.Manifest(files=[manifest_pb2.File(name=LEXICON)])


def test_the_entries_are_those_of_the_file_if_it_is_listed(tmp_path: Path) -> None:
    (tmp_path / LEXICON).write_text("hello\t你好\ngood morning\t早上好\n", encoding="utf-8")
    assert read_lexicon(tmp_path, WITH_LEXICON) == {"hello": "你好", "good morning": "早上好"}
    assert read_lexicon(tmp_path, manifest_pb2.Manifest()) == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\t\xff\n", "is not UTF-8: invalid start byte at byte 0"),
        (b"a\tb\nhello\n", "line 2: must be a source and a target with one tab between them"),
        (b"a\tb\tc\n", "line 1: must be a source"),
        (b"a \tb\n", "line 1: must be a source"),
        (b"a\t\n", "line 1: must be a source"),
        (b"a\tb\n\nc\td\n", "line 2: must be a source"),
        (b"a\tb\na\tc\n", "line 2: its source is on an earlier line"),
        (b"a" * 41 + b"\tb\n", "line 1: the source must have at most 40 characters, has 41"),
        (b"a\tb\n" * MAX_LEXICON_BYTES, f"has more than {MAX_LEXICON_BYTES} bytes"),
    ],
)
def test_a_file_of_anything_but_pairs_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / LEXICON).write_bytes(content)
    with pytest.raises(BundleError, match=reason):
        read_lexicon(tmp_path, WITH_LEXICON)


@given(st.lists(st.text()))
def test_a_vocabulary_has_the_pieces_of_its_list_in_their_order(pieces: list[str]) -> None:
    vocabulary = Vocabulary(pieces)
    assert len(vocabulary) == len(pieces)
    assert list(vocabulary) == vocabulary[:] == pieces
    assert [vocabulary[index] for index in range(len(pieces))] == pieces
    assert vocabulary[1::2] == pieces[1::2]


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_a_vocabulary_is_refused(index: int) -> None:
    with pytest.raises(IndexError, match="among 2"):
        Vocabulary(("a", "b"))[index]
