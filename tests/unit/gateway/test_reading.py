"""Bodies as values: every charset, number and nesting that a caller can choose, and how much work each may make."""

from __future__ import annotations

import asyncio
import encodings.aliases
import json
import threading
from typing import Any

import pytest
from gateways import RunningGateway
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_in_server import StandIn
from starlette.datastructures import Headers

from xuanzang.gateway.entry.parameters import Parameters, finite_number, read_parameters, unserved, whole_number
from xuanzang.gateway.entry.reading import (
    MAX_TOKENS,
    ReadingThread,
    checked_json,
    json_value,
    pairs,
    read_multipart,
    require_charset,
)
from xuanzang.gateway.errors import RefusedError

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=b"
MEGABYTE = 1_000_000


def part(disposition: bytes, content: bytes = b"x") -> bytes:
    return b"--b\r\ncontent-disposition: form-data; " + disposition + b"\r\n\r\n" + content + b"\r\n--b--\r\n"


CHARSETS = sorted({*encodings.aliases.aliases, "punycode", "idna", "undefined", "none"} - {"utf8", "ascii"})


@pytest.mark.parametrize("kind", [FORM, MULTIPART])
def test_no_decoder_but_that_of_utf_8_can_be_chosen(kind: str) -> None:
    for charset in ("utf8", "ascii"):
        require_charset(Headers({"content-type": f"{kind}; charset={charset}"}))
    for charset in CHARSETS:
        headers = Headers({"content-type": f"{kind}; charset={charset}"})
        with pytest.raises(RefusedError) as refused:
            read_parameters(query=b"", headers=headers, body=part(b'name="q"'))
        assert (refused.value.fault.status, "utf-8" in str(refused.value)) == (415, True), charset


def deep(size: int) -> bytes:
    return b"[" * size


HOSTILE = {
    "nesting": (JSON, deep(MEGABYTE)),
    "nesting within the limit of tokens": (JSON, deep(30_000)),
    "numbers": (JSON, b'{"q":[' + b"0," * 480_000 + b"0]}"),
    "texts": (JSON, b'{"q":[' + b'"",' * 320_000 + b'""]}'),
    "lists": (JSON, b'{"q":[' + b"[]," * 320_000 + b"[]]}"),
    "members": (JSON, b"{" + b",".join(b'"%x":0' % number for number in range(100_000)) + b"}"),
    "digits": (JSON, b'{"q":' + b"9" * MEGABYTE + b"}"),
    "quotation marks": (JSON, b'"' * MEGABYTE),
    "an open string": (JSON, b'{"q":"' + b"\\a" * 400_000),
    "fields": (FORM, b"&" * MEGABYTE),
    "fields with values": (FORM, b"q=1&" * 200_000),
    "bytes that are no text": (FORM, b"%FF" * 300_000),
    "parts": (MULTIPART, (b"--b\r\ncontent-disposition: form-data; name=q\r\n\r\n\r\n") * 18_000 + b"--b--\r\n"),
    "a header": (MULTIPART, part(b"a;" * 400_000)),
    "a header's name": (MULTIPART, b"--b\r\n" + b"a" * MEGABYTE + b": b\r\n\r\n\r\n--b--\r\n"),
    "many headers": (MULTIPART, b"--b\r\n" + b"a: b\r\n" * 150_000 + b"\r\n\r\n--b--\r\n"),
    "no name": (MULTIPART, part(b'filename="a"')),
    "no end": (MULTIPART, part(b'name="q"')[:-8]),
    "a file": (MULTIPART, part(b'name="q"; filename="a"')),
    "a form without a boundary": ("multipart/form-data", part(b'name="q"')),
    "a large type": (f"multipart/form-data;{'a;' * 5000} boundary=b", part(b'name="q"')),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_make_much_work_is_refused(name: str) -> None:
    kind, body = HOSTILE[name]
    with pytest.raises(RefusedError) as refused:
        read_parameters(query=b"", headers=Headers({"content-type": kind}), body=body)
    assert refused.value.fault.status == 400


ACCEPTED = {
    "escapes": (FORM, b"q=" + b"%41" * 330_000, "A" * 330_000),
    "escapes between letters": (FORM, b"q=" + b"%41b" * 200_000, "Ab" * 200_000),
    "escapes of JSON": (JSON, b'{"q":"' + rb"\u4e2d" * 150_000 + b'"}', "中" * 150_000),
    "commas and brackets in a text": (JSON, json.dumps({"q": '[{,"' * 200_000}).encode(), '[{,"' * 200_000),
    "beginnings of boundaries": (MULTIPART, part(b'name="q"', b"\r\n--" * 200_000), "\r\n--" * 200_000),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_large_text_is_read_whatever_is_in_it(name: str) -> None:
    kind, body, text = ACCEPTED[name]
    assert read_parameters(query=b"", headers=Headers({"content-type": kind}), body=body).text("q") == text


async def test_large_requests_are_read_beside_the_event_loop() -> None:
    thread = ReadingThread()
    names = [await thread.run(lambda: threading.current_thread().name, size=size) for size in (100, MEGABYTE)]
    assert names[0] == threading.current_thread().name
    assert names[1].startswith("reading")
    with pytest.raises(RefusedError):
        await thread.run(lambda: json_value(b"["), size=MEGABYTE)
    thread.close()


LEAVES = st.integers(-(2**63), 2**63) | st.text(max_size=9) | st.booleans()


@settings(max_examples=50)
@given(st.dictionaries(st.text(max_size=9), st.recursive(LEAVES, st.lists, max_leaves=4), max_size=3))
def test_json_is_read_as_it_was_written(value: Any) -> None:
    body = json.dumps(value).encode()
    assert json_value(body) == json_value(b"\xef\xbb\xbf" + body) == value


def test_what_json_does_not_have_is_refused() -> None:
    for body in (b"NaN", b"[Infinity]", b"-Infinity", b'"\\ud800"', b'{"a":1} x', b"", b"'a'"):
        with pytest.raises(RefusedError, match="not valid JSON"):
            json_value(body)


def test_tokens_in_strings_do_not_count() -> None:
    checked_json(json.dumps(["," * MAX_TOKENS, '"[' * MAX_TOKENS]).encode())
    checked_json(b"[" + b"0," * (MAX_TOKENS - 2) + b"0]")
    with pytest.raises(RefusedError, match=f"at most {MAX_TOKENS}"):
        checked_json(b"[" + b"0," * MAX_TOKENS + b"0]")


def test_forms_are_utf_8_escaped_or_not() -> None:
    for encoded, found in (
        ("q=%E7%8C%AB", [("q", "猫")]),
        ("q=猫", [("q", "猫")]),
        ("q=猫+%2B&&a&=b", [("q", "猫 +"), ("a", ""), ("", "b")]),
        ("q=100%&r=%zz%4", [("q", "100%"), ("r", "%zz%4")]),
        ("", []),
    ):
        assert pairs(encoded.encode()) == found


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        (b'name="file"; filename="a.txt"', "a.txt"),
        ('name="file"; filename="猫.txt"'.encode(), "猫.txt"),
        (b"name=\"file\"; filename*=UTF-8''%E7%8C%AB.txt", "猫.txt"),
        (b'name="file"; filename="a.bin"; filename*=utf-8\'zh\'%E7%8C%AB.txt', "猫.txt"),
        (b"filename*=UTF-8''%20a.md; name=file", " a.md"),
    ],
)
def test_names_of_files_are_read_in_both_forms(disposition: bytes, name: str) -> None:
    form = read_multipart(Headers({"content-type": MULTIPART}), part(disposition, b"\x00\xff"), max_files=1)
    assert form.files["file"] == (name, b"\x00\xff")


