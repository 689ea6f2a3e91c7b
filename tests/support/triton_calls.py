"""Calls of Triton's own client, run by the Python that has it: `python triton_calls.py GRPC HTTP MODEL < texts.json`.

Its package needs another protobuf than this project, so it is in an environment of its own and this is a program.
"""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from tritonclient import http
from tritonclient.grpc import model_config_pb2, service_pb2
from tritonclient.utils import InferenceServerException


def tensor(texts: list[str]) -> Any:
    """Return the input tensor of texts."""
    array = np.array([text.encode() for text in texts], dtype=object)
    made = triton.InferInput("text", list(array.shape), "BYTES")
    return made.set_data_from_numpy(array)


def texts_of(result: Any) -> list[str]:
    """Return the texts of the output tensor."""
    return [element.decode() for element in result.as_numpy("translation")]


def refusal(call: Callable[[], object]) -> list[str]:
    """Return status and message of a call that must fail."""
    try:
        call()
    except InferenceServerException as error:
        return [str(error.status()), str(error.message())]
    raise SystemExit("the call did not fail")


def streamed(client: Any, model: str, batches: list[list[str]]) -> list[list[str]]:
    """Return the answers to a stream, the last of them an error."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for batch in batches:
        client.async_stream_infer(model, [tensor(batch)])
    client.async_stream_infer("no-such-model", [tensor(["a"])])
    found = [answers.get(timeout=60) for _ in range(len(batches) + 1)]
    client.stop_stream()
    return [texts_of(result) if error is None else [error.message()] for result, error in found]


def fields_of(messages: Any) -> dict[str, dict[str, list[object]]]:
    """Return number, type and cardinality of the fields of messages, those within them included."""
    found = {}
    for message in messages:
        found[message.full_name] = {
            field.name: [field.number, field.type, field.is_repeated, getattr(field.message_type, "full_name", None)]
            for field in message.fields
        }
        found |= fields_of(message.nested_types)
    return found


def described(client: Any, model: str, **options: bool) -> list[object]:
    """Return what configuration, index and statistics say, without what differs between the carriers."""
    config = client.get_model_config(model, **options)
    config = config.get("config", config)
    index = client.get_model_repository_index(**options)
    statistics = client.get_inference_statistics(model, **options)["model_stats"]
    return [
        [config["name"], config["input"][0]["data_type"], config["output"][0]["name"]],
        [[each["name"], each["state"]] for each in (index["models"] if isinstance(index, dict) else index)],
        [each["name"] for each in statistics],
    ]


def memory(client: Any) -> bool:
    """Return whether there is no shared memory, and nothing in it to forget."""
    found = [client.get_system_shared_memory_status(), client.get_cuda_shared_memory_status()]
    client.unregister_system_shared_memory()
    client.unregister_cuda_shared_memory()
    return all(not (each if isinstance(each, list) else each.regions) for each in found)


def http_calls(address: str, model: str, batches: list[list[str]]) -> dict[str, object]:
    """Make the calls over HTTP, with tensors in all forms."""
    with http.InferenceServerClient(address) as client:
        if not (client.is_server_live() and client.is_server_ready() and client.is_model_ready(model)):
            raise SystemExit("not ready")
        forms = []
        for binary_input in (True, False):
            for binary_output in (True, False):
                array = np.array([text.encode() for text in batches[0]], dtype=object)
                given = http.InferInput("text", list(array.shape), "BYTES")
                given.set_data_from_numpy(array, binary_data=binary_input)
                wanted = http.InferRequestedOutput("translation", binary_data=binary_output)
                answer = client.infer(model, [given], outputs=[wanted], request_id="7")
                forms.append(
                    [str(each if isinstance(each, str) else each.decode()) for each in answer.as_numpy("translation")]
                )
        texts = []
        for batch in batches:
            array = np.array([text.encode() for text in batch], dtype=object)
            given = http.InferInput("text", list(array.shape), "BYTES").set_data_from_numpy(array)
            texts.append(texts_of(client.infer(model, [given])))
        return {
            "http_texts": texts,
            "http_forms": forms,
            "http_described": described(client, model),
            "http_memory": memory(client),
        }


def main() -> None:
    """Make every call and print what came back, as JSON."""
    address, http_address, model = sys.argv[1:]
    batches = json.load(sys.stdin)
    with triton.InferenceServerClient(address) as client:
        found = {
            "fields": fields_of(service_pb2.DESCRIPTOR.message_types_by_name.values())
            | fields_of(model_config_pb2.DESCRIPTOR.message_types_by_name.values()),
            "described": described(client, model, as_json=True),
            "memory": memory(client),
            "live": client.is_server_live(),
            "ready": client.is_server_ready(),
            "model_ready": [client.is_model_ready(name) for name in (model, "no-such-model")],
            "server": client.get_server_metadata().name,
            "model": client.get_model_metadata(model).name,
            "texts": [texts_of(client.infer(model, [tensor(batch)])) for batch in batches],
            "greedy": [texts_of(client.infer(model, [tensor(b)], parameters={"beam_size": 1})) for b in batches],
            "streamed": streamed(client, model, batches),
            "unknown": refusal(lambda: client.infer(model, [tensor(["a"])], parameters={"beam": 1})),
            "late": refusal(lambda: client.infer(model, [tensor(batches[0])], client_timeout=1e-4)),
        }
    print(json.dumps(found | http_calls(http_address, model, batches)))


if __name__ == "__main__":
    main()
