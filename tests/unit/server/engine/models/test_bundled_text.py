from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from piece_tables import EOS_ID as TABLE_EOS
from piece_tables import PAD_ID, SPECIAL, UNK_ID, joint_table, pieces_of
from sentencepiece import SentencePieceProcessor

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.models.loaded import open_codec
from xuanzang.text.codec import TextCodec

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
LIMIT = 24
EOS_ID = 2
PREFIX_IDS = {"en": 40, "fr": 50}


@pytest.fixture(scope="session")
def codec(repository_template: Path) -> TextCodec:
    return open_codec(load_bundle(repository_template / "small" / "1"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(alphabet=st.one_of(st.sampled_from("我有一只猫。，, \n\u200b\u3000a1."), st.characters(codec="utf-8"))))
def test_pieces_join_to_the_text_and_sentences_end_in_the_end_token(codec: TextCodec, text: str) -> None:
    pieces = codec.split(text)
    assert "".join(piece.text for piece in pieces) == text
    for piece in pieces:
        assert not piece.source_ids or (piece.source_ids[-1] == EOS_ID and len(piece.source_ids) > 1)
        assert len(piece.source_ids) <= LIMIT


def test_a_long_text_becomes_sentences_that_are_not_too_long(codec: TextCodec) -> None:
    text = "我有一只猫，今天天气很好，hello world, the weather is fine, 你好，世界，我有一只猫"
    pieces = codec.split(text)
    assert len(codec.encode(text)) > LIMIT
    assert max(len(piece.source_ids) for piece in pieces) <= LIMIT
    assert all(piece.text.endswith(("，", ",")) for piece in pieces[:-1] if piece.source_ids)


def test_a_stretch_without_a_pause_is_cut_and_marked_or_stays_whole_if_asked_to(codec: TextCodec) -> None:
    text = "今天天气很好" * 20
    pieces = codec.split(text)
    assert "".join(piece.text for piece in pieces) == text
    assert [piece.is_forced_cut for piece in pieces] == [False, *[True] * (len(pieces) - 1)]
    assert max(len(piece.source_ids) for piece in pieces) <= LIMIT < len(codec.encode(text))
    [whole] = codec.split(text, refuse_long=True)
    assert (len(whole.source_ids) > LIMIT, whole.is_forced_cut) == (True, False)


def test_a_long_stretch_of_ascii_and_what_the_tokeniser_drops_are_copied(codec: TextCodec) -> None:
    pieces = codec.split("我有" + "x" * 100 + "一只猫。")
    assert [(piece.text, bool(piece.source_ids)) for piece in pieces] == [
        ("我有", True),
        ("x" * 100, False),
        ("一只猫。", True),
    ]
    # What the tokeniser drops is kept as it is.
    assert [(piece.text, piece.source_ids) for piece in codec.split("\u200b\n")] == [("\u200b", ()), ("\n", ())]


Normalizing = Callable[[str], TextCodec]


@pytest.fixture
def normalizing(
    repository: Path,
    edit_manifest: Edit,
    relist: Callable[[Path], None],
    train_tokenizer: Callable[[str], bytes],
) -> Normalizing:
    """Return a maker of codecs whose manifest names a normalisation, with a tokeniser that does nothing of the kind."""
    directory = repository / "small" / "1"
    (directory / "shared.spm").write_bytes(train_tokenizer("identity"))
    pieces = SentencePieceProcessor(model_file=str(directory / "shared.spm")).vocab_size()

    def make(normalization: str) -> TextCodec:
        def change(manifest: dict[str, Any]) -> None:
            manifest["source_format"]["normalization"] = normalization
            manifest["dimensions"] |= {"source_vocab_size": pieces, "target_vocab_size": pieces}

        relist(directory)
        edit_manifest(directory, change)
        return open_codec(load_bundle(directory))

    return make


@pytest.mark.parametrize(
    ("normalization", "text", "plain", "same"),
    [
        ("nfkc", "ｈｅｌｌｏ", "hello", True),
        ("none", "ｈｅｌｌｏ", "hello", False),
        ("moses", "„hello…", '"hello...', True),
        ("none", "„hello…", '"hello...', False),
    ],
)
def test_text_is_normalised_before_the_tokeniser_if_the_manifest_says_so(
    normalizing: Normalizing, normalization: str, text: str, plain: str, same: bool
) -> None:
    codec = normalizing(normalization)
    assert (codec.encode(text) == codec.encode(plain)) is same
    [[*spans, _end]] = codec.offsets(codec.split(text))
    assert (spans[0][0], spans[-1][1]) == (0, len(text))


def test_without_sacremoses_a_bundle_that_needs_it_is_refused_with_what_to_install(
    normalizing: Normalizing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xuanzang.server.bundles.manifest.find_spec", lambda _name: None)
    with pytest.raises(BundleError, match=r"which needs sacremoses: install xuanzang-server\[moses\]"):
        normalizing("moses")


def test_sentences_are_joined_as_the_script_of_the_target_is_written(repository: Path, edit_manifest: Edit) -> None:
    directory = repository / "small" / "1"
    codes = ["cmn-Hans", "cmn-Latn", "en", "yue", "zh-CN", "JA"]
    edit_manifest(directory, lambda manifest: manifest.update(target_language_codes=codes))
    codec = open_codec(load_bundle(directory))
    joiners = [codec.joiner(), *(codec.between("", code).joiner() for code in codes)]
    joined = ["".join(joiner.add(part) for part in ("A.", "B.", "\n", "C.")) for joiner in joiners]
    spaced, plain = "A. B.\nC.", "A.B.\nC."
    assert joined == [plain, plain, spaced, spaced, plain, plain, plain]


@pytest.fixture
def multilingual(repository: Path, edit_manifest: Edit) -> TextCodec:
    def change(manifest: dict[str, Any]) -> None:
        manifest["target_language_codes"] = ["en", "fr"]
        manifest["source_format"]["language_prefix_ids"] = PREFIX_IDS

    edit_manifest(repository / "small" / "1", change)
    return open_codec(load_bundle(repository / "small" / "1"))


@pytest.mark.parametrize("language", PREFIX_IDS)
def test_each_sentence_begins_with_its_target_token(codec: TextCodec, multilingual: TextCodec, language: str) -> None:
    into = multilingual.between("", language)
    text = "我有一只猫。你好，世界！\n\u200b\n今天天气很好。"
    plain, pieces = codec.split(text), into.split(text)
    assert [piece.text for piece in pieces] == [piece.text for piece in plain]
    expected = [(PREFIX_IDS[language], *piece.source_ids) if piece.source_ids else () for piece in plain]
    assert [piece.source_ids for piece in pieces] == expected
    for spans, own in zip(into.offsets(pieces), codec.offsets(plain), strict=True):
        assert spans[1:] == own
        assert spans[0][0] == spans[0][1] == own[0][0]


def test_the_token_of_the_target_language_counts_to_the_limit(codec: TextCodec, multilingual: TextCodec) -> None:
    text = "hello, " * 20
    for each in (codec, multilingual.between("", "fr")):
        lengths = [len(piece.source_ids) for piece in each.split(text)]
        assert max(lengths) <= LIMIT
    [whole] = [words for words in ("x" * n for n in range(60)) if len(codec.encode(words)) == LIMIT][:1]
    assert len(codec.split(whole)[0].source_ids) == LIMIT
    assert len(multilingual.split(whole, refuse_long=True)[0].source_ids) == LIMIT + 1


def test_spans_are_the_characters_of_each_source_token_in_the_whole_text(codec: TextCodec) -> None:
    text = "hello world。 我有一只猫。"
    pieces = codec.split(text)
    spans = codec.offsets(pieces)
    sentences = [piece for piece in pieces if piece.source_ids]
    assert [len(of_sentence) for of_sentence in spans] == [len(sentence.source_ids) for sentence in sentences]
    for sentence, of_sentence in zip(sentences, spans, strict=True):
        characters = [text[start:end] for start, end in dict.fromkeys(of_sentence)]
        assert "".join(characters) == sentence.text


def test_spans_are_those_of_the_text_before_it_is_normalised(codec: TextCodec) -> None:
    text = "ｈｅｌｌｏ ㈱"
    [spans] = codec.offsets(codec.split(text))
    assert spans[-1] == (len(text), len(text))
    assert text[spans[-2][0] : spans[-2][1]] == "㈱"
    assert all(0 <= start <= end <= len(text) for start, end in spans)


def test_each_token_adds_its_part_of_the_text(codec: TextCodec) -> None:
    target_ids = codec.encode_target("hello world 猫 🐈")
    texts = codec.target.token_texts(target_ids)
    assert "".join(texts) == codec.decode(target_ids) == "hello world 猫 🐈"
    assert len(texts) == len(target_ids)
    assert "🐈" in texts


def test_a_text_is_suppressed_at_the_start_of_a_word_and_within_one(codec: TextCodec) -> None:
    sequences = codec.sequences("猫")
    whole = codec.encode_target("有猫")
    assert any(tuple(whole[-len(sequence) :]) == sequence for sequence in sequences)
    assert all(codec.decode(sequence).strip() == "猫" for sequence in sequences)
    assert codec.sequences("") == []
    bytes_only = codec.sequences("🐈")
    assert [codec.decode(sequence) for sequence in bytes_only] == ["🐈"]


def test_what_the_model_cannot_write_is_the_unknown_token(codec: TextCodec) -> None:
    assert codec.can_write(codec.encode_target("hello 🐈"))
    assert not codec.can_write([5, 3])


def test_a_tokeniser_of_another_size_than_the_vocabulary_is_refused(repository: Path, edit_manifest: Edit) -> None:
    directory = repository / "small" / "1"
    edit_manifest(directory, lambda manifest: manifest["dimensions"].update(target_vocab_size=1000))
    with pytest.raises(BundleError, match="pieces; the dimensions say 1000"):
        open_codec(load_bundle(directory))


def test_a_file_that_is_no_tokeniser_is_refused(repository: Path, relist: Callable[[Path], None]) -> None:
    directory = repository / "small" / "1"
    (directory / "shared.spm").write_bytes(b"not a model")
    relist(directory)
    with pytest.raises(BundleError, match=r"shared\.spm is not a SentencePiece model"):
        open_codec(load_bundle(directory))


@pytest.mark.parametrize("normalization", ["none", "nfkc", "moses"])
def test_what_nobody_sees_costs_no_tokens(normalizing: Normalizing, normalization: str) -> None:
    codec = normalizing(normalization)
    text = "he" + "\u0301" * 600 + "llo" + "\u200f" * 600
    assert codec.encode(text) == codec.encode("he" + "\u0301" * 4 + "llo")
    [segment] = codec.split(text)
    [[*spans, _end]] = codec.offsets([segment])
    assert segment.text == text
    assert (spans[0][0], spans[-1][1]) == (0, len(text))


@pytest.fixture
def with_table(directory: Path, edit_manifest: Edit, relist: Callable[[Path], None]) -> Callable[..., Path]:
    """Give the bundle "small" one table for source and target, and whatever else is to be changed."""

    def change(table: object, **special_ids: int) -> Path:
        path = directory / "pieces.json"
        path.write_bytes(table if isinstance(table, bytes) else json.dumps(table).encode())

        def edit(manifest: dict[str, Any]) -> None:
            manifest |= {"source_vocabulary": path.name, "target_vocabulary": path.name}
            source_ids = {"source_pad_id": PAD_ID, "source_eos_id": TABLE_EOS, "source_unk_id": UNK_ID}
            target_ids = {"decoder_start_id": PAD_ID, "eos_id": TABLE_EOS, "unk_id": UNK_ID}
            manifest["special_ids"] = source_ids | target_ids | special_ids
            size = len(table) if isinstance(table, list) else 10
            manifest["dimensions"] |= {"source_vocab_size": size, "target_vocab_size": size}

        relist(directory)
        edit_manifest(directory, edit)
        return directory

    return change


@pytest.fixture
def processor(tokenizer: bytes) -> SentencePieceProcessor:
    return SentencePieceProcessor(model_proto=tokenizer)


def test_a_codec_goes_through_the_tables(with_table: Callable[..., Path], processor: SentencePieceProcessor) -> None:
    table = joint_table(processor)
    codec = open_codec(load_bundle(with_table(table)))
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
    codec = open_codec(load_bundle(with_table(table)))
    *_, last, eos = codec.encode("hello")
    assert (last, eos) == (UNK_ID, TABLE_EOS)
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
        ({"source_unk_id": TABLE_EOS}, "special_ids.source_unk_id and source_eos_id are both 0"),
        ({"unk_id": TABLE_EOS}, "special_ids.unk_id and eos_id are both 0"),
    ],
)
def test_special_ids_must_be_in_the_table_and_differ(
    with_table: Callable[..., Path], processor: SentencePieceProcessor, special_ids: dict[str, int], reason: str
) -> None:
    with pytest.raises(BundleError, match=reason):
        load_bundle(with_table(joint_table(processor), **special_ids))


def test_a_table_without_special_pieces_is_refused(
    with_table: Callable[..., Path], processor: SentencePieceProcessor
) -> None:
    directory = with_table(pieces_of(processor))
    with pytest.raises(BundleError) as refusal:
        open_codec(load_bundle(directory))
    assert len(refusal.value.reasons) == 6  # three of each side
    assert "where special_ids.source_unk_id is" in str(refusal.value)
