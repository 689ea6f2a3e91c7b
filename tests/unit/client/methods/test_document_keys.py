"""Keys of the translation memory: equal if the same text would get the same translation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xuanzang.client import DecodingDefaults, Model, SamplingOptions
from xuanzang.client._methods.document_jobs import key_function, may_answer
from xuanzang.documents import TranslationMemory

DEFAULTS = DecodingDefaults(**dict.fromkeys(DecodingDefaults.__slots__))


def model(**fields: Any) -> Model:
    values: dict[str, Any] = {"name": "zh-en", "version": "2", "source_languages": ("zh",), "target_languages": ("en",)}
    values |= {"precision": "int8", "manifest_sha256": "aa", "is_default": True, "defaults": DEFAULTS}
    return Model(**(values | {"max_source_length": 9, "max_target_length": 9} | fields))


def test_source_texts_are_not_in_it(tmp_path: Path) -> None:
    key = key_function([model()], {})
    assert key is not None
    with TranslationMemory(tmp_path / "memory") as memory:
        memory.add({key("a secret text"): "translation"})
    assert b"secret" not in (tmp_path / "memory").read_bytes()


def test_a_key_covers_text_options_and_every_model_that_may_answer() -> None:
    def key(*models: Model, text: str = "a", **options: Any) -> bytes:
        function = key_function(models, options)
        assert function is not None
        return function(text)

    same = key(model())
    assert same == key(model(), return_scores=True, beam_size=None)
    assert same == key(model(), model(name="other", source_languages=("de",)), source_language=None, model="zh-en")
    assert same == key(model(), model(version="1", is_default=False, manifest_sha256="bb"))
    different = [
        key(model(), text="b"),
        key(model(), beam_size=2),
        key(model(), source_language="zh"),
        key(model(), target_language="en"),
        key(model(manifest_sha256="bb")),
        key(model(), model(name="other", manifest_sha256="bb")),
        key(model(), sampling=SamplingOptions(seed=1)),
        key(model(), sampling=SamplingOptions(seed=2)),
    ]
    assert len({same, *different}) == 9


def test_there_is_no_key_for_random_or_unknown_answers() -> None:
    assert key_function([model()], {"sampling": SamplingOptions()}) is None
    assert key_function([model()], {"glossary_name": "may-change"}) is None
    assert key_function([], {}) is None
    assert key_function([model()], {"model": "other"}) is None
    assert key_function([model(manifest_sha256="")], {}) is None


def test_a_model_may_answer_by_name_version_and_languages() -> None:
    old = model(version="1", is_default=False)
    assert may_answer(model(), {"model": "zh-en/2", "source_language": "zh-Hans", "target_language": "EN"})
    assert may_answer(old, {"model": "zh-en/1"})
    assert not may_answer(old, {"model": "zh-en"})
    assert not may_answer(old, {"model": "zh-en/2"})
    assert not may_answer(model(), {"source_language": "de"})
