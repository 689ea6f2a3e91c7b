"""Every import rule of pyproject.toml holds, and is broken by an import that it is there to forbid."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter import configuration
from importlinter.application import use_cases
from importlinter.application.use_cases import read_user_options
from importlinter.domain.contract import Contract, registry

ROOT = Path(__file__).parents[2]
ENGINE = "xuanzang.server.engine"

BREAKING = {
    "Rooms: the three ends never meet, export reads model, proto, text and documents know nobody": (
        "xuanzang.client._calls.channel",
        "xuanzang.server.metrics",
    ),
    "Nothing that runs in production imports torch, onnx or the model": (f"{ENGINE}.decoding.decoder", "torch"),
    "The client needs only grpcio and protobuf": ("xuanzang.client._values.results", "numpy"),
    "Text needs numpy and a tokeniser, and what reads languages and other characters where that is installed": (
        "xuanzang.text.codec",
        "onnxruntime",
    ),
    "Text's floors: terms and markup over sentences, sentences over scripts": (
        "xuanzang.text.sentences",
        "xuanzang.text.codec",
    ),
    "Terms are found, put into a source, and held in a translation": (
        "xuanzang.text.terminology.terms",
        "xuanzang.text.terminology.target_terms",
    ),
    "Spans' floors: found, then carried": ("xuanzang.text.spans.catalogue", "xuanzang.text.spans.carrying"),
    "Markup's floors: parsed without a translation, placed without a parser": (
        "xuanzang.text.markup.placement",
        "xuanzang.text.markup.parsing",
    ),
    "Documents need nothing but five libraries, each in its formats": ("xuanzang.documents.opening", "pyromark"),
    "The client works without documents: what needs them is loaded when a document is translated": (
        "xuanzang.client._client",
        "xuanzang.documents",
    ),
    "Documents' floors: a job on a document, a document of a format, a format of spans": (
        "xuanzang.documents.encoding",
        "xuanzang.documents.job",
    ),
    "What becomes of a failed call is decided without gRPC": ("xuanzang.client._reliability.plan", "grpc"),
    "The network's floors: layers of attention over a cache": (
        "xuanzang.model.network.attention",
        "xuanzang.model.network.layers",
    ),
    "The client's floors: commands call clients, clients call methods, methods make calls of messages": (
        "xuanzang.client._calls.channel",
        "xuanzang.client._messages.requests",
    ),
    "The network knows nothing of data, training or commands": (
        "xuanzang.model.network.transformer",
        "xuanzang.model.data.dataset",
    ),
    "A load test: servers are called at times that know nothing of servers": (
        "xuanzang.loadtest.loops",
        "xuanzang.loadtest.target",
    ),
    "Export: a pipeline over graphs over operators": (
        "xuanzang.export.operators.attention",
        "xuanzang.export.exporter",
    ),
    "Students become bundles without torch and without the room that trains": (
        "xuanzang.export.students.building",
        "torch",
    ),
    "The server's floors: imports run down only": (f"{ENGINE}.engine", "xuanzang.server.rpc.services.translation"),
    "In one process: threads over a loop, texts over translations, translations over options": (
        "xuanzang.server.in_process.options",
        "xuanzang.server.in_process.translations",
    ),
    "A hub knows the server's bundles and nothing else of it": ("xuanzang.hub.pulling", f"{ENGINE}.engine"),
    "A hub's floors: commands pull and push, and what is pulled is downloaded": (
        "xuanzang.hub.known_models",
        "xuanzang.hub.download",
    ),
    "A batch uses the server by its public names": ("xuanzang.batch.translator", f"{ENGINE}.engine"),
    "A batch: shards are planned and recorded without an engine, and run without Ray": (
        "xuanzang.batch.planning",
        "xuanzang.batch.translator",
    ),
    "The engine knows neither the wire nor the messages": (f"{ENGINE}.calls.call", "grpc"),
    "Observation's floors: lines and spans are made of records": (
        "xuanzang.server.observation.callers",
        "xuanzang.server.observation.rpc_record",
    ),
    "Access's floors: who calls, what the key allows, what the file holds": (
        "xuanzang.server.access.keys",
        "xuanzang.server.access.callers",
    ),
    "Access knows neither the wire nor the messages": ("xuanzang.server.access.callers", "grpc"),
    "The wire computes nothing": ("xuanzang.server.rpc.messages.requests", "numpy"),
    "The engine's floors: a call is scheduled, a schedule runs models, models decode": (
        f"{ENGINE}.decoding.decoder",
        f"{ENGINE}.scheduling.request",
    ),
    "The wire's floors: listeners over the entry, the entry over services, services over messages": (
        "xuanzang.server.rpc.messages.requests",
        "xuanzang.server.rpc.services.translation",
    ),
    "A call's floors": (f"{ENGINE}.calls.results", f"{ENGINE}.calls.call"),
    "The scheduler's floors: workers take from the queue, and requests know neither": (
        f"{ENGINE}.scheduling.request",
        f"{ENGINE}.scheduling.worker",
    ),
    "The decoder's floors": (f"{ENGINE}.decoding.search_state", f"{ENGINE}.decoding.decoder"),
    "Promotion's floors: what is live, and the gate before it": (
        f"{ENGINE}.promotion.gate",
        f"{ENGINE}.promotion.promoter",
    ),
    "The gateway is a client: it knows neither a server's inside nor the wire": ("xuanzang.gateway.app", "grpc"),
    "The gateway's floors: APIs over a way in over a client": ("xuanzang.gateway.errors", "xuanzang.gateway.app"),
    "Search is plain numpy": (f"{ENGINE}.decoding.beam_search", f"{ENGINE}.runtime.kv_cache"),
}


@pytest.fixture(scope="module")
def contracts() -> dict[str, Contract]:
    configuration.configure()
    options = read_user_options(str(ROOT / "pyproject.toml"))
    use_cases._register_contract_types(options)
    found = {}
    for contract in options.contracts_options:
        kind: Any = registry.get_contract_class(contract["type"])
        found[contract["name"]] = kind(contract["name"], options.session_options, contract)
    return found


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("xuanzang", include_external_packages=True, cache_dir=None)


def test_every_rule_has_an_import_that_breaks_it(contracts: dict[str, Contract]) -> None:
    assert set(BREAKING) == set(contracts)


@pytest.mark.parametrize("name", BREAKING)
def test_a_rule_holds_until_the_import_that_it_forbids(
    name: str, contracts: dict[str, Contract], graph: grimp.ImportGraph
) -> None:
    assert contracts[name].check(deepcopy(graph), verbose=False).kept
    broken = deepcopy(graph)
    importer, imported = BREAKING[name]
    assert importer in broken.modules
    broken.add_import(importer=importer, imported=imported)
    assert not contracts[name].check(broken, verbose=False).kept
