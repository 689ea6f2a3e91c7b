"""The page for browsers: files of this distribution, with headers that let nothing else in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "html": "text/html; charset=utf-8",
        "css": "text/css; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }
)
_SOURCES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in _SOURCES.items()),
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        # A browser asks each time and gets 304 unless the file has changed.
        "cache-control": "no-cache",
    }
)
"""Headers of every file."""


def page_routes() -> list[Route]:
    """Return the addresses of the page: / and its files below /page/."""
    contents = dict(page_files())
    index = _route("/", "index.html", contents["index.html"])
    return [index, *(_route(f"/page/{path}", path, content) for path, content in contents.items())]


def page_files() -> Iterator[tuple[str, bytes]]:
    """Yield the files of the page, each with its path below /page/."""
    yield from _files_in(files("xuanzang.gateway") / "page", "")


def _files_in(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _files_in(each, f"{path}{each.name}/")
        elif each.name.rpartition(".")[2] in _TYPES:
            yield path + each.name, each.read_bytes()


def _route(address: str, path: str, content: bytes) -> Route:
    """Return the route of a file, which answers 304 if the caller has it."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**HEADERS, "content-type": _TYPES[path.rpartition(".")[2]], "etag": tag}

    async def answer(request: Request) -> Response:
        tags = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
        if tag in tags:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers)

    return Route(address, answer)
