"""The ASGI application: all APIs over one client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from xuanzang.gateway.entry.callers import REQUEST_ID, Callers
from xuanzang.gateway.entry.endpoint import Entrance
from xuanzang.gateway.faces.deepl import DeepL
from xuanzang.gateway.faces.documents import Documents
from xuanzang.gateway.faces.libretranslate import LibreTranslate
from xuanzang.gateway.faces.own import Own
from xuanzang.gateway.faces.page import page_routes
from xuanzang.gateway.settings import Settings

_HEALTH_SECONDS = 2.0


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


def application(settings: Settings, client: AsyncTranslationClient) -> Starlette:
    """Make the application.

    Args:
        settings: Settings.
        client: Client of the server; it is closed at the end.
    """
    entrance = Entrance(settings=settings, callers=Callers(client, anonymous=settings.admits_anonymous))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await client.close()

    async def health(_: Request) -> Response:
        return await _health(client)

    routes = [
        Route("/health", health),
        Route("/livez", _live),
        *Own(entrance).routes,
        *Documents(entrance).routes,
        *LibreTranslate(entrance).routes,
        *DeepL(entrance).routes,
        *(page_routes() if settings.page else ()),
    ]
    return Starlette(routes=routes, middleware=_middleware(settings), lifespan=lifespan)


def _middleware(settings: Settings) -> list[Middleware]:
    origins = [origin.strip() for origin in settings.cors_origins.split(",") if origin.strip()]
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
