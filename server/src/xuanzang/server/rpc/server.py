"""The gRPC server: its services, interceptors, limits and listening address."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final, cast

import grpc
from grpc_reflection.v1alpha import reflection

from xuanzang.server.access.authentication import Authenticator
from xuanzang.server.access.writers import GlossaryWriters
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.explanation.explainer import Explainer
from xuanzang.server.metrics import Metrics
from xuanzang.server.rpc.entry.gate import RpcGate
from xuanzang.server.rpc.entry.identities import Identities
from xuanzang.server.rpc.entry.listener import Listener, Option
from xuanzang.server.rpc.entry.screen import Screen
from xuanzang.server.rpc.entry.tls import ReloadedTLS
from xuanzang.server.rpc.faces.face import Face
from xuanzang.server.rpc.faces.opening import open_faces
from xuanzang.server.rpc.health.service import HEALTH_SERVICE, TRANSLATION_SERVICE, Health
from xuanzang.server.rpc.interceptors.access import AccessInterceptor, IdentityInterceptor
from xuanzang.server.rpc.interceptors.error_status import ErrorInterceptor
from xuanzang.server.rpc.interceptors.gate import GateInterceptor
from xuanzang.server.rpc.interceptors.reception import ReceptionInterceptor
from xuanzang.server.rpc.interceptors.telemetry import TelemetryInterceptor
from xuanzang.server.rpc.limits import RpcLimits
from xuanzang.server.rpc.observation import Observation
from xuanzang.server.rpc.services.explaining import limits_of
from xuanzang.server.rpc.services.translation import TranslationService
from xuanzang.server.rpc.translation_rpcs import TranslationRpcs
from xuanzang.server.watched_files import reload_when_changed
from xuanzang.translation.v1 import translation_pb2_grpc

LISTENER_OPTIONS: Final = (
    # A second server on the same port must fail, not get half of the callers.
    ("grpc.so_reuseport", 0),
    # Ping silent callers, and allow their pings: with gRPC's own limit of one in five minutes, a caller that keeps its
    # connection alive during a long RPC would be disconnected. Our own client pings every second.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
    # Responses are bounded by the limits on requests.
    ("grpc.max_send_message_length", -1),
    # A connection that does not begin to speak HTTP/2 is closed.
    ("grpc.server_handshake_timeout_ms", 20_000),
)
"""Channel arguments of every listener."""

# Longer than a round trip to a caller.
_QUIET_SECONDS = 0.05
_MAX_HOLDS = 20
# Time for the last answers; watchers of health never end by themselves.
_GRACE_SECONDS = 0.1


class RpcServer:
    """The gRPC server: refuses translations until it is opened, and after it is closed."""

    def __init__(
        self,
        engine: Engine,
        *,
        address: str,
        authenticator: Authenticator,
        tls: ReloadedTLS | None,
        limits: RpcLimits,
        metrics: Metrics,
        observation: Observation | None = None,
        faces: Collection[str] = (),
        writers: GlossaryWriters | None = None,
    ) -> None:
        """Bind the address; call it inside a running event loop.

        Args:
            engine: Engine that translates.
            address: Address such as "127.0.0.1:50051"; port 0 for any free one.
            authenticator: Judge of who calls.
            tls: Certificate and key; None for plain text.
            limits: Limits on messages, RPCs and streams.
            metrics: Metrics of the server.
            observation: What is recorded of single RPCs; None for nothing but their ids.
            faces: Other APIs to serve.
            writers: Callers who may store glossaries; None for nobody.

        Raises:
            OSError: The address cannot be bound.
        """
        self._gate = RpcGate(limits)
        self.health = Health()
        """Health of the server, which other listeners may serve, too."""
        self._reloading: asyncio.Task[None] | None = None
        service = _service(engine, self._gate, limits, writers)
        opened = open_faces(faces, service, self._gate, lambda: engine.models)
        rpcs = TranslationRpcs(opened)
        telemetry = TelemetryInterceptor(metrics, observation, rpcs=rpcs)
        self._listener = _listener(engine, self._gate, Identities(authenticator), rpcs, telemetry, limits=limits)
        # A grpc.aio.Server, too, which the type stubs do not know.
        self._server = cast("grpc.aio.Server", self._listener)
        translation_pb2_grpc.add_TranslationServiceServicer_to_server(service, self._server)
        self.health.add_to(self._server)
        _add_faces(self._server, opened, reflected=limits.reflection)
        self._reloaded = [part for part in (authenticator.keys, tls) if part is not None]
        self.port = bind_address(self._server, address, tls)

    async def start(self) -> None:
        """Answer health checks; translations are refused with UNAVAILABLE for now."""
        await self.health.start()
        await self._server.start()
        self._reloading = asyncio.create_task(reload_when_changed(self._reloaded))

    async def ended(self) -> None:
        """Wait until the server stops accepting RPCs by an error of its own; its process must be replaced then."""
        await self._listener.ended()

    @property
    def is_idle(self) -> bool:
        """Whether no RPC of the translation service is in progress."""
        return not self._gate.running

    async def open(self, models: list[str]) -> None:
        """Translate from now on.

        Args:
            models: Names of the models that are warm.
        """
        self._gate.open()
        await self.health.open(models)

    async def show(self, models: Collection[str]) -> None:
        """Report the health of the models after a change of them.

        Args:
            models: Names of the models that are served now.
        """
        await self.health.show(models)

    async def close(self) -> None:
        """Refuse new RPCs with UNAVAILABLE and report NOT_SERVING; RPCs in progress go on."""
        self._gate.close()
        await self.health.close()

    async def join(self) -> None:
        """Wait until every admitted RPC is answered."""
        await self._gate.idle()

    async def stop(self) -> int:
        """Stop, and cancel the RPCs that are still running.

        Returns:
            Number of cancelled RPCs.
        """
        if self._reloading is not None:
            self._reloading.cancel()
        # gRPC answers RPCs that arrive during its stop with CANCELLED, which few callers retry. Refusals are held until
        # no more RPCs arrive, so that no retry of a refused one is on its way when the stop begins.
        await self._hold()
        stopping = asyncio.create_task(self._server.stop(_GRACE_SECONDS))
        await asyncio.sleep(0)
        self._gate.release()
        unfinished = self._gate.running
        await stopping
        # gRPC does not wait for the tasks that it cancels.
        await self._gate.idle()
        return unfinished

    async def _hold(self) -> None:
        for _ in range(_MAX_HOLDS):
            held = self._gate.hold()
            await asyncio.sleep(_QUIET_SECONDS)
            if self._gate.hold() == held:
                return


def _service(engine: Engine, gate: RpcGate, limits: RpcLimits, writers: GlossaryWriters | None) -> TranslationService:
    return TranslationService(
        engine,
        gate,
        max_stream_texts=limits.max_stream_texts,
        explainer=Explainer(engine, limits_of(limits)),
        writers=writers,
    )


def _listener(
    engine: Engine,
    gate: RpcGate,
    identities: Identities,
    rpcs: TranslationRpcs,
    telemetry: TelemetryInterceptor,
    *,
    limits: RpcLimits,
) -> Listener:
    """Return a listener that refuses what need not be read, and takes the rest through the interceptors."""
    screen = Screen(gate, engine, identities, rpcs, count=telemetry.count_unread)
    interceptors = (
        IdentityInterceptor(identities, rpcs),
        ReceptionInterceptor(limits.stream_idle_seconds),
        telemetry,
        ErrorInterceptor(),
        AccessInterceptor(rpcs),
        GateInterceptor(gate, screen, rpcs),
    )  # the outermost first
    return Listener(
        interceptors=interceptors,
        options=(*LISTENER_OPTIONS, *_options(limits)),
        screened=screen.methods,
        screen=screen.refusal,
    )


def _add_faces(server: grpc.aio.Server, faces: Sequence[Face], *, reflected: bool) -> None:
    """Add other APIs and, if it is wanted, reflection of all services."""
    for face in faces:
        face.add_to(server)
    if reflected:
        names = (TRANSLATION_SERVICE, *(face.service for face in faces), HEALTH_SERVICE, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)


def _options(limits: RpcLimits) -> tuple[Option, ...]:
    age = limits.connection_age_seconds
    return (
        ("grpc.max_receive_message_length", limits.max_message_bytes),
        # Without it gRPC takes up streams as fast as they are reset, and cancels the calls of others in their stead.
        ("grpc.max_concurrent_streams", limits.max_connection_rpcs),
        ("grpc.max_allowed_incoming_connections", limits.max_connections),
        ("grpc.max_connection_idle_ms", round(limits.connection_idle_seconds * 1000)),
        # RPCs in progress end in their own time.
        *([("grpc.max_connection_age_ms", round(age * 1000))] if age is not None else []),
    )


def bind_address(server: grpc.aio.Server, address: str, tls: ReloadedTLS | None) -> int:
    """Let a server listen.

    Args:
        server: Server that is not started yet.
        address: Address such as "127.0.0.1:50051"; port 0 for any free one.
        tls: Certificate and key; None for plain text.

    Returns:
        The port.

    Raises:
        OSError: The address cannot be bound.
    """
    try:
        if tls is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, tls.credentials)
    except RuntimeError as error:
        reason = "the address is taken or not of this machine" + (", or a TLS file is invalid" if tls else "")
        raise OSError(f"cannot serve on {address}: {reason}") from error
