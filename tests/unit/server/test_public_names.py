"""The public names of the server: complete, and light until one of them needs the engine."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys

import pytest

from xuanzang import client, server


def test_every_public_name_is_found_where_the_type_checker_finds_it() -> None:
    typed = {
        (node.module, each.asname)
        for node in ast.walk(ast.parse(inspect.getsource(server)))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("xuanzang.")
        for each in node.names
    }
    named = [(module, name) for module, names in server._NAMES.items() for name in names]
    assert {(f"{server.__name__ if module[0] == '.' else ''}{module}", name) for module, name in named} == typed
    assert sorted(name for _, name in named) == sorted(server.__all__)
    for module, names in server._NAMES.items():
        for name in names:
            found = getattr(server, name)
            assert found is getattr(importlib.import_module(module, server.__name__), name)
    assert set(server.__all__) <= set(dir(server))


def test_a_finish_reason_is_printed_as_that_of_a_server_is() -> None:
    for each in server.FinishReason:
        assert str(each) == str(client.FinishReason[each.name])


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Engine'"):
        server.Engine  # type: ignore[attr-defined]  # noqa: B018


HEAVY = ("grpc", "numpy", "onnxruntime", "pydantic", "sentencepiece")


@pytest.mark.parametrize(
    ("names", "heavy"),
    [
        ("__name__, BundleError, FinishReason, InvalidInputError, SamplingOptions, Translation", HEAVY),
        ("Translator", ("grpc",)),
    ],
)
def test_a_public_name_imports_no_more_than_it_needs(names: str, heavy: tuple[str, ...]) -> None:
    code = f"import sys; from xuanzang.server import {names}; print([name for name in {heavy} if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
