"""DeepL's own client translates documents through a gateway, which keeps few of them for a short time."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import deepl
import pytest
from gateways import RunningGateway, running_gateway

PAGE = '<!doctype html>\n<p class="x">我有一只猫。</p>\n<pre>猫</pre>\n'


def official(gateway: RunningGateway) -> deepl.DeepLClient:
    return deepl.DeepLClient("key", server_url=gateway.url)


def translated(gateway: RunningGateway, content: str, name: str, **options: Any) -> str:
    output = io.BytesIO()
    given = {"source_lang": "ZH", "target_lang": "EN-GB", "filename": name, **options}
    official(gateway).translate_document(content.encode(), output, **given)
    return output.getvalue().decode()


def uploaded(gateway: RunningGateway, content: str = "猫", name: str = "a.txt", **options: Any) -> deepl.DocumentHandle:
    given = {"source_lang": "ZH", "target_lang": "EN-GB", "filename": name, **options}
    return official(gateway).translate_document_upload(content.encode(), **given)


async def refusal(call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(deepl.DeepLException) as caught:
        await asyncio.to_thread(call, *arguments, **options)
    return str(caught.value)


async def test_a_document_comes_back_as_the_sdk_translates_it(
    gateway: RunningGateway, client: Any, tmp_path: Path
) -> None:
    expected = await client.translate_document(
        PAGE.encode(), suffix=".html", source_language="zh", target_language="en"
    )
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    paths = (tmp_path / "page.html", tmp_path / "page.en.html")
    status = await asyncio.to_thread(
        official(gateway).translate_document_from_filepath, *paths, source_lang="ZH", target_lang="EN-US"
    )
    assert paths[1].read_bytes() == expected.content
    assert (status.status, status.billed_characters) == (deepl.DocumentStatus.Status.DONE, 6)


async def test_a_document_is_fetched_once_and_only_with_its_key(gateway: RunningGateway) -> None:
    handle = await asyncio.to_thread(uploaded, gateway)
    other = deepl.DocumentHandle(handle.document_id, "0" * 64)
    assert "no such document" in await refusal(official(gateway).translate_document_get_status, other)
    assert "Not found" in await refusal(official(gateway).translate_document_download, other)
    status = await asyncio.to_thread(official(gateway).translate_document_wait_until_done, handle)
    assert status.done
    await asyncio.to_thread(official(gateway).translate_document_download, handle, io.BytesIO())
    assert "Not found" in await refusal(official(gateway).translate_document_download, handle)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "a.exe"}, "file: must have one of the file extensions .txt"),
        ({"output_format": "docx"}, "output_format: must be txt"),
    ],
)
async def test_what_cannot_be_done_is_refused_at_once(gateway: RunningGateway, options: Any, message: str) -> None:
    assert message in await refusal(uploaded, gateway, **options)


async def test_what_fails_later_is_said_by_its_status(gateway: RunningGateway) -> None:
    assert "no model translates" in await refusal(translated, gateway, "猫", "a.txt", target_lang="FR")
    assert "not JSON" in await refusal(translated, gateway, '{"猫": ', "a.json")
    table, column = "a,b\n猫,1", {"extra_body_parameters": {"column": "c"}}
    assert "name the columns to translate, of: a, b" in await refusal(translated, gateway, table, "a.csv")
    assert "no column 'c'; it has: a, b" in await refusal(translated, gateway, table, "a.csv", **column)
    assert "glossary" in await refusal(translated, gateway, "猫", "a.txt", glossary="none")


async def test_a_document_has_a_limit_of_size(running: Any) -> None:
    async with running_gateway(running.address, max_document_bytes=1024) as gateway:
        assert await asyncio.to_thread(translated, gateway, "猫" * 300, "a.txt")
        assert "file" in await refusal(translated, gateway, "猫" * 400, "a.txt")
        answer = await gateway.post("/v2/document", data=b"x" * (1024 + 64 * 1024 + 1))
        assert answer.status == 413
