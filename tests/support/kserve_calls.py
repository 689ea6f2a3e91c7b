"""Calls of KServe's own SDK, made once each: `python kserve_calls.py GRPC HTTP MODEL` prints what has become of them.

Its package needs other versions than this project, so it is in an environment of its own and this is a program.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.inference_client import InferenceGRPCClient

Call = Callable[[], Awaitable[Any]]


def request(model: str, *, binary: bool) -> Any:
    """Return the request for two texts."""
    texts = InferInput("text", [2], "BYTES")
    texts.set_data_from_numpy(np.array([b"a", b"b"], dtype=object), binary_data=binary)
    return InferRequest(model_name=model, infer_inputs=[texts], request_id="7")


async def fate(call: Call) -> str:
    """Return the error of a call, or nothing."""
    try:
        found = await call()
    except Exception as error:  # noqa: BLE001 - all are counted
        return f"{type(error).__name__}: {error}"
    if isinstance(found, bool):
        return "" if found else "no"
    texts = found.outputs[0].as_numpy().tolist()
    return "" if [each.decode() if isinstance(each, bytes) else each for each in texts] == ["A", "B"] else str(texts)


async def results(grpc_address: str, url: str, model: str) -> dict[str, dict[str, str]]:
    """Make the calls over both carriers."""
    grpc, rest = InferenceGRPCClient(grpc_address), InferenceRESTClient(RESTConfig(protocol="v2"))
    calls: dict[str, dict[str, Call]] = {
        "gRPC": {
            "is_server_live": grpc.is_server_live,
            "is_server_ready": grpc.is_server_ready,
            "is_model_ready": lambda: grpc.is_model_ready(model),
            "infer": lambda: grpc.infer(request(model, binary=False)),
            "infer, binary": lambda: grpc.infer(request(model, binary=True)),
        },
        "HTTP": {
            "is_server_live": lambda: rest.is_server_live(url),
            "is_server_ready": lambda: rest.is_server_ready(url),
            "is_model_ready": lambda: rest.is_model_ready(url, model),
            "infer": lambda: rest.infer(url, request(model, binary=False), model_name=model),
            "infer, binary": lambda: rest.infer(url, request(model, binary=True), model_name=model),
        },
    }
    found = {carrier: {name: await fate(call) for name, call in named.items()} for carrier, named in calls.items()}
    await grpc.close()
    await rest.close()
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(results(*sys.argv[1:]))))
