"""The translation service as an application of Ray Serve: each replica is a process with its own engine.

Serve's gRPC proxy takes the calls of `xuanzang.translation.v1` and hands each to a replica. `serve.yaml` next to this
file deploys it; docs/batch.md says what the proxy cannot carry.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, cast

from google.protobuf.message import Message
from prometheus_client import CollectorRegistry
from pydantic import DirectoryPath, Field, model_validator
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from ray.serve.grpc_util import RayServegRPCContext, gRPCInputStream
from replica_context import ReplicaContext, fail, not_offered, set_status

from xuanzang.server.access.authentication import Authenticator, KeyRing
from xuanzang.server.access.metrics import AccessMetrics
from xuanzang.server.access.settings import AccessSettings
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.metrics import Metrics
from xuanzang.server.observation.callers import sender_of
from xuanzang.server.rpc.context import RpcContext, identify
from xuanzang.server.rpc.services.translation import TranslationService
from xuanzang.server.watched_files import reload_when_changed
from xuanzang.translation.v1 import translation_pb2 as pb

_IN_TRANSLATION = ("nmt_requests_running", "nmt_requests_waiting")


class Arguments(AccessSettings, EngineSettings):
    """Arguments of the application, in `serve.yaml`; those of the engine have the names of the server's settings."""

    models: DirectoryPath = Field(description="Folder of bundles, which every node has.")
    workers: int = Field(default=1, ge=1, le=256, description="Threads that translate, and CPUs of a replica.")
    min_replicas: int = Field(default=1, ge=1, le=10_000)
    max_replicas: int = Field(default=1, ge=1, le=10_000)
    texts_per_replica: int = Field(
        default=48, ge=1, le=100_000, description="Texts in translation or waiting above which replicas are added."
    )
    max_rpcs: int = Field(default=256, ge=1, le=100_000, description="Maximum RPCs in progress of a replica.")
    max_stream_texts: int = Field(default=64, ge=1, le=10_000)

    @model_validator(mode="after")
    def _check_access(self) -> Arguments:
        if not self.keys_file and not self.anonymous:
            raise ValueError("the proxy listens on all interfaces: give keys_file, or anonymous: true for anyone")
        return self


def _unary(name: str, answer: type[Message]) -> Callable[..., Coroutine[Any, Any, Message]]:
    """Make the method of an RPC with one request and one answer, which is the service's of that name."""

    async def method(replica: Translation, request: Message, grpc_context: RayServegRPCContext) -> Message:
        try:
            return await replica.answer(name, request, grpc_context)
        except Exception as error:  # noqa: BLE001 - any error becomes a status
            # A raised error loses its details on the way through the proxy.
            set_status(grpc_context, error)
            return answer()

    return method


