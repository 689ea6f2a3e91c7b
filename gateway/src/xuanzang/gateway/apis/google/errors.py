"""Errors in the form of Google's APIs over HTTP."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, NoReturn

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.gateway.entry.endpoints import ApiStyle, Call, SharedState, routes_of
from xuanzang.gateway.entry.parameters import TRUTH_VALUES, Parameters
from xuanzang.gateway.errors import Fault, bad_request, not_offered


def render(fault: Fault) -> Response:
    """Return an error in Google's form."""
    error: dict[str, Any] = {
        "code": fault.status.value,
        "message": fault.description,
        "status": fault.code.name,
        # Version 2 has these; clients of version 3 leave them.
        "errors": [{"message": fault.description, "domain": "global", "reason": _reason(fault)}],
    }
    if fault.violations:
        violations = [{"field": each.field, "description": each.description} for each in fault.violations]
        kind = "type.googleapis.com/google.rpc.BadRequest"
        error["details"] = [{"@type": kind, "fieldViolations": violations}]
    return JSONResponse({"error": error}, fault.status, headers=fault.headers)


STYLE = ApiStyle(
    name="google",
    render=render,
    key_parameters=("key",),
    key_hint="the header x-goog-api-key or the parameter key=KEY",
)
"""Ways of Google's APIs."""


def require_json(given: Parameters) -> None:
    """Refuse an answer in another form than JSON.

    Args:
        given: Parameters of the address.

    Raises:
        RefusedError: A parameter of the address requests another form, or is unknown.
    """
    for name in ("alt", "$alt"):
        form = given.scalar(name) or "json"
        if form.partition(";")[0].lower() != "json":
            raise bad_request(name, "must be json")
    for name in ("prettyPrint", "$prettyPrint"):
        given.choice(name, TRUTH_VALUES)


def refusals(state: SharedState) -> list[Route]:
    """Return the addresses of Google's APIs that nothing answers; answered ones come before them."""

    async def refuse(_call: Call) -> NoReturn:
        await asyncio.sleep(0)
        raise not_offered("the gateway has no such call of Google's API, or lacks the extra google")

    paths = "/v3/projects/{rest:path}", "/language/translate/v2/{rest}", "/translate_a/{rest}"
    return routes_of([("", path, refuse) for path in paths], STYLE, state)


def _reason(fault: Fault) -> str:
    match fault.status:
        case HTTPStatus.BAD_REQUEST:
            return "invalid"
        case HTTPStatus.FORBIDDEN | HTTPStatus.UNAUTHORIZED:
            return "forbidden"
        case HTTPStatus.TOO_MANY_REQUESTS:
            return "rateLimitExceeded"
        case HTTPStatus.NOT_FOUND:
            return "notFound"
        case _:
            return "backendError"
