"""The methods of inference.GRPCInferenceService, each a call of the translation service's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from importlib.metadata import version
from typing import TYPE_CHECKING, cast

from typing_extensions import override

from xuanzang.inference.v2 import inference_pb2 as v2
from xuanzang.inference.v2 import inference_pb2_grpc
from xuanzang.server.engine.errors import DrainingError, InvalidInputError, ModelNotFoundError
from xuanzang.server.engine.types import ServedModel
from xuanzang.server.rpc import errors
from xuanzang.server.rpc.context import Context
from xuanzang.server.rpc.entry.gate import RpcGate
from xuanzang.server.rpc.faces.face import Face
from xuanzang.server.rpc.faces.open_inference import messages
from xuanzang.server.rpc.interceptors.handlers import Handler
from xuanzang.server.rpc.request_ids import request_id_of
from xuanzang.server.rpc.services.translation import TranslationService
from xuanzang.translation.v1 import translation_pb2 as pb

if TYPE_CHECKING:
    import grpc

INFERENCE_SERVICE = v2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name

_CHECKS = frozenset({"ServerLive", "ServerReady", "ModelReady"})


def open_inference_face(
    service: TranslationService, gate: RpcGate, models: Callable[[], Iterable[ServedModel]]
) -> Face:
    """Make the face of the Open Inference Protocol.

    Args:
        service: Service that translates and lists.
        gate: Gate of the server.
        models: Function that returns the served models.
    """
    handlers = _handlers(_Inference(service, gate, models))
    return Face(
        service=INFERENCE_SERVICE,
        handlers=handlers,
        answered=frozenset(handlers),
        screened=frozenset({"ModelInfer"}),
        checks=_CHECKS,
    )


class _Inference(inference_pb2_grpc.GRPCInferenceServiceServicer):
    """What the methods do."""

    def __init__(self, service: TranslationService, gate: RpcGate, models: Callable[[], Iterable[ServedModel]]) -> None:
        self._service = service
        self._gate = gate
        self._models = models

    @override
    async def ServerLive(self, request: v2.ServerLiveRequest, context: Context) -> v2.ServerLiveResponse:
        return v2.ServerLiveResponse(live=True)

    @override
    async def ServerReady(self, request: v2.ServerReadyRequest, context: Context) -> v2.ServerReadyResponse:
        return v2.ServerReadyResponse(ready=self._gate.is_open)

    @override
    async def ModelReady(self, request: v2.ModelReadyRequest, context: Context) -> v2.ModelReadyResponse:
        served = (_is_meant(request.name, request.version, model) for model in self._models())
        return v2.ModelReadyResponse(ready=self._gate.is_open and any(served))

    @override
    async def ServerMetadata(self, request: v2.ServerMetadataRequest, context: Context) -> v2.ServerMetadataResponse:
        return v2.ServerMetadataResponse(name="xuanzang-server", version=version("xuanzang-server"))

    @override
    async def ModelMetadata(self, request: v2.ModelMetadataRequest, context: Context) -> v2.ModelMetadataResponse:
        listed = (await self._service.ListModels(pb.ListModelsRequest(), context)).models
        meant = [model for model in listed if _is_meant(request.name, request.version, model)]
        if not meant:
            raise ModelNotFoundError(f"model {messages.served_name(request.name, request.version)!r} is not served")
        return messages.metadata_response(meant)

    @override
    async def ModelInfer(self, request: v2.ModelInferRequest, context: Context) -> v2.ModelInferResponse:
        translation = messages.read_inference(request)
        try:
            answer = await self._service.TranslateText(translation, context)
        except InvalidInputError as error:
            raise messages.in_inference(error) from None
        return messages.inference_response(request, answer)

    @override
    async def ModelStreamInfer(
        self, request_iterator: AsyncIterator[v2.ModelInferRequest], context: Context
    ) -> AsyncIterator[v2.ModelStreamInferResponse]:
        async with aclosing(self._gate.until_closed(request_iterator)) as admitted:
            async for request in admitted:
                yield await self._answer(request, context)

    async def _answer(self, request: v2.ModelInferRequest, context: Context) -> v2.ModelStreamInferResponse:
        try:
            return v2.ModelStreamInferResponse(infer_response=await self.ModelInfer(request, context))
        except DrainingError:
            raise
        except Exception as error:  # noqa: BLE001 - one bad request must not end the stream of the others
            status = errors.status_of(error, request_id=request_id_of(context))
            message = f"{errors.code_of(status).name}: {status.message}"
            return v2.ModelStreamInferResponse(
                error_message=message, infer_response=v2.ModelInferResponse(id=request.id)
            )


def _is_meant(name: str, wanted: str, model: ServedModel | pb.Model) -> bool:
    return model.name == name and wanted in ("", str(model.version))


def _handlers(servicer: _Inference) -> Mapping[str, Handler]:
    """Return the handlers as the generated code makes them."""
    recorder = _Recorder()
    inference_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, cast("grpc.aio.Server", recorder))
    return recorder.handlers


class _Recorder:
    """Stands for a server, to which generated code adds handlers."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """Leave the handlers, which are registered too, alone."""

    def add_registered_method_handlers(self, _service: str, handlers: dict[str, Handler]) -> None:
        """Take the handlers."""
        self.handlers |= handlers
