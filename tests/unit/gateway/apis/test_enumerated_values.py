"""A parameter that selects one of several ways takes the values that its API defines, and refuses any other by name."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

import pytest
from gateways import RunningGateway

TRUTH = ("0", "1", "true", "FALSE")
MICROSOFT = "/translate?api-version=3.0&to=en"
V2 = "/language/translate/v2?target=en"
PROJECT = "/v3/projects/p/locations/global"


class Enumerated(NamedTuple):
    """A parameter, in the request that it belongs to."""

    path: str
    name: str
    known: tuple[str, ...]
    body: Any
    """Body of the request, which holds the parameter if it is an object; else the address does."""


def deepl(name: str, *known: str, **more: str) -> Enumerated:
    return Enumerated("/v2/translate", name, known, {"text": ["猫"], "target_lang": "EN"} | more)


ENUMERATED = (
    deepl("formality", "default", "less", "more", "prefer_less", "prefer_more"),
    deepl("split_sentences", "0", "1", "nonewlines", "default"),
    deepl("tag_handling", "html", "xml"),
    deepl("tag_handling_version", "v1", "v2"),
    deepl("outline_detection", *TRUTH, tag_handling="xml"),
    deepl("outline_detection", *TRUTH),
    deepl("preserve_formatting", *TRUTH),
    deepl("show_billed_characters", *TRUTH),
    deepl("enable_beta_languages", *TRUTH),
    deepl("model_type", "latency_optimized", "quality_optimized", "prefer_quality_optimized"),
    deepl("pass_through_unserved", *TRUTH),
    Enumerated("/v2/languages", "type", ("source", "target"), {}),
    Enumerated("/translate", "format", ("text", "html"), {"q": "猫", "source": "zh", "target": "en"}),
    Enumerated("/translate", "tag_handling", ("html", "xml"), {"text": "猫", "target_lang": "EN"}),
    Enumerated("/translate", "format", ("txt", "html"), {"q": "猫", "langpair": "zh|en"}),
    Enumerated("/translate", "markUnknown", ("yes", "no", *TRUTH), {"q": "猫", "langpair": "zh|en"}),
    Enumerated("/translate", "html", TRUTH, {"text": "猫", "from": "zh", "to": "en"}),
    Enumerated(MICROSOFT, "textType", ("plain", "html"), [{"Text": "猫"}]),
    Enumerated(MICROSOFT, "allowFallback", TRUTH, [{"Text": "猫"}]),
    Enumerated(MICROSOFT, "includeAlignment", ("false",), [{"Text": "猫"}]),
    Enumerated(MICROSOFT, "includeSentenceLength", ("false",), [{"Text": "猫"}]),
    Enumerated(MICROSOFT, "profanityAction", ("NoAction",), [{"Text": "猫"}]),
    Enumerated(MICROSOFT, "profanityMarker", ("Asterisk", "Tag"), [{"Text": "猫"}]),
    Enumerated("/languages?api-version=3.0", "scope", ("translation", "dictionary"), None),
    Enumerated(V2, "format", ("html", "text"), {"q": "猫"}),
    Enumerated(f"{V2}&q=x", "alt", ("json",), None),
    Enumerated(f"{V2}&q=x", "prettyPrint", TRUTH, None),
    Enumerated("/language/translate/v2/languages?key=", "alt", ("json",), None),
    Enumerated(f"{PROJECT}/supportedLanguages?key=", "$alt", ("json", "json;enum-encoding=int"), None),
    Enumerated(f"{PROJECT}:translateText", "mimeType", ("text/plain", "text/html"), {"contents": ["猫"]}),
    Enumerated("/translate_a/t?q=x&tl=en", "format", ("html", "text"), None),
    Enumerated("/translate_a/single?q=x&tl=en", "dj", ("0", "1"), None),
    Enumerated("/translate_a/single?q=x&tl=en", "ie", ("UTF-8", "utf8"), None),
    Enumerated("/translate_a/single?q=x&tl=en", "oe", ("UTF-8",), None),
    Enumerated("/v1/translate", "content_format", ("text", "html", "xml"), {"texts": ["猫"], "target_language": "en"}),
)


async def answered(gateway: RunningGateway, each: Enumerated, value: str) -> tuple[int, str]:
    """Return the status of a request with a value of a parameter, and the answer."""
    path, body = each.path, each.body
    if isinstance(body, dict):
        body = body | {each.name: value} | ({"targetLanguageCode": "en"} if each.name == "mimeType" else {})
    else:
        path += f"{'&' if '?' in path else '?'}{each.name}={value.replace(';', '%3B')}"
    answer = await (gateway.get(path) if body is None else gateway.post(path, json=body))
    return answer.status, json.dumps(answer.json)


@pytest.mark.parametrize("each", ENUMERATED, ids=lambda each: f"{each.path.partition('?')[0]} {each.name}")
async def test_known_values_are_taken_and_others_refused_by_name(gateway: RunningGateway, each: Enumerated) -> None:
    rng = random.Random(each.name)
    for value in each.known:
        assert (await answered(gateway, each, value))[0] == 200, value
    strange = "".join(rng.choices("abcxyz0189_-", k=rng.randint(2, 12)))
    for value in (f"{each.known[0]}x", f"no{each.known[-1]}", "none", "2", strange):
        status, message = await answered(gateway, each, value)
        assert status == 400, value
        assert each.name in message or "mime_type" in message, message


async def test_a_formality_of_documents_is_refused_by_name(gateway: RunningGateway) -> None:
    parts = {"target_lang": "EN", "formality": "invalid"}
    body = "".join(
        f'--b\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in parts.items()
    )
    body += '--b\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\ncat\r\n--b--\r\n'
    answer = await gateway.post("/v2/document", data=body.encode(), content_type="multipart/form-data; boundary=b")
    assert answer.status == 400
    assert "formality" in answer.json["message"]
