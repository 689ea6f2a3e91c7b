"""Texts without language, and messages with placeholders, through the SDK, the command, every API and documents."""

from __future__ import annotations

import asyncio
import html
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import polib
import pytest
from gateways import RunningGateway, running_gateway
from message_forms import CHINESE_FORMS, ENGLISH_FORMS
from tests.integration.conftest import BUNDLED, StartServer, shared

from xuanzang.client import AsyncTranslationClient
from xuanzang.command.__main__ import main
from xuanzang.text.types import PlaceholderFamily

SIGNS = "0123456789 .,:;-+()%$/=*°€£¥"
ALL = tuple(family.value for family in PlaceholderFamily)
Api = tuple[str, Callable[[list[str]], Any], Callable[[Any], list[str]]]
APIS: Mapping[str, Api] = {
    "json": (
        "/v1/translate",
        lambda texts: {"texts": texts, "target_language": "zh"},
        lambda answer: [each["hypotheses"][0]["text"] for each in answer["translations"]],
    ),
    "deepl": (
        "/v2/translate",
        lambda texts: {"text": texts, "target_lang": "ZH"},
        lambda answer: [each["text"] for each in answer["translations"]],
    ),
    "google v2": (
        "/language/translate/v2",
        lambda texts: {"q": texts, "target": "zh", "format": "text"},
        lambda answer: [each["translatedText"] for each in answer["data"]["translations"]],
    ),
    "libretranslate": (
        "/translate",
        lambda texts: {"q": texts, "source": "auto", "target": "zh"},
        lambda answer: answer["translatedText"],
    ),
    "microsoft": (
        "/translate?api-version=3.0&to=zh-Hans",
        lambda texts: [{"Text": text} for text in texts],
        lambda answer: [each["translations"][0]["text"] for each in answer],
    ),
    "mtranserver": (
        "/translate/batch",
        lambda texts: {"from": "auto", "to": "zh", "texts": texts},
        lambda answer: answer["results"],
    ),
    "kiss-translator": (
        "/kiss",
        lambda texts: {"from": "auto", "to": "zh-CN", "texts": texts},
        lambda answer: [each["text"] for each in answer["translations"]],
    ),
    "immersive-translate": (
        "/imme",
        lambda texts: {"source_lang": "auto", "target_lang": "zh-CN", "text_list": texts},
        lambda answer: [each["text"] for each in answer["translations"]],
    ),
    "kserve": (
        "/v2/models/en-zh/infer",
        lambda texts: {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [len(texts)], "data": texts}]},
        lambda answer: answer["outputs"][0]["data"],
    ),
}
ONE_TEXT_APIS: Mapping[str, tuple[str, Callable[[str], Mapping[str, Any]], Callable[[Any], str]]] = {
    "mtranserver": (
        "/translate",
        lambda text: {"from": "auto", "to": "zh", "text": text},
        lambda answer: answer["result"],
    ),
    "hcfy": (
        "/hcfy",
        lambda text: {"text": text, "destination": ["中文(简体)", "英语"]},
        lambda answer: "\n".join(answer["result"]),
    ),
    "openai": (
        "/v1/chat/completions",
        lambda text: {"model": "auto-zh", "messages": [{"role": "user", "content": text}]},
        lambda answer: answer["choices"][0]["message"]["content"],
    ),
    "deeplx": (
        "/translate",
        lambda text: {"text": text, "source_lang": "auto", "target_lang": "ZH"},
        lambda answer: answer["data"],
    ),
}


@shared
async def address(start_server: StartServer) -> AsyncIterator[str]:
    async with start_server(models=BUNDLED) as running:
        yield running.address


@shared
async def gateway(address: str) -> AsyncIterator[RunningGateway]:
    async with running_gateway(address) as started:
        yield started


def texts_of_signs(count: int) -> list[str]:
    """Make texts of digits and signs alone; none is blank or begins or ends with a space."""
    rng = random.Random(count)
    made = ["".join(rng.choices(SIGNS, k=rng.randint(1, 24))).strip() for _ in range(count)]
    return ["1 2 3", "12 13 14", "5 5", "1000000000000", *(text or "0" for text in made)]


