"""Translation in one process: what a server answers, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import BUNDLED, StartServer, shared

from xuanzang import client
from xuanzang.client import AsyncTranslationClient
from xuanzang.server import (
    AsyncTranslator,
    BundleError,
    DeadlineExceededError,
    InvalidInputError,
    ModelNotFoundError,
    SamplingOptions,
    StreamedTranslation,
    Translator,
    UnservedLanguageError,
)
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.in_process import aio_translator

TEXTS = ["我有一只猫。", "他们有三只狗。", "你们有五只鸟。我有一只猫。", "", "  \n"]
SENTENCES = Path(__file__).parents[2] / "benchmarks" / "sentences.tsv"


@pytest.fixture(scope="module")
def translator(tiny_bundle_repository: Path) -> Iterator[Translator]:
    with Translator(tiny_bundle_repository, workers=1) as translator:
        yield translator


def plain(value: Any) -> Any:
    """Return what a value says, whichever side it is of."""
    if isinstance(value, enum.Enum):
        return None if value.name == "UNSPECIFIED" else value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Each side has loaded its models at another time.
        left_out = {"exchange", "target_start", "sentences", "defaults", "residency_since"}
        names = {field.name for field in dataclasses.fields(value)} - left_out
        return {name: plain(getattr(value, name)) for name in names}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


OPTIONS: list[dict[str, Any]] = [
    {"return_scores": True},
    {"beam_size": 1, "return_scores": True, "length_penalty": 0.0},
    {"num_hypotheses": 3, "return_scores": True, "token_details": True},
    {"return_alternatives": True, "num_hypotheses": 4, "return_scores": True},
    {"target_prefix": "The ", "suppressed_texts": ["very"], "return_provenance": True, "no_repeat_ngram_size": 3},
    {"glossary": {"猫": ["kitten", "tomcat"]}, "protected_patterns": ["url", "number"], "return_scores": True},
    {"content_format": "html"},
]


@shared
async def both(start_server: StartServer) -> AsyncIterator[tuple[AsyncTranslator, AsyncTranslationClient]]:
    """Yield a translator with the bundled models, and a client of a server with them."""
    async with (
        start_server(models=BUNDLED) as running,
        AsyncTranslationClient(running.address) as sdk,
        AsyncTranslator(BUNDLED, workers=1) as translator,
    ):
        yield translator, sdk


Both = tuple[AsyncTranslator, AsyncTranslationClient]


@pytest.mark.parametrize("options", OPTIONS, ids=",".join)
async def test_answers_are_those_of_a_server_to_the_last_bit(both: Both, options: dict[str, Any]) -> None:
    translator, sdk = both
    texts = [line.split("\t")[0] for line in SENTENCES.read_text(encoding="utf-8").splitlines()[:12]]
    texts += ["我有一只猫，见 https://example.org/3 。", "<b>我有</b>一只猫。", ""]
    sampled = {**options, "sampling": SamplingOptions(seed=5, top_k=20)} if options.get("beam_size") == 1 else options
    ours = await translator.translate(texts, target_language="en", **sampled)
    if "sampling" in sampled:
        sampled["sampling"] = client.SamplingOptions(seed=5, top_k=20)
    theirs = await sdk.translate(texts, target_language="en", **sampled)
    assert plain(ours) == plain(theirs)


async def test_texts_are_read_in_the_languages_that_a_server_reads_them_in(both: Both) -> None:
    translator, sdk = both
    texts = ["我有一只猫。", "If the file does not exist, an error is returned.", "12:30", "OK", ""]
    french = "Le chat est assis sur la table de la cuisine."
    ours = [await translator.translate_one(text, return_scores=True) for text in texts]
    assert plain(ours) == plain([await sdk.translate_one(text, return_scores=True) for text in texts])
    streamed = [result async for result in translator.translate_stream(texts, return_scores=True, ordered=True)]
    assert [result.translation for result in streamed] == ours
    detected = await translator.detect_languages(texts[:2])
    assert plain(detected) == plain(await sdk.detect_languages(texts[:2]))
    models = translator.list_models()
    assert plain(models) == plain(await sdk.list_models())
    assert [model.defaults.beam_size for model in models] == [4, 4]
    mixed = ["我有一只猫。", french, texts[1]]
    kept = await translator.translate(mixed, target_language="en", pass_through_unserved=True)
    assert plain(kept) == plain(await sdk.translate(mixed, target_language="en", pass_through_unserved=True))
    assert [each.hypotheses[0].finish_reason.name for each in kept] == [
        "END_OF_SENTENCE",
        "UNSERVED_LANGUAGE",
        "COPIED",
    ]
    with pytest.raises(UnservedLanguageError, match=r"contents\[1\]: is in fr"):
        await translator.translate(mixed, target_language="en")
    with pytest.raises(UnservedLanguageError, match=r"^content: is in fr"):
        [part async for part in translator.translate_progressively(french, target_language="en")]
    assert await translator.translate([]) == []


def test_threads_share_a_translator_and_each_gets_its_own_answers(translator: Translator) -> None:
    alone = {text: translator.translate_one(text, return_scores=True) for text in TEXTS}

    def translated(number: int) -> bool:
        rotated = TEXTS[number % len(TEXTS) :] + TEXTS[: number % len(TEXTS)]
        return translator.translate(rotated, return_scores=True) == [alone[text] for text in rotated]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(translated, range(40)))


def test_a_refused_text_is_named_by_its_index(translator: Translator) -> None:
    with pytest.raises(InvalidInputError) as refused:
        translator.translate([*TEXTS, "猫" * 20_001, "猫"])
    [violation] = refused.value.violations
    assert violation.field == "contents[5]"
    assert "must have at most 20000 characters" in violation.description
    with pytest.raises(InvalidInputError, match=r"contents\[1\]: is no valid Unicode text"):
        translator.translate(["猫", "\ud800"])
    assert translator.translate(["猫"])


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"beam_size": 17}, InvalidInputError, "options.beam_size: must be 1 to 16, is 17"),
        ({"return_quality": True}, InvalidInputError, "return_quality: needs a quality head"),
        ({"model": "none"}, ModelNotFoundError, "none"),
        ({"target_language": "fr"}, ModelNotFoundError, "fr"),
        ({"target_language": "fr", "allow_pivot": True}, ModelNotFoundError, "no language to go through"),
        ({"glossary_name": "none"}, InvalidInputError, "glossary: is not a glossary of this server"),
        ({"beams": 3}, TypeError, "no such option: beams"),
    ],
)
def test_options_are_refused_with_and_without_texts(
    translator: Translator, options: Any, kind: type[Exception], message: str
) -> None:
    for texts in (["猫"], []):
        with pytest.raises(kind, match=message):
            translator.translate(texts, **options)


def test_a_lone_text_and_texts_that_are_none_are_type_errors(translator: Translator) -> None:
    with pytest.raises(TypeError, match="translate_one"):
        translator.translate("猫")
    with pytest.raises(TypeError, match="translate_one"):
        translator.translate_stream("猫")
    with pytest.raises(TypeError, match=r"contents\[1\] is a int"):
        translator.translate(["猫", 5])  # type: ignore[list-item]
    assert translator.translate([]) == []


def test_a_stream_gives_an_error_to_the_refused_text_alone(translator: Translator) -> None:
    texts = ["我有一只猫。", "猫" * 20_001, "\ud800", "他们有三只狗。"]
    results = list(translator.translate_stream(iter(texts), ordered=True, max_in_flight=2))
    assert [result.index for result in results] == [0, 1, 2, 3]
    assert [result.source for result in results] == texts
    assert [type(result.error) for result in results] == [type(None), InvalidInputError, InvalidInputError, type(None)]
    assert str(results[1].error) == "content: must have at most 20000 characters, has 20001"
    with pytest.raises(InvalidInputError, match="content: is no valid Unicode text"):
        results[2].translation  # noqa: B018 - it raises
    assert results[3].translation == translator.translate_one(texts[3])


def test_a_stream_reads_no_more_texts_than_are_in_flight(translator: Translator) -> None:
    read = 0

    def texts() -> Iterator[str]:
        nonlocal read
        for number in range(1000):
            read = number + 1
            yield "我有一只猫。"

    results = translator.translate_stream(texts(), max_in_flight=3)
    for taken in range(1, 11):
        assert isinstance(next(results), StreamedTranslation)
        # Those in flight, one more that waits for room, and those that came with the taken one.
        assert read <= taken + 3 + 1 + 3
    results.close()  # type: ignore[attr-defined]  # a generator
    assert translator.translate_one("猫")


def test_a_fault_of_the_iterable_comes_after_the_results_before_it(translator: Translator) -> None:
    def texts() -> Iterator[str]:
        yield from TEXTS
        raise OSError("the disk is gone")

    results = translator.translate_stream(texts(), ordered=True)
    assert [next(results).source for _ in TEXTS] == TEXTS
    with pytest.raises(OSError, match="the disk is gone"):
        next(results)


async def test_an_asyncio_stream_takes_texts_as_they_come(tiny_bundle_repository: Path) -> None:
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def texts() -> AsyncIterator[str]:
        while text := await asked.get():
            yield text

    async with AsyncTranslator(tiny_bundle_repository, workers=1) as translator:
        results = translator.translate_stream(texts(), ordered=True)
        for text in ("猫", "狗", "鸟"):
            # The answer comes although nobody knows the next text.
            asked.put_nowait(text)
            assert (await anext(results)).source == text
        asked.put_nowait("")
        assert await anext(results, None) is None


def test_a_progressive_translation_adds_up_to_the_whole(translator: Translator) -> None:
    text = "我有一只猫。他们有三只狗。你们有五只鸟。"
    *parts, last = translator.translate_progressively(text, return_scores=True)
    assert all(part.translation is None for part in parts)
    assert last.translation == translator.translate_one(text, return_scores=True)
    assert "".join(part.text_delta for part in [*parts, last]) == last.translation.text
    begun = translator.translate_progressively(text)
    next(begun)
    begun.close()  # type: ignore[attr-defined]  # a generator
    with pytest.raises(InvalidInputError, match=r"^content: must have at most"):
        list(translator.translate_progressively("猫" * 20_001))


async def test_overload_waits_instead_of_failing(tiny_bundle_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = 0
    pause = aio_translator._pause

    async def counted(*arguments: Any) -> None:
        nonlocal waits
        waits += 1
        await pause(*arguments)

    monkeypatch.setattr(aio_translator, "_pause", counted)
    monkeypatch.setattr(aio_translator, "EngineSettings", partial(EngineSettings, max_queue_tokens=400))
    texts = ["我有一只猫。"] * 60
    async with AsyncTranslator(tiny_bundle_repository, workers=1) as translator:
        translations = await translator.translate(texts)
        assert waits
        assert len(set(translations)) == 1
        assert len(translations) == len(texts)
        # A second caller waits, too, and time limits hold meanwhile.
        busy = asyncio.create_task(translator.translate(texts))
        parts = [part async for part in translator.translate_progressively(texts[0])]
        assert parts[-1].translation == translations[0]
        with pytest.raises(DeadlineExceededError):
            await translator.translate(texts * 20, timeout=0.01)
        assert await busy == translations


def test_a_timeout_must_be_positive_and_a_short_one_is_an_error(translator: Translator) -> None:
    with pytest.raises(ValueError, match="timeout must be above 0"):
        translator.translate(["猫"], timeout=0)
    with pytest.raises(DeadlineExceededError):
        translator.translate(["我有一只猫。"] * 3000, timeout=0.001)
    assert translator.translate(["我有一只猫。"], timeout=60)


def test_settings_are_checked_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="workers"):
        Translator(tmp_path, workers=-1)
    with pytest.raises(TypeError, match="no such setting: threads"):
        Translator(tmp_path, threads=2)  # type: ignore[call-arg]
    threads = threading.active_count()
    with pytest.raises(BundleError):
        Translator(tmp_path / "nothing")
    assert threading.active_count() == threads


def test_a_closed_translator_says_so_and_ends_what_it_has_begun(tiny_bundle_repository: Path) -> None:
    translator = Translator(tiny_bundle_repository, workers=1)
    stream = translator.translate_stream(["我有一只猫。"] * 10)
    next(stream)
    translator.close()
    translator.close()
    with pytest.raises(RuntimeError, match="the translator is closed"):
        translator.translate(["猫"])
    with pytest.raises(RuntimeError, match="the translator is closed"):
        translator.list_models()
    with pytest.raises(RuntimeError, match="the translator is closed"):
        list(translator.translate_stream(["猫"]))


async def test_an_asyncio_translator_says_whether_it_was_started(tiny_bundle_repository: Path) -> None:
    translator = AsyncTranslator(tiny_bundle_repository, workers=1)
    with pytest.raises(RuntimeError, match="is not started"):
        await translator.translate(["猫"])
    async with translator:
        assert await translator.translate(["猫"])
        with pytest.raises(RuntimeError, match="was started before"):
            await translator.start()
    with pytest.raises(RuntimeError, match="is closed"):
        await translator.translate(["猫"])


def test_cancelling_gives_the_texts_back(tiny_bundle_repository: Path) -> None:
    async def cancelled() -> None:
        async with AsyncTranslator(tiny_bundle_repository, workers=1) as translator:
            waiting = asyncio.create_task(translator.translate(["我有一只猫。"] * 2000))
            await translator.translate(["猫"])
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not translator._engine._calls._running
            assert await translator.translate(["猫"])

    asyncio.run(cancelled())


def test_a_program_ends_whether_or_not_it_closes_its_translators(tiny_bundle_repository: Path) -> None:
    program = f"""
import sys
from xuanzang.server import Translator
closed, deleted, left = (Translator({str(tiny_bundle_repository)!r}, workers=1) for _ in range(3))
for translator in (closed, deleted, left):
    print(len(translator.translate(["我有一只猫。"] * 3)))
closed.close()
del translator, deleted
sys.exit()
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (0, "3\n3\n3\n", "")
