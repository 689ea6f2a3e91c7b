"""The ASGI application: all APIs over one client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xuanzang.client import AsyncTranslationClient, TLSConfig
from xuanzang.gateway.apis.apertium import Apertium
from xuanzang.gateway.apis.deepl.documents import DeepLDocuments
from xuanzang.gateway.apis.deepl.texts import DeepL
from xuanzang.gateway.apis.deeplx import DeepLX
from xuanzang.gateway.apis.google.errors import refusals
from xuanzang.gateway.apis.google.v2 import GoogleV2
from xuanzang.gateway.apis.google.web import GoogleWeb
from xuanzang.gateway.apis.hcfy import Hcfy
from xuanzang.gateway.apis.immersive_translate import ImmersiveTranslate
from xuanzang.gateway.apis.inference.http import InferenceHttp
from xuanzang.gateway.apis.inference.inferences import Inferences
from xuanzang.gateway.apis.json_api.calls import JsonApi, render
from xuanzang.gateway.apis.json_api.documents import Documents
from xuanzang.gateway.apis.libretranslate import LibreTranslate
from xuanzang.gateway.apis.libretranslate_files import LibreTranslateFiles
from xuanzang.gateway.apis.microsoft import Microsoft
from xuanzang.gateway.apis.mtranserver import MTranServer
from xuanzang.gateway.apis.openai.completions import OpenAI
from xuanzang.gateway.documents.store import DocumentState, DocumentStore
from xuanzang.gateway.documents.translator import DocumentTranslator
from xuanzang.gateway.entry.bodies import WholeBodies
from xuanzang.gateway.entry.callers import REQUEST_ID, Callers
from xuanzang.gateway.entry.endpoints import IGNORED, Endpoint, SharedState, Variant
from xuanzang.gateway.entry.origins import listed_origins, require_known_host
from xuanzang.gateway.entry.patience import Health
from xuanzang.gateway.errors import Fault, RefusedError
from xuanzang.gateway.metrics import Metrics
from xuanzang.gateway.page_serving import page_routes
from xuanzang.gateway.settings import Settings
from xuanzang.serving.fair_start import FairStart
from xuanzang.serving.networks import network_of

if TYPE_CHECKING:
    from xuanzang.gateway.apis.google.v3 import GoogleV3
    from xuanzang.gateway.entry.grpc_calls import GrpcServer

_LOGGER = logging.getLogger(__name__)
PROBES = ("/health", "/livez")
"""Addresses that are answered whatever the header host says: Kubernetes sends the pod's IP address."""


def open_client(settings: Settings) -> AsyncTranslationClient:
    """Open the client of the server, which must happen in the event loop that uses it.

    Raises:
        ValueError: An address is invalid.
    """
    tls = None
    if settings.server_tls or settings.server_tls_ca or settings.server_tls_name:
        authorities = settings.server_tls_ca.read_bytes() if settings.server_tls_ca else None
        tls = TLSConfig(root_certificates=authorities, server_name=settings.server_tls_name)
    return AsyncTranslationClient(
        settings.server.split(","),
        tls=tls,
        connections=settings.server_connections,
        timeout=settings.request_timeout_seconds,
        # Callers bring their own keys.
        api_key="",
        allow_insecure_key=settings.allow_insecure_keys,
        uses_proxy=tls is not None,
    )


