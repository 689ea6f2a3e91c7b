"""The reader of Marian's files: what it returns of sound ones, and that it refuses others in one line."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("yaml", reason="needs the extra `pull`")

import yaml
from marian_students import (
    FLOAT32,
    INT8,
    INTGEMM8,
    Item,
    StudentForm,
    english_texts,
    is_matrix,
    model_bytes,
    model_items,
    parameters,
    shortlist_bytes,
    vocabulary_bytes,
    write_student,
)

from xuanzang.hub.marian import Student, read_student
from xuanzang.hub.marian_items import MalformedFileError, read_items, read_shortlist
from xuanzang.server.published import HubError

SMALL = StudentForm(d_model=8, d_ff=16, heads=2, encoder_layers=1, decoder_layers=1, vocabulary=290)
FORMS = [
    SMALL,
    dataclasses.replace(SMALL, is_int8=False),
    dataclasses.replace(SMALL, has_own_vocabularies=True, encoder_layers=2),
    dataclasses.replace(SMALL, has_own_vocabularies=True, has_one_table=True, decoder_layers=2),
]
TEXTS = english_texts()
ATTENTION = [*(f"{kind}{which}" for kind in "Wb" for which in "qkvo"), "Wo_ln_scale", "Wo_ln_bias"]
NAMES = {
    *(f"{block}_{name}" for block in ("encoder_l1_self", "decoder_l1_context") for name in ATTENTION),
    *(f"{side}_l1_ffn_{name}" for side in ("encoder", "decoder") for name in ("W1", "b1", "W2", "b2", "ffn_ln_scale")),
    *(f"decoder_l1_rnn_{name}" for name in ("W", "Wf", "bf", "ffn_ln_scale", "ffn_ln_bias")),
}
"""Of the tensors that Marian writes for a student."""
SOUND = model_bytes(model_items(SMALL, parameters(SMALL)))


@pytest.mark.parametrize("form", FORMS)
def test_a_student_is_read_as_it_was_written(tmp_path: Path, form: StudentForm) -> None:
    values = write_student(tmp_path / "student", form, TEXTS)
    student = read_student(tmp_path / "student")
    assert set(student.tensors) == set(values) >= NAMES
    for name, value in values.items():
        tensor = student.tensors[name]
        assert tensor.array.shape == value.shape
        if not (form.is_int8 and is_matrix(name)):
            assert (tensor.scale, tensor.activation_scale) == (None, None)
            np.testing.assert_array_equal(tensor.array, value)
            continue
        assert tensor.array.dtype == np.int8
        assert tensor.scale is not None
        assert tensor.scale == pytest.approx(127 / np.abs(value).max())
        assert np.abs(tensor.floats - value).max() <= 0.501 / tensor.scale
        if name != "encoder_Wemb":
            assert tensor.activation_scale == pytest.approx(20)
    assert student.config == form.config
    assert (student.network.dim_emb, student.network.dec_depth) == (form.d_model, form.decoder_layers)
    assert student.shares_vocabulary != form.has_own_vocabularies
    assert (student.shortlist is None) == form.has_own_vocabularies
    assert set(student.digests) == {
        path.name for path in (tmp_path / "student").iterdir() if path.name != "lex.bin" or student.shortlist
    }


def test_a_shortlist_is_read_as_it_was_written() -> None:
    shortlist = read_shortlist(shortlist_bytes(100, 200), 100, 200)
    assert shortlist.first == 50
    assert shortlist.offsets[-1] == len(shortlist.entries)
    assert set(np.diff(shortlist.offsets)) <= set(range(2, 6))
    assert shortlist.entries.max() < 200


def changed(name: str, **fields: object) -> bytes:
    """Return a model with one item that differs."""
    items = model_items(SMALL, parameters(SMALL))
    return model_bytes(dataclasses.replace(i, **fields) if i.name == name else i for i in items)  # type: ignore[arg-type]


def with_config(**options: object) -> bytes:
    config = {name: value for name, value in (SMALL.config | options).items() if value != "absent"}
    text = yaml.safe_dump(config).encode()
    return changed("special:model.yml", data=text, size=len(text), shape=(len(text),))


def with_text(text: bytes) -> bytes:
    return changed("special:model.yml", data=text, size=len(text), shape=(len(text),))


def without(name: str) -> bytes:
    return model_bytes(item for item in model_items(SMALL, parameters(SMALL)) if item.name != name)


def with_item(**fields: object) -> bytes:
    whole = {"name": "other", "kind": FLOAT32, "shape": (1, 1), "data": bytes(256), "size": 256} | fields
    return model_bytes([Item(**whole), *model_items(SMALL, parameters(SMALL))])  # type: ignore[arg-type]


def at(place: int, form: str, *numbers: float) -> bytes:
    """Return the sound model with numbers of another value in one place."""
    return SOUND[:place] + struct.pack(f"<{form}", *numbers) + SOUND[place + struct.calcsize(f"<{form}") :]


MALFORMED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "version and count of items: 16 bytes from byte 0 on, and the file ends at 0"),
    "text": (b"<html>not found</html>" * 4, "this is no model of Marian's in binary form"),
    "version": (at(0, "Q", 2), "version 2 of the format, not 1"),
    "count of nothing": (at(8, "Q", 0), "0 items, outside 1 to 4096"),
    "huge count": (at(8, "Q", 2**63), "9223372036854775808 items, outside 1 to 4096"),
    "count beyond the file": (at(8, "Q", 4000), "header"),
    "huge name": (at(16, "Q", 2**62), "header 0: a name of 4611686018427387904 bytes, outside 2 to 256"),
    "type": (at(24, "Q", 0x0202), "type 0x0202, none of int8 (0x0101), float32 (0x0404), intgemm8 (0x4101)"),
    "many dimensions": (at(32, "Q", 2**40), "1099511627776 dimensions, outside 1 to 4"),
    "huge data": (at(40, "Q", 2**60), "data of Wemb: 1152921504606846976 bytes from byte 3584 on"),
    "cut": (SOUND[:-1], "data of special:model.yml"),
    "longer": (SOUND + b"\0", "1 bytes follow the last item"),
    "name of a path": (with_item(name="../../etc/passwd"), "../../etc/passwd belongs to no part of the network"),
    "name that moves the cursor": (with_item(name="\x1b[2Jx"), "name 0: not printable ASCII with a NUL at its end"),
    "twice": (with_item(name="Wemb"), "the item Wemb is there twice"),
    "int8 that is no text": (with_item(kind=INT8), "other: type int8, which only special:model.yml has"),
    "shape of nothing": (with_item(shape=(0, 4)), "other: shape [0, 4] has a dimension below 1"),
    "negative shape": (with_item(shape=(-1, -1)), "other: shape [-1, -1] has a dimension below 1"),
    "huge shape": (with_item(shape=(2**30, 2**30)), "other: 256 bytes of data; shape [1073741824, 1073741824] takes"),
    "infinite": (with_item(data=b"\0\0\x80\x7f" * 64), "other: not all of its numbers are finite"),
    "two multipliers": (
        with_item(name="Wemb_QuantMultA", shape=(1, 2), kind=FLOAT32),
        "Wemb_QuantMultA is there twice|Wemb_QuantMultA: shape [1, 2], not one number",
    ),
    "multiplier of zero": (with_item(name="x_QuantMultA"), "x_QuantMultA: 0.0, not a finite number above 0"),
    "scale of zero": (with_item(kind=INTGEMM8), "multiplier of other: 0.0, not a finite number above 0"),
    "no network": (without("special:model.yml"), "the file has no special:model.yml"),
    "missing tensor": (without("encoder_l1_ffn_W2"), "encoder_l1_ffn_W2 is missing"),
    "other tensor": (with_item(), "other belongs to no part of the network"),
    "not YAML": (with_text(b"a: [1"), "its configuration is not YAML"),
    "not UTF-8": (with_text(b"\xff\xfe"), "special:model.yml: not UTF-8 at byte 0"),
    "a list": (with_text(b"- 1"), "its configuration is not a mapping of options"),
    "code": (with_text(b"!!python/object/apply:os.system ['true']"), "its configuration is not YAML"),
    "deep": (with_text(b"[" * 60_000), "its configuration is not YAML"),
    "long": (with_text(b"# " + b"x" * 70_000), "its configuration has 70002 characters, more than 65536"),
    "other decoder": (with_config(**{"dec-cell": "gru"}), "dec-cell is 'gru': Input should be 'ssru'"),
    "no decoder": (with_config(**{"dec-cell": "absent"}), "dec-cell Field required"),
    "other type": (with_config(type="s2s"), "type is 's2s': Input should be 'transformer'"),
    "other norm": (with_config(**{"transformer-preprocess": "n"}), "transformer-preprocess is 'n': Input should be ''"),
    "tied layers": (with_config(**{"transformer-tied-layers": [1]}), "transformer-tied-layers is [1]"),
    "text for a size": (with_config(**{"dim-emb": "8"}), "dim-emb is '8': Input should be a valid integer"),
    "truth for a size": (with_config(**{"dim-emb": True}), "dim-emb is True: Input should be a valid integer"),
    "huge size": (with_config(**{"enc-depth": 10**9}), "enc-depth is 1000000000"),
    "heads": (with_config(**{"transformer-heads": 3}), "dim-emb 8 is no multiple of transformer-heads 3"),
    "three vocabularies": (with_config(**{"dim-vocabs": [1, 2, 3]}), "dim-vocabs is [1, 2, 3]"),
    "two sizes": (with_config(**{"dim-vocabs": [290, 280]}), "dim-vocabs has two sizes, [290, 280]"),
    "own output layer": (with_config(**{"tied-embeddings-all": False}), "the output layer has its own table"),
    "other shape": (with_config(**{"transformer-dim-ffn": 32}), "encoder_l1_ffn_W1 has shape [8, 16], not [8, 32]"),
}


@pytest.fixture(scope="module")
def vocabulary() -> bytes:
    return vocabulary_bytes(TEXTS, SMALL.vocabulary)


@pytest.fixture
def read(tmp_path: Path, vocabulary: bytes) -> Callable[[bytes], Student]:
    """Return a function that reads a student with other bytes for its model."""

    def read(model: bytes) -> Student:
        (tmp_path / "model.zhen.intgemm.alphas.bin").write_bytes(model)
        (tmp_path / "vocab.zhen.spm").write_bytes(vocabulary)
        return read_student(tmp_path)

    return read


@pytest.mark.parametrize("damage", MALFORMED)
def test_a_malformed_model_is_refused_with_its_name_and_fault(read: Callable[[bytes], Student], damage: str) -> None:
    data, reason = MALFORMED[damage]
    with pytest.raises(HubError) as refused:
        read(data)
    message = str(refused.value)
    assert message.startswith("model.zhen.intgemm.alphas.bin cannot be imported: ")
    assert any(part in message for part in reason.split("|")), message
    assert "\n" not in message
    assert message.isprintable()


@given(data=st.binary(max_size=600))
def test_no_bytes_make_the_reader_fail_in_another_way(data: bytes) -> None:
    for head in (b"", SOUND[:16], SOUND[:400]):
        with pytest.raises(MalformedFileError):
            read_items(head + data)
    with pytest.raises(MalformedFileError):
        read_shortlist(shortlist_bytes(3, 80)[:8] + data, 3, 80)


@given(place=st.integers(0, len(SOUND) - 1), value=st.integers(0, 255), cut=st.booleans())
def test_a_damaged_model_is_read_or_refused(place: int, value: int, cut: bool) -> None:
    damaged = SOUND[:place] if cut else SOUND[:place] + bytes([value]) + SOUND[place + 1 :]
    try:
        _, tensors = read_items(damaged)
    except MalformedFileError:
        return
    assert not cut
    assert all(np.isfinite(tensor.floats).all() for tensor in tensors.values())


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (shortlist_bytes(100, 200)[:40], "head: 48 bytes from byte 0 on"),
        (b"\0" * 48, "not a shortlist of Marian's in binary form"),
        (shortlist_bytes(99, 200), "a shortlist for 99 source pieces; the vocabulary has 100"),
        (shortlist_bytes(100, 200)[:-4], "do not fill"),
        (shortlist_bytes(100, 300), "it names target pieces beyond the vocabulary's 200"),
        (shortlist_bytes(100, 200, first=201), "it names target pieces beyond the vocabulary's 200"),
        (
            shortlist_bytes(100, 200)[:56] + struct.pack("<Q", 2**63) + shortlist_bytes(100, 200)[64:],
            "its offsets do not rise from 0",
        ),
    ],
)
def test_a_malformed_shortlist_is_refused(damaged: bytes, reason: str) -> None:
    with pytest.raises(MalformedFileError, match=r"^[ -~]+$") as refused:
        read_shortlist(damaged, 100, 200)
    assert reason in str(refused.value)


def test_vocabularies_must_fit_their_model(read: Callable[[bytes], Student], tmp_path: Path) -> None:
    read(SOUND)
    for data, reason in (
        (b"", "the file is empty"),
        (b"\x0a\xff\xff\xff\xff\x0f", "not a model of SentencePiece"),
        (vocabulary_bytes(TEXTS, 300), "300 pieces; the model's dim-vocabs says 290"),
    ):
        (tmp_path / "vocab.zhen.spm").write_bytes(data)
        with pytest.raises(HubError, match=reason) as refused:
            read_student(tmp_path)
        assert str(refused.value).startswith("vocab.zhen.spm cannot be imported: ")


def test_a_folder_without_one_file_of_each_kind_is_refused(read: Callable[[bytes], Student], tmp_path: Path) -> None:
    read(SOUND)
    (tmp_path / "model.enzh.bin").write_bytes(SOUND)
    with pytest.raises(HubError, match=r"several files .*: model\.enzh\.bin, model\.zhen\.intgemm\.alphas\.bin"):
        read_student(tmp_path)
    (tmp_path / "vocab.zhen.spm").rename(tmp_path / "srcvocab.zhen.spm")
    with pytest.raises(HubError, match=r"has no trgvocab\*\.spm, which a student"):
        read_student(tmp_path)
