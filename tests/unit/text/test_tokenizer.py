"""Pieces whose ids come from a table, compared with SentencePiece's own."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from piece_tables import EOS_ID, PAD_ID, SPECIAL, UNK_ID, joint_table, pieces_of
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from xuanzang.text.tokenizer import TableTokenizer, Tokenizer

CHINESE = ("我有一只猫。", "你好，世界！", "今天天气很好。", "他们明天去北京。")
ENGLISH = ("a cat, a dog", "hello world", "the weather is fine", "they go to the capital tomorrow")
TEXTS = st.text(
    st.one_of(st.sampled_from("我有一只猫。你好helo wrdtcapi,\u3000"), st.characters(codec="utf-8")), max_size=40
)


def train(sentences: tuple[str, ...], *, byte_fallback: bool) -> SentencePieceProcessor:
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(sentences * 10),
        model_writer=model,
        vocab_size=400,
        hard_vocab_limit=False,
        character_coverage=1.0,
        byte_fallback=byte_fallback,
        minloglevel=2,
    )
    return SentencePieceProcessor(model_proto=model.getvalue())


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Both sides of a model with a joint table, as Marian has them."""

    source: SentencePieceProcessor
    target: SentencePieceProcessor
    table: list[str]

    def over(self, processor: SentencePieceProcessor) -> TableTokenizer:
        reserved = {EOS_ID, UNK_ID, PAD_ID, len(self.table) - 1, len(self.table) - 2}
        return TableTokenizer(processor, table=self.table, unk_id=UNK_ID, reserved=reserved)


@pytest.fixture(scope="module", params=[False, True], ids=["characters", "bytes"])
def pair(request: pytest.FixtureRequest) -> Pair:
    """With and without bytes for what is unknown."""
    source = train(CHINESE, byte_fallback=request.param)
    target = train(ENGLISH, byte_fallback=request.param)
    return Pair(source=source, target=target, table=joint_table(source, target))


@given(TEXTS)
def test_through_the_table_a_text_has_the_pieces_that_sentencepiece_gives_it(pair: Pair, text: str) -> None:
    tokenizer = pair.over(pair.source)
    pieces = pair.source.encode(text, out_type=str)
    ids = tokenizer.encode(text)
    assert len(ids) == len(pieces) == len(tokenizer.offsets(text))
    for token_id, piece in zip(ids, pieces, strict=True):
        assert pair.table[token_id] == piece if piece in pair.table[len(SPECIAL) : -2] else token_id == UNK_ID


@given(TEXTS)
def test_what_is_written_through_the_table_is_what_sentencepiece_writes(pair: Pair, text: str) -> None:
    own, tokenizer = Tokenizer(pair.target), pair.over(pair.target)
    own_ids, ids = own.encode(text), tokenizer.encode(text)
    if UNK_ID in ids or pair.target.unk_id() in own_ids:
        return
    assert tokenizer.decode(ids) == own.decode(own_ids).strip()
    assert "".join(tokenizer.token_texts(ids)) == tokenizer.decode(ids)
    assert len(tokenizer.token_texts(ids)) == len(ids)


@given(st.data())
def test_the_parts_of_any_ids_make_up_their_text(pair: Pair, data: st.DataObject) -> None:
    tokenizer = pair.over(pair.target)
    ids = data.draw(st.lists(st.integers(0, len(pair.table) - 1), max_size=12))
    texts = tokenizer.token_texts(ids)
    assert len(texts) == len(ids)
    assert "".join(texts) == tokenizer.decode(ids)


def test_a_piece_that_only_the_other_language_has_is_found_and_written() -> None:
    source, target = train(CHINESE, byte_fallback=False), train(ENGLISH, byte_fallback=False)
    pair = Pair(source=source, target=target, table=joint_table(source, target, more=("北京市", "\u2581城市")))
    tokenizer = pair.over(target)
    assert target.unk_id() in target.encode("北京市")
    ids = tokenizer.encode("the 北京市")
    assert pair.table.index("北京市") in ids
    assert UNK_ID not in ids
    assert tokenizer.decode(ids) == "the 北京市"
    word_of_other = pair.table.index("\u2581城市")
    assert tokenizer.decode([word_of_other, *tokenizer.encode("cat"), word_of_other]) == "城市 cat 城市"
    assert tokenizer.decode([word_of_other, word_of_other]) == "城市 城市"


def test_no_text_calls_up_an_id_with_a_meaning_of_its_own() -> None:
    # To these models each of the texts is one unknown stretch, which the table does have.
    digits = train(("0 1 2 3", "3 2 1 0"), byte_fallback=False)
    table = [*SPECIAL, *pieces_of(digits), ">>fra<<"]
    reserved = {EOS_ID, UNK_ID, PAD_ID, len(table) - 1}
    tokenizer = TableTokenizer(digits, table=table, unk_id=UNK_ID, reserved=reserved)
    for text in ("</s>", "<pad>", ">>fra<<"):
        assert text in digits.encode(text, out_type=str)
        assert set(tokenizer.encode(text)) <= {UNK_ID, *map(table.index, pieces_of(digits))}
