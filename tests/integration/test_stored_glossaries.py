"""Glossaries that callers store, through the SDK, the command and Google's client, unmodified."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from api_keys import add_key
from losing_relay import LosingRelay
from path_like import path_like, tree
from tests.integration.conftest import shared

from xuanzang.client import (
    AccessDeniedError,
    AsyncTranslationClient,
    GlossaryNotFoundError,
    InvalidRequestError,
    ServerUnavailableError,
    StatusCode,
    TranslationError,
)
from xuanzang.client.__main__ import main
from xuanzang.command.files import PathName

TEXT = "我有一只猫。"
PAIR: Any = {"source_language": "zh", "target_language": "en"}


def without_glossaries(tiny_bundle_repository: Path, folder: Path) -> Path:
    """Return the tiny model in a folder of its own."""
    folder.mkdir()
    (folder / "tiny").symlink_to(tiny_bundle_repository / "tiny")
    return folder


@pytest.fixture(scope="module")
def models(tiny_bundle_repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return without_glossaries(tiny_bundle_repository, tmp_path_factory.mktemp("stored") / "models")


@shared
async def address(start_server: Any, models: Path) -> AsyncIterator[str]:
    """Yield the address of a server whose callers may all store, and have few RPCs of a connection at once."""
    async with start_server(models=models, glossary_writers="*", max_connection_rpcs=4) as server:
        yield server.address


@shared
async def writer(address: str) -> AsyncIterator[AsyncTranslationClient]:
    async with AsyncTranslationClient(address) as client:
        yield client


async def test_a_stored_glossary_is_kept_listed_and_deleted(writer: AsyncTranslationClient) -> None:
    stored = await writer.create_glossary("animals", {"猫": "tiger", "狗": ["horse", "dog"]}, version="7", **PAIR)
    assert await writer.list_glossaries() == [stored]
    assert "tiger" in (await writer.translate_one(TEXT, glossary_name="animals")).text
    assert await writer.list_glossary_entries("animals") == {"猫": ("tiger",), "狗": ("horse", "dog")}
    with pytest.raises(InvalidRequestError, match="another glossary"):
        await writer.create_glossary("animals", {"猫": "horse"}, **PAIR)
    await writer.create_glossary("animals", {"猫": "horse"}, replace=True, **PAIR)
    assert "horse" in (await writer.translate_one(TEXT, glossary_name="animals")).text
    await writer.delete_glossary("animals")
    assert await writer.list_glossaries() == []
    with pytest.raises(GlossaryNotFoundError):
        await writer.delete_glossary("animals")


async def test_no_name_leads_out_of_the_folder_of_glossaries(writer: AsyncTranslationClient, models: Path) -> None:
    (models / "letter.tsv").write_text("mine")
    before = tree(models.parent)
    for name in path_like(200):
        if PathName.fits(name):
            await writer.create_glossary(name, {"猫": "tiger"}, **PAIR)
            await writer.delete_glossary(name)
            continue
        with pytest.raises(InvalidRequestError, match="name"):
            await writer.create_glossary(name, {"猫": "tiger"}, **PAIR)
        for call in (writer.delete_glossary, writer.list_glossary_entries):
            with pytest.raises((GlossaryNotFoundError, InvalidRequestError)):
                await call(name)
    assert {**tree(models.parent), "models/glossaries": None} == {**before, "models/glossaries": None}


async def test_a_write_whose_answer_is_lost_is_not_made_again(address: str, writer: AsyncTranslationClient) -> None:
    relay = LosingRelay(address)
    async with relay.serving(), AsyncTranslationClient(relay.address) as client:
        for kept, call in enumerate(("Create", "Delete")):
            assert len(await client.list_glossaries()) == kept
            relay.lose()
            written = asyncio.create_task(
                client.delete_glossary("animals")
                if kept
                else client.create_glossary("animals", {"猫": "tiger"}, **PAIR)
            )
            async with asyncio.timeout(30):
                while len(await writer.list_glossaries()) == kept:
                    pass
            relay.cut()
            with pytest.raises(ServerUnavailableError, match=f"{call}Glossary may have been carried out"):
                await written
            # What only reads is made again.
            relay.lose()
            listed = asyncio.create_task(client.list_glossaries())
            done, _ = await asyncio.wait([listed], timeout=0.2)
            assert not done
            relay.cut()
            assert len(await listed) == 1 - kept


async def test_a_server_stores_nothing_unless_it_is_told_who_may(running: Any, client: AsyncTranslationClient) -> None:
    for refused in (
        client.create_glossary("animals", {"猫": "tiger"}, **PAIR),
        client.delete_glossary("animals"),
        client.list_glossary_entries("animals"),
    ):
        with pytest.raises(TranslationError, match="--glossary-writers") as error:
            await refused
        assert error.value.code is StatusCode.UNIMPLEMENTED


async def test_only_the_keys_that_are_named_may_store(
    start_server: Any, tiny_bundle_repository: Path, tmp_path: Path
) -> None:
    named, other = add_key(tmp_path / "keys", "holder"), add_key(tmp_path / "keys", "holder")
    access = {"keys_file": tmp_path / "keys", "anonymous": True, "glossary_writers": named.split("_")[1]}
    models = without_glossaries(tiny_bundle_repository, tmp_path / "models")
    async with start_server(models=models, **access) as server:
        for key in (other, ""):
            async with AsyncTranslationClient(server.address, api_key=key) as client:
                with pytest.raises(AccessDeniedError, match="may not store glossaries"):
                    await client.create_glossary("animals", {"猫": "tiger"}, **PAIR)
        async with AsyncTranslationClient(server.address, api_key=named) as client:
            await client.create_glossary("animals", {"猫": "tiger"}, **PAIR)
        async with AsyncTranslationClient(server.address, api_key=other) as client:
            assert "tiger" in (await client.translate_one(TEXT, glossary_name="animals")).text
            with pytest.raises(AccessDeniedError):
                await client.delete_glossary("animals")


async def test_the_command_stores_lists_and_deletes(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = tmp_path / "names.tsv"
    terms.write_text("猫\ttiger\n", encoding="utf-8")

    def run() -> None:
        create = ["create", "animals", str(terms), "--from=zh", "--to=en", "--display-name=动物"]
        for action in (create, ["list"], ["entries", "animals"]):
            assert main(["glossaries", *action, f"--address={address}"]) == 0
        assert main(["glossaries", "delete", "animals", f"--address={address}"]) == 0
        assert main(["glossaries", "delete", "animals", f"--address={address}"]) == 1

    await asyncio.to_thread(run)
    row = "animals\tzh-en\t1 entries\t\t动物\n"
    assert capsys.readouterr().out == f"{row}{row}猫\ttiger\n"
