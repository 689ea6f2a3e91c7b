"""Documents through the gateway: the file comes as the body and goes back translated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from gateways import RunningGateway, running_gateway
from office_documents import FORMATS
from tests.integration.conftest import shared

from xuanzang.client import AsyncTranslationClient

MARKDOWN = "# 我有一只猫。\n\n```\n不译\n```\n\n他们有十只狗。\n".encode()
QUERY = "/v1/documents?source_language=zh&target_language=en"


@shared
async def gateway(running: Any) -> AsyncIterator[RunningGateway]:
    async with running_gateway(running.address, max_document_bytes=4096, max_running_documents=1) as started:
        yield started


async def test_a_document_comes_back_as_the_sdk_translates_it(
    gateway: RunningGateway, client: AsyncTranslationClient
) -> None:
    expected = await client.translate_document(MARKDOWN, suffix=".md", source_language="zh", target_language="en")
    answer = await gateway.post(f"{QUERY}&name=%E6%96%87.md", data=MARKDOWN)
    assert (answer.status, answer.body) == (200, expected.content)
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''%E6%96%87.en.md"
    summary = json.loads(answer.headers["x-document-summary"])
    assert (summary["texts"], summary["refused"], summary["refusals"]) == (2, 0, [])


async def test_columns_choose_the_texts_of_a_table(gateway: RunningGateway) -> None:
    answer = await gateway.post(f"{QUERY}&name=t.csv&column=b", data="id,a,b\n1,我有一只猫。,我有一只猫。\n".encode())
    head, row = answer.body.decode().splitlines()
    assert (answer.status, head, row.startswith("1,我有一只猫。,")) == (200, "id,a,b", True)
    assert row != "1,我有一只猫。,我有一只猫。"


@pytest.mark.parametrize(
    ("query", "data", "field"),
    [
        ("&name=a.exe", b"x", "name"),
        ("", b"x", "name"),
        (f"&name={'a' * 300}.txt", b"x", "name"),
        ("&name=a.txt&colour=red", b"x", "colour"),
        ("&name=a.csv", b"a\nb\n", "body"),
        ("&name=a.docx", b"no archive", "body"),
        ("&name=a.txt&model=none&source_language=%0A", b"x", "source_language"),
        ("&name=a.csv" + "&column=a" * 65, b"a\nb\n", "column"),
    ],
)
async def test_a_problem_names_what_is_wrong_with_a_document(
    gateway: RunningGateway, query: str, data: bytes, field: str
) -> None:
    path = f"/v1/documents?target_language=en{query}"
    answer = await gateway.post(path, data=data)
    assert answer.status == 400, answer.json
    assert [each["field"] for each in answer.json["violations"]] == [field]


async def test_a_document_over_the_limit_is_refused(gateway: RunningGateway) -> None:
    answer = await gateway.post(f"{QUERY}&name=a.txt", data=b"a" * 4097)
    assert (answer.status, answer.json["title"]) == (413, "Request Entity Too Large")


async def test_a_document_that_takes_too_long_is_a_gateway_timeout(running: Any) -> None:
    async with running_gateway(running.address, document_timeout_seconds=0.001) as gateway:
        answer = await gateway.post(f"{QUERY}&name=a.md", data=MARKDOWN)
    assert answer.status == 504


async def test_only_so_many_documents_are_translated_at_once(gateway: RunningGateway) -> None:
    lines = "\n".join(f"他们有三只狗，老师有{number}只马。" for number in range(90)).encode()
    answers = await asyncio.gather(*(gateway.post(f"{QUERY}&name=a.txt", data=lines) for _ in range(3)))
    statuses = sorted(each.status for each in answers)
    assert statuses[0] == 200
    assert set(statuses) <= {200, 503}
    for refused in (each for each in answers if each.status == 503):
        assert refused.headers["retry-after"] == "5"
        assert refused.json["detail"] == "the gateway's limit of 1 documents in translation is reached"


async def _libretranslate(gateway: RunningGateway, name: str, content: bytes, **fields: str) -> Any:
    boundary = b"--boundary"
    parts = [f'Content-Disposition: form-data; name="{key}"\r\n\r\n{value}'.encode() for key, value in fields.items()]
    parts.append(f'Content-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + content)
    body = b"".join(boundary + b"\r\n" + part + b"\r\n" for part in parts) + boundary + b"--\r\n"
    return await gateway.post("/translate_file", data=body, content_type="multipart/form-data; boundary=boundary")


async def test_a_file_of_libretranslate_is_fetched_once_from_the_address_in_the_answer(
    gateway: RunningGateway, client: AsyncTranslationClient
) -> None:
    make, _ = FORMATS[".odt"]
    raw = make([[("我有一只猫。", False, False)]] * 3)
    expected = await client.translate_document(raw, suffix=".odt", source_language="zh", target_language="en")
    answer = await _libretranslate(gateway, "a.ODT", raw, source="zh", target="en", api_key="")
    assert answer.status == 200, answer.body
    address = answer.json["translatedFileUrl"]
    assert address.startswith(f"{gateway.url}/download_file/")
    path = address.removeprefix(gateway.url)
    wrong = path[:-1] + ("0" if path[-1] != "0" else "1")
    assert [(await gateway.get(each)).status for each in (wrong, path.partition("?")[0])] == [404, 404]
    assert (await gateway.get(path)).body == expected.content
    assert (await gateway.get(path)).status == 404
    settings = (await gateway.get("/frontend/settings")).json
    assert (settings["filesTranslation"], ".odt" in settings["supportedFilesFormat"]) == (True, True)


@pytest.mark.parametrize(
    ("name", "content", "fields", "message"),
    [
        ("a.odt", b"x", {"source": "zh", "target": "en"}, "no readable .odt"),
        ("a.pdf", b"x", {"source": "zh", "target": "en"}, "file extensions .txt"),
        ("a.txt", b"x", {"source": "zh"}, "Invalid request: missing target parameter"),
        ("a.txt", "猫".encode(), {"source": "zh", "target": "xx"}, "xx"),
    ],
)
async def test_a_file_of_libretranslate_that_cannot_be_translated_is_refused(
    gateway: RunningGateway, name: str, content: bytes, fields: dict[str, str], message: str
) -> None:
    answer = await _libretranslate(gateway, name, content, **fields)
    assert answer.status == 400, answer.body
    assert message in answer.json["error"]
