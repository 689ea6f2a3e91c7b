from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from xuanzang.gateway.entry.parameters import Parameters, read_parameters
from xuanzang.gateway.errors import RefusedError


async def read(body: bytes, kind: str = "application/json", query: bytes = b"") -> Parameters:
    return read_parameters(query=query, headers=Headers({"content-type": kind}), body=body)


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
