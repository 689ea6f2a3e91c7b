"""gRPC calls: handlers of APIs behind the limits that HTTP has, on an address of their own.

gRPC's blocking server answers a call in a thread, and the handlers run in the event loop of the gateway. Its asyncio
server would end for all callers on a path that is not UTF-8.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from xuanzang.client import TranslationError
from xuanzang.gateway.entry.callers import KEY_HEADERS, REQUEST_ID, Caller, checked_id
from xuanzang.gateway.entry.endpoints import BaseCall, SharedState, fault_of_failure
from xuanzang.gateway.entry.patience import deadline_in, within
from xuanzang.gateway.errors import Fault, RefusedError, bad_request, fault_of, not_found
from xuanzang.gateway.settings import Settings
from xuanzang.serving.memory import is_want_of_memory
from xuanzang.serving.networks import network_of

_LOGGER = logging.getLogger(__name__)
_IDLE_SECONDS = 60.0
"""Time that a stream waits for its next message."""
_Context: TypeAlias = "grpc.ServicerContext"
_OPTIONS = (
    # A second gateway on the same port must fail, not get half of the callers.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
    ("grpc.max_send_message_length", -1),
    ("grpc.server_handshake_timeout_ms", 20_000),
    # Without it a caller that resets streams gets new ones without limit.
    ("grpc.max_concurrent_streams", 128),
)


class _GoneError(Exception):
    """The caller has gone, or sent nothing in time."""


GrpcHandler = Callable[[Any, BaseCall], Awaitable[Message]]
"""Function that answers a message; it raises RefusedError or TranslationError."""


class GrpcMethod(NamedTuple):
    """A method of a service."""

    decode: Callable[[bytes], Any]
    """Function that reads a message of the caller."""
    handle: GrpcHandler
    is_stream: bool = False
    """True if it takes a stream of messages, and answers each; its handler then raises nothing."""
    is_open: bool = False
    """True if it answers callers without a key, too."""
    is_probe: bool = False
    """True if it asks for health, and so waits for no other call of its address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcService:
    """A service of an API."""

    name: str
    """Full name, such as "grpc.health.v1.Health"."""
    api: str
    """Name of the API in metrics."""
    methods: Mapping[str, GrpcMethod]
    """Methods by name."""


class GrpcServer:
    """Serves services on the address of the settings. Belongs to the event loop that is running when it is made."""

    def __init__(self, services: Sequence[GrpcService], state: SharedState) -> None:
        """Bind the address.

        Raises:
            OSError: The address is taken, or not this machine's.
        """
        settings = state.settings
        threads = state.limits.grpc_calls.total
        self._server = grpc.server(
            ThreadPoolExecutor(threads, thread_name_prefix="grpc"),
            handlers=[_Entry(services, state)],
            options=(
                *_OPTIONS,
                ("grpc.max_receive_message_length", settings.max_body_bytes),
                ("grpc.max_allowed_incoming_connections", settings.max_connections),
                ("grpc.max_connection_idle_ms", settings.keep_alive_seconds * 1000),
            ),
            # A call more has an answer instead of a place in a queue.
            maximum_concurrent_rpcs=threads,
        )
        self._drain_seconds = settings.drain_timeout_seconds
        self._stopping: threading.Event | None = None
        self.port = self._bind(settings)

    def _bind(self, settings: Settings) -> int:
        address = settings.grpc_address or ""
        try:
            if settings.tls_certificate is None:
                return self._server.add_insecure_port(address)
            return self._server.add_secure_port(address, _certificate(settings))
        except RuntimeError as error:
            raise OSError(f"cannot serve gRPC on {address}: it is taken or not of this machine") from error

    def start(self) -> None:
        """Answer from now on."""
        self._server.start()

    def begin_stop(self) -> None:
        """Refuse new calls, and drain."""
        if self._stopping is None:
            self._stopping = self._server.stop(self._drain_seconds)

    def stop_at_once(self) -> None:
        """End all calls."""
        self._stopping = self._server.stop(None)

    async def stop(self) -> None:
        """Refuse new calls, and wait for the last one."""
        self.begin_stop()
        if self._stopping is not None:
            await asyncio.to_thread(self._stopping.wait)


