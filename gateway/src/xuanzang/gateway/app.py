"""The ASGI application: all APIs over one client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.client import (
    AsyncTranslationClient,
    DeadlineExceededError,
    ServerUnavailableError,
    TLSConfig,
    TranslationError,
)
from xuanzang.gateway.documents.kept import DocumentLimits, DocumentState, KeptDocuments
from xuanzang.gateway.entry.callers import REQUEST_ID, Callers
from xuanzang.gateway.entry.endpoint import Entrance
from xuanzang.gateway.entry.origins import listed_origins
from xuanzang.gateway.faces.deepl import DeepL
from xuanzang.gateway.faces.deepl_documents import DeepLDocuments
from xuanzang.gateway.faces.documents import Documents
from xuanzang.gateway.faces.libretranslate import LibreTranslate
from xuanzang.gateway.faces.own import Own
from xuanzang.gateway.faces.page import page_routes
from xuanzang.gateway.metrics import Metrics
from xuanzang.gateway.settings import Settings

_HEALTH_SECONDS = 2.0
_FORM_BYTES = 64 * 1024
"""Size of an upload beside its file."""
_CONCURRENT_UPLOADS = 8


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


def application(settings: Settings, client: AsyncTranslationClient, metrics: Metrics | None = None) -> Starlette:
    """Make the application.

    Args:
        settings: Settings.
        client: Client of the server; it is closed at the end.
        metrics: Metrics; None: some that nobody asks for.
    """
    metrics = metrics or Metrics()
    callers = Callers(client, anonymous=settings.admits_anonymous)
    entrance = Entrance(settings=settings, callers=callers, metrics=metrics)
    metrics.in_progress.set_function(lambda: entrance.in_progress)
    documents = _documents(settings, metrics)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await documents.close()
        await client.close()

    async def health(_: Request) -> Response:
        return await _health(client)

    routes = [Route("/health", health), Route("/livez", _live), *_translating(entrance, documents)]
    if settings.page:
        routes += page_routes()
    return Starlette(routes=routes, middleware=_middleware(settings), lifespan=lifespan)


def _translating(entrance: Entrance, documents: KeptDocuments) -> Iterator[Route]:
    """Yield the routes of the APIs."""
    yield from Own(entrance).routes
    yield from Documents(entrance).routes
    yield from LibreTranslate(entrance).routes
    yield from _deepl(entrance, documents).routes


def _deepl(entrance: Entrance, documents: KeptDocuments) -> DeepL:
    settings = entrance.settings
    uploading = settings.model_copy(
        update={
            "max_body_bytes": settings.max_document_bytes + _FORM_BYTES,
            "max_concurrent_requests": _CONCURRENT_UPLOADS,
        }
    )
    uploads = Entrance(settings=uploading, callers=entrance.callers, metrics=entrance.metrics)
    return DeepL(entrance, uploads=uploads, documents=DeepLDocuments(documents, settings))


def _documents(settings: Settings, metrics: Metrics) -> KeptDocuments:
    kept = KeptDocuments(
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


def _middleware(settings: Settings) -> list[Middleware]:
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


async def _health(client: AsyncTranslationClient) -> Response:
    """Say whether the server answers; one that asks for a key does."""
    try:
        await client.list_models(timeout=_HEALTH_SECONDS)
    except (ServerUnavailableError, DeadlineExceededError):
        return JSONResponse({"status": "unavailable"}, HTTPStatus.SERVICE_UNAVAILABLE)
    except TranslationError:
        return JSONResponse({"status": "ok"})
    return JSONResponse({"status": "ok"})
