"""Traditional Chinese of the bundled model into Chinese, through every method."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import shared

from xuanzang.client import AsyncTranslationClient, InvalidRequestError
from xuanzang.text.traditional import is_installed, writer_of

pytestmark = pytest.mark.skipif(not is_installed(), reason="needs the extra `traditional`")
MODELS = Path(__file__).parents[2] / "server" / "models"
TEXT = "Please restart the computer. The software will be updated."
OPTIONS: Any = {"source_language": "en", "target_language": "zh-TW"}


@shared
async def client(start_server: Any) -> AsyncIterator[AsyncTranslationClient]:
    async with start_server(models=MODELS) as running, AsyncTranslationClient(running.address) as opened:
        yield opened


async def test_traditional_chinese_is_what_the_model_writes_in_other_characters(client: AsyncTranslationClient) -> None:
    writer = writer_of("zh-TW")
    simplified = await client.translate_one(TEXT, source_language="en", target_language="zh")
    expected = writer.write(simplified.text)
    assert expected != simplified.text
    assert (await client.translate_one(TEXT, **OPTIONS)).text == expected
    streamed = [each.translation.text async for each in client.translate_stream([TEXT], **OPTIONS)]
    assert streamed == [expected]
    parts = [each async for each in client.translate_progressively(TEXT, **OPTIONS)]
    assert "".join(each.text_delta for each in parts) == expected
    html = await client.translate_one(f"<p>{TEXT}</p>", content_format="html", **OPTIONS)
    assert "<p>" in html.text
    assert writer.write(html.text) == html.text
    copied = await client.translate_one("软件会更新，请重新启动计算机。", target_language="zh-TW")
    assert copied.text == writer.write("软件会更新，请重新启动计算机。")


async def test_tokens_and_terms_are_those_of_the_written_text(client: AsyncTranslationClient) -> None:
    sentence = "The software will be updated."
    detailed = await client.translate_one(sentence, token_details=True, **OPTIONS)
    assert "".join(each.text for each in detailed.hypotheses[0].tokens) == detailed.text
    kept = await client.translate_one(sentence, glossary={"software": "軟件"}, beam_size=4, **OPTIONS)
    assert "軟件" in kept.text
    assert [each.target for each in kept.glossary_matches] == ["軟件"]
    begun = await client.translate_one(sentence, target_prefix="該軟件", **OPTIONS)
    assert begun.text.startswith("該軟件")
    with pytest.raises(InvalidRequestError, match="target_language_code"):
        await client.explain(sentence, source_language="en", target_language="zh-TW")
    codes = {code for model in await client.list_models() for code in model.target_languages}
    assert codes == {"en", "zh", "zh-Hant", "zh-HK", "zh-MO", "zh-TW"}
