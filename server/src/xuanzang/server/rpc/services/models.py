"""The administration service: each method checks the request, changes the models and writes their states."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from xuanzang.admin.v1 import admin_pb2 as pb
from xuanzang.command.files import PathName
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelStateError
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.promotion.gate import Evaluation
from xuanzang.server.engine.promotion.promoter import Promoter
from xuanzang.server.engine.types import ModelState, ModelStatus
from xuanzang.server.rpc.context import RpcContext

Share = Callable[[dict[str, Any]], Awaitable[list[str]]]
"""Function that lets other processes make a change, and returns why some could not."""

_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_MAX_REASON_CHARACTERS = 500
_STATES = {state: pb.ModelState.Value(f"MODEL_STATE_{state.name}") for state in ModelState}


class ModelService:
    """The RPCs of `xuanzang.admin.v1`."""

    def __init__(self, live: LiveModels, promoter: Promoter, *, share: Share | None = None) -> None:
        """Serve the changes; `share` lets the other processes make them, too."""
        self._live, self._share = live, share
        self._promoter = promoter

    async def ListModels(self, request: pb.ListModelsRequest, rpc: RpcContext) -> pb.ListModelsResponse:
        """List the versions that are loaded or in the folder."""
        return pb.ListModelsResponse(models=map(self._message, await self._live.statuses()))

    async def GetModel(self, request: pb.GetModelRequest, rpc: RpcContext) -> pb.GetModelResponse:
        """Return the state of one version."""
        name, version = _checked(request.name, request.version)
        return pb.GetModelResponse(model=await self._model_of(name, version))

    async def LoadModel(self, request: pb.LoadModelRequest, rpc: RpcContext) -> pb.LoadModelResponse:
        """Load a version from the folder."""
        name, version = _checked(request.name, request.version or "1")
        status = await self._live.load(name, version if request.version else None)
        await self._let_others("load", name, status.version)
        return pb.LoadModelResponse(model=self._message(status))

    async def UnloadModel(self, request: pb.UnloadModelRequest, rpc: RpcContext) -> pb.UnloadModelResponse:
        """Unload a version."""
        name, version = _checked(request.name, request.version)
        await self._live.unload(name, version)
        await self._let_others("unload", name, version)
        return pb.UnloadModelResponse()

    async def ReloadModels(self, request: pb.ReloadModelsRequest, rpc: RpcContext) -> pb.ReloadModelsResponse:
        """Make the loaded versions those of the folder."""
        statuses = await self._live.reload()
        await self._let_others("reload")
        return pb.ReloadModelsResponse(models=map(self._message, statuses))

    async def _let_others(self, method: str, name: str = "", version: int = 0) -> None:
        """Let the other processes make a change that this one has made; raise ModelStateError if some could not."""
        if self._share and (faults := await self._share({"method": method, "name": name, "version": version})):
            raise ModelStateError(f"{method} was done by this process, and not by others: " + "; ".join(faults))

    async def PinModel(self, request: pb.PinModelRequest, rpc: RpcContext) -> pb.PinModelResponse:
        """Make a version the default."""
        name, version = _checked(request.name, request.version)
        return pb.PinModelResponse(model=await self._model_of(name, await self._promoter.pin(name, version)))

    async def UnpinModel(self, request: pb.UnpinModelRequest, rpc: RpcContext) -> pb.UnpinModelResponse:
        """Make the highest version the default."""
        name, _ = _checked(request.name, "1")
        return pb.UnpinModelResponse(model=await self._model_of(name, await self._promoter.pin(name, None)))

    async def EvaluateModel(self, request: pb.EvaluateModelRequest, rpc: RpcContext) -> pb.EvaluateModelResponse:
        """Judge a version."""
        evaluation = await self._promoter.evaluate(*_checked(request.name, request.version))
        return pb.EvaluateModelResponse(evaluation=_evaluation(evaluation))

    async def PromoteModel(self, request: pb.PromoteModelRequest, rpc: RpcContext) -> pb.PromoteModelResponse:
        """Let a version go live."""
        name, version = _checked(request.name, request.version)
        if len(request.force_reason) > _MAX_REASON_CHARACTERS:
            description = f"must have at most {_MAX_REASON_CHARACTERS} characters, has {len(request.force_reason)}"
            raise InvalidInputError([FieldViolation(field="force_reason", description=description)])
        evaluation = None
        if request.force_reason:
            await self._promoter.force(name, version, reason=request.force_reason)
        else:
            evaluation = _evaluation(await self._promoter.promote(name, version))
        return pb.PromoteModelResponse(model=await self._model_of(name, version), evaluation=evaluation)

    async def RollbackModel(self, request: pb.RollbackModelRequest, rpc: RpcContext) -> pb.RollbackModelResponse:
        """Go back to the version that was live before."""
        name, _ = _checked(request.name, "1")
        return pb.RollbackModelResponse(model=await self._model_of(name, await self._promoter.roll_back(name)))

    async def _model_of(self, name: str, version: int) -> pb.Model:
        return self._message(await self._live.status(name, version))

    def _message(self, status: ModelStatus) -> pb.Model:
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
            is_previous=status.is_previous,
            promotion_refusals=self._promoter.refusals(status.name, status.version),
        )


def _checked(name: str, version: str) -> tuple[str, int]:
    """Return a name and a version; InvalidInputError names impossible ones."""
    violations = []
    if not PathName.fits(name):
        violations.append(FieldViolation(field="name", description=f"must be {PathName.RULE}"))
    if not _VERSION.fullmatch(version):
        violations.append(FieldViolation(field="version", description="must be a whole number from 1 to 999999999"))
    if violations:
        raise InvalidInputError(violations)
    return name, int(version)


def _evaluation(evaluation: Evaluation) -> pb.Evaluation:
    return pb.Evaluation(
        passed=not evaluation.reasons,
        checks=[
            pb.EvaluationCheck(name=check.name, measured=check.measured, bound=check.bound, passed=check.passed)
            for check in evaluation.checks
        ],
        reasons=evaluation.reasons,
        golden_set_sentences=evaluation.sentences,
    )
