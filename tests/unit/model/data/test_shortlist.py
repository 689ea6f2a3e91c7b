"""Which target pieces a source suggests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.data.prepare import PrepareSettings, prepare
from xuanzang.model.data.shortlist import Shortlist, ShortlistSettings, load_shortlist, make_shortlist, save_shortlist
from xuanzang.model.tokenizer import PAD_ID, Tokenizer

pytest.importorskip("scipy")

# Numbers and animals of the toy pairs, each of which is one piece of the source.
TRANSLATIONS = {"猫": "cat", "狗": "dog", "牛": "cow", "两": "two", "三": "three"}


@pytest.fixture(scope="module")
def data(toy_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared") / "data"
    prepare(PrepareSettings(train=[toy_files[0]], valid=toy_files[1], output=folder, vocab_size=340))
    return folder


@pytest.fixture(scope="module")
def shortlist(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Shortlist:
    output = tmp_path_factory.mktemp("shortlist") / "new" / "shortlist.safetensors"
    return make_shortlist(ShortlistSettings(data=data, output=output, per_piece=12, frequent=20))


def suggested_text(shortlist: Shortlist, tokenizer: Tokenizer, source: str) -> set[str]:
    ids = shortlist.suggested[tokenizer.encode(source)].flatten().tolist()
    return {piece.removeprefix("▁") for piece in tokenizer.pieces(ids)}


@pytest.mark.parametrize("source", TRANSLATIONS)
def test_a_piece_suggests_its_translation(source: str, shortlist: Shortlist, data: Path) -> None:
    tokenizer = Tokenizer(data / "source.spm")
    pieces = {piece.removeprefix("▁") for piece in tokenizer.pieces(tokenizer.encode(TRANSLATIONS[source]))}
    found = suggested_text(shortlist, tokenizer, source)
    always = {piece.removeprefix("▁") for piece in tokenizer.pieces(shortlist.always.tolist())}
    assert pieces <= found | always


def test_a_piece_suggests_itself_with_and_without_a_space(shortlist: Shortlist, data: Path) -> None:
    tokenizer = Tokenizer(data / "source.spm")
    pieces = tokenizer.pieces(range(len(tokenizer)))
    ids = {piece: number for number, piece in enumerate(pieces)}
    for piece, row in zip(pieces, shortlist.suggested.tolist(), strict=True):
        bare = piece.removeprefix("▁")
        assert {ids[form] for form in (bare, "▁" + bare) if bare and form in ids} <= set(row)


def test_special_pieces_bytes_and_single_letters_are_always_there(shortlist: Shortlist, data: Path) -> None:
    tokenizer = Tokenizer(data / "target.spm")
    always = tokenizer.pieces(shortlist.always.tolist())
    assert {*range(PAD_ID + 1)} <= {*shortlist.always.tolist()}
    assert {f"<0x{byte:02X}>" for byte in range(256)} <= {*always}
    letters = {piece for piece in tokenizer.pieces(range(len(tokenizer))) if len(piece) == 1 and piece.isascii()}
    assert letters
    assert letters <= {*always}


def test_what_is_written_is_read_back_for_the_same_tokenizers_only(
    shortlist: Shortlist, data: Path, tmp_path: Path
) -> None:
    file = tmp_path / "shortlist.safetensors"
    save_shortlist(file, shortlist, data)
    for written, read in zip(shortlist, load_shortlist(file, data), strict=True):
        np.testing.assert_array_equal(written, read)
    (tmp_path / "source.spm").write_bytes(b"another")
    with pytest.raises(CorpusError, match="made with other tokenisers"):
        load_shortlist(file, tmp_path)
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(CorpusError, match="is no shortlist"):
        load_shortlist(file, data)