def test_a_whole_number_may_be_written_in_several_ways() -> None:
    for value, number in ((3, 3), (3.0, 3), ("3", 3), (" 3 ", 3), ("3.0", 3), ("-2", -2), (0, 0)):
        assert whole_number(value, field="n", minimum=-5, maximum=5) == number


NO_NUMBERS: list[object] = [
    *("9" * 5000, "9" * 400, 10**400, -(10**400), 6, "6", float("nan"), float("inf"), 1e308, 2.5, "2.5", "1e1", "NaN"),
    *(True, False, "٣", "³", "３", "0x3", "1_0", "+-3", "", " ", None, [], {}, "3\n4"),
]


def test_what_is_no_number_within_the_bounds_is_refused() -> None:
    for value in NO_NUMBERS:
        with pytest.raises(RefusedError, match="n: must be a whole number from 0 to 5"):
            whole_number(value, field="n", minimum=0, maximum=5)
    for value in (float("nan"), float("inf"), 1e308, 10**400, True, "1", None, []):
        with pytest.raises(RefusedError, match="n: must be a number"):
            finite_number(value, field="n")


NINES = "9" * 5000
RAW_NUMBERS = [NINES, f'"{NINES}"', "1" + "0" * 400, "1e999", "-1e999", "NaN", "true", '"٣"', "[]", "2.5"]
TENSOR = '"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["a"]}]'
NUMBERS = {
    "/translate": ['{"q":"a","source":"zh","target":"en","alternatives":@}'],
    "/v1/translate": [
        '{"texts":["a"],"target_language":"en","options":{"beam_size":@}}',
        '{"texts":["a"],"target_language":"en","options":{"sampling":{"seed":@}}}',
        '{"texts":["a"],"target_language":"en","timeout_seconds":@}',
    ],
    "/v1/explain": ['{"text":"a","target_language":"en","attention_layers":[@]}'],
    "/v1/chat/completions": ['{"model":"auto-en","n":@,"messages":[{"role":"user","content":"a"}]}'],
    "/v2/models/tiny/infer": [
        f'{{{TENSOR},"parameters":{{"beam_size":@}}}}',
        f'{{{TENSOR},"parameters":{{"length_penalty":@}}}}',
        f'{{{TENSOR},"parameters":{{"timeout":@}}}}',
        f"{{{TENSOR.replace('[1]', '[@]')}}}",
    ],
    "/v2/logging": ['{"log_verbose_level":@}'],
    "/v3/projects/p:translateText": ['{"targetLanguageCode":"en","contents":["a"],"model":@}'],
}


