from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.data.tokenizer_training import train_tokenizer
from xuanzang.model.tokenizer import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    TableTokenizer,
    Tokenizer,
    normalize,
    read_table,
    write_table,
)

SPACE_MARK = "\u2581"


@pytest.fixture(scope="module")
def spiced_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on text with a few Chinese and English words, spaces, digits and a tab."""
    path = tmp_path_factory.mktemp("tokenizer") / "model.spm"
    train_tokenizer(["我有一只猫。", "I have a cat.", "1984  is a  year\tand a book"] * 20, path, 290)
    return path


@pytest.fixture(scope="module")
def spiced(spiced_file: Path) -> Tokenizer:
    return Tokenizer(spiced_file)


@settings(deadline=None)
@given(text=st.text(st.characters(exclude_characters=SPACE_MARK, exclude_categories=["Cs"])))
def test_every_text_survives_the_round_trip(spiced: Tokenizer, text: str) -> None:
    assert spiced.decode(spiced.encode(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "   ",
            " a",
            "a ",
            "  a  b  ",
            "\t",
            "a\tb\n",
            "\r\n",
            "\0",
            "\x7f",
            "👩‍👩‍👧",
            "é",
            "\ufeff",
            "\u3000",
        ),
        *("<s>", "</s>", "<pad>", "<unk>", "<0x41>", "⁇", "我有一只猫", "12345", "\u2028"),
    ],
)
def test_hard_texts_survive_the_round_trip(spiced: Tokenizer, text: str) -> None:
    ids = spiced.encode(text)
    assert spiced.decode(ids) == text
    assert ids[-1] == EOS_ID
    assert not {UNK_ID, BOS_ID, EOS_ID, PAD_ID} & set(ids[:-1])


def test_the_mark_of_a_space_is_the_one_character_that_comes_back_as_another(spiced: Tokenizer) -> None:
    assert spiced.decode(spiced.encode(f"a{SPACE_MARK}b")) == "a b"


@settings(deadline=None)
@given(texts=st.lists(st.text()))
def test_many_texts_are_encoded_as_each_alone(spiced: Tokenizer, texts: list[str]) -> None:
    assert spiced.encode_all(texts) == [spiced.encode(text) for text in texts]


def test_special_ids_count_as_nothing_when_decoding(spiced: Tokenizer) -> None:
    ids = spiced.encode("a cat")
    assert spiced.decode([BOS_ID, *ids, PAD_ID, PAD_ID]) == "a cat"


def test_too_large_a_vocabulary_is_refused_with_the_size_that_is_possible(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"vocab_size is too high for so little text, at most \d+ is possible"):
        train_tokenizer(["a cat"], tmp_path / "model.spm", 1000)
    assert not (tmp_path / "model.spm").exists()


def test_too_small_a_vocabulary_is_refused_with_the_size_that_it_needs(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"vocab_size is too low .*, it needs at least \d+"):
        train_tokenizer(["我有一只猫。", "I have a cat."], tmp_path / "model.spm", 262)


def test_a_file_that_is_no_tokeniser_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.spm").write_bytes(b"not a model")
    with pytest.raises(OSError, match="is not a SentencePiece model"):
        Tokenizer(tmp_path / "model.spm")


def test_nfkc_folds_full_width_forms_and_none_leaves_them() -> None:
    assert normalize("ＡＢＣ，１２３", "nfkc") == "ABC,123"
    assert normalize("ＡＢＣ，１２３", "none") == "ＡＢＣ，１２３"


@pytest.fixture
def tabled(spiced_file: Path, spiced: Tokenizer) -> TableTokenizer:
    """With the pieces of `spiced` from the last to the first but for one, and one that only the table has."""
    own = spiced.pieces(range(4, len(spiced)))
    table = ["</s>", "<unk>", f"{SPACE_MARK}zebra", *reversed([piece for piece in own if piece != "猫"]), "<pad>"]
    return TableTokenizer(spiced_file, table, unk_id=1, eos_id=0, pad_id=len(table) - 1)


def test_a_table_gives_pieces_their_ids(tabled: TableTokenizer, spiced: Tokenizer) -> None:
    text = "1984 is a year"
    ids = tabled.encode(text)
    assert ids[-1] == 0
    assert tabled.pieces(ids[:-1]) == spiced.pieces(spiced.encode(text)[:-1])
    assert ids != spiced.encode(text)
    assert tabled.decode([*ids, len(tabled) - 1]) == text


def test_what_a_table_lacks_is_unknown(tabled: TableTokenizer) -> None:
    assert 1 in tabled.encode("我有一只猫。")
    assert "⁇" in tabled.decode(tabled.encode("我有一只猫。"))


def test_what_only_a_table_has_is_written_all_the_same(tabled: TableTokenizer) -> None:
    assert tabled.decode([2, 2]) == "zebra zebra"


def test_tables_survive_being_written(tmp_path: Path) -> None:
    table = ["</s>", "\u2028", '"', "", "猫"]
    write_table(tmp_path / "table.json", table)
    assert read_table(tmp_path / "table.json") == table


@pytest.mark.parametrize("content", ['{"a": 0}', "[1]", '["a", "a"]', "["])
def test_other_files_are_no_tables(tmp_path: Path, content: str) -> None:
    (tmp_path / "table.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError):  # noqa: PT011 - which one depends on what is wrong
        read_table(tmp_path / "table.json")
