"""Names that callers and administrators send: none of them reads, writes or removes anything outside its folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from administration import administered
from path_like import path_like, tree

from xuanzang.admin.v1 import admin_pb2
from xuanzang.client import InvalidRequestError, ModelNotFoundError
from xuanzang.command.files import PathName

NAMES = tuple(name for name in path_like(600) if not PathName.fits(name))
REFUSED = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION}
SERVICE: Any = admin_pb2.DESCRIPTOR.services_by_name["ModelService"]


class _Watch:
    """Events of this process that have a path; a hook of the interpreter stays until its end."""

    def __init__(self) -> None:
        self.paths: list[str] | None = None
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.paths is not None and event in ("open", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.listdir"):
            self.paths += [str(argument) for argument in arguments if isinstance(argument, str | Path)]


WATCH = _Watch()


@pytest.fixture
def paths() -> Iterator[list[str]]:
    """Return the paths of all files and folders that this process opens or changes meanwhile."""
    WATCH.paths = []
    yield WATCH.paths
    WATCH.paths = None


def used(paths: list[str], names: tuple[str, ...]) -> set[str]:
    """Return the names that became a part of a path; short ones may be one by chance."""
    joined = "\n".join(paths)
    return {name for name in names if len(name) > 20 and name in joined}


async def test_no_name_of_an_administrator_becomes_a_path(
    start_server: Any, tiny_bundle_repository: Path, tmp_path: Path, paths: list[str]
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "tiny").symlink_to(tiny_bundle_repository / "tiny")
    (models / "letter.tsv").write_text("mine")
    methods = [each for each in SERVICE.methods if "name" in each.input_type.fields_by_name]
    assert len(methods) > 5
    async with start_server(models=models, admin_address="127.0.0.1:0") as running, administered(running) as (_, admin):
        await running.server.admin.start()
        before = tree(tmp_path)
        for number, name in enumerate(NAMES):
            method = methods[number % len(methods)]
            request: Any = getattr(admin_pb2, method.input_type.name)(name=name)
            if "version" in method.input_type.fields_by_name:
                request.version = "1" if number % 2 else name
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await getattr(admin, method.name)(request)
            assert caught.value.code() in REFUSED, name
        assert tree(tmp_path) == before
    assert used(paths, NAMES) == set()


async def test_no_name_in_a_request_becomes_a_path(start_server: Any, paths: list[str]) -> None:
    async with start_server(admin_address="127.0.0.1:0") as running, administered(running) as (client, _):
        for number, name in enumerate(NAMES):
            names: Any = (
                {"model": name},
                {"glossary_name": name},
                {"source_language": name},
                {"target_language": name},
            )
            # "tiny/1" is a version of the model, and there are more ways to write it.
            with suppress(InvalidRequestError, ModelNotFoundError):
                await client.translate_one("我有一只猫。", **names[number % len(names)])
    assert used(paths, NAMES) == set()
