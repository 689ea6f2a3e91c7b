"""The administration service: each method checks the request, changes the models and writes their states."""

from __future__ import annotations

import re

from typing_extensions import override

from xuanzang.admin.v1 import admin_pb2 as pb
from xuanzang.admin.v1 import admin_pb2_grpc
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.types import ModelState, ModelStatus
from xuanzang.server.rpc.context import Context

MODEL_SERVICE = pb.DESCRIPTOR.services_by_name["ModelService"].full_name

_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_MAX_NAME_CHARACTERS = 255
_STATES = {state: pb.ModelState.Value(f"MODEL_STATE_{state.name}") for state in ModelState}


class ModelService(admin_pb2_grpc.ModelServiceServicer):
    """The RPCs of `xuanzang.admin.v1`."""

    def __init__(self, live: LiveModels) -> None:
        self._live = live

    @override
    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        """List the versions that are loaded or in the folder."""
        return pb.ListModelsResponse(models=map(_model, await self._live.statuses()))

    @override
    async def GetModel(self, request: pb.GetModelRequest, context: Context) -> pb.GetModelResponse:
        """Return the state of one version."""
        name, version = _checked(request.name, request.version)
        return pb.GetModelResponse(model=_model(await self._live.status(name, version)))

    @override
    async def LoadModel(self, request: pb.LoadModelRequest, context: Context) -> pb.LoadModelResponse:
        """Load a version from the folder."""
        name, version = _checked(request.name, request.version or "1")
        return pb.LoadModelResponse(model=_model(await self._live.load(name, version if request.version else None)))

    @override
    async def UnloadModel(self, request: pb.UnloadModelRequest, context: Context) -> pb.UnloadModelResponse:
        """Unload a version."""
        await self._live.unload(*_checked(request.name, request.version))
        return pb.UnloadModelResponse()

    @override
    async def ReloadModels(self, request: pb.ReloadModelsRequest, context: Context) -> pb.ReloadModelsResponse:
        """Make the loaded versions those of the folder."""
        return pb.ReloadModelsResponse(models=map(_model, await self._live.reload()))

    @override
    async def PinModel(self, request: pb.PinModelRequest, context: Context) -> pb.PinModelResponse:
        """Make a version the default."""
        return pb.PinModelResponse(model=_model(await self._live.pin(*_checked(request.name, request.version))))

    @override
    async def UnpinModel(self, request: pb.UnpinModelRequest, context: Context) -> pb.UnpinModelResponse:
        """Make the highest version the default."""
        name, _ = _checked(request.name, "1")
        return pb.UnpinModelResponse(model=_model(await self._live.pin(name, None)))


def _checked(name: str, version: str) -> tuple[str, int]:
    """Return a name and a version.

    Raises:
        InvalidInputError: One of them cannot be of a model; the error names both.
    """
    violations = []
    if not 1 <= len(name) <= _MAX_NAME_CHARACTERS:
        description = f"must have 1 to {_MAX_NAME_CHARACTERS} characters, has {len(name)}"
        violations.append(FieldViolation(field="name", description=description))
    if not _VERSION.fullmatch(version):
        violations.append(FieldViolation(field="version", description="must be a whole number from 1 to 999999999"))
    if violations:
        raise InvalidInputError(violations)
    return name, int(version)


def _model(status: ModelStatus) -> pb.Model:
    served = status.served
    return pb.Model(
        name=status.name,
        version=str(status.version or ""),
        state=_STATES[status.state],
        is_default=served is not None and served.is_default,
        is_pinned=status.is_pinned,
        manifest_sha256=served.manifest_sha256 if served else "",
        precision=served.precision if served else "",
        running_requests=status.running_requests,
        refusal_reasons=status.refusal_reasons,
    )
