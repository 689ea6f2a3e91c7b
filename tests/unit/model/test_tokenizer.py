from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.data.tokenizer_training import train_tokenizer
from xuanzang.model.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer, normalize

SPACE_MARK = "\u2581"


@pytest.fixture(scope="module")
def spiced(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Trained on text with a few Chinese and English words, spaces, digits and a tab."""
    path = tmp_path_factory.mktemp("tokenizer") / "model.spm"
    train_tokenizer(["我有一只猫。", "I have a cat.", "1984  is a  year\tand a book"] * 20, path, 290)
    return Tokenizer(path)


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


def test_pieces_spell_the_text(spiced: Tokenizer) -> None:
    assert "".join(spiced.pieces(spiced.encode("a cat")[:-1])).replace(SPACE_MARK, " ").strip() == "a cat"


def test_the_same_text_trains_the_same_tokeniser(tmp_path: Path) -> None:
    for name in ("one", "two"):
        train_tokenizer(["我有一只猫。", "I have a cat."] * 200, tmp_path / name, 275, max_sentences=101)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


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
