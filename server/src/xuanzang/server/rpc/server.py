"""The listeners of the server: translation, administration, and health alone."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, cast

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from typing_extensions import override

from xuanzang.admin.v1 import admin_pb2_grpc
from xuanzang.server.access.authentication import Authenticator
from xuanzang.server.access.callers import GlossaryWriters
from xuanzang.server.access.tls import Certificates, ReloadedTLS
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.models.live import LiveModels
from xuanzang.server.engine.promotion.promoter import Promoter
from xuanzang.server.engine.threads import CallerThreads, Threads
from xuanzang.server.explanation.limits import ExplanationLimits
from xuanzang.server.metrics import Metrics
from xuanzang.server.observation.observation import Observation
from xuanzang.server.rpc.admission import RpcGate, Screen
from xuanzang.server.rpc.entry import Entry
from xuanzang.server.rpc.grpc_private import Listener
from xuanzang.server.rpc.limits import RpcLimits
from xuanzang.server.rpc.methods import Service
from xuanzang.server.rpc.services.health import Health
from xuanzang.server.rpc.services.models import ModelService, Share
from xuanzang.server.rpc.services.translation import TranslationService
from xuanzang.server.watched_files import ReloadedContent, reload_when_changed
from xuanzang.translation.v1 import translation_pb2_grpc

_LISTENER_OPTIONS: Final = (
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
# Longer than a round trip to a caller.
_QUIET_SECONDS = 0.05
_MAX_HOLDS = 20
# Time for the last answers; watchers of health never end by themselves.
_GRACE_SECONDS = 0.1
STOPPING_SECONDS = _MAX_HOLDS * _QUIET_SECONDS + _GRACE_SECONDS
"""Time that stopping may take after all admitted requests are answered."""
# RPCs that cost little, or nothing that the queue is asked for, or that are streams.
_UNSCREENED = (
    *("DetectLanguage", "ListModels", "ListGlossaries", "ListGlossaryEntries", "CreateGlossary", "DeleteGlossary"),
    "StreamTranslateText",
)
# Requests of administrators have a name and a version, and those for health the name of a service.
_MAX_SMALL_MESSAGE_BYTES = 64 * 2**10
_MAX_SMALL_CONNECTIONS = 256
_SMALL_IDLE_SECONDS = 30.0
# Threads that decode large messages; a share of callers has one at a time.
_MESSAGE_THREADS = 2


class ListeningServer:
    """Services on an address of their own."""

    def __init__(
        self,
        entry: Entry,
        services: list[Service],
        *,
        address: str,
        tls: ReloadedTLS | None,
        options: Iterable[tuple[str, Any]],
        reflected: bool = True,
        reloaded: Iterable[ReloadedContent[Any] | None] = (),
        shares_address: bool = False,
    ) -> None:
        """Bind an address, such as "127.0.0.1:50051" or one with port 0, inside a running event loop.

        `options` are additional channel arguments; with `reflected` tools may ask for the
        descriptions of the services, `reloaded` are files to follow, and `shares_address` says whether processes with
        one parent listen on the address. OSError: the address cannot be bound, or
        another version of grpcio is needed.
        """
        if reflected:
            servicer = reflection.aio.ReflectionServicer([*(each.name for each in services), reflection.SERVICE_NAME])
            add_to_server = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
            services = [*services, Service(add_to_server, servicer, is_open=True)]
        # Otherwise a second server on the port must fail, not get half of the callers.
        shared = ("grpc.so_reuseport", int(shares_address))
        self._listener = Listener(entry.begin, (shared, *_LISTENER_OPTIONS, *options))
        # A grpc.aio.Server, too, which the type stubs do not know.
        self._server = cast("grpc.aio.Server", self._listener)
        for service in services:
            entry.add(service)
            self._server.add_registered_method_handlers(service.name, service.handlers)
        self._reloaded = [part for part in reloaded if part is not None]
        self._reloading: asyncio.Task[None] | None = None
        self.port = _bind(self._server, address, tls)
        self.address = f"{address.rpartition(':')[0]}:{self.port}"
        """Address with the port that was bound."""

    async def start(self) -> None:
        """Answer from now on."""
        await self._server.start()
        self._reloading = asyncio.create_task(reload_when_changed(self._reloaded))

    async def reload(self) -> None:
        """Read keys and certificates again, whether they have changed or not."""
        for part in self._reloaded:
            await part.reload()

    async def stop(self) -> int:
        """Stop, and cancel what callers still wait for."""
        if self._reloading is not None:
            self._reloading.cancel()
        await self._server.stop(_GRACE_SECONDS)
        return 0


def _gated(service: TranslationService) -> Service:
    add_to_server = translation_pb2_grpc.add_TranslationServiceServicer_to_server
    return Service(add_to_server, service, is_gated=True, unscreened=_UNSCREENED)


class RpcServer(ListeningServer):
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
        explanations: ExplanationLimits | None = None,
        observation: Observation | None = None,
        writers: GlossaryWriters | None = None,
        processes: int = 1,
        own_address: str | None = None,
    ) -> None:
        """Bind the address, which `processes` servers share, and one of this process alone if `own_address` is given.

        Without `observation` RPCs have only ids, without `writers` no caller stores glossaries.
        """
        self._gate, self._offloader = RpcGate(limits), CallerThreads(Threads(_MESSAGE_THREADS, "messages"), pauses=True)
        self.health = Health()
        """Health of the server, which other listeners may serve, too."""
        texts = limits.max_stream_texts
        service = TranslationService(engine, max_stream_texts=texts, explanations=explanations, writers=writers)
        entry = partial(Entry, metrics, authenticator=authenticator, observation=observation, processes=processes)
        super().__init__(
            self._gated_entry(entry, engine, limits),
            [_gated(service), self.health.service],
            address=address,
            tls=tls,
            options=_options(limits),
            reflected=limits.reflection,
            reloaded=(authenticator.keys, tls),
            shares_address=processes > 1,
        )
        if own_address:
            _bind(self._server, own_address, tls)

    def _gated_entry(self, entry: Callable[..., Entry], engine: Engine, limits: RpcLimits) -> Entry:
        """Make an entry that admits, screens and bounds the RPCs of an engine."""
        return entry(
            idle_seconds=limits.stream_idle_seconds,
            max_waiting=limits.max_address_rpcs,
            gate=self._gate,
            screen=Screen(self._gate, engine),
            offloader=self._offloader,
            max_characters=engine.max_content_characters,
        )

    @override
    async def start(self) -> None:
        """Answer health checks; translations are refused with UNAVAILABLE for now."""
        await self.health.start()
        await super().start()

    async def ended(self) -> None:
        """Wait until an error stops the server from accepting RPCs; its process must then be replaced."""
        await asyncio.shield(self._listener.ended)

    @property
    def running(self) -> int:
        """RPCs of the translation service in progress."""
        return self._gate.running

    async def open(self, models: list[str]) -> None:
        """Translate from now on."""
        self._gate.open()
        await self.health.open(models)

    async def close(self) -> None:
        """Refuse new RPCs with UNAVAILABLE and report NOT_SERVING; RPCs in progress go on."""
        self._gate.close()
        await self.health.close()

    async def join(self) -> None:
        """Wait until every admitted RPC is answered."""
        await self._gate.idle()

    @override
    async def stop(self) -> int:
        """Stop, and cancel the RPCs that are still running."""
        # gRPC answers RPCs that arrive during its stop with CANCELLED, which few callers retry. Refusals are held until
        # RPCs stop arriving, so that no retry of a refused one is on its way when the stop begins.
        for _ in range(_MAX_HOLDS):
            held = self._gate.hold()
            await asyncio.sleep(_QUIET_SECONDS)
            if self._gate.hold() == held:
                break
        stopping = asyncio.create_task(super().stop())
        await asyncio.sleep(0)
        self._gate.release()
        unfinished = self._gate.running
        await stopping
        # gRPC does not wait for the tasks that it cancels.
        await self._gate.idle()
        self._offloader.close()
        return unfinished


def admin_server(
    live: LiveModels,
    promoter: Promoter,
    *,
    address: str,
    authenticator: Authenticator,
    tls: ReloadedTLS | None,
    metrics: Metrics,
    share: Share | None = None,
) -> ListeningServer:
    """Return a server of `xuanzang.admin.v1`, for changes of the models and their live versions."""
    return ListeningServer(
        Entry(metrics, idle_seconds=_SMALL_IDLE_SECONDS, authenticator=authenticator),
        [Service(admin_pb2_grpc.add_ModelServiceServicer_to_server, ModelService(live, promoter, share=share))],
        address=address,
        tls=tls,
        options=[
            ("grpc.max_receive_message_length", _MAX_SMALL_MESSAGE_BYTES),
            ("grpc.max_allowed_incoming_connections", _connections(_MAX_SMALL_CONNECTIONS, share=1 / 8)),
        ],
        reloaded=[tls],
        shares_address=share is not None,
    )


def health_server(shown: Health, *, address: str, metrics: Metrics, shares_address: bool = False) -> ListeningServer:
    """Return a server of `grpc.health.v1`; in plain text, as its answers are no secret and kubelet knows no TLS."""
    return ListeningServer(
        Entry(metrics, idle_seconds=_SMALL_IDLE_SECONDS),
        [shown.service],
        address=address,
        tls=None,
        options=[
            ("grpc.max_receive_message_length", _MAX_SMALL_MESSAGE_BYTES),
            ("grpc.max_allowed_incoming_connections", _connections(_MAX_SMALL_CONNECTIONS, share=1 / 8)),
        ],
        reflected=False,
        shares_address=shares_address,
    )


def _options(limits: RpcLimits) -> tuple[tuple[str, Any], ...]:
    age = limits.connection_age_seconds
    return (
        ("grpc.max_receive_message_length", limits.max_message_bytes),
        # Without it gRPC takes up streams as fast as they are reset, and cancels other callers' calls instead.
        ("grpc.max_concurrent_streams", limits.max_connection_rpcs),
        ("grpc.max_allowed_incoming_connections", _connections(limits.max_connections, share=1 / 2)),
        ("grpc.max_connection_idle_ms", round(limits.connection_idle_seconds * 1000)),
        # RPCs in progress end in their own time.
        *([("grpc.max_connection_age_ms", round(age * 1000))] if age is not None else []),
    )


def _connections(wanted: int, *, share: float) -> int:
    """Return a limit on connections that leaves descriptors for files: a share of the process's limit."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if descriptors == resource.RLIM_INFINITY else max(1, min(wanted, int(share * descriptors)))


def _bind(server: grpc.aio.Server, address: str, tls: ReloadedTLS | None) -> int:
    """Let a server listen, and return the port; OSError: the address cannot be bound."""
    try:
        if tls is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, _credentials(tls))
    except RuntimeError as error:
        reason = "the address is taken or not of this machine" + (", or a TLS file is invalid" if tls else "")
        raise OSError(f"cannot serve on {address}: {reason}") from error


def _credentials(tls: ReloadedTLS) -> grpc.ServerCredentials:
    """Return credentials that follow their files."""

    def in_grpc(certificates: Certificates | None) -> Any:
        if certificates is None:
            return None
        pairs, authorities = [(certificates.key, certificates.chain)], certificates.authorities
        return grpc.ssl_server_certificate_configuration(pairs, root_certificates=authorities)

    needs_certificate = tls.first.authorities is not None
    return grpc.dynamic_ssl_server_credentials(in_grpc(tls.first), lambda: in_grpc(tls.news()), needs_certificate)
