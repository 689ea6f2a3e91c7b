"""Settings and models of the Open Inference Protocol, as Triton's clients read them: alike over HTTP and gRPC."""

from __future__ import annotations

import logging
from typing import Any

import grpc
import pytest
from gateways import RunningGateway
from google.protobuf.json_format import ParseDict
from stand_in_server import KEY

from xuanzang.inference.v2 import inference_pb2 as v2
from xuanzang.inference.v2 import inference_pb2_grpc

LEVELS = {"log_info": logging.INFO, "log_warning": logging.WARNING, "log_error": logging.ERROR}
LOG: dict[str, bool | int] = {
    name: logging.getLogger("xuanzang.gateway").isEnabledFor(level) for name, level in LEVELS.items()
}
LOG["log_verbose_level"] = 0


TRACE = {"trace_level": ["OFF"]}


async def test_a_change_to_what_is_so_already_is_answered(gateway: RunningGateway) -> None:
    for path, changes, settings in (
        ("/v2/trace/setting", {}, TRACE),
        ("/v2/trace/setting", {"trace_level": None}, TRACE),
        ("/v2/models/tiny/trace/setting", {"trace_level": "OFF"}, TRACE),
        ("/v2/logging", {}, LOG),
        ("/v2/logging", {"log_error": True, "log_verbose_level": 0}, LOG),
    ):
        assert (await gateway.post(path, json=changes)).json == settings
        assert (await gateway.get(path)).json == settings


async def test_a_change_is_refused_by_name(gateway: RunningGateway) -> None:
    for path, name, value in (
        ("/v2/trace/setting", "trace_level", ["TIMESTAMPS"]),
        ("/v2/trace/setting", "trace_rate", "1"),
        ("/v2/logging", "log_verbose_level", 1),
        ("/v2/logging", "log_verbose_level", False),
        ("/v2/logging", "log_error", 1),
        ("/v2/logging", "log_file", "/tmp/x"),
        ("/v2/logging", "log_info", [[]]),
    ):
        answer = await gateway.post(path, json={name: value})
        assert (answer.status, answer.json["error"].partition(":")[0]) == (400, f"settings.{name}")


async def test_settings_over_grpc_are_those_over_http(gateway: RunningGateway) -> None:
    async with grpc.aio.insecure_channel(gateway.grpc_address) as channel:
        stub: Any = inference_pb2_grpc.GRPCInferenceServiceStub(channel)
        traces = await stub.TraceSetting(v2.TraceSettingRequest(model_name="tiny"))
        assert {name: list(each.value) for name, each in traces.settings.items()} == {"trace_level": ["OFF"]}
        log = await stub.LogSettings(v2.LogSettingsRequest())
        assert {name: getattr(each, each.WhichOneof("parameter_choice")) for name, each in log.settings.items()} == LOG
        verbose = v2.LogSettingsRequest.SettingValue(uint32_param=3)
        with pytest.raises(grpc.aio.AioRpcError, match=r"settings\.log_verbose_level: is 0"):
            await stub.LogSettings(v2.LogSettingsRequest(settings={"log_verbose_level": verbose}))
        with pytest.raises(grpc.aio.AioRpcError, match="'none' is not served"):
            await stub.TraceSetting(v2.TraceSettingRequest(model_name="none"))


async def test_settings_are_shown_only_to_callers_whom_the_server_answers(guarded: RunningGateway) -> None:
    for path in ("/v2/logging", "/v2/trace/setting"):
        assert [(await guarded.get(path, x_api_key=key)).status for key in ("wrong", KEY)] == [401, 200]


async def test_models_are_described_over_grpc_as_over_http(gateway: RunningGateway) -> None:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}
    assert (await gateway.post("/v2/models/tiny/infer", json={"inputs": [tensor]})).status == 200
    async with grpc.aio.insecure_channel(gateway.grpc_address) as channel:
        stub: Any = inference_pb2_grpc.GRPCInferenceServiceStub(channel)
        answers = {
            "/v2/models/tiny": await stub.ModelMetadata(v2.ModelMetadataRequest(name="tiny")),
            "/v2/models/tiny/config": (await stub.ModelConfig(v2.ModelConfigRequest(name="tiny"))).config,
            "/v2/models/stats": await stub.ModelStatistics(v2.ModelStatisticsRequest()),
        }
        index = await stub.RepositoryIndex(v2.RepositoryIndexRequest())
    for path, message in answers.items():
        assert ParseDict((await gateway.get(path)).json, type(message)()) == message
    assert answers["/v2/models/stats"].model_stats[0].inference_count == 1
    listed = (await gateway.post("/v2/repository/index", json={})).json
    assert listed == [{"name": each.name, "version": each.version, "state": each.state} for each in index.models]
