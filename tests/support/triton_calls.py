"""Calls of Triton's own client, run by the Python that has it: `python triton_calls.py HOST:PORT MODEL < texts.json`.

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
from tritonclient.grpc import service_pb2
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


def main() -> None:
    """Make every call and print what came back, as JSON."""
    address, model = sys.argv[1:]
    batches = json.load(sys.stdin)
    with triton.InferenceServerClient(address) as client:
        found = {
            "fields": fields_of(service_pb2.DESCRIPTOR.message_types_by_name.values()),
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
    print(json.dumps(found))


if __name__ == "__main__":
    main()