class _Entry(grpc.GenericRpcHandler):
    """Takes every call, whatever its method."""

    def __init__(self, services: Sequence[GrpcService], state: SharedState) -> None:
        self._state = state
        self._loop = asyncio.get_running_loop()
        self._places = state.limits.grpc_calls
        self._lock = threading.Lock()
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for service in (*services, _reflection([each.name for each in services])):
            for name, method in service.methods.items():
                path = f"/{service.name}/{name}"
                # A unary call, too, is received as a stream: gRPC itself waits for its message without end.
                handler: grpc.RpcMethodHandler[Any, Any]
                if method.is_stream:
                    handler = grpc.stream_stream_rpc_method_handler(partial(self._stream, service, path, method))
                else:
                    handler = grpc.stream_unary_rpc_method_handler(partial(self._unary, service, path, method))
                self._handlers[path] = handler

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Return what handles a call; None: there is no such method."""
        return self._handlers.get(handler_call_details.method)

    def _unary(
        self, service: GrpcService, path: str, method: GrpcMethod, messages: Iterator[bytes], context: _Context
    ) -> bytes:
        with self._rpc(service, path, method, context) as call:
            message = self._received(messages, context, self._state.settings.receive_timeout_seconds)
            if message is None:
                raise bad_request("request", "must be one message")
            return self._answer(method, message, call, context)
        raise AssertionError  # the context has ended the call

    def _stream(
        self, service: GrpcService, path: str, method: GrpcMethod, messages: Iterator[bytes], context: _Context
    ) -> Iterator[bytes]:
        with self._rpc(service, path, method, context) as call:
            while (message := self._received(messages, context, _IDLE_SECONDS)) is not None:
                yield self._answer(method, message, call, context)

    @contextmanager
    def _rpc(self, service: GrpcService, path: str, method: GrpcMethod, context: _Context) -> Iterator[BaseCall]:
        """Hold what a call holds, log it and, if it fails, end it with its status."""
        began = time.monotonic()
        metadata = {name: value for name, value in context.invocation_metadata() if isinstance(value, str)}
        call_id = checked_id(metadata.get(REQUEST_ID, ""))
        log = {"method": "gRPC", "path": path, "request_id": call_id, "api": service.api}
        code, fault, peer = grpc.StatusCode.OK, None, _host_of(context.peer())
        try:
            with ExitStack() as held:
                try:
                    yield self._admitted(method, metadata, log, context, peer, held)
                except (RefusedError, TranslationError) as error:
                    fault = fault_of(error)
                except (_GoneError, CancelledError):
                    code = grpc.StatusCode.CANCELLED
                except GeneratorExit:
                    code = grpc.StatusCode.CANCELLED
                    raise
                except Exception as error:  # noqa: BLE001 - the one place where nothing else is left to do
                    fault = fault_of_failure(error, request_id=call_id)
            if fault is not None:
                code, log["reason"] = code_of(fault), fault.reason
                if not method.is_probe:
                    self._loop.call_soon_threadsafe(self._state.start.refused, network_of(peer))
        finally:
            seconds = time.monotonic() - began
            self._state.metrics.answered(service.api, code.name, seconds=seconds)
            _LOGGER.info("request", extra=log | {"status": code.name, "seconds": round(seconds, 4)})
        if fault is not None:
            context.abort_with_status(_status(code, fault))
        if code is not grpc.StatusCode.OK:
            context.abort(code, "the caller was gone, or sent no message in time")

    def _admitted(
        self,
        method: GrpcMethod,
        metadata: Mapping[str, str],
        log: dict[str, Any],
        context: _Context,
        peer: str,
        held: ExitStack,
    ) -> BaseCall:
        callers, call_id = self._state.callers, log["request_id"]
        caller = callers.caller_of(_key_in(metadata), peer=peer, request_id=call_id, needs_key=not method.is_open)
        with self._lock:
            self._places.take(caller.holder)
        held.callback(self._release, caller)
        remaining = context.time_remaining()
        deadline = math.inf if remaining is None else deadline_in(remaining)
        return BaseCall(id=call_id, caller=caller, deadline=deadline, log=log)

    def _release(self, caller: Caller) -> None:
        with self._lock:
            self._places.release(caller.holder)

    def _received(self, messages: Iterator[bytes], context: _Context, seconds: float) -> bytes | None:
        """Wait for a message; None: there is none more."""
        timers: list[asyncio.TimerHandle] = []
        self._loop.call_soon_threadsafe(lambda: timers.append(self._loop.call_later(seconds, context.cancel)))
        try:
            return next(messages, None)
        except Exception as error:  # gRPC raises a bare Exception
            raise _GoneError from error
        finally:
            self._loop.call_soon_threadsafe(lambda: timers.pop().cancel())

    def _answer(self, method: GrpcMethod, data: bytes, call: BaseCall, context: _Context) -> bytes:
        call = call.limited(self._state.settings.request_timeout_seconds)
        handled = within(self._handled(method, data, call), deadline=call.deadline, health=self._state.health)
        work: Future[bytes] = asyncio.run_coroutine_threadsafe(handled, self._loop)

        def cancel() -> None:
            work.cancel()

        if not context.add_callback(cancel):
            cancel()
        return work.result()

    async def _handled(self, method: GrpcMethod, data: bytes, call: BaseCall) -> bytes:
        await self._state.start.turn(call.caller.holder.address, is_probe=method.is_probe)
        with self._state.limits.body_bytes.held(call.caller.holder, len(data)):
            try:
                message = await self._state.reading.run(partial(method.decode, data), size=len(data))
            except DecodeError as error:
                if is_want_of_memory(error):
                    raise
                raise bad_request("request", "must be a valid message of the method") from error
            return (await method.handle(message, call)).SerializeToString()


def health_service(names: Sequence[str], answers: Callable[[], Awaitable[bool]]) -> GrpcService:
    """Return the standard service of health: that of each service is that of the server behind the gateway.

    Its streams are left out: clients that ask for one then take the gateway for well.
    """
    known = {"", *names}

    async def check(request: Any, _call: BaseCall) -> Message:
        if request.service not in known:
            raise not_found("there is no such service")
        response = health_pb2.HealthCheckResponse
        status = response.SERVING if await answers() else response.NOT_SERVING
        answer: Message = response(status=status)
        return answer

    method = GrpcMethod(health_pb2.HealthCheckRequest.FromString, check, is_open=True, is_probe=True)
    return GrpcService(name=health.SERVICE_NAME, api="health", methods={"Check": method})


def _reflection(names: list[str]) -> GrpcService:
    """Return the service that describes services."""
    servicer = reflection.ReflectionServicer([*names, reflection.SERVICE_NAME])

    async def describe(request: Message, _call: BaseCall) -> Message:
        await asyncio.sleep(0)
        answer: Message = next(servicer.ServerReflectionInfo(iter((request,)), None))
        return answer

    decode = reflection_pb2.ServerReflectionRequest.FromString
    method = GrpcMethod(decode, describe, is_stream=True, is_open=True)
    return GrpcService(name=reflection.SERVICE_NAME, api="reflection", methods={"ServerReflectionInfo": method})


def _host_of(peer: str) -> str:
    """Return the IP address in gRPC's form of it, such as "ipv4:127.0.0.1:1234" or "ipv6:%5B::1%5D:1234"."""
    kind, _, rest = peer.partition(":")
    return unquote(rest).rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""


