from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from pydantic import ValidationError
from words import WORDS

from xuanzang.model.data.corpus import Pair, read_rows
from xuanzang.model.data.dataset import PreparedSplit
from xuanzang.model.data.prepare import PrepareSettings, prepare
from xuanzang.model.data.splits import HeldOut, hold_out


def target(name: str, number: int) -> str:
    return f"{name} {' '.join(random.Random(number).choices(WORDS, k=3))} {number}"


CORPORA = {
    name: [Pair(f"{name} {number} 号", target(name, number)) for number in range(1000)] for name in ("one", "two")
}


def cut(corpora: dict[str, list[Pair]], share: float = 0.1, maximum: int = 1000) -> HeldOut:
    return hold_out(corpora, share, maximum, defaultdict(Counter))


def test_about_the_share_of_every_corpus_is_held_out() -> None:
    found = cut(CORPORA)
    assert all(70 <= count <= 130 for count in Counter(found.names).values())
    assert set(found.names) == {"one", "two"}
    assert not set(found.pairs) & {pair for pairs in found.corpora.values() for pair in pairs}
    assert len(found.pairs) + sum(map(len, found.corpora.values())) == 2000


def test_a_choice_depends_neither_on_other_corpora_nor_on_order() -> None:
    expected = [pair for pair, name in zip(*_rows(cut(CORPORA, maximum=20)), strict=True) if name == "two"]
    shuffled = random.Random(0).sample(CORPORA["two"], 1000)
    assert cut({"two": shuffled}, maximum=20).pairs == expected


def test_the_opposite_direction_holds_out_the_same_pairs() -> None:
    swapped = {name: [Pair(*pair[::-1]) for pair in pairs] for name, pairs in CORPORA.items()}
    assert {pair[::-1] for pair in cut(swapped).pairs} == {tuple(pair) for pair in cut(CORPORA).pairs}


def test_pairs_that_share_a_side_with_a_held_out_pair_are_not_trained_on() -> None:
    chosen = cut(CORPORA).pairs[0]
    related = [Pair(chosen.source, "another translation"), Pair("另一个", f"{chosen.target.upper()}!")]
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    found = hold_out(CORPORA | {"three": [*related, Pair("别的", "something else")]}, 0.1, 1000, counts)
    assert not set(related) & set(found.corpora["three"])
    assert counts["three"]["held out"] >= 2


def test_the_first_held_out_pairs_are_of_all_corpora() -> None:
    assert set(cut(CORPORA).names[:20]) == {"one", "two"}


@pytest.fixture
def settings(tmp_path: Path) -> PrepareSettings:
    for name, pairs in CORPORA.items():
        (tmp_path / f"{name}.tsv").write_text("".join("\t".join(pair) + "\n" for pair in pairs[:200]), encoding="utf-8")
    return PrepareSettings(
        train=[tmp_path / "one.tsv", tmp_path / "two.tsv"],
        output=tmp_path / "data",
        vocab_size=310,
        min_script_share=0,
        valid_share=0.1,
        valid_maximum=10,
    )


def test_prepare_cuts_validation_pairs_and_remembers_their_corpus(settings: PrepareSettings) -> None:
    metadata = prepare(settings)
    assert (metadata.train_pairs, metadata.valid_pairs) == (380, 20)
    assert metadata.filter_counts == {"kept": 380, "held out": 20}
    rows = list(read_rows(settings.output / "valid.tsv"))
    split = PreparedSplit(settings.output, "valid")
    assert split.corpus_ids is not None
    assert [row[2] for row in rows] == [metadata.corpora[i] for i in split.corpus_ids]
    assert all(row[1] == target(row[2], int(row[0].split()[1])) for row in rows)
    card = json.loads((settings.output / "data_card.json").read_text())
    assert card["corpora"]["one"]["dropped"] == {"held out": 10}


@pytest.mark.parametrize("kept", [(0, 1), (0,), (1,)])
def test_pairs_with_a_side_to_keep_out_are_not_trained_on(
    settings: PrepareSettings, tmp_path: Path, kept: tuple[int, ...]
) -> None:
    tests = [
        [pair[side] if side in kept else f"another {i}" for side in (0, 1)] for i, pair in enumerate(CORPORA["one"])
    ]
    (tmp_path / "test.tsv").write_text("".join("\t".join(pair) + "\n" for pair in tests[:50]), "utf-8")
    metadata = prepare(settings.model_copy(update={"keep_out": [tmp_path / "test.tsv"]}))
    assert metadata.filter_counts["kept out"] == 50
    assert metadata.train_pairs + metadata.valid_pairs == 350


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(
    "test",
    [
        ("他說：「這個很好」", "Quite another sentence"),
        ("他说：“这个很好。”", "Quite another sentence"),
        ("另一句话", "Ｈｅ ｓａｉｄ “ｔｈｉｓ ｉｓ ｇｏｏｄ”"),
    ],
    ids=["traditional", "punctuation", "width"],
)
def test_twins_of_test_sentences_are_kept_out_of_either_side(
    settings: PrepareSettings, tmp_path: Path, test: tuple[str, str], swap: bool
) -> None:
    with (tmp_path / "one.tsv").open("a", encoding="utf-8") as file:
        file.write("他说:“这个很好”\tHe said this is good!\n")
    (tmp_path / "test.tsv").write_text("\t".join(test) + "\n", encoding="utf-8")
    languages = {"source_language": "en", "target_language": "zh"} if swap else {}
    change = {"keep_out": [tmp_path / "test.tsv"], "swap": swap, "target_typography": "plain", **languages}
    counts = prepare(settings.model_copy(update=change)).filter_counts
    assert counts["kept out"] == 1


def test_twins_of_held_out_pairs_are_not_trained_on() -> None:
    corpora = {"one": [Pair(f"說 {i}", f"say {i}") for i in range(50)], "two": [Pair("x", "y")] * 2}
    first = cut(corpora, share=0.2)
    twins = [Pair(pair.source.replace("說", "说"), f"another {i}") for i, pair in enumerate(first.pairs)]
    found = cut(corpora | {"twins": twins}, share=0.2)
    assert first.pairs
    assert not {pair.source for pair in found.corpora["twins"]} & {
        pair.source.replace("說", "说") for pair in found.pairs
    }


def test_validation_pairs_come_from_one_place(settings: PrepareSettings, tmp_path: Path) -> None:
    for change in ({"valid_share": 0.0}, {"valid": tmp_path / "one.tsv"}):
        with pytest.raises(ValidationError, match="give either valid or valid-share"):
            PrepareSettings.model_validate(settings.model_dump() | change)


def _rows(found: HeldOut) -> tuple[list[Pair], list[str]]:
    return found.pairs, found.names