async def run(tmp_path: Path, address: str, lines: list[str], *flags: str) -> list[str]:
    """Run the command on a file of lines."""
    asked, answered = tmp_path / "asked.txt", tmp_path / "answered.txt"
    asked.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    arguments = ["translate", f"--address={address}", "-f", str(asked), "-o", str(answered), *flags]
    await asyncio.to_thread(main, arguments)
    return answered.read_text(encoding="utf-8").split("\n")[:-1]


async def test_the_command_and_streams_copy_digits_and_signs(address: str, tmp_path: Path) -> None:
    texts = texts_of_signs(1000)
    for flags in (["--target=zh"], ["--source=zh", "--target=en", "--placeholders", ",".join(ALL)]):
        assert await run(tmp_path, address, texts, *flags) == texts
    async with AsyncTranslationClient(address) as client:
        found = {each.source: each async for each in client.translate_stream(texts, target_language="en")}
    assert [text for text in texts if found[text].translation.hypotheses[0].text != text] == []


@pytest.mark.parametrize("api", APIS)
async def test_every_api_copies_digits_and_signs(gateway: RunningGateway, api: str) -> None:
    path, asked, texts_of = APIS[api]
    texts = texts_of_signs(200)
    for start in range(0, len(texts), 50):
        answer = await gateway.post(path, json=asked(texts[start : start + 50]))
        assert (answer.status, texts_of(answer.json)) == (200, texts[start : start + 50])


@pytest.mark.parametrize("api", ONE_TEXT_APIS)
async def test_every_api_of_single_texts_copies_digits_and_signs(gateway: RunningGateway, api: str) -> None:
    path, asked, text_of = ONE_TEXT_APIS[api]
    for text in texts_of_signs(100):
        answer = await gateway.post(path, json=asked(text))
        assert (answer.status, text_of(answer.json)) == (200, text), answer.body


async def test_documents_copy_digits_and_signs(address: str) -> None:
    texts = texts_of_signs(500)
    table = "id,text\n" + "".join(f'{number},"{text}"\n' for number, text in enumerate(texts))
    page = "".join(f"<p>{html.escape(text)}</p>\n" for text in texts)
    files = {".txt": "".join(f"{text}\n" for text in texts), ".csv": table, ".html": page, ".json": json.dumps(texts)}
    async with AsyncTranslationClient(address) as client:
        for suffix, content in files.items():
            found = await client.translate_document(
                content.encode(),
                suffix=suffix,
                source_language="en",
                target_language="zh",
                columns=["text"] if suffix == ".csv" else None,
            )
            assert found.content.decode() == content, suffix


async def test_messages_keep_what_is_not_language_in_every_face(
    gateway: RunningGateway, address: str, tmp_path: Path
) -> None:
    pair = {"source_language": "en", "target_language": "zh", "placeholders": ALL}
    asked = [form.text for form in ENGLISH_FORMS]
    flags = ["--source=en", "--target=zh", "--placeholders", ",".join(ALL)]
    answers = {"command": await run(tmp_path, address, asked, *flags), "gateway": []}
    for start in range(0, len(asked), 50):
        answer = await gateway.post("/v1/translate", json={"texts": asked[start : start + 50], **pair})
        answers["gateway"] += APIS["json"][2](answer.json)
    async with AsyncTranslationClient(address) as client:
        found = await client.translate_document(
            json.dumps(asked).encode(), suffix=".json", source_language="en", target_language="zh", placeholders=ALL
        )
    answers["json file"] = json.loads(found.content)
    for face, translations in answers.items():
        faults = [form.fault(now) for form, now in zip(ENGLISH_FORMS, translations, strict=True)]
        assert [(form.text, fault) for form, fault in zip(ENGLISH_FORMS, faults, strict=True) if fault] == [], face


async def test_catalogues_keep_the_placeholders_of_messages(address: str) -> None:
    catalogue = polib.POFile()
    catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    catalogue.extend(polib.POEntry(msgid=form.text, msgstr="") for form in CHINESE_FORMS)
    async with AsyncTranslationClient(address) as client:
        found = await client.translate_document(
            str(catalogue).encode(), suffix=".po", source_language="zh", target_language="en"
        )
    written = {entry.msgid: entry.msgstr for entry in polib.pofile(found.content.decode())}
    faults = [(form.text, form.fault(written[form.text])) for form in CHINESE_FORMS if written[form.text]]
    assert [each for each in faults if each[1]] == []
    assert sum(map(bool, written.values())) >= 0.95 * len(CHINESE_FORMS)
