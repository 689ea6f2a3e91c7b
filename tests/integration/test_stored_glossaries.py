"""Glossaries that callers store, through the SDK, the command and Google's client, unmodified."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from api_keys import add_key

from xuanzang.client import (
    AccessDeniedError,
    AsyncTranslationClient,
    GlossaryNotFoundError,
    InvalidRequestError,
    StatusCode,
    TranslationClient,
    TranslationError,
)
from xuanzang.client.__main__ import main

TEXT = "我有一只猫。"
PARENT = "projects/any/locations/global"
PAIR: Any = {"source_language": "zh", "target_language": "en"}


@pytest.fixture
def models(tiny_bundle_repository: Path, tmp_path: Path) -> Path:
    """Return the tiny model in a folder of its own, without glossaries."""
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "tiny").symlink_to(tiny_bundle_repository / "tiny")
    return folder


async def test_a_stored_glossary_is_kept_listed_and_deleted(start_server: Any, models: Path) -> None:
    async with (
        start_server(models=models, glossary_writers="*") as server,
        AsyncTranslationClient(server.address) as client,
    ):
        stored = await client.create_glossary("animals", {"猫": "tiger", "狗": ["horse", "dog"]}, version="7", **PAIR)
        assert await client.list_glossaries() == [stored]
        assert "tiger" in (await client.translate_one(TEXT, glossary_name="animals")).text
        assert await client.list_glossary_entries("animals") == {"猫": ("tiger",), "狗": ("horse", "dog")}
        with pytest.raises(InvalidRequestError, match="another glossary"):
            await client.create_glossary("animals", {"猫": "horse"}, **PAIR)
        await client.create_glossary("animals", {"猫": "horse"}, replace=True, **PAIR)
        assert "horse" in (await client.translate_one(TEXT, glossary_name="animals")).text
        await client.delete_glossary("animals")
        assert await client.list_glossaries() == []
        with pytest.raises(GlossaryNotFoundError):
            await client.delete_glossary("animals")


async def test_a_server_stores_nothing_unless_it_is_told_who_may(running: Any, client: AsyncTranslationClient) -> None:
    for refused in (
        client.create_glossary("animals", {"猫": "tiger"}, **PAIR),
        client.delete_glossary("animals"),
        client.list_glossary_entries("animals"),
    ):
        with pytest.raises(TranslationError, match="--glossary-writers") as error:
            await refused
        assert error.value.code is StatusCode.UNIMPLEMENTED


async def test_only_the_keys_that_are_named_may_store(start_server: Any, models: Path, tmp_path: Path) -> None:
    writer, other = add_key(tmp_path / "keys", "holder"), add_key(tmp_path / "keys", "holder")
    access = {"keys_file": tmp_path / "keys", "anonymous": True, "glossary_writers": writer.split("_")[1]}
    async with start_server(models=models, **access) as server:
        for key in (other, ""):
            async with AsyncTranslationClient(server.address, api_key=key) as client:
                with pytest.raises(AccessDeniedError, match="may not store glossaries"):
                    await client.create_glossary("animals", {"猫": "tiger"}, **PAIR)
        async with AsyncTranslationClient(server.address, api_key=writer) as client:
            await client.create_glossary("animals", {"猫": "tiger"}, **PAIR)
        async with AsyncTranslationClient(server.address, api_key=other) as client:
            assert "tiger" in (await client.translate_one(TEXT, glossary_name="animals")).text
            with pytest.raises(AccessDeniedError):
                await client.delete_glossary("animals")


async def test_the_command_stores_lists_and_deletes(
    start_server: Any, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = tmp_path / "names.tsv"
    terms.write_text("猫\ttiger\n", encoding="utf-8")

    def run(address: str) -> None:
        for action in (["create", "animals", str(terms), "--from=zh", "--to=en"], ["list"], ["entries", "animals"]):
            assert main(["glossaries", *action, f"--address={address}"]) == 0
        assert main(["glossaries", "delete", "animals", f"--address={address}"]) == 0
        assert main(["glossaries", "delete", "animals", f"--address={address}"]) == 1

    async with start_server(models=models, glossary_writers="*") as server:
        await asyncio.to_thread(run, server.address)
    row = "animals\tzh-en\t1 entries\n"
    assert capsys.readouterr().out == f"{row}{row}猫\ttiger\n"


def test_both_clients_store_in_the_same_way(start_server: Any, models: Path) -> None:
    async def store() -> None:
        def blocking(address: str) -> list[str]:
            with TranslationClient(address) as client:
                client.create_glossary("animals", {"猫": "tiger"}, **PAIR)
                names = [each.name for each in client.list_glossaries()]
                assert client.list_glossary_entries("animals") == {"猫": ("tiger",)}
                client.delete_glossary("animals")
                with pytest.raises(GlossaryNotFoundError):
                    client.list_glossary_entries("animals")
                return names

        async with start_server(models=models, glossary_writers="*") as server:
            assert await asyncio.to_thread(blocking, server.address) == ["animals"]

    asyncio.run(store())


def google_client(channel: grpc.Channel) -> Any:
    translate_v3 = pytest.importorskip("google.cloud.translate_v3", reason="needs the extra `google`")
    transport = translate_v3.TranslationServiceClient.get_transport_class("grpc")
    return translate_v3.TranslationServiceClient(transport=transport(channel=channel))


def use_googles_glossaries(address: str) -> None:
    exceptions = pytest.importorskip("google.api_core.exceptions", reason="needs the extra `google`")
    name = f"{PARENT}/glossaries/animals"
    pair = {"source_language_code": "zh", "target_language_code": "en"}
    term = {"source_term": {"language_code": "zh", "text": "猫"}, "target_term": {"text": "tiger"}}
    with grpc.insecure_channel(address) as channel:
        client = google_client(channel)
        made = client.create_glossary(parent=PARENT, glossary={"name": name, "language_pair": pair}).result(timeout=20)
        assert (made.name, made.entry_count) == (name, 0)
        entry = client.create_glossary_entry(parent=name, glossary_entry={"terms_pair": term})
        with pytest.raises(exceptions.AlreadyExists):
            client.create_glossary_entry(parent=name, glossary_entry={"terms_pair": term})
        assert client.get_glossary_entry(name=entry.name) == entry
        assert list(client.list_glossary_entries(parent=name)) == [entry]
        assert [each.entry_count for each in client.list_glossaries(parent=PARENT)] == [1]
        assert client.get_glossary(name=name).language_pair.source_language_code == "zh"
        request = {"parent": PARENT, "contents": [TEXT], "mime_type": "text/plain", "target_language_code": "en"}
        answer = client.translate_text(request={**request, "glossary_config": {"glossary": name}})
        assert "tiger" in answer.glossary_translations[0].translated_text
        assert answer.glossary_translations[0].glossary_config.glossary == name
        client.delete_glossary_entry(name=entry.name)
        assert client.get_glossary(name=name).entry_count == 0
        assert client.delete_glossary(name=name).result(timeout=20).name == name
        with pytest.raises(exceptions.NotFound):
            client.get_glossary(name=name)


async def test_googles_client_makes_uses_and_deletes_a_glossary(start_server: Any, models: Path) -> None:
    async with start_server(models=models, faces="google", glossary_writers="*") as server:
        await asyncio.to_thread(use_googles_glossaries, server.address)


def googles_faults(address: str) -> list[str]:
    exceptions = pytest.importorskip("google.api_core.exceptions", reason="needs the extra `google`")
    name, pair = f"{PARENT}/glossaries/animals", {"source_language_code": "zh", "target_language_code": "en"}
    storage = {"gcs_source": {"input_uri": "gs://bucket/terms.tsv"}}
    fields = []
    with grpc.insecure_channel(address) as channel:
        client = google_client(channel)
        for glossary in (
            {"name": name, "language_pair": pair, "input_config": storage},
            {"name": f"{PARENT}/glossaries/Animals", "language_pair": pair},
            {"name": name, "language_pair": {"source_language_code": "zh"}},
            {"name": "animals", "language_pair": pair},
        ):
            with pytest.raises(exceptions.InvalidArgument) as error:
                client.create_glossary(parent=PARENT, glossary=glossary)
            fields += [violation.field for detail in error.value.details for violation in detail.field_violations]
    return fields


async def test_googles_client_is_told_what_a_glossary_cannot_be(start_server: Any, models: Path) -> None:
    async with start_server(models=models, faces="google", glossary_writers="*") as server:
        assert await asyncio.to_thread(googles_faults, server.address) == [
            "glossary.input_config",
            "glossary.name",
            "glossary.language_pair.target_language_code",
            "glossary.name",
        ]


async def test_googles_client_is_refused_where_nothing_is_stored(start_server: Any, models: Path) -> None:
    exceptions = pytest.importorskip("google.api_core.exceptions", reason="needs the extra `google`")

    def create(address: str) -> None:
        glossary = {"name": f"{PARENT}/glossaries/a", "language_pair": {}}
        with grpc.insecure_channel(address) as channel, pytest.raises(exceptions.MethodNotImplemented, match="writers"):
            google_client(channel).create_glossary(parent=PARENT, glossary=glossary)

    async with start_server(models=models, faces="google") as server:
        await asyncio.to_thread(create, server.address)