def _key_in(metadata: Mapping[str, str]) -> str | None:
    for name in KEY_HEADERS:
        if metadata.get(name):
            return metadata[name]
    scheme, _, key = metadata.get("authorization", "").strip().partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def code_of(fault: Fault) -> grpc.StatusCode:
    """Return the code of a fault."""
    return grpc.StatusCode[fault.code.name]


class _Status(NamedTuple):
    code: grpc.StatusCode
    details: str
    trailing_metadata: tuple[tuple[str, str | bytes], ...]


def _status(code: grpc.StatusCode, fault: Fault) -> Any:
    """Return a fault as gRPC's status, with the details of google.rpc."""
    details: list[Message] = []
    if fault.violations:
        faults = [
            error_details_pb2.BadRequest.FieldViolation(field=each.field, description=each.description)
            for each in fault.violations
        ]
        details.append(error_details_pb2.BadRequest(field_violations=faults))
    trailers: list[tuple[str, str | bytes]] = []
    if fault.retry_after is not None:
        delay = round(fault.retry_after * 1000)
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(delay)
        details.append(retry)
        trailers.append(("grpc-retry-pushback-ms", str(delay)))
    status = status_pb2.Status(code=code.value[0], message=fault.description)
    for detail in details:
        status.details.add().Pack(detail)
    trailers.append(("grpc-status-details-bin", status.SerializeToString()))
    return _Status(code, fault.description, tuple(trailers))


def _certificate(settings: Settings) -> grpc.ServerCredentials:
    """Return the certificate of the settings; each new connection reads its files anew."""
    paths = settings.tls_key, settings.tls_certificate

    def read() -> grpc.ServerCertificateConfiguration:
        key, chain = (path.read_bytes() for path in paths if path)
        return grpc.ssl_server_certificate_configuration([(key, chain)])

    def changed() -> grpc.ServerCertificateConfiguration | None:
        try:
            return read()
        except (OSError, ValueError):  # the old one stays in use
            return None

    return grpc.dynamic_ssl_server_credentials(read(), changed)  # type: ignore[arg-type]  # None: no change