@pytest.fixture(scope="module")
def stand_in() -> StandIn:
    return StandIn(sources=("zh", "en"), targets=("zh", "en"))


async def test_no_number_that_a_caller_can_write_makes_the_gateway_fail(gateway: RunningGateway) -> None:
    for path, templates in NUMBERS.items():
        for body in [template.replace("@", each) for template in templates for each in RAW_NUMBERS]:
            answer = await gateway.post(path, data=body.encode(), content_type=JSON)
            assert answer.status in (200, 400, 404, 504), (path, body[:100], answer.body)
    for query in ("pageSize=1e999", f"pageSize={'9' * 5000}", "pageSize=%D9%A3", f"pageToken={'9' * 5000}"):
        assert (await gateway.get(f"/v3/projects/p/locations/l/glossaries?{query}")).status == 400


async def test_many_faults_are_told_by_the_first_ten_and_their_number(gateway: RunningGateway) -> None:
    unknown = {f"parameters_{number}": 1 for number in range(100)}
    body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}], "parameters": unknown}
    answer = await gateway.post("/v2/models/tiny/infer", json=body)
    assert (answer.status, answer.json["error"].count("is unknown")) == (400, 10)
    assert answer.json["error"].endswith("; and 90 more")
    missing = await gateway.post("/v1/translate", json={"texts": ["a"], "options": dict.fromkeys("ab", 1)})
    assert len(missing.json["violations"]) == 3


async def test_others_are_answered_while_large_bodies_are_read(gateway: RunningGateway) -> None:
    kind, body, _ = ACCEPTED["escapes between letters"]
    large = [gateway.post("/translate", data=body + b"&source=zh&target=en", content_type=kind) for _ in range(2)]
    answers = await asyncio.gather(*large, *(gateway.get("/livez") for _ in range(20)))
    assert [each.status for each in answers] == [200] * 22


async def read(body: bytes, kind: str = "application/json", query: bytes = b"") -> Parameters:
    return read_parameters(query=query, headers=Headers({"content-type": kind}), body=body)


def test_whether_texts_pass_through_is_true_or_false() -> None:
    for value, passes in (("1", True), ("True", True), ("0", False), ("false", False)):
        assert unserved(value) == {"pass_through_unserved": passes}
    with pytest.raises(RefusedError, match="pass_through_unserved: must be true or false"):
        unserved("maybe")


async def test_names_of_forms_may_be_repeated() -> None:
    found = await read(b"text=a&text=%E7%8C%AB&target=en", "application/x-www-form-urlencoded", b"type=x")
    assert (found.texts("text"), found.is_list("text")) == (["a", "猫"], True)
    assert (found.text("target"), found.text("type"), found.text("none")) == ("en", "x", None)
    assert found.names == {"text", "target", "type"}


async def test_json_has_texts_lists_and_scalars_as_forms_give_them() -> None:
    for value, texts, is_list in (("a", ["a"], False), (["a"], ["a"], True), ([], [], True)):
        found = await read(json.dumps({"q": value}).encode())
        assert (found.texts("q"), found.is_list("q")) == (texts, is_list)
    for scalar, text in ((True, "1"), (2, "2"), ("x", "x"), (None, None)):
        assert (await read(json.dumps({"q": scalar}).encode())).scalar("q") == text


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"[]", "application/json"),
        (b"%FF=1", "application/x-www-form-urlencoded"),
        (b"\xff=1", "application/x-www-form-urlencoded"),
        (b"a=1&" * 3000, "application/x-www-form-urlencoded"),
        (b"no parts", "multipart/form-data"),
        (b"a", "text/plain"),
        (rb'{"\ud800": 1}', "application/json"),
        (rb'{"q": ["a", "\udfff"]}', "application/json"),
        (b'{"q":' + b"[" * 100_000, "application/json"),
        (
            b'--a\r\ncontent-disposition: form-data; name="q"\r\n\r\n\\ud800\r\n--a--\r\n',
            "multipart/form-data; boundary=a; charset=unicode_escape",
        ),
    ],
)
async def test_broken_bodies_are_refused(body: bytes, kind: str) -> None:
    with pytest.raises(RefusedError):
        await read(body, kind)


@settings(max_examples=50)
@given(st.binary(max_size=200))
async def test_whatever_is_sent_is_read_or_refused(body: bytes) -> None:
    for kind in ("application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", ""):
        try:
            found = await read(body, kind)
        except RefusedError:
            continue
        assert all(isinstance(name, str) for name in found.names)
