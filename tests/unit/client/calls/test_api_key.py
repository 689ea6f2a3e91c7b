from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.unit.client.conftest import Client, Run, Script, aborting

from xuanzang import client as sdk
from xuanzang.client._calls.metadata import is_local
from xuanzang.client._calls.targets import targets

KEY = "xz_0123456789ab_secret-secret-secret"
BOTH = pytest.mark.parametrize("kind", [sdk.TranslationClient, sdk.AsyncTranslationClient])


def opened(kind: Any, *arguments: Any, **options: Any) -> None:
    """Open a client and close it; one for asyncio needs a loop."""

    async def call() -> None:
        if (closing := kind(*arguments, **options).close()) is not None:
            await closing

    asyncio.run(call())


def test_every_method_sends_the_key_and_the_client_id(client_type: type[Client], script: Script) -> None:
    client = client_type(script.address, api_key=KEY, client_id="me")
    client.translate(["a"])
    client.translate_stream(["a"])
    client.translate_progressively("a")
    client.list_models()
    sent = [(each.get("authorization"), each.get("x-client-id")) for each in script.metadata]
    assert sent == [(f"Bearer {KEY}", "me")] * 4


@pytest.mark.parametrize(("api_key", "sent"), [(None, f"Bearer {KEY}"), ("", None), ("other", "Bearer other")])
def test_the_key_of_the_environment_is_sent_unless_another_is_given(
    client_type: type[Client], script: Script, monkeypatch: pytest.MonkeyPatch, api_key: str | None, sent: str | None
) -> None:
    monkeypatch.setenv("XUANZANG_API_KEY", KEY)
    client_type(script.address, api_key=api_key).translate_one("a")
    assert script.metadata[0].get("authorization") == sent
    assert "x-client-id" not in script.metadata[0]


@BOTH
@pytest.mark.parametrize("address", ["10.0.0.1:1", "translation.example:1", ["localhost:1", "10.0.0.1:1"]])
def test_a_key_is_not_sent_to_another_machine_in_plain_text(kind: Any, address: Any) -> None:
    with pytest.raises(ValueError, match="in plain text: use TLS") as caught:
        opened(kind, address, api_key=KEY)
    assert KEY not in str(caught.value)
    for allowed in ({"api_key": KEY, "allow_insecure_key": True}, {"api_key": KEY, "tls": sdk.TLSConfig()}, {}):
        opened(kind, address, **allowed)


LOCAL = """\
127.0.0.1:1 dns:127.0.0.1:1 dns:///127.0.0.1:1 dns://8.8.8.8/127.0.0.1:1 ipv4:127.0.0.1:1 localhost LOCALHOST:1 [::1]:1
ipv6:[::1]:1 ::1 127.1.2.3:1 127.0.0.1 unix:/run/x unix:///run/x unix-abstract:x"""
# Another name server may say anything of the last two names.
ELSEWHERE = """\
0.0.0.0:1 [::]:1 10.0.0.1 [2001:db8::1]:1 localhost.example:1 127.0.0.1.example:1 ipv4:127.0.0.1:1,10.0.0.1:1
xds:///localhost localhost@example.com:1 dns://8.8.8.8/localhost:1"""


def test_only_this_machine_is_local() -> None:
    for listed, local in ((LOCAL, True), (ELSEWHERE, False)):
        for target in listed.split():
            assert [is_local(each) for each in targets(target)] == [local], target


@BOTH
@pytest.mark.parametrize("api_key", ["two words", "line\n", "schlüssel", "x" * 5000])
def test_a_key_that_cannot_be_a_header_is_refused_without_being_shown(kind: Any, api_key: str) -> None:
    with pytest.raises(ValueError, match="api_key must be") as caught:
        opened(kind, "localhost:1", api_key=api_key)
    assert api_key not in str(caught.value)


@pytest.mark.parametrize("method", ["translate_one", "translate_progressively", "translate_stream"])
def test_the_key_is_in_no_error_log_or_repr(
    client_type: type[Client], script: Script, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    refuse = aborting(grpc.StatusCode.UNAUTHENTICATED, "the API key is not valid")
    script.on_translate = script.on_progressive = script.on_stream = refuse
    client = client_type(script.address, api_key=KEY)
    with caplog.at_level(logging.DEBUG), pytest.raises(sdk.AccessDeniedError) as caught:
        getattr(client, method)(["a"] if method == "translate_stream" else "a")
    cause = caught.value.__cause__
    assert cause is not None
    chain = (caught.value, cause)
    shown = [caplog.text, *map(str, chain), *map(repr, chain), *(repr(vars(each)) for each in chain)]
    assert not [text for text in shown if "secret-secret" in text]
    assert (caught.value.code, caught.value.retryable) == (sdk.StatusCode.UNAUTHENTICATED, False)


def test_a_client_does_not_show_its_key() -> None:
    with sdk.TranslationClient("localhost:1", api_key=KEY) as client:
        assert KEY not in repr(client) + repr(client._calls)


def test_the_command_takes_the_key_from_a_file_or_the_environment(
    run: Run, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    assert run("translate", "--api-key-file", tmp_path / "key", "a") == (0, "A\n", "")
    monkeypatch.setenv("XUANZANG_API_KEY", "of-the-environment")
    assert run("models")[0] == 0
    sent = [metadata["authorization"] for metadata in script.metadata]
    assert sent == [f"Bearer {KEY}", "Bearer of-the-environment"]


def test_the_command_refuses_to_show_or_expose_a_key(run: Run, script: Script, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "empty").write_text("\n")
    code, _, errors = run("translate", "--api-key-file", tmp_path / "key", "a", address="10.0.0.1:1")
    assert (code, KEY in errors, "in plain text" in errors) == (2, False, True)
    # This address is not known to be this machine's, but reaches it.
    open_address = script.address.replace("127.0.0.1", "0.0.0.0")
    insecure = ("--api-key-file", tmp_path / "key", "--allow-insecure-key")
    assert run("translate", *insecure, "a", address=open_address) == (0, "A\n", "")
    assert "holds no API key" in run("models", "--api-key-file", tmp_path / "empty")[2]
    assert "No such file" in run("models", "--api-key-file", tmp_path / "none")[2]
