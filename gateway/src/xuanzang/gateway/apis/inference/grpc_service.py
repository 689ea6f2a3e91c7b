"""The Open Inference Protocol over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from xuanzang.client import TranslationError
from xuanzang.gateway.apis.inference.descriptions import (
    EXTENSIONS,
    config_of,
    index_of,
    log_settings,
    metadata_of,
    statistics_of,
    trace_settings,
)
from xuanzang.gateway.apis.inference.inferences import (
    BYTES,
    INPUT,
    OUTPUT,
    Inference,
    Inferences,
    Inferred,
    is_among,
    joined_raw,
    require_tensor,
    split_raw,
)
from xuanzang.gateway.entry.endpoints import BaseCall
from xuanzang.gateway.entry.grpc_calls import GrpcHandler, GrpcMethod, GrpcService, code_of
from xuanzang.gateway.errors import RefusedError, bad_request, fault_of
from xuanzang.inference.v2 import inference_pb2 as v2

SERVICE = v2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name

_Methods = dict[str, tuple[Any, GrpcHandler]]


def inference_service(inferences: Inferences, is_ready: Callable[[], Awaitable[bool]]) -> GrpcService:
    """Make the service.

    Args:
        is_ready: Function that says whether the server answers.
    """
    service = _InferenceService(inferences, is_ready)
    opened: _Methods = {
        "ServerLive": (v2.ServerLiveRequest, service.server_live),
        "ServerReady": (v2.ServerReadyRequest, service.server_ready),
        "ModelReady": (v2.ModelReadyRequest, service.model_ready),
    }
    keyed: _Methods = {
        "ServerMetadata": (v2.ServerMetadataRequest, service.server_metadata),
        "ModelMetadata": (v2.ModelMetadataRequest, service.model_metadata),
        "ModelInfer": (v2.ModelInferRequest, service.model_infer),
        "ModelConfig": (v2.ModelConfigRequest, service.model_config),
        "ModelStatistics": (v2.ModelStatisticsRequest, service.model_statistics),
        "RepositoryIndex": (v2.RepositoryIndexRequest, service.repository_index),
        "TraceSetting": (v2.TraceSettingRequest, service.trace_setting),
        "LogSettings": (v2.LogSettingsRequest, service.log_setting),
        "SystemSharedMemoryStatus": (
            v2.SystemSharedMemoryStatusRequest,
            _nothing(v2.SystemSharedMemoryStatusResponse()),
        ),
        "SystemSharedMemoryUnregister": (
            v2.SystemSharedMemoryUnregisterRequest,
            _nothing(v2.SystemSharedMemoryUnregisterResponse()),
        ),
        "CudaSharedMemoryStatus": (v2.CudaSharedMemoryStatusRequest, _nothing(v2.CudaSharedMemoryStatusResponse())),
        "CudaSharedMemoryUnregister": (
            v2.CudaSharedMemoryUnregisterRequest,
            _nothing(v2.CudaSharedMemoryUnregisterResponse()),
        ),
    }
    methods = {name: GrpcMethod(kind.FromString, handler, is_open=True) for name, (kind, handler) in opened.items()}
    methods |= {name: GrpcMethod(kind.FromString, handler) for name, (kind, handler) in keyed.items()}
    streamed = GrpcMethod(v2.ModelInferRequest.FromString, service.stream_infer, is_stream=True)
    return GrpcService(name=SERVICE, api="inference", methods=methods | {"ModelStreamInfer": streamed})


class _InferenceService:
    """Implementation of the methods, from message to message."""

    def __init__(self, inferences: Inferences, is_ready: Callable[[], Awaitable[bool]]) -> None:
        self._inferences = inferences
        self._is_ready = is_ready

    async def server_live(self, _request: Message, _call: BaseCall) -> Message:
        await asyncio.sleep(0)
        return v2.ServerLiveResponse(live=True)

    async def server_ready(self, _request: Message, _call: BaseCall) -> Message:
        return v2.ServerReadyResponse(ready=await self._is_ready())

    async def model_ready(self, request: Any, call: BaseCall) -> Message:
        models = await call.client.list_models(timeout=call.seconds)
        return v2.ModelReadyResponse(ready=is_among(models, request.name, request.version))

    async def server_metadata(self, _request: Message, _call: BaseCall) -> Message:
        await asyncio.sleep(0)
        named = "xuanzang-gateway"
        return v2.ServerMetadataResponse(name=named, version=version(named), extensions=EXTENSIONS)

    async def model_metadata(self, request: Any, call: BaseCall) -> Message:
        return ParseDict(metadata_of(request.name, await self._versions(request, call)), v2.ModelMetadataResponse())

    async def model_config(self, request: Any, call: BaseCall) -> Message:
        await self._versions(request, call)
        return ParseDict({"config": config_of(request.name)}, v2.ModelConfigResponse())

    async def model_statistics(self, request: Any, call: BaseCall) -> Message:
        counted = await self._inferences.counted(request.name, request.version, call=call)
        return ParseDict(statistics_of(counted), v2.ModelStatisticsResponse())

    async def repository_index(self, _request: Message, call: BaseCall) -> Message:
        models = await call.client.list_models(timeout=call.seconds)
        return ParseDict({"models": index_of(models)}, v2.RepositoryIndexResponse())

    async def trace_setting(self, request: v2.TraceSettingRequest, call: BaseCall) -> Message:
        await self._inferences.require_served(request.model_name, call=call)
        settings = {name: list(each.value) for name, each in request.settings.items()}
        kind = v2.TraceSettingResponse.SettingValue
        return v2.TraceSettingResponse(
            settings={name: kind(value=values) for name, values in trace_settings(settings).items()}
        )

    async def log_setting(self, request: v2.LogSettingsRequest, call: BaseCall) -> Message:
        await self._inferences.require_served("", call=call)
        found = log_settings({name: _value(each) for name, each in request.settings.items()})
        kind = v2.LogSettingsResponse.SettingValue
        return v2.LogSettingsResponse(
            settings={
                name: kind(bool_param=value) if isinstance(value, bool) else kind(uint32_param=value)
                for name, value in found.items()
            }
        )

    async def model_infer(self, request: v2.ModelInferRequest, call: BaseCall) -> v2.ModelInferResponse:
        inferred = await self._inferences.infer(_read(request, self._inferences.max_texts), call=call)
        return _written(inferred, request)

    async def stream_infer(self, request: v2.ModelInferRequest, call: BaseCall) -> Message:
        try:
            return v2.ModelStreamInferResponse(infer_response=await self.model_infer(request, call))
        except (RefusedError, TranslationError) as error:
            # One bad request must not end the stream of the others.
            fault = fault_of(error)
            message = f"{code_of(fault).name}: {fault.description}"
            response = v2.ModelInferResponse(id=request.id)
            return v2.ModelStreamInferResponse(error_message=message, infer_response=response)

    async def _versions(self, request: Any, call: BaseCall) -> Any:
        return await self._inferences.versions(request.name, request.version, call=call)


def _nothing(answer: Message) -> GrpcHandler:
    """Return what answers calls about shared memory: there is none, and so nothing in it."""

    async def handle(_request: Any, _call: BaseCall) -> Message:
        await asyncio.sleep(0)
        return answer

    return handle


def _read(request: v2.ModelInferRequest, maximum: int) -> Inference:
    tensors = request.inputs
    require_tensor(
        [tensor.name for tensor in tensors],
        datatype=tensors[0].datatype if tensors else "",
        parameters=[*(name for each in tensors for name in each.parameters), *_of_outputs(request)],
        outputs=[tensor.name for tensor in request.outputs],
    )
    elements: Sequence[bytes] = tensors[0].contents.bytes_contents
    if request.raw_input_contents:
        if len(request.raw_input_contents) != 1 or tensors[0].HasField("contents"):
            raise bad_request("raw_input_contents", f"must have one element, for {INPUT}, which then has no contents")
        elements = split_raw(request.raw_input_contents[0], name="raw_input_contents[0]", maximum=maximum)
    return Inference(
        id=request.id,
        model=request.model_name,
        version=request.model_version,
        elements=elements,
        field="inputs[0].contents",
        shape=tensors[0].shape,
        parameters={name: _value(parameter) for name, parameter in request.parameters.items()},
    )


def _of_outputs(request: v2.ModelInferRequest) -> Iterator[str]:
    return (name for each in request.outputs for name in each.parameters)


def _written(inferred: Inferred, request: v2.ModelInferRequest) -> v2.ModelInferResponse:
    """Write translations in the shape and the form of the request."""
    tensor = v2.ModelInferResponse.InferOutputTensor(name=OUTPUT, datatype=BYTES, shape=request.inputs[0].shape)
    response = v2.ModelInferResponse(model_name=inferred.model, model_version=inferred.version, id=inferred.id)
    if request.raw_input_contents:
        response.raw_output_contents.append(joined_raw(inferred.texts))
    else:
        tensor.contents.bytes_contents.extend(text.encode() for text in inferred.texts)
    response.outputs.append(tensor)
    return response


def _value(parameter: v2.InferParameter | v2.LogSettingsRequest.SettingValue) -> Any:
    kind = parameter.WhichOneof("parameter_choice")
    return None if kind is None else getattr(parameter, kind)
