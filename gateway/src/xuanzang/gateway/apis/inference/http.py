"""The Open Inference Protocol over HTTP: JSON, with tensors in the body behind it where a client sends them so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.gateway.apis.inference.descriptions import (
    EXTENSIONS,
    config_of,
    index_of,
    log_settings,
    metadata_of,
    statistics_of,
    trace_settings,
)
from xuanzang.gateway.apis.inference.inferences import (
    BYTES,
    OUTPUT,
    Inference,
    Inferences,
    Inferred,
    is_among,
    joined_raw,
    require_tensor,
    split_raw,
)
from xuanzang.gateway.entry.endpoints import ApiStyle, Call, Handler, SharedState, routes_of
from xuanzang.gateway.entry.parameters import MAX_INT32, json_object, whole_number
from xuanzang.gateway.entry.patience import Health
from xuanzang.gateway.errors import Fault, bad_request, not_offered

_INFERENCE = frozenset({"id", "inputs", "model_name", "model_version", "outputs", "parameters"})
_OUTPUT = frozenset({"name", "parameters"})
_TENSOR = frozenset({"data", "datatype", "name", "parameters", "shape"})
_MAX_DIMENSIONS = 2
_LENGTH = "inference-header-content-length"


def render(fault: Fault) -> Response:
    """Return an error in the protocol's form."""
    return JSONResponse({"error": fault.description}, fault.status, headers=fault.headers)


class InferenceHttp:
    """Handlers of the calls."""

    def __init__(self, inferences: Inferences, state: SharedState, health: Health) -> None:
        """Make the handlers."""
        self._inferences = inferences
        self._state = state
        self._health = health

    @property
    def routes(self) -> list[Route]:
        """Addresses of the calls."""
        opened: list[tuple[str, str, Handler]] = [
            ("GET", "/v2", self.server_metadata),
            ("GET", "/v2/health/live", self.live),
            ("GET", "/v2/health/ready", self.ready),
        ]
        keyed: list[tuple[str, str, Handler]] = [
            ("GET", "/v2/models/stats", self.statistics),
            ("POST", "/v2/repository/index", self.repository_index),
            ("GET POST", "/v2/logging", self.logging),
            ("GET POST", "/v2/trace/setting", self.tracing),
            ("GET POST", "/v2/models/{name}/trace/setting", self.tracing),
        ]
        for memory in ("/v2/systemsharedmemory", "/v2/cudasharedmemory"):
            for region in ("", "/region/{region}"):
                keyed.append(("GET", f"{memory}{region}/status", self.no_regions))
                keyed.append(("POST", f"{memory}{region}/unregister", self.forget_regions))
        for model in ("/v2/models/{name}/versions/{version}", "/v2/models/{name}"):
            opened.append(("GET", f"{model}/ready", self.model_ready))
            keyed += [
                ("GET", model, self.model_metadata),
                ("GET", f"{model}/config", self.model_config),
                ("GET", f"{model}/stats", self.statistics),
                ("POST", f"{model}/infer", self.infer),
            ]
        folders = ("repository", "models", "trace", "systemsharedmemory", "cudasharedmemory")
        keyed += [("", f"/v2/{folder}/{{rest:path}}", self.refuse) for folder in folders]
        style = ApiStyle(name="inference", render=render, reads_parameters=False)
        unkeyed = replace(style, needs_key=False)
        return [*routes_of(opened, unkeyed, self._state), *routes_of(keyed, style, self._state)]

    async def live(self, call: Call) -> Response:  # noqa: ARG002 - as all handlers
        """Answer /v2/health/live."""
        return JSONResponse({"live": True})

    async def ready(self, call: Call) -> Response:  # noqa: ARG002 - as all handlers
        """Answer /v2/health/ready."""
        ready = await self._health.answers()
        return JSONResponse({"ready": ready}, HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE)

    async def model_ready(self, call: Call) -> Response:
        """Answer /v2/models/NAME/ready."""
        ready = is_among(await call.client.list_models(timeout=call.seconds), *_named(call))
        named = {"name": call.path["name"], "ready": ready}
        return JSONResponse(named, HTTPStatus.OK if ready else HTTPStatus.NOT_FOUND)

    async def server_metadata(self, call: Call) -> Response:  # noqa: ARG002 - as all handlers
        """Answer /v2."""
        named = {"name": "xuanzang-gateway", "version": version("xuanzang-gateway"), "extensions": EXTENSIONS}
        return JSONResponse(named)

    async def model_metadata(self, call: Call) -> Response:
        """Answer /v2/models/NAME."""
        models = await self._inferences.versions(*_named(call), call=call)
        return JSONResponse(metadata_of(call.path["name"], models))

    async def model_config(self, call: Call) -> Response:
        """Answer /v2/models/NAME/config."""
        await self._inferences.versions(*_named(call), call=call)
        return JSONResponse(config_of(call.path["name"]))

    async def statistics(self, call: Call) -> Response:
        """Answer /v2/models/stats and /v2/models/NAME/stats."""
        return JSONResponse(statistics_of(await self._inferences.counted(*_named(call), call=call)))

    async def repository_index(self, call: Call) -> Response:
        """Answer /v2/repository/index."""
        return JSONResponse(index_of(await call.client.list_models(timeout=call.seconds)))

    async def tracing(self, call: Call) -> Response:
        """Answer /v2/trace/setting and /v2/models/NAME/trace/setting."""
        await self._inferences.require_served(call.path.get("name", ""), call=call)
        return JSONResponse(trace_settings(await call.apart(partial(_changes, call))))

    async def logging(self, call: Call) -> Response:
        """Answer /v2/logging."""
        await self._inferences.require_served("", call=call)
        return JSONResponse(log_settings(await call.apart(partial(_changes, call))))

    async def refuse(self, call: Call) -> Response:
        """Answer calls that do not exist here."""
        raise not_offered(f"the gateway has no such call of the Open Inference Protocol, or not with {call.method}")

    async def no_regions(self, call: Call) -> Response:  # noqa: ARG002 - as all handlers
        """List regions of shared memory: there are none."""
        return JSONResponse([])

    async def forget_regions(self, call: Call) -> Response:  # noqa: ARG002 - as all handlers
        """Forget regions of shared memory: there are none."""
        return JSONResponse({})

    async def infer(self, call: Call) -> Response:
        """Answer /v2/models/NAME/infer."""
        inference, is_binary = await call.apart(partial(self._read, call))
        inferred = await self._inferences.infer(inference, call=call)
        return await call.apart(partial(_answer, inferred, inference.shape, is_binary=is_binary))

    def _read(self, call: Call) -> tuple[Inference, bool]:
        """Return an inference, and whether to answer in binary."""
        header, tensors = _parted(call)
        members = json_object(header)
        _require_members(members, _INFERENCE, "")
        if members.get("model_name", call.path["name"]) != call.path["name"]:
            raise bad_request("model_name", "must be that of the address")
        inputs, outputs = (_list_of_objects(members, name) for name in ("inputs", "outputs"))
        require_tensor(
            [str(tensor.get("name")) for tensor in inputs],
            datatype=str(inputs[0].get("datatype")) if inputs else "",
            parameters=[name for tensor in (*inputs, *outputs) for name in _parameters(tensor)],
            outputs=[str(tensor.get("name")) for tensor in outputs],
        )
        (tensor,) = inputs
        _require_members(tensor, _TENSOR, "inputs[0].")
        for index, each in enumerate(outputs):
            _require_members(each, _OUTPUT, f"outputs[{index}].")
        name, wanted = _named(call)
        parameters = _parameters(members)
        inference = Inference(
            id=_text(members, "id"),
            model=name,
            version=wanted,
            elements=_elements(tensor, tensors, self._inferences.max_texts),
            field="inputs[0].data",
            shape=_shape(tensor),
            parameters=parameters,
        )
        is_binary = any(_parameters(each).get("binary_data") for each in outputs) or (
            not outputs and bool(parameters.get("binary_data_output"))
        )
        return inference, is_binary


