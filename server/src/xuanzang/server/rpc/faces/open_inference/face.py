"""The methods of inference.GRPCInferenceService, each a call of the translation service's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from importlib.metadata import version

from xuanzang.inference.v2 import inference_pb2 as v2
from xuanzang.inference.v2 import inference_pb2_grpc
from xuanzang.server.engine.errors import DrainingError, InvalidInputError, ModelNotFoundError
from xuanzang.server.engine.types import ServedModel
from xuanzang.server.rpc import errors
from xuanzang.server.rpc.context import RpcContext
from xuanzang.server.rpc.faces.open_inference import messages
from xuanzang.server.rpc.gate import RpcGate
from xuanzang.server.rpc.methods import Service, handlers_of
from xuanzang.server.rpc.services.translation import TranslationService
from xuanzang.translation.v1 import translation_pb2 as pb

INFERENCE_SERVICE = v2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name

_CHECKS = frozenset({"ServerLive", "ServerReady", "ModelReady"})


def open_inference_face(
    service: TranslationService, gate: RpcGate, models: Callable[[], Iterable[ServedModel]]
) -> Service:
    """Make the face of the Open Inference Protocol.

    Args:
        service: Service that translates and lists.
        gate: Gate of the server.
        models: Function that returns the served models.
    """
    inference = _Inference(service, gate, models)
    handlers = handlers_of(inference_pb2_grpc.add_GRPCInferenceServiceServicer_to_server, inference)
    return Service(
        name=INFERENCE_SERVICE,
        handlers=handlers,
        is_gated=True,
        answered=frozenset(handlers),
        screened=frozenset({"ModelInfer"}),
        checks=_CHECKS,
    )


class _Inference:
    """What the methods do."""

    def __init__(self, service: TranslationService, gate: RpcGate, models: Callable[[], Iterable[ServedModel]]) -> None:
        self._service = service
        self._gate = gate
        self._models = models

    async def ServerLive(self, request: v2.ServerLiveRequest, rpc: RpcContext) -> v2.ServerLiveResponse:
        return v2.ServerLiveResponse(live=True)

    async def ServerReady(self, request: v2.ServerReadyRequest, rpc: RpcContext) -> v2.ServerReadyResponse:
        return v2.ServerReadyResponse(ready=self._gate.is_open)

    async def ModelReady(self, request: v2.ModelReadyRequest, rpc: RpcContext) -> v2.ModelReadyResponse:
        served = (_is_meant(request.name, request.version, model) for model in self._models())
        return v2.ModelReadyResponse(ready=self._gate.is_open and any(served))

    async def ServerMetadata(self, request: v2.ServerMetadataRequest, rpc: RpcContext) -> v2.ServerMetadataResponse:
        return v2.ServerMetadataResponse(name="xuanzang-server", version=version("xuanzang-server"))

    async def ModelMetadata(self, request: v2.ModelMetadataRequest, rpc: RpcContext) -> v2.ModelMetadataResponse:
        listed = (await self._service.ListModels(pb.ListModelsRequest(), rpc)).models
        meant = [model for model in listed if _is_meant(request.name, request.version, model)]
        if not meant:
            raise ModelNotFoundError(f"model {messages.served_name(request.name, request.version)!r} is not served")
        return messages.metadata_response(meant)

    async def ModelInfer(self, request: v2.ModelInferRequest, rpc: RpcContext) -> v2.ModelInferResponse:
        translation = messages.read_inference(request)
        try:
            answer = await self._service.TranslateText(translation, rpc)
        except InvalidInputError as error:
            raise messages.in_inference(error) from None
        return messages.inference_response(request, answer)

    async def ModelStreamInfer(
        self, request_iterator: AsyncIterator[v2.ModelInferRequest], rpc: RpcContext
    ) -> AsyncIterator[v2.ModelStreamInferResponse]:
        async for request in request_iterator:
            yield await self._answer(request, rpc)

    async def _answer(self, request: v2.ModelInferRequest, rpc: RpcContext) -> v2.ModelStreamInferResponse:
        try:
            return v2.ModelStreamInferResponse(infer_response=await self.ModelInfer(request, rpc))
        except DrainingError:
            raise
        except Exception as error:  # noqa: BLE001 - one bad request must not end the stream of the others
            status = errors.status_of(error, request_id=rpc.request_id)
            message = f"{errors.code_of(status).name}: {status.message}"
            return v2.ModelStreamInferResponse(
                error_message=message, infer_response=v2.ModelInferResponse(id=request.id)
            )


def _is_meant(name: str, wanted: str, model: ServedModel | pb.Model) -> bool:
    return model.name == name and wanted in ("", str(model.version))
