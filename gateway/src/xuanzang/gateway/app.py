"""The ASGI application: all APIs over one client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from xuanzang.client import (
    AsyncTranslationClient,
    DeadlineExceededError,
    ServerUnavailableError,
    TLSConfig,
    TranslationError,
)
from xuanzang.gateway.apis.deepl.documents import DeepLDocuments
from xuanzang.gateway.apis.deepl.texts import DeepL
from xuanzang.gateway.apis.json_api.calls import JsonApi, render
from xuanzang.gateway.apis.json_api.documents import Documents
from xuanzang.gateway.apis.libretranslate import LibreTranslate
from xuanzang.gateway.documents.store import DocumentLimits, DocumentState, DocumentStore
from xuanzang.gateway.documents.translator import DocumentTranslator
from xuanzang.gateway.entry.bodies import WholeBodies
from xuanzang.gateway.entry.callers import REQUEST_ID, Callers
from xuanzang.gateway.entry.endpoints import CallKind, SharedState
from xuanzang.gateway.entry.origins import listed_origins, require_known_host
from xuanzang.gateway.errors import RefusedError
from xuanzang.gateway.metrics import Metrics
from xuanzang.gateway.page_serving import page_routes
from xuanzang.gateway.settings import Settings

_HEALTH_SECONDS = 2.0
_PROBES = ("/health", "/livez")
"""Addresses that are answered whatever the header host says: Kubernetes sends the pod's IP address."""


def open_client(settings: Settings) -> AsyncTranslationClient:
    """Open the client of the server, which must happen in the event loop that uses it.

    Args:
        settings: Settings.

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
        timeout=settings.request_timeout_seconds,
        # Every caller has a key of its own, or none.
        api_key="",
        allow_insecure_key=settings.allow_insecure_keys,
        uses_proxy=tls is not None,
    )


def application(settings: Settings, client: AsyncTranslationClient, metrics: Metrics | None = None) -> ASGIApp:
    """Make the application.

    Args:
        settings: Settings.
        client: Client of the server; it is closed at the end.
        metrics: Metrics; None: some that nobody asks for.
    """
    metrics = metrics or Metrics()
    callers = Callers(client, anonymous=settings.admits_anonymous)
    state = SharedState(settings=settings, callers=callers, metrics=metrics)
    metrics.in_progress.set_function(lambda: state.places[CallKind.ORDINARY].taken)
    documents, translator = _documents(settings, metrics), DocumentTranslator(settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await documents.close()
        await translator.close()
        await client.close()

    routes = [Route("/health", Health(client)), Route("/livez", _live), *_translating(state, documents, translator)]
    if settings.page:
        routes += page_routes()
    middleware = [
        Middleware(WholeBodies),
        Middleware(KnownHosts, hosts=settings.hosts),
        *_cross_origin(settings),
    ]
    return Starlette(routes=routes, middleware=middleware, lifespan=lifespan)


def _translating(state: SharedState, documents: DocumentStore, translator: DocumentTranslator) -> Iterator[Route]:
    """Yield the routes of the APIs."""
    yield from JsonApi(state).routes
    yield from Documents(state, translator).routes
    yield from LibreTranslate(state).routes
    yield from DeepL(state, documents=DeepLDocuments(documents, translator)).routes


def _documents(settings: Settings, metrics: Metrics) -> DocumentStore:
    kept = DocumentStore(
        DocumentLimits(
            documents=settings.max_documents,
            of_caller=settings.max_caller_documents,
            running=settings.max_running_documents,
            seconds=settings.document_timeout_seconds,
        )
    )
    for state in DocumentState:
        metrics.follow_documents(state.value, partial(kept.count, state))
    return kept


def _cross_origin(settings: Settings) -> list[Middleware]:
    origins = listed_origins(settings.cors_origins)
    if not origins:
        return []
    headers = ["authorization", "content-type", REQUEST_ID]
    exposed = ["retry-after", REQUEST_ID]
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=headers,
            expose_headers=exposed,
        )
    ]


async def _live(_: Request) -> Response:
    await asyncio.sleep(0)
    return JSONResponse({"status": "ok"})


class KnownHosts:
    """ASGI application around another: what is addressed to other hosts is refused, but for probes."""

    def __init__(self, app: ASGIApp, *, hosts: tuple[str, ...]) -> None:
        """Stand around an application.

        Args:
            app: The application.
            hosts: Hosts, as `Settings.hosts` returns them.
        """
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it.

        Args:
            scope: ASGI's facts of the connection.
            receive: ASGI's function.
            send: ASGI's function.
        """
        if scope["type"] == "http" and scope["path"] not in _PROBES:
            try:
                require_known_host(Headers(scope=scope), self._hosts)
            except RefusedError as error:
                await render(error.fault)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class Health:
    """Says whether the server answers; one that asks for a key does. Many probes at once are one question."""

    def __init__(self, client: AsyncTranslationClient) -> None:
        """Ask nothing yet.

        Args:
            client: Client of the server.
        """
        self._client = client
        self._asking: asyncio.Task[bool] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a probe.

        Args:
            scope: ASGI's facts of the connection.
            receive: ASGI's function.
            send: ASGI's function.
        """
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._answers())
        if await asyncio.shield(self._asking):
            response = JSONResponse({"status": "ok"})
        else:
            response = JSONResponse({"status": "unavailable"}, HTTPStatus.SERVICE_UNAVAILABLE)
        await response(scope, receive, send)

    async def _answers(self) -> bool:
        try:
            await self._client.list_models(timeout=_HEALTH_SECONDS)
        except (ServerUnavailableError, DeadlineExceededError):
            return False
        except TranslationError:
            return True
        return True
