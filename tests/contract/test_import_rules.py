"""Every import rule of .importlinter holds, and is broken by an import that it is there to forbid."""

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
    "No package has an import cycle": ("xuanzang.text.terminology.terms", "xuanzang.text.terminology.target_terms"),
    "Rooms: server, client and export never meet": ("xuanzang.client._calls.channel", "xuanzang.server.metrics"),
    "Production code imports neither torch nor onnx nor the model": (f"{ENGINE}.decoding.decoder", "torch"),
    "The client needs only grpcio and protobuf": ("xuanzang.client._values.results", "numpy"),
    "Client: commands, clients, methods, calls": (
        "xuanzang.client._calls.channel",
        "xuanzang.client._methods.requests",
    ),
    "The client loads documents only to translate one": ("xuanzang.client._methods.stream", "xuanzang.documents"),
    "Retries are decided without gRPC": ("xuanzang.client._reliability.plan", "grpc"),
    "Each format of documents needs at most its own library": ("xuanzang.documents.opening", "pyromark"),
    "Documents: jobs, formats, splicing, the document": ("xuanzang.documents.encoding", "xuanzang.documents.job"),
    "Text knows neither the wire nor onnxruntime": ("xuanzang.text.codec", "onnxruntime"),
    "Text: spans and markup, terms, sentences, scripts": ("xuanzang.text.sentences", "xuanzang.text.codec"),
    "Model: the network knows neither data nor training": (
        "xuanzang.model.network.transformer",
        "xuanzang.model.data.dataset",
    ),
    "Export: a pipeline over graphs over operators": (
        "xuanzang.export.operators.attention",
        "xuanzang.export.exporter",
    ),
    "Models are imported and exported without torch": ("xuanzang.model.stored_checkpoint", "torch"),
    "Students become bundles without the network": ("xuanzang.export.students.building", "xuanzang.model.beams"),
    "A hub knows only the bundles of the server": ("xuanzang.hub.pulling", f"{ENGINE}.engine"),
    "A batch uses the server by its public names": ("xuanzang.batch.translator", f"{ENGINE}.engine"),
    "The gateway is a client of the SDK": ("xuanzang.gateway.app", "grpc"),
    "Gateway: APIs over the entry over the SDK": ("xuanzang.gateway.errors", "xuanzang.gateway.app"),
    "Server: the edge over the engine over bundles": (f"{ENGINE}.engine", "xuanzang.server.rpc.services.translation"),
    "The edge: entry and services, messages, methods": (
        "xuanzang.server.rpc.messages.requests",
        "xuanzang.server.rpc.services.translation",
    ),
    "The edge computes nothing": ("xuanzang.server.rpc.messages.requests", "numpy"),
    "Access knows neither the wire nor its messages": ("xuanzang.server.access.callers", "grpc"),
    "The engine knows neither the wire nor its messages": (f"{ENGINE}.calls.call", "grpc"),
    "The engine: calls, scheduling, models, decoding": (f"{ENGINE}.decoding.decoder", f"{ENGINE}.scheduling.request"),
    "Search is plain numpy": (f"{ENGINE}.decoding.beam_search", f"{ENGINE}.runtime.kv_cache"),
}


@pytest.fixture(scope="module")
def contracts() -> dict[str, Contract]:
    configuration.configure()
    options = read_user_options(str(ROOT / ".importlinter"))
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
