"""Every public method of Triton's clients, called once: `python triton_methods.py GRPC HTTP MODEL` prints the results.

Its package needs another protobuf than this project, so it is in an environment of its own and this is a program.
"""

from __future__ import annotations

import inspect
import json
import queue
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from tritonclient import grpc, http
from tritonclient.grpc.auth import BasicAuth as GrpcAuth
from tritonclient.http.auth import BasicAuth as HttpAuth

LOCAL = {"close", "generate_request_body", "parse_response_body", "plugin", "register_plugin", "unregister_plugin"}
"""Methods that reach no server."""
ANSWER = b'{"outputs":[{"name":"translation","datatype":"BYTES","shape":[1],"data":["a"]}]}'

Client = Any
Call = Callable[[Client], object]


def tensors(module: Any) -> list[Any]:
    """Return the input of two texts."""
    array = np.array([b"a", b"b"], dtype=object)
    return [module.InferInput("text", [2], "BYTES").set_data_from_numpy(array)]


def require(found: bool) -> None:
    """Fail if something is not so."""
    if not found:
        raise ValueError("another answer")


def require_two(result: Any, error: object = None) -> None:
    """Fail if a result is not that of two texts."""
    require(error is None and len(result.as_numpy("translation")) == 2)


def true(name: str, *arguments: object) -> Call:
    """Return the call of a method that must say yes."""
    return lambda client: require(getattr(client, name)(*arguments) is True)


def plain(name: str, *arguments: object) -> Call:
    """Return the call of a method that must not fail."""
    return lambda client: getattr(client, name)(*arguments)


def infer_later(client: Client, model: str) -> None:
    """Infer with a callback."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.async_infer(model, tensors(grpc), lambda result, error: answers.put((result, error)))
    require_two(*answers.get(timeout=20))


def infer_in_stream(client: Client, model: str) -> None:
    """Infer in a stream."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    client.async_stream_infer(model, tensors(grpc))
    require_two(*answers.get(timeout=20))


def of_both(module: Any, model: str, auth: Any) -> dict[str, Call]:
    """Return the calls of the methods that both clients have."""
    return {
        "is_server_live": true("is_server_live"),
        "is_server_ready": true("is_server_ready"),
        "is_model_ready": true("is_model_ready", model),
        "get_server_metadata": plain("get_server_metadata"),
        "get_model_metadata": plain("get_model_metadata", model),
        "get_model_config": plain("get_model_config", model),
        "get_model_repository_index": plain("get_model_repository_index"),
        "load_model": plain("load_model", model),
        "unload_model": plain("unload_model", model),
        "get_inference_statistics": plain("get_inference_statistics", model),
        "update_trace_settings": plain("update_trace_settings", None, {}),
        "get_trace_settings": plain("get_trace_settings"),
        "update_log_settings": plain("update_log_settings", {}),
        "get_log_settings": plain("get_log_settings"),
        "get_system_shared_memory_status": plain("get_system_shared_memory_status"),
        "register_system_shared_memory": plain("register_system_shared_memory", "r", "/k", 8),
        "unregister_system_shared_memory": plain("unregister_system_shared_memory"),
        "get_cuda_shared_memory_status": plain("get_cuda_shared_memory_status"),
        "register_cuda_shared_memory": plain("register_cuda_shared_memory", "r", b"AAAA", 0, 8),
        "unregister_cuda_shared_memory": plain("unregister_cuda_shared_memory"),
        "infer": lambda client: require_two(client.infer(model, tensors(module))),
        "register_plugin": lambda client: client.register_plugin(auth("a", "b")),
        "plugin": plain("plugin"),
        "unregister_plugin": plain("unregister_plugin"),
    }


def of_grpc(model: str) -> dict[str, Call]:
    """Return the calls of the client of gRPC."""
    return {
        **of_both(grpc, model, GrpcAuth),
        "async_infer": lambda client: infer_later(client, model),
        "start_stream": lambda client: infer_in_stream(client, model),
        "async_stream_infer": lambda client: client.async_stream_infer(model, tensors(grpc)),
        "stop_stream": plain("stop_stream"),
        "close": plain("close"),
    }


def of_http(model: str) -> dict[str, Call]:
    """Return the calls of the client of HTTP."""
    kind = http.InferenceServerClient
    return {
        **of_both(http, model, HttpAuth),
        "async_infer": lambda client: require_two(client.async_infer(model, tensors(http)).get_result()),
        "generate_request_body": lambda _: kind.generate_request_body(tensors(http)),
        "parse_response_body": lambda _: kind.parse_response_body(ANSWER).as_numpy("translation"),
        "close": plain("close"),
    }


def results(client: Client, calls: dict[str, Call]) -> dict[str, str]:
    """Return what has become of each method that reaches a server: nothing or its error."""
    methods = inspect.getmembers(type(client), inspect.isfunction)
    if missing := {name for name, _ in methods if not name.startswith("_")} ^ set(calls):
        raise SystemExit(f"other methods: {sorted(missing)}")
    found = {}
    for name, call in calls.items():
        try:
            call(client)
            found[name] = ""
        except Exception as error:  # noqa: BLE001 - all are counted
            found[name] = f"{type(error).__name__}: {error}"
    return {name: error for name, error in found.items() if name not in LOCAL}


def main() -> None:
    """Call all methods and print the results as JSON."""
    grpc_address, url, model = sys.argv[1:]
    found = {
        "gRPC": results(grpc.InferenceServerClient(grpc_address), of_grpc(model)),
        "HTTP": results(http.InferenceServerClient(url.removeprefix("http://")), of_http(model)),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