class Translation:
    """One replica."""

    def __init__(self, arguments: Arguments) -> None:
        self._registry = CollectorRegistry()
        self._engine = Engine(arguments.models, settings=arguments, metrics=Metrics(self._registry))
        keys, metrics = arguments.keys_file, AccessMetrics(self._registry)
        self._keys = KeyRing(keys, metrics) if keys else None
        self._authenticator = Authenticator(self._keys, anonymous=bool(arguments.anonymous), metrics=metrics)
        self._service = TranslationService(self._engine, max_stream_texts=arguments.max_stream_texts)
        self._starting: asyncio.Task[None] | None = None
        self._reloading: asyncio.Task[None] | None = None

    async def check_health(self) -> None:
        """Load the models the first time; Serve sends nothing to a replica before this returns."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._engine.start())
            self._reloading = asyncio.create_task(reload_when_changed([self._keys] if self._keys else []))
        await asyncio.shield(self._starting)

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Count the texts that are here; a stream is one RPC for Serve, however many it carries."""
        families = self._registry.restricted_registry(_IN_TRANSLATION).collect()
        return {"texts": sum(sample.value for family in families for sample in family.samples)}

    TranslateText = _unary("TranslateText", pb.TranslateTextResponse)
    ListModels = _unary("ListModels", pb.ListModelsResponse)
    DetectLanguage = _unary("DetectLanguage", pb.DetectLanguageResponse)
    ExplainTranslation = _unary("ExplainTranslation", pb.ExplainTranslationResponse)
    ListGlossaries = _unary("ListGlossaries", pb.ListGlossariesResponse)
    ListGlossaryEntries = _unary("ListGlossaryEntries", pb.ListGlossaryEntriesResponse)
    CreateGlossary = not_offered(pb.CreateGlossaryResponse)
    DeleteGlossary = not_offered(pb.DeleteGlossaryResponse)

    async def TranslateTextProgressively(  # noqa: N802 - the names of the RPCs
        self, request: pb.TranslateTextProgressivelyRequest, grpc_context: RayServegRPCContext
    ) -> AsyncIterator[pb.TranslateTextProgressivelyResponse]:
        """Translate a text and send each part of it as soon as the search is certain of it."""
        try:
            rpc = self._begun(grpc_context)
            async for part in self._service.TranslateTextProgressively(request, rpc):
                # Encoded answers are for RPCs that have a pool for large ones.
                yield cast("pb.TranslateTextProgressivelyResponse", part)
            _send_trailers(rpc)
        except Exception as error:  # noqa: BLE001 - any error becomes a status
            fail(grpc_context, error)

    async def StreamTranslateText(  # noqa: N802
        self, messages: gRPCInputStream[pb.StreamTranslateTextRequest], grpc_context: RayServegRPCContext
    ) -> AsyncIterator[pb.StreamTranslateTextResponse]:
        """Translate texts as they arrive and answer each when it is done."""
        answers: asyncio.Queue[pb.StreamTranslateTextResponse | None] = asyncio.Queue(1)
        running: asyncio.Task[None] | None = None
        try:
            rpc = self._begun(grpc_context, answers.put)
            running = asyncio.create_task(_ended(self._service.StreamTranslateText(messages, rpc), answers))
            while (answer := await answers.get()) is not None:
                yield answer
            await running
            _send_trailers(rpc)
        except Exception as error:  # noqa: BLE001 - any error becomes a status
            fail(grpc_context, error)
        finally:
            if running is not None:
                running.cancel()

    async def answer(self, name: str, request: Message, grpc_context: RayServegRPCContext) -> Message:
        """Answer an RPC.

        Args:
            name: Name of a method of the service.
            grpc_context: Serve's context.
        """
        rpc = self._begun(grpc_context)
        answer: Message = await getattr(self._service, name)(request, rpc)
        _send_trailers(rpc)
        return answer

    def _begun(self, grpc_context: RayServegRPCContext, write: Callable[[Any], Any] | None = None) -> RpcContext:
        """Identify the caller of an RPC.

        Raises:
            UnauthenticatedError: The caller needs a valid key.
            InvalidInputError: The caller's name is too long.
        """
        adapter: Any = ReplicaContext(grpc_context, write)
        rpc = identify(adapter, sender_of(adapter.peer()), self._authenticator)
        if rpc.refusal is not None:
            raise rpc.refusal
        return rpc


def _send_trailers(rpc: RpcContext) -> None:
    """Send the usage with the status of an RPC."""
    rpc.grpc.set_trailing_metadata(rpc.trailers)


def replicas_for_texts(ctx: Any) -> tuple[float, dict[str, Any]]:
    """Decide how many replicas there should be, before Serve applies its bounds and delays.

    Args:
        ctx: Serve's view of the application, with what `record_autoscaling_stats` returned for each replica.

    Returns:
        The number of replicas, and a state that is not used.
    """
    texts = sum(ctx.aggregated_metrics.get("texts", {}).values())
    return texts / ctx.config.get_target_ongoing_requests(), {}


def app(values: dict[str, Any]) -> serve.Application:
    """Build the application.

    Args:
        values: Arguments of `serve.yaml`.

    Raises:
        ValidationError: They are not valid.
    """
    arguments = Arguments.model_validate(values)
    deployment = serve.deployment(
        Translation,
        name="Translation",
        max_ongoing_requests=arguments.max_rpcs,
        max_queued_requests=arguments.max_rpcs,
        ray_actor_options={"num_cpus": arguments.workers},
        health_check_timeout_s=60,
        autoscaling_config=AutoscalingConfig(
            min_replicas=arguments.min_replicas,
            max_replicas=arguments.max_replicas,
            target_ongoing_requests=arguments.texts_per_replica,
            policy=AutoscalingPolicy(policy_function=replicas_for_texts),
        ),
    )
    return deployment.bind(arguments)


async def _ended(work: Coroutine[Any, Any, None], answers: asyncio.Queue[Any]) -> None:
    """Put None behind the answers of a stream."""
    try:
        await work
    finally:
        await answers.put(None)
