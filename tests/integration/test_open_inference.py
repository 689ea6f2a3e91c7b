"""Triton's own client, unmodified, at a gateway before a real server; `make e2e` installs it apart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from gateways import RunningGateway, running_gateway

from xuanzang.client import AsyncTranslationClient
from xuanzang.inference.v2 import inference_pb2 as v2

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-peers" / "triton" / "bin" / "python"
BATCHES = [["我有一只猫。"], ["他有两只狗。\n我有三只猫。", "", " ", "a < b"], ["你好。"] * 40]


def fields_of(messages: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for message in messages:
        found[message.full_name] = {
            field.name: [field.number, field.type, field.is_repeated, getattr(field.message_type, "full_name", None)]
            for field in message.fields
        }
        found |= fields_of(message.nested_types)
    return found


async def calls(gateway: RunningGateway) -> Any:
    """Return what the official client got."""
    if not PYTHON.exists():
        pytest.skip("NOT TESTED: the protocol with Triton's client: `.ci/peers triton` installs it")
    script = ROOT / "tests" / "support" / "triton_calls.py"
    process = await asyncio.create_subprocess_exec(
        *(PYTHON, script, gateway.grpc_address, f"127.0.0.1:{gateway.port}", "tiny"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # This project's folders are not for that environment.
        env={},
    )
    output, _ = await process.communicate(json.dumps(BATCHES).encode())
    assert process.returncode == 0
    return json.loads(output)


async def test_tritons_client_has_the_same_messages_and_gets_the_answers_of_translate_text(running: Any) -> None:
    async with (
        running_gateway(running.address, grpc_address="127.0.0.1:0") as gateway,
        AsyncTranslationClient(running.address) as own,
    ):
        found = await calls(gateway)
        expected = [[answer.text for answer in await own.translate(batch)] for batch in BATCHES]
        greedy = [[answer.text for answer in await own.translate(batch, beam_size=1)] for batch in BATCHES]
    assert found["texts"] == found["http_texts"] == expected
    assert found["greedy"] == greedy
    assert found["streamed"][:-1] == expected
    assert found["streamed"][-1][0].startswith("NOT_FOUND: model 'no-such-model' is not served")
    assert (found["live"], found["ready"], found["model_ready"]) == (True, True, [True, False])
    assert found["http_forms"] == [expected[0]] * 4
    assert found["memory"] is found["http_memory"] is True
    assert found["described"] == found["http_described"]
    assert (found["server"], found["model"]) == ("xuanzang-gateway", "tiny")
    own_fields = fields_of(v2.DESCRIPTOR.message_types_by_name.values())
    # Of some of Triton's messages, only the fields that a server of texts needs are declared.
    theirs = {name: {key: found["fields"][name].get(key) for key in fields} for name, fields in own_fields.items()}
    assert theirs == own_fields
    assert found["unknown"][0] == "StatusCode.INVALID_ARGUMENT"
    assert "parameters.beam" in found["unknown"][1]
    assert found["late"][0] == "StatusCode.DEADLINE_EXCEEDED"
