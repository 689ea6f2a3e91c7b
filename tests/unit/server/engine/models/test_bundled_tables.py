"""Bundles whose pieces get their ids from tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from piece_tables import EOS_ID, PAD_ID, SPECIAL, UNK_ID, joint_table, pieces_of
from sentencepiece import SentencePieceProcessor

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.models.loaded import open_codec

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
ListFiles = Callable[[dict[str, Any], Path], None]


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
        open_codec(load_bundle(directory))
    assert len(refusal.value.reasons) == 6  # three of each side
    assert "where special_ids.source_unk_id is" in str(refusal.value)
