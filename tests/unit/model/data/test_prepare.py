from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError

from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.data.dataset import PreparedSplit
from xuanzang.model.data.metadata import read_metadata
from xuanzang.model.data.prepare import PrepareSettings, prepare
from xuanzang.model.tokenizer import Tokenizer

ANIMALS = [
    ("我有一只猫。", "I have a cat."),
    ("他看见了那只狗和一匹马。", "He saw that dog and a horse."),
    ("小鸟在树上唱歌。", "The little bird sings in the tree."),
    ("鱼住在水里。", "Fish live in water."),
    ("农夫有二十头牛。", "The farmer owns twenty cows."),
    ("羊吃草。", "Sheep eat grass."),
    ("猪很聪明。", "Pigs are quite clever."),
    ("老虎是最大的猫。", "Tigers are the largest cats."),
]


def texts(folder: Path, split: str) -> list[tuple[str, str]]:
    prepared = PreparedSplit(folder, split)
    tokenizers = [Tokenizer(folder / name) for name in ("source.spm", "target.spm")]
    return [
        (tokenizers[0].decode(batch.source_ids[0].tolist()), tokenizers[1].decode(batch.target_output_ids[0].tolist()))
        for batch in (prepared.batch([i]) for i in range(len(prepared)))
    ]


def write(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    content = "".join("\t".join(pair) + "\n" for pair in pairs).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture
def settings(tmp_path: Path) -> PrepareSettings:
    write(tmp_path / "corpora" / "one.tsv", [*ANIMALS[:4], ("１２", "no 12"), ANIMALS[0]])
    write(tmp_path / "corpora" / "two.tsv.gz", [*ANIMALS[4:], ("狗", "dog"), ("x", "x"), ("猫" * 70, "cat " * 70)])
    valid = write(tmp_path / "valid.tsv", [("狗", "dog"), ("（猫）", "(cat)")])
    return PrepareSettings(
        train=[tmp_path / "corpora"],
        valid=valid,
        output=tmp_path / "data",
        vocab_size=340,
        max_tokens=60,
        weight={"two": 0.5},
    )


def test_a_folder_of_files_becomes_ids_that_spell_the_pairs(settings: PrepareSettings) -> None:
    metadata = prepare(settings)
    assert texts(settings.output, "train") == [*ANIMALS[:4], ("12", "no 12"), *ANIMALS[4:]]
    assert read_metadata(settings.output) == metadata
    assert (metadata.corpora, metadata.weights) == (["one", "two"], [1.0, 0.5])
    assert metadata.filter_counts == {"kept": 10, "duplicate": 1, "kept out": 1, "untranslated": 1}
    assert (metadata.train_pairs, metadata.valid_pairs) == (9, 2)
    corpus_ids = PreparedSplit(settings.output, "train").corpus_ids
    assert corpus_ids is not None
    assert corpus_ids.tolist() == [0] * 5 + [1] * 4


def test_validation_sources_are_normalised_as_training_sources_are(settings: PrepareSettings) -> None:
    prepare(settings)
    assert texts(settings.output, "valid") == [("狗", "dog"), ("(猫)", "(cat)")]


def test_separate_vocabularies_are_two_tokenisers(settings: PrepareSettings) -> None:
    metadata = prepare(settings.model_copy(update={"share_vocabulary": False, "vocab_size": 308}))
    assert (settings.output / "source.spm").read_bytes() != (settings.output / "target.spm").read_bytes()
    assert (metadata.source_vocab_size, metadata.target_vocab_size) == (308, 308)
    assert texts(settings.output, "train")[0] == ANIMALS[0]


def test_tokenisers_can_be_taken_over(settings: PrepareSettings, tmp_path: Path) -> None:
    prepare(settings)
    settings = settings.model_copy(update={"output": tmp_path / "tuning", "tokenizers_from": tmp_path / "data"})
    metadata = prepare(settings.model_copy(update={"vocab_size": 999}))
    assert (metadata.source_vocab_size, metadata.share_vocabulary) == (340, True)
    assert (tmp_path / "tuning" / "source.spm").read_bytes() == (tmp_path / "data" / "source.spm").read_bytes()
    assert texts(tmp_path / "tuning", "train") == texts(tmp_path / "data", "train")
    with pytest.raises(CorpusError, match="no tokenisers can be taken from"):
        prepare(settings.model_copy(update={"tokenizers_from": tmp_path / "corpora", "overwrite": True}))


def test_a_failure_leaves_the_old_folder_as_it_was(settings: PrepareSettings, tmp_path: Path) -> None:
    before = prepare(settings)
    settings = settings.model_copy(update={"overwrite": True})
    write(tmp_path / "corpora" / "broken.tsv", [("no tab",)])  # type: ignore[list-item]
    with pytest.raises(CorpusError, match=r"broken\.tsv:1: expected source<TAB>target"):
        prepare(settings)
    with pytest.raises(CorpusError, match="vocab_size is too high"):
        prepare(
            settings.model_copy(update={"train": [tmp_path / "corpora" / "one.tsv"], "weight": {}, "vocab_size": 999})
        )
    assert read_metadata(settings.output) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpora", "data", "valid.tsv"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": {"three": 2.0}}, r"unknown corpora \['three'\]; there are \['one', 'two'\]"),
        ({"train": [Path("/nowhere.tsv")], "weight": {}}, r"/nowhere\.tsv: No such file"),
        ({"train": [Path(__file__).parent], "weight": {}}, r"/data holds no files \*\.tsv or \*\.tsv\.gz"),
        ({"max_characters": 1}, "no training pairs are left"),
        ({"max_tokens": 1}, "all train pairs have more than 1 tokens"),
    ],
)
def test_wrong_settings_are_refused_with_the_reason(
    settings: PrepareSettings, change: dict[str, object], message: str
) -> None:
    with pytest.raises(CorpusError, match=message):
        prepare(settings.model_copy(update=change))
    assert not settings.output.exists()


