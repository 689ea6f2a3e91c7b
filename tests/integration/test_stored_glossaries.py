"""Glossaries that callers store, through the SDK, the command and Google's client, unmodified."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from api_keys import add_key
from losing_relay import LosingRelay
from path_like import path_like, tree

from xuanzang.client import (
    AccessDeniedError,
    AsyncTranslationClient,
    GlossaryNotFoundError,
    InvalidRequestError,
    ServerUnavailableError,
    StatusCode,
    TranslationClient,
    TranslationError,
)
from xuanzang.client.__main__ import main
from xuanzang.command.files import PathName

TEXT = "我有一只猫。"
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


async def test_no_name_leads_out_of_the_folder_of_glossaries(start_server: Any, models: Path) -> None:
    (models / "letter.tsv").write_text("mine")
    async with (
        start_server(models=models, glossary_writers="*") as server,
        AsyncTranslationClient(server.address) as client,
    ):
        before = tree(models.parent)
        for name in path_like(1000):
            if PathName.fits(name):
                await client.create_glossary(name, {"猫": "tiger"}, **PAIR)
                await client.delete_glossary(name)
                continue
            with pytest.raises(InvalidRequestError, match="name"):
                await client.create_glossary(name, {"猫": "tiger"}, **PAIR)
            for call in (client.delete_glossary, client.list_glossary_entries):
                with pytest.raises((GlossaryNotFoundError, InvalidRequestError)):
                    await call(name)
        assert {**tree(models.parent), "models/glossaries": None} == {**before, "models/glossaries": None}


async def test_rpcs_that_have_ended_do_not_count_for_their_connection(start_server: Any, models: Path) -> None:
    async with (
        start_server(models=models, glossary_writers="*", max_connection_rpcs=4) as server,
        AsyncTranslationClient(server.address) as client,
    ):
        for _ in range(20):
            await client.list_glossaries()
            await client.list_models()
            with pytest.raises(InvalidRequestError):
                await client.create_glossary("..", {"猫": "tiger"}, **PAIR)
            with pytest.raises(GlossaryNotFoundError):
                await client.delete_glossary("none")


@pytest.mark.parametrize("call", ["create", "delete"])
async def test_a_write_whose_answer_is_lost_is_not_made_again(start_server: Any, models: Path, call: str) -> None:
    async with start_server(models=models, glossary_writers="*") as server:
        relay = LosingRelay(server.address)
        async with (
            relay.serving(),
            AsyncTranslationClient(server.address) as direct,
            AsyncTranslationClient(relay.address) as client,
        ):
            if call == "delete":
                await client.create_glossary("animals", {"猫": "tiger"}, **PAIR)
            kept = len(await client.list_glossaries())
            relay.lose()
            written = asyncio.create_task(
                client.create_glossary("animals", {"猫": "tiger"}, **PAIR)
                if call == "create"
                else client.delete_glossary("animals")
            )
            async with asyncio.timeout(30):
                while len(await direct.list_glossaries()) == kept:
                    pass
            relay.cut()
            with pytest.raises(ServerUnavailableError, match=f"{call.title()}Glossary may have been carried out"):
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
        create = ["create", "animals", str(terms), "--from=zh", "--to=en", "--display-name=动物"]
        for action in (create, ["list"], ["entries", "animals"]):
            assert main(["glossaries", *action, f"--address={address}"]) == 0
        assert main(["glossaries", "delete", "animals", f"--address={address}"]) == 0
        assert main(["glossaries", "delete", "animals", f"--address={address}"]) == 1

    async with start_server(models=models, glossary_writers="*") as server:
        await asyncio.to_thread(run, server.address)
    row = "animals\tzh-en\t1 entries\t\t动物\n"
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