class Gateway:
    """The gateway without its sockets: one application for HTTP and, if the settings ask for it, one server of gRPC."""

    def __init__(self, settings: Settings, metrics: Metrics | None = None) -> None:
        """Open the client and, if there is one, bind the address of gRPC; the event loop must be running.

        Raises:
            OSError: The address of gRPC is taken, or not this machine's.
            ValueError: The server's address is invalid, or an extra is needed.
        """
        self.settings = settings
        self._client = open_client(settings)
        listing_key = settings.listing_key.get_secret_value() if settings.listing_key else None
        callers = Callers(self._client, anonymous=settings.admits_anonymous, listing_key=listing_key)
        self._health = Health(self._client)
        self._state = SharedState(settings=settings, callers=callers, health=self._health, metrics=metrics)
        self._inferences = Inferences(max_texts=settings.max_texts)
        self._google = _google_v3(settings)
        self._documents = _documents(self._state)
        self._translator = DocumentTranslator(settings, self._state.limits)
        self.grpc = self._grpc_server() if settings.grpc_address else None
        """Server of gRPC, or None."""
        self.http = self._application()
        """Application for HTTP."""

    def _application(self) -> ASGIApp:
        self._state.metrics.in_progress.set_function(lambda: self._state.limits.requests.taken)
        routes = [Route("/health", self._health, methods=["GET"]), Route("/livez", _live)]
        routes += _with_refusals(list(self._routes()))
        if self.settings.page:
            routes += page_routes()
        middleware = [
            Middleware(FairlyStarted, start=self._state.start),
            Middleware(WholeBodies),
            Middleware(KnownHosts, hosts=self.settings.hosts),
            *_cross_origin(self.settings),
        ]
        return Starlette(
            routes=routes, middleware=middleware, lifespan=self._lifespan, exception_handlers={HTTPException: _unknown}
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        if self.grpc:
            self.grpc.start()
        yield
        if self.grpc:
            await self.grpc.stop()
        await self._documents.close()
        await self._translator.close()
        await self._client.close()
        self._state.reading.close()

    def _routes(self) -> Iterator[Route]:
        """Yield the routes of the APIs; the first that matches address and method answers."""
        state = self._state
        yield from JsonApi(state).routes
        yield from Documents(state, self._translator).routes
        yield from OpenAI(state).routes
        microsoft, immersive, mtranserver = Microsoft(state), ImmersiveTranslate(state), MTranServer(state)
        sharing = [each.variants for each in (microsoft, Apertium(), immersive, mtranserver, DeepLX())]
        yield from LibreTranslate(state, variants=_by_address(sharing)).routes
        yield from LibreTranslateFiles(state, self._documents, self._translator).routes
        yield from (*microsoft.routes, *immersive.routes, *mtranserver.routes, *Hcfy(state).routes)
        yield from (*GoogleV2(state).routes, *GoogleWeb(state).routes)
        yield from _google_v3_routes(self._google, state)
        yield from refusals(state)
        yield from InferenceHttp(self._inferences, state, self._health).routes
        yield from DeepL(state, documents=DeepLDocuments(self._documents, self._translator)).routes

    def _grpc_server(self) -> GrpcServer:
        try:
            from xuanzang.gateway.apis.inference.grpc_service import inference_service  # noqa: PLC0415 - an extra
            from xuanzang.gateway.entry.grpc_calls import GrpcServer, health_service  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ValueError(
                "--grpc-address needs the extra grpc: pip install -e 'gateway[grpc]' in a clone"
            ) from error
        services = [inference_service(self._inferences, self._health.answers)]
        if self._google:
            from xuanzang.gateway.apis.google.grpc_service import google_service  # noqa: PLC0415 - an extra

            services.append(google_service(self._google))
        health = health_service([each.name for each in services], self._health.answers)
        return GrpcServer([*services, health], self._state)


def _with_refusals(routes: Sequence[Route]) -> Iterator[Route]:
    """Yield routes and, before those of addresses that nothing answers, refusals of methods that an address lacks."""
    methods: dict[str, set[str]] = {}
    endpoints: dict[str, Endpoint] = {}
    for route in routes:
        if route.methods and isinstance(route.endpoint, Endpoint):
            methods.setdefault(route.path, set()).update(route.methods)
            endpoints.setdefault(route.path, route.endpoint)
    named = [route for route in routes if route.methods]
    yield from named
    for path, endpoint in endpoints.items():
        yield Route(path, endpoint.refusing(methods[path]))
    yield from (route for route in routes if not route.methods)


def _by_address(sharing: Sequence[Mapping[str, Variant]]) -> Mapping[str, Sequence[Variant]]:
    """Return the APIs of each address that several have, in order."""
    addresses = dict.fromkeys(path for each in sharing for path in each)
    return {path: [each[path] for each in sharing if path in each] for path in addresses}


def _google_v3(settings: Settings) -> GoogleV3 | None:
    """Return the calls of Google's version 3, if its package is there."""
    try:
        from xuanzang.gateway.apis.google.v3 import GoogleV3  # noqa: PLC0415 - an extra, which takes a second to import
    except ImportError:
        return None
    return GoogleV3(max_texts=settings.max_texts)


def _google_v3_routes(google: GoogleV3 | None, state: SharedState) -> list[Route]:
    if google is None:
        return []
    from xuanzang.gateway.apis.google.v3_http import GoogleV3Http  # noqa: PLC0415 - an extra

    return GoogleV3Http(google, state).routes


def _documents(shared: SharedState) -> DocumentStore:
    kept = DocumentStore(shared.limits, seconds=shared.settings.document_timeout_seconds)
    for state in DocumentState:
        shared.metrics.follow_documents(state.value, partial(kept.count, state))
    return kept


def _cross_origin(settings: Settings) -> list[Middleware]:
    origins = listed_origins(settings.cors_origins)
    if not origins:
        return []
    exposed = ["retry-after", REQUEST_ID, IGNORED]
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["DELETE", "GET", "PATCH", "POST", "PUT"],
            # Clients of other products send many headers of their own, such as OpenAI's; origins are restricted.
            allow_headers=["*"],
            expose_headers=exposed,
        )
    ]


async def _unknown(_: Request, error: Exception) -> Response:
    """Answer an address or a method that nothing else does."""
    await asyncio.sleep(0)
    status = HTTPStatus(error.status_code) if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
    message = "the gateway has no such address, or not with this method: docs/protocols.md lists those that it has"
    response = render(Fault(status=status, message=message))
    response.headers.update(error.headers or {} if isinstance(error, HTTPException) else {})
    return response


async def _live(_: Request) -> Response:
    await asyncio.sleep(0)
    return JSONResponse({"status": "ok"})


class FairlyStarted:
    """ASGI application around another: network addresses take turns in beginning requests, and so do probes."""

    def __init__(self, app: ASGIApp, *, start: FairStart) -> None:
        """Stand around an application."""
        self._app = app
        self._start = start

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when it is its turn."""
        if scope["type"] == "http":
            address, is_probe = network_of(scope["client"][0] if scope["client"] else ""), scope["path"] in PROBES
            await self._start.turn(address, is_probe=is_probe)
            if not is_probe:
                send = partial(self._sending, send, address)
        await self._app(scope, receive, send)

    async def _sending(self, send: Send, address: str, message: Message) -> None:
        """Send a part of an answer."""
        if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
            self._start.refused(address)
        await send(message)


class KnownHosts:
    """ASGI application around another: it refuses requests for other hosts, except probes."""

    def __init__(self, app: ASGIApp, *, hosts: tuple[str, ...]) -> None:
        """Stand around an application.

        Args:
            hosts: Hosts, as `Settings.hosts` returns them.
        """
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and scope["path"] not in PROBES:
            try:
                require_known_host(Headers(scope=scope), self._hosts)
            except RefusedError as error:
                _LOGGER.info("request", extra={"status": error.fault.status.value, "reason": error.fault.reason})
                await render(error.fault)(scope, receive, send)
                return
        await self._app(scope, receive, send)
