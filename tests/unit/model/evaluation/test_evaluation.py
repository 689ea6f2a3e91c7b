from __future__ import annotations

from pathlib import Path

import pytest
import sacrebleu

from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.evaluation.quality import count_faults, has_loop, measure
from xuanzang.model.evaluation.scores import score_translations
from xuanzang.model.evaluation.test_sets import HeldOutPair, read_test_set


def test_scores_are_those_of_sacrebleu_with_their_signatures() -> None:
    translations, references = ["the cat sat on the mat", "a dog ran"], ["the cat sat on a mat", "the dog ran off"]
    scores = score_translations(translations, references, "en-GB")
    assert scores.bleu == sacrebleu.corpus_bleu(translations, [references]).score
    assert scores.chrf == sacrebleu.corpus_chrf(translations, [references]).score
    assert "tok:13a" in scores.bleu_signature
    assert str(scores).startswith(f"BLEU {scores.bleu:.2f}  (nrefs:1|case:mixed")


@pytest.mark.parametrize(
    ("language", "text"),
    [("zh", "我有一只猫和一只狗"), ("zh-Hans", "我有一只猫和一只狗"), ("ja", "私は猫を飼っています")],
)
def test_languages_without_spaces_are_compared_by_characters(language: str, text: str) -> None:
    assert score_translations([text], [text], language).bleu == pytest.approx(100)
    assert 0 < score_translations([text[:-2]], [text], language).bleu < 100


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("the cat the cat the cat the cat", True),
        ("no no no no no", True),
        ("aaaaaaaaaaaa", True),
        ("very, very, very good", False),
        ("Wait... what?!", False),
        ("1000000", False),
        ("", False),
    ],
)
def test_a_loop_is_a_piece_that_follows_itself_three_times(text: str, loops: bool) -> None:
    assert has_loop(text) == loops


def test_faults_are_counted_against_sources_and_references() -> None:
    faults = count_faults(
        ["----------", "打开 %s 和 {a}", "猫", "好"],
        ["----------", "Open %s", " ", "so so so so so"],
        ["----------", "Open %s and {a}", "a", "good"],
    )
    assert faults[:2] == (1, 1)
    assert faults[3:] == (2, 1)
    assert faults.length_ratio == pytest.approx(32 / 30)
    assert "empty 1  loops 1" in str(faults)
    assert "50.0% of 2" in str(faults)


PAIRS = [
    HeldOutPair("打开 １ 个文件", "Open 1 file", "ui"),
    HeldOutPair("法律", "The law", "law"),
    HeldOutPair("关闭 %s", "Close %s", "ui"),
]


def test_each_group_is_measured_as_if_it_were_a_test_set_of_its_own() -> None:
    translations = ["Open 1 file", "", "Close it"]
    evaluation = measure(PAIRS, translations, "en", "nfkc")
    assert list(evaluation.groups) == ["law", "ui"]
    ui = measure([PAIRS[0], PAIRS[2]], [translations[0], translations[2]], "en", "nfkc")
    assert ui.groups == {}
    assert evaluation.groups["ui"] == ui.whole
    assert ui.whole.sentences == 2
    assert (ui.whole.faults.kept, ui.whole.faults.spans) == (1, 2)
    assert (evaluation.whole.faults.empty, evaluation.groups["law"].faults.empty) == (1, 1)
    figures = evaluation.as_json()
    assert figures["sentences"] == 3
    assert figures["groups"]["ui"]["bleu"] == round(ui.whole.scores.bleu, 3)
    assert figures["bleu_signature"] == evaluation.whole.scores.bleu_signature


def test_spans_are_looked_for_in_what_the_model_read() -> None:
    measured = [measure(PAIRS[:1], ["Open 1 file"], "en", form).whole.faults for form in ("nfkc", "none")]
    assert [(faults.kept, faults.spans) for faults in measured] == [(1, 1), (0, 0)]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_gathers_groups_under_other_names(tmp_path: Path) -> None:
    path = write(tmp_path / "test.tsv", "法\tlaw\ttw_laws\n题\ttitle\tlaw_titles\n猫\tcat\ttatoeba\n狗\tdog\n")
    groups = write(tmp_path / "domains.toml", 'law = ["tw_laws", "law_titles"]')
    assert [pair.group for pair in read_test_set(path)] == ["tw_laws", "law_titles", "tatoeba", ""]
    assert [pair.group for pair in read_test_set(path, groups=groups)] == ["law", "law", "tatoeba", ""]
    assert read_test_set(path, limit=1) == [HeldOutPair("法", "law", "tw_laws")]


@pytest.mark.parametrize(
    ("pairs", "groups", "message"),
    [
        ("", "", "test.tsv is empty"),
        ("猫\tcat\n狗\t\n", "", "test.tsv:2: a side is empty"),
        ("猫\tcat\n", 'a = ["x"]\nb = ["x"]', "domains.toml: x is in a and in b"),
        ("猫\tcat\n", "a = [", "domains.toml: "),
    ],
)
def test_a_test_set_that_cannot_be_scored_is_refused(tmp_path: Path, pairs: str, groups: str, message: str) -> None:
    path, toml = write(tmp_path / "test.tsv", pairs), write(tmp_path / "domains.toml", groups)
    with pytest.raises(CorpusError, match=message):
        read_test_set(path, groups=toml)
