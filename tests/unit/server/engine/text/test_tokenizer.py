"""Pieces whose ids come from a table, compared with SentencePiece's own."""

from __future__ import annotations

import io
import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.text.codec import TextCodec
from xuanzang.server.engine.text.tokenizer import TableTokenizer, Tokenizer

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
ListFiles = Callable[[dict[str, Any], Path], None]

CHINESE = ("我有一只猫。", "你好，世界！", "今天天气很好。", "他们明天去北京。")
ENGLISH = ("a cat, a dog", "hello world", "the weather is fine", "they go to the capital tomorrow")
SPECIAL = ("</s>", "<unk>", "<pad>")
EOS_ID, UNK_ID, PAD_ID = 0, 1, 2
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


def pieces_of(processor: SentencePieceProcessor) -> list[str]:
    """The pieces that text is made of."""
    ids = range(processor.vocab_size())
    return [processor.id_to_piece(i) for i in ids if not (processor.is_control(i) or processor.is_unknown(i))]


def joint_table(*processors: SentencePieceProcessor, more: Sequence[str] = ()) -> list[str]:
    """Special pieces, then those of all models in an order of its own, more that no model has, and two languages."""
    pieces = dict.fromkeys(itertools.chain.from_iterable(map(pieces_of, processors)))
    return [*SPECIAL, *random.Random(1).sample(list(pieces), len(pieces)), *more, ">>fra<<", ">>deu<<"]


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


@pytest.fixture
def directory(repository: Path) -> Path:
    return repository / "small" / "1"


@pytest.fixture
def with_table(directory: Path, edit_manifest: Edit, list_files: ListFiles) -> Callable[..., Path]:
    """Give the bundle "small" one table for source and target, and whatever else is to be changed."""

    def change(table: object, **special_ids: int) -> Path:
        path = directory / "pieces.json"
        path.write_bytes(table if isinstance(table, bytes) else json.dumps(table).encode())

        def edit(manifest: dict[str, Any]) -> None:
            manifest |= {"source_vocabulary": path.name, "target_vocabulary": path.name}
            source_ids = {"source_pad_id": PAD_ID, "source_eos_id": EOS_ID, "source_unk_id": UNK_ID}
            target_ids = {"decoder_start_id": PAD_ID, "eos_id": EOS_ID, "unk_id": UNK_ID}
            manifest["special_ids"] = source_ids | target_ids | special_ids
            size = len(table) if isinstance(table, list) else 10
            manifest["dimensions"] |= {"source_vocab_size": size, "target_vocab_size": size}
            list_files(manifest, directory)

        edit_manifest(directory, edit)
        return directory

    return change


@pytest.fixture
def processor(tokenizer: bytes) -> SentencePieceProcessor:
    return SentencePieceProcessor(model_proto=tokenizer)


def test_a_codec_reads_and_writes_through_the_tables(
    with_table: Callable[..., Path], processor: SentencePieceProcessor
) -> None:
    table = joint_table(processor)
    codec = TextCodec(load_bundle(with_table(table)))
    sentence = "hello world 🐈 猫"
    ids = codec.encode(sentence)
    assert [table[token_id] for token_id in ids] == [*processor.encode(sentence, out_type=str), "</s>"]
    assert codec.encode_target(sentence) == ids[:-1]
    assert codec.decode(ids[:-1]) == "".join(codec.target.token_texts(ids[:-1])) == sentence
    assert codec.can_write(ids)
    assert not codec.can_write([UNK_ID])
    [spans] = codec.offsets(codec.split(sentence))
    assert len(spans) == len(ids)
    assert [codec.decode(sequence).strip() for sequence in codec.sequences("猫")] == ["猫"] * len(codec.sequences("猫"))
    assert {table[sequence[0]] for sequence in codec.sequences("a")} == {"\u2581a", "a"} & set(table)


def test_what_a_table_lacks_is_unknown(with_table: Callable[..., Path], processor: SentencePieceProcessor) -> None:
    [*_, piece] = processor.encode("hello", out_type=str)
    table = [each for each in joint_table(processor) if each != piece]
    codec = TextCodec(load_bundle(with_table(table)))
    *_, last, eos = codec.encode("hello")
    assert (last, eos) == (UNK_ID, EOS_ID)
    assert not codec.can_write(codec.encode_target("hello"))


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (b"\x00\xff", "pieces.json is not JSON"),
        (b'["</s>", ', "pieces.json is not JSON"),
        ({"</s>": 0}, "pieces.json is not an array of pieces"),
        (["</s>", "<unk>", "<pad>", 7, None], "pieces.json has no text at index 3, 4"),
        (b'["</s>", "<unk>", "<pad>", "\\ud83d", "a", "b", "c", "d", "e", "f"]', "has no text at index 3"),
        ([*SPECIAL, "a", "b", "a", "b", "c"], "pieces.json has more than once 'a', 'b'"),
        (b'["</s>", "<unk>", "<pad>"]', "pieces.json has 3 pieces; the dimensions say 10"),
    ],
)
def test_a_bad_table_is_refused_with_its_fault(with_table: Callable[..., Path], table: object, reason: str) -> None:
    with pytest.raises(BundleError) as refusal:
        load_bundle(with_table(table))
    [found] = refusal.value.reasons  # once, though it is the table of both sides
    assert reason in found


def test_all_faults_of_a_table_are_named_at_once(with_table: Callable[..., Path]) -> None:
    with pytest.raises(BundleError) as refusal:
        load_bundle(with_table(b'["a", "a", 1]'))
    assert [reason.split()[1:3] for reason in refusal.value.reasons] == [["has", "3"], ["has", "no"], ["has", "more"]]


@pytest.mark.parametrize(
    ("special_ids", "reason"),
    [
        ({"unk_id": 100_000}, "special_ids.unk_id is 100000; the vocabulary has"),
        ({"source_unk_id": EOS_ID}, "special_ids.source_unk_id and source_eos_id are both 0"),
        ({"unk_id": EOS_ID}, "special_ids.unk_id and eos_id are both 0"),
    ],
)
def test_special_ids_must_be_in_the_table_and_differ(
    with_table: Callable[..., Path], processor: SentencePieceProcessor, special_ids: dict[str, int], reason: str
) -> None:
    with pytest.raises(BundleError, match=reason):
        load_bundle(with_table(joint_table(processor), **special_ids))


def test_a_table_with_text_in_the_place_of_special_pieces_is_refused(
    with_table: Callable[..., Path], processor: SentencePieceProcessor
) -> None:
    directory = with_table(pieces_of(processor))
    with pytest.raises(BundleError) as refusal:
        TextCodec(load_bundle(directory))
    assert len(refusal.value.reasons) == 6  # three of each side
    assert "where special_ids.source_unk_id is" in str(refusal.value)