def test_a_folder_with_other_things_in_it_is_never_replaced(settings: PrepareSettings) -> None:
    keepsake = write(settings.output / "keepsake.txt", [])
    with pytest.raises(CorpusError, match="is not a folder of prepared data"):
        prepare(settings)
    assert keepsake.exists()


def test_prepared_data_are_replaced_only_on_request(settings: PrepareSettings) -> None:
    prepare(settings)
    before = {path.name: path.read_bytes() for path in settings.output.iterdir()}
    settings = settings.model_copy(update={"swap": True, "source_language": "en", "target_language": "zh"})
    with pytest.raises(CorpusError, match="holds prepared data already; give --overwrite to replace them"):
        prepare(settings)
    assert {path.name: path.read_bytes() for path in settings.output.iterdir()} == before
    prepare(settings.model_copy(update={"overwrite": True}))
    assert texts(settings.output, "train")[0] == ANIMALS[0][::-1]


def test_a_negative_weight_is_refused(settings: PrepareSettings) -> None:
    with pytest.raises(ValidationError, match=r"weight\.two"):
        PrepareSettings.model_validate(settings.model_dump() | {"weight": {"two": -1}})


def test_the_card_tells_what_came_from_each_file_and_how_often_it_is_seen(settings: PrepareSettings) -> None:
    prepare(settings)
    card = json.loads((settings.output / "data_card.json").read_text())
    assert card["pairs_per_epoch"] == 7
    assert card["corpora"] == {
        "one": {"offered": 6, "pairs": 5, "weight": 1.0, "share": 0.71429, "dropped": {"duplicate": 1}},
        "two": {
            "offered": 7,
            "pairs": 4,
            "weight": 0.5,
            "share": 0.28571,
            "dropped": {"kept out": 1, "untranslated": 1},
        },
    }


def test_validation_pairs_are_never_filtered(settings: PrepareSettings, tmp_path: Path) -> None:
    write(tmp_path / "valid.tsv", [("狗", "dog"), ("狗。", "Dog."), ("错误 C31", "an error")])
    assert prepare(settings).valid_pairs == 3


def test_plain_typography_is_for_targets(settings: PrepareSettings, tmp_path: Path) -> None:
    write(tmp_path / "valid.tsv", [("“狗”", "“dog”")])
    prepare(settings.model_copy(update={"target_typography": "plain"}))
    assert texts(settings.output, "valid") == [("“狗”", '"dog"')]


def test_made_pairs_come_as_corpora_of_their_own_and_the_same_ones_again(settings: PrepareSettings) -> None:
    settings = settings.model_copy(update={"copying_share": 0.6, "passing_share": 0.3, "max_tokens": 200})
    metadata = prepare(settings)
    assert (metadata.corpora, metadata.weights) == (["one", "two", "copying", "passing"], [1.0, 0.5, 1.0, 1.0])
    made = texts(settings.output, "train")
    settings = settings.model_copy(update={"overwrite": True})
    assert prepare(settings).data_sha256 == metadata.data_sha256
    assert prepare(settings.model_copy(update={"seed": 1})).data_sha256 != metadata.data_sha256
    passing = made[-2:]
    assert all(source == target for source, target in passing)
    assert {target for _, target in passing} <= {target for _, target in made[:10]}


def test_sentences_of_names_are_for_chinese_and_english_only(settings: PrepareSettings) -> None:
    metadata = prepare(settings.model_copy(update={"naming_share": 1.0, "max_tokens": 200}))
    assert metadata.corpora[-1] == "naming"
    with pytest.raises(ValidationError, match="naming-share is for zh and en, not for zh and de"):
        PrepareSettings(**(settings.model_dump() | {"naming_share": 0.1, "target_language": "de"}))


def test_terms_are_a_corpus_of_their_own_with_target_words_in_the_source(
    settings: PrepareSettings, tmp_path: Path
) -> None:
    pytest.importorskip("scipy")
    words = {"学校": "school", "学生": "student", "医院": "hospital", "图书馆": "library", "公园": "park"}
    frames = [("我去{}。", "I go to the {}."), ("这是{}吗？", "Is this the {}?"), ("{}很大", "The {} is big")]
    pairs = [(source.format(word), target.format(words[word])) for word in words for source, target in frames]
    (tmp_path / "tokenizers").mkdir()
    for name in ("source.spm", "target.spm"):
        shutil.copy(
            Path(__file__).parents[4] / "server" / "models" / "zh-en" / "4" / "source.spm",
            tmp_path / "tokenizers" / name,
        )
    changes = {"train": [write(tmp_path / "words.tsv", pairs)], "tokenizers_from": tmp_path / "tokenizers"}
    metadata = prepare(settings.model_copy(update=changes | {"term_share": 0.4, "weight": {}}))
    assert metadata.corpora == ["words", "terms"]
    made = texts(settings.output, "train")[len(pairs) :]
    assert len(made) == 6
    for source, target in made:
        assert {word for word in words.values() if word in source} == {
            word for word in words.values() if word in target
        }


def test_traditional_characters_are_read_as_simplified_ones(settings: PrepareSettings) -> None:
    metadata = prepare(settings.model_copy(update={"fold_traditional": True}))
    tokenizer = Tokenizer(settings.output / "source.spm")
    assert tokenizer.encode("農夫有二十頭牛。") == tokenizer.encode("农夫有二十头牛。")
    assert tokenizer.decode(tokenizer.encode("a  b 農")) == "a  b 农"
    assert metadata.share_vocabulary
    assert texts(settings.output, "train")[:4] == ANIMALS[:4]
