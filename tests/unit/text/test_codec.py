"""A text on its way through the room without a bundle, an engine or a server: of any tokeniser, with any translator."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from xuanzang.text.codec import SentenceFormat, TextCodec
from xuanzang.text.markup.contents import split_document, written
from xuanzang.text.markup.parsing import parse
from xuanzang.text.tokenizer import Processors, Side, TokenizerError, open_tokenizers
from xuanzang.text.types import ContentFormat, GlossaryMatch, TokenDetail

EOS_ID, EN_ID, FR_ID = 2, 3, 4


@dataclass(frozen=True, kw_only=True)
class Part:
    """A segment as some translator returns it."""

    text: str
    tokens: tuple[TokenDetail, ...] = ()
    matches: tuple[GlossaryMatch, ...] = ()


@pytest.fixture(scope="module")
def model() -> bytes:
    content = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(["我有一只猫。", "你好，世界！", "a cat, a dog", "hello world"] * 10),
        model_writer=content,
        vocab_size=100,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return content.getvalue()


@pytest.fixture(scope="module")
def side(model: bytes) -> Side:
    size: int = SentencePieceProcessor(model_proto=model).vocab_size()
    return Side(tokenizer="both.model", vocab_size=size, special_ids={"eos_id": EOS_ID}, unk_id=0)


@pytest.fixture(scope="module")
def codec(model: bytes, side: Side) -> TextCodec:
    sentence_format = SentenceFormat(
        source_languages=("zh",),
        target_languages=("en", "fr"),
        normalization="nfkc",
        end_id=EOS_ID,
        source_language_ids={},
        is_source_named_last=False,
        language_prefix_ids={"en": EN_ID, "fr": FR_ID},
        target_language_ids={},
        max_source_length=24,
        target_vocab_size=side.vocab_size,
    )
    return TextCodec(sentence_format, open_tokenizers(side, side, lambda _: model, Processors()))


def test_a_sentence_is_framed_as_the_format_says_and_decoded_to_itself(codec: TextCodec) -> None:
    [first, *_, last] = codec.encode("hello world")
    assert (first, last) == (EN_ID, EOS_ID)
    assert codec.between("zh", "fr").encode("hello world")[0] == FR_ID
    assert codec.decode(codec.encode_target("hello world")) == "hello world"


@pytest.mark.parametrize(
    "text", ["我有一只猫。", "有猫。你好", "hello 你好", "１２", "", "猫𠮷", "zürich", "\u0301", "\t"]
)
def test_a_text_is_known_if_its_pieces_are_whatever_was_asked_before(codec: TextCodec, text: str) -> None:
    # The vocabulary has no pieces of bytes.
    is_known = codec.source.unk_id not in codec.source.encode(text)
    fresh = codec.between("zh", "fr")
    assert fresh.knows(text) == is_known
    assert [fresh.knows(character) for character in text] == [codec.knows(character) for character in text]
    assert fresh.knows(text) == codec.knows(text) == is_known


def test_a_page_is_cut_into_sentences_and_written_around_any_translation(codec: TextCodec) -> None:
    content = "<h1>你好，世界！</h1><p>我有<b>一只猫</b>。</p>"
    split = split_document(content, parse(content, ContentFormat.HTML), codec, refuse_long=False)
    assert [segment.text for segment in split.segments] == ["你好，世界！", "我有一只猫。"]
    hello = Part(text="Hello!", tokens=(TokenDetail(text="Hello!", score=0, source_start=0, source_end=6),))
    words = (("I have", 0, 2), (" a cat", 2, 5), (".", 5, 6))
    tokens = (TokenDetail(text=text, score=0, source_start=start, source_end=end) for text, start, end in words)
    cat = Part(text="I have a cat.", tokens=tuple(tokens))
    assert written(split, [hello, cat], codec) == "<h1>Hello!</h1><p>I have <b>a cat</b>.</p>"


def test_a_tokeniser_is_read_once_for_both_sides(model: bytes, side: Side) -> None:
    names: list[str] = []

    def read(name: str) -> bytes:
        names.append(name)
        return model

    source, target = open_tokenizers(side, side, read, Processors())
    assert source is target
    assert names == ["both.model"]


@pytest.mark.parametrize("content", [b"", b"no model"])
def test_what_is_no_tokeniser_is_refused_by_its_name(side: Side, content: bytes) -> None:
    with pytest.raises(TokenizerError, match=r"both\.model is") as refusal:
        open_tokenizers(side, side, lambda _: content, Processors())
    assert len(refusal.value.faults) == 1


def test_a_tokeniser_of_another_size_is_refused(model: bytes, side: Side) -> None:
    with pytest.raises(TokenizerError, match=f"has {side.vocab_size} pieces; the dimensions say 7"):
        open_tokenizers(replace(side, vocab_size=7), replace(side, vocab_size=7), lambda _: model, Processors())
