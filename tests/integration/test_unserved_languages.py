"""French at a server that translates only Chinese, through the APIs of others: each refuses it in its own form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from gateways import RunningGateway

CHINESE = "我有三只猫，今天天气很好。"
FRENCH = "Bonjour, je suis un développeur à Paris."
SAID = "is in fr; what is translated into en: zh."
Message = Callable[[Any], Any]


def google(answer: Any) -> Any:
    assert answer["error"]["status"] == "INVALID_ARGUMENT"
    [detail] = answer["error"]["details"]
    assert [f"{each['field']}: {each['description']}" for each in detail["fieldViolations"]] == [
        answer["error"]["message"]
    ]
    return answer["error"]["message"]


APIS: dict[str, tuple[str, Any, Message]] = {
    "deepl": ("/v2/translate", {"text": [CHINESE, FRENCH], "target_lang": "EN"}, lambda answer: answer["message"]),
    "libretranslate": (
        "/translate",
        {"q": [CHINESE, FRENCH], "source": "auto", "target": "en"},
        lambda answer: answer["error"],
    ),
    "google v2": ("/language/translate/v2", {"q": [CHINESE, FRENCH], "target": "en"}, google),
    "google v3": (
        "/v3/projects/any:translateText",
        {"contents": [CHINESE, FRENCH], "targetLanguageCode": "en"},
        google,
    ),
    "microsoft": (
        "/translate?api-version=3.0&to=en",
        [{"Text": CHINESE}, {"Text": FRENCH}],
        lambda answer: answer["error"]["message"],
    ),
    "immersive-translate": (
        "/imme",
        {"text_list": [CHINESE, FRENCH], "source_lang": "auto", "target_lang": "en"},
        lambda answer: answer["error"],
    ),
}


@pytest.mark.parametrize(("path", "body", "message"), list(APIS.values()), ids=list(APIS))
async def test_french_is_refused_in_the_form_of_the_api_with_what_is_served(
    gateway: RunningGateway, path: str, body: Any, message: Message
) -> None:
    answer = await gateway.post(path, json=body)
    assert answer.status == 400
    field, _, description = message(answer.json).partition(": ")
    # The second text, under the API's name of the texts, and no other.
    assert field.endswith("[1]")
    assert field.removesuffix("[1]") in (*body, "body")
    assert description.startswith(SAID)
    assert FRENCH not in answer.body.decode()


async def test_french_is_refused_over_googles_grpc_with_what_is_served(gateway: RunningGateway) -> None:
    grpc = pytest.importorskip("grpc")
    translate_v3 = pytest.importorskip("google.cloud.translate_v3", reason="needs the extra `google`")
    exceptions = pytest.importorskip("google.api_core.exceptions")
    transport = translate_v3.TranslationServiceClient.get_transport_class("grpc")
    with translate_v3.TranslationServiceClient(
        transport=transport(channel=grpc.insecure_channel(gateway.grpc_address))
    ) as client:
        request: dict[str, Any] = {"parent": "projects/any", "contents": [CHINESE, FRENCH]}
        request |= {"target_language_code": "en"}
        with pytest.raises(exceptions.InvalidArgument, match=SAID) as caught:
            await asyncio.to_thread(client.translate_text, request=request)
        request["labels"] = {"pass_through_unserved": "true"}
        passed = await asyncio.to_thread(client.translate_text, request=request)
    assert passed.translations[1].translated_text == FRENCH
    [detail] = caught.value.details
    assert [each.field for each in detail.field_violations] == ["contents[1]"]


async def test_french_comes_back_as_it_is_from_apis_that_let_callers_ask_for_it(gateway: RunningGateway) -> None:
    asked = {"pass_through_unserved": True}
    deepl = await gateway.post("/v2/translate", json=APIS["deepl"][1] | asked)
    found = [(each["detected_source_language"], each["text"]) for each in deepl.json["translations"]]
    assert (found[0][0], found[1]) == ("ZH", ("FR", FRENCH))
    libre = (await gateway.post("/translate", json=APIS["libretranslate"][1] | asked)).json
    assert [each["language"] for each in libre["detectedLanguage"]] == ["zh", "fr"]
    assert libre["translatedText"][1] == FRENCH
    google_v2 = (await gateway.post("/language/translate/v2", json=APIS["google v2"][1] | asked)).json
    assert google_v2["data"]["translations"][1] == {"translatedText": FRENCH, "detectedSourceLanguage": "fr"}


async def test_openai_advises_what_it_takes_and_gives_french_back(gateway: RunningGateway) -> None:
    path, message = "/v1/chat/completions", {"role": "user", "content": FRENCH}
    body = {"model": "auto-en", "messages": [message]}
    for stream in (False, True):
        refused = await gateway.post(path, json=body | {"stream": stream})
        assert refused.json["error"]["message"].endswith("set translation_options.pass_through_unserved")
        assert (refused.status, refused.json["error"]["param"].removesuffix("[0]")) == (400, "messages")
        asked = {"translation_options": {"pass_through_unserved": True}}
        passed = await gateway.post(path, json=body | asked | {"stream": stream})
        events = [json.loads(line[6:]) for line in passed.body.decode().splitlines() if line.startswith("data: {")]
        (parts,) = zip(*(each["choices"] for each in events or [passed.json]), strict=True)
        written = [each.get("message") or each["delta"] for each in parts]
        assert "".join(each.get("content", "") for each in written) == FRENCH


async def test_google_v3_advises_what_it_takes_and_gives_french_back(gateway: RunningGateway) -> None:
    path, body, message = APIS["google v3"]
    refused = await gateway.post(path, json=body)
    assert message(refused.json).endswith("set labels.pass_through_unserved")
    passed = await gateway.post(path, json=body | {"labels": {"pass_through_unserved": "true", "team": "a"}})
    translation = passed.json["translations"][1]
    assert (translation["translatedText"], translation["detectedLanguageCode"]) == (FRENCH, "fr")
    wrong = await gateway.post(path, json=body | {"labels": {"pass_through_unserved": "maybe"}})
    assert (wrong.status, message(wrong.json)) == (400, "labels.pass_through_unserved: must be true or false")


async def test_french_in_documents_is_counted_as_refused_unless_it_is_asked_for(gateway: RunningGateway) -> None:
    path, content = "/v1/documents?name=a.txt&target_language=en", f"{CHINESE}\n{FRENCH}\n".encode()
    found = {}
    for asked in ("", "&pass_through_unserved=true"):
        answer = await gateway.post(path + asked, data=content)
        assert answer.body.decode().splitlines()[1] == FRENCH
        found[asked] = json.loads(answer.headers["x-document-summary"])["refused"]
    assert found == {"": 1, "&pass_through_unserved=true": 0}


async def test_french_comes_back_as_it_is_from_small_apis_too(gateway: RunningGateway) -> None:
    asked = {"pass_through_unserved": "true"}
    microsoft = await gateway.post(
        "/translate?api-version=3.0&to=en&pass_through_unserved=true", json=[{"Text": FRENCH}]
    )
    assert [each["text"] for each in microsoft.json[0]["translations"]] == [FRENCH]
    assert microsoft.json[0]["detectedLanguage"]["language"] == "fr"
    immersive = await gateway.post("/imme", json=APIS["immersive-translate"][1] | asked)
    assert immersive.json["translations"][1] == {"detected_source_lang": "fr", "text": FRENCH}
    deeplx = await gateway.post("/translate", json={"text": FRENCH, "source_lang": "auto", "target_lang": "EN"} | asked)
    assert (deeplx.json["data"], deeplx.json["source_lang"]) == (FRENCH, "FR")
    mtranserver = await gateway.post("/translate", json={"text": FRENCH, "from": "auto", "to": "en"} | asked)
    assert mtranserver.json == {"result": FRENCH}
    apertium = await gateway.post("/translate", form=[("q", FRENCH), ("langpair", "auto|en"), *asked.items()])
    assert apertium.json["responseData"] == {"translatedText": FRENCH}