def _changes(call: Call) -> dict[str, Any]:
    return json_object(call.body) if call.method == "POST" and call.body else {}


def _require_members(given: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for name in sorted(given.keys() - known):
        raise bad_request(f"{where}{name[:64]}", f"is unknown; known: {', '.join(sorted(known))}")


def _answer(inferred: Inferred, shape: Any, *, is_binary: bool) -> Response:
    tensor: dict[str, Any] = {"name": OUTPUT, "datatype": BYTES, "shape": list(shape)}
    answer = {
        "model_name": inferred.model,
        "model_version": inferred.version,
        **({"id": inferred.id} if inferred.id else {}),
        "outputs": [tensor],
    }
    if not is_binary:
        tensor["data"] = list(inferred.texts)
        return JSONResponse(answer)
    raw = joined_raw(inferred.texts)
    tensor["parameters"] = {"binary_data_size": len(raw)}
    header = json.dumps(answer, ensure_ascii=False).encode()
    headers = {_LENGTH: str(len(header))}
    return Response(header + raw, media_type="application/octet-stream", headers=headers)


def _parted(call: Call) -> tuple[bytes, bytes]:
    """Return the JSON of a body, and the tensors behind it."""
    given = call.headers.get(_LENGTH)
    if given is None:
        return call.body, b""
    if not (given.isascii() and given.isdecimal() and len(given) < 12 and int(given) <= len(call.body)):
        raise bad_request(_LENGTH, "must be the size of the JSON in the body")
    return call.body[: int(given)], call.body[int(given) :]


def _elements(tensor: Mapping[str, Any], tensors: bytes, maximum: int) -> list[bytes | str]:
    size = _parameters(tensor).get("binary_data_size")
    if size is not None:
        if "data" in tensor or isinstance(size, bool) or size != len(tensors):
            raise bad_request("inputs[0].parameters.binary_data_size", f"must be {len(tensors)}, without data")
        return list(split_raw(tensors, name="inputs[0]", maximum=maximum))
    data = tensor.get("data")
    if not isinstance(data, list):
        raise bad_request("inputs[0].data", "must be a list of strings")
    flat = [each for row in data for each in (row if isinstance(row, list) else [row])]
    if not all(isinstance(each, str) for each in flat):
        raise bad_request("inputs[0].data", "must be a list of strings")
    return flat


def _shape(tensor: Mapping[str, Any]) -> list[int]:
    shape = tensor.get("shape")
    if not isinstance(shape, list) or len(shape) > _MAX_DIMENSIONS:
        raise bad_request("inputs[0].shape", f"must be a list of at most {_MAX_DIMENSIONS} whole numbers")
    return [whole_number(each, field="inputs[0].shape", minimum=0, maximum=MAX_INT32) for each in shape]


def _parameters(of: Mapping[str, Any]) -> dict[str, Any]:
    parameters = of.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise bad_request("parameters", "must be an object")
    return parameters


def _list_of_objects(members: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    value = members.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise bad_request(name, "must be a list of objects")
    return value


def _text(members: Mapping[str, Any], name: str) -> str:
    value = members.get(name) or ""
    if not isinstance(value, str):
        raise bad_request(name, "must be a string")
    return value


def _named(call: Call) -> tuple[str, str]:
    return call.path.get("name", ""), call.path.get("version", "")
