"""Random heads, bodies and JSON of wrong shapes against a gateway process, beside a caller who must notice nothing.

Takes some seconds, or half of the variable `FUZZ_MINUTES`, which also changes the seed from round to
round, and logs the statuses of the answers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gateways import RunningGateway, gateway_process
from replicas import Replica
from test_fuzz_http2 import ATTACKERS, MINUTES, some_bytes

SHARE = 1 / 2
"""Of the minutes, all attacks of this file together."""
_PATHS = """
    /v1/translate /v1/translate/stream /v1/explain /v1/detect /v1/models /v1/glossaries /v1/documents /translate
    /detect /languages /frontend/settings /openapi.json /livez /v2/translate /v2/languages /v2/usage /v2/glossaries
    /v2/glossaries/a /v2/glossaries/a/entries /v2/glossary-language-pairs /v2/document /v2/document/a
    /v2/document/a/result /v3/a /health / /page/main.js /nowhere /v1//translate /%2e%2e/etc/passwd *
    http://localhost/v1/models /v1/chat/completions /v1/models/auto-en /translate?from=zh&to=en
    /translate?api-version=3.0&to=en /detect?api-version=3.0 /languages?api-version=3.0
    /breaksentence?api-version=3.0 /imme /kiss /translate?langpair=zh|en&q=a /listPairs /spec /translate/batch
    /language/translate/v2 /language/translate/v2/detect /language/translate/v2/languages
    /v3/projects/a:translateText /v3/projects/a/locations/global:detectLanguage /v3/projects/a/supportedLanguages
    /v3/projects/a/glossaries /v3/projects/a/locations/global/glossaries /v3/projects/a/locations/b/glossaries/c
    /v3/glossaries /v2 /v2/health/ready /v2/models/zh-en /v2/models/zh-en/infer /v2/models/zh-en/versions/1/infer
    /v2/models/a/config /v2/models/stats /v2/repository/index /v2/systemsharedmemory/status /metrics
"""
PATHS = _PATHS.split()
METHODS = ("GET", "POST", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "BREW", "猫")
_NAMES = """
    texts text q source target source_language target_language source_lang target_lang options glossary
    glossary_name glossary_id content_format format tag_handling model timeout_seconds sampling beam_size
    num_hypotheses length_penalty target_prefix seed top_k protected_patterns suppressed_texts alternatives api_key
    auth_key document_key name column attention_kinds attention_layers attention_heads return_quality
    return_provenance entries type entries_format file filename formality max_target_length min_target_length
    messages role content stream response_format translation_options terms contents Text mimeType mime_type labels
    targetLanguageCode sourceLanguageCode glossaryConfig inputs shape datatype data parameters outputs text_list
    langpair pass_through_unserved id n from
"""
NAMES = (*_NAMES.split(), "", "\x00", "猫" * 99)
_TEXTS = """
    猫 我有一只猫。 zh en EN-GB auto text html <b>猫</b> 😀 1 0
"""
TEXTS = (*_TEXTS.split(), "", "a\tb", "\x00", "\u202e")
_FIELDS = """
    host authorization content-type content-length transfer-encoding connection expect upgrade origin sec-fetch-site
    x-request-id cookie range te trailer accept if-none-match x
"""
FIELDS = _FIELDS.split()
_VALUES = """
    localhost evil.example [::1 DeepL-Auth-Key close keep-alive application/json application/x-www-form-urlencoded
    text/plain upgrade multipart/form-data 0 5 -1 99999999999999999999 1e3 chunked gzip identity 100-continue
    websocket h2c null http://localhost
"""
VALUES = (
    *_VALUES.split(),
    "",
    "Bearer a",
    "Basic a",
    "Bearer 猫",
    "multipart/form-data; boundary=b",
    "application/json; charset=utf-16",
    "chunked, chunked",
    "a" * 9000,
)

_STATUS = re.compile(rb"^HTTP/1\.1 (\d{3})", re.MULTILINE)
_log = logging.getLogger(__name__)

Make = Callable[[random.Random], bytes]


def some_value(chance: random.Random, depth: int = 0) -> Any:
    """Return JSON of any shape."""
    kind = chance.randrange(9 if depth < 4 else 6)
    if kind <= 2:
        return chance.choice(TEXTS) * chance.choice((1, 1, 1, 40))
    if kind == 3:
        return chance.choice((0, 1, -1, 2, 16, 2**31, 2**63, -(2**64), 10**400, 0.5, -0.0, 1e308, float("nan"), 1e400))
    if kind == 4:
        return chance.choice((None, True, False))
    if kind == 5:
        return [chance.choice(TEXTS)] * chance.choice((0, 1, 2, 30))
    if kind == 6:
        return [some_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(NAMES): some_value(chance, depth + 1) for _ in range(chance.randrange(6))}


def some_json(chance: random.Random) -> bytes:
    """Return a request that is nearly right."""
    value: Any = {"texts": ["猫"], "text": "猫", "q": "猫", "target_language": "en", "target": "en", "source": "zh"}
    value |= {"source_language": "zh", "target_lang": "EN-GB", "options": {"max_target_length": 8}}
    value |= {"model": "auto-en", "messages": [{"role": "user", "content": "猫"}], "contents": ["猫"], "from": "zh"}
    value |= {"targetLanguageCode": "en", "text_list": ["猫"], "inputs": [some_tensor(chance)], "to": "en"}
    value = {name: each for name, each in value.items() if chance.random() < 0.6}
    for _ in range(chance.randrange(3)):
        value[chance.choice(NAMES)] = some_value(chance)
    if chance.random() < 0.2:
        value = some_value(chance)
    encoded = bytearray(json.dumps(value, ensure_ascii=chance.random() < 0.5).encode(errors="surrogatepass"))
    for _ in range(chance.choice((0, 0, 0, 1, 4))):
        encoded[chance.randrange(len(encoded))] = chance.randrange(256)
    return bytes(encoded)


def some_tensor(chance: random.Random) -> dict[str, Any]:
    """Return a tensor of Open Inference that is nearly right."""
    value: dict[str, Any] = {"name": "texts", "shape": [1], "datatype": "BYTES", "data": ["猫"]}
    if chance.random() < 0.5:
        value[chance.choice(list(value))] = some_value(chance)
    return value


def some_form(chance: random.Random) -> bytes:
    """Return an encoded form."""
    pairs = [(chance.choice(NAMES), chance.choice(TEXTS)) for _ in range(chance.randrange(8))]
    return "&".join(f"{quote(name)}={quote(text)}" for name, text in pairs).encode() + chance.choice(
        (b"", b"&%ff", b"=&=")
    )


def some_upload(chance: random.Random) -> bytes:
    """Return a form with files."""
    parts = b""
    for _ in range(chance.randrange(5)):
        name, file = quote(chance.choice(NAMES)), chance.choice(("", '; filename="a.txt"', '; filename="猫.srt"', ";;"))
        content = chance.choice((some_bytes(chance), "猫\n".encode() * 20, chance.choice(TEXTS).encode()))
        parts += f'--b\r\ncontent-disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + content + b"\r\n"
    return parts + chance.choice((b"--b--\r\n", b"--b--\r\n", b"", b"--b"))


def whole(chance: random.Random) -> bytes:
    """Return a request whose frame is right."""
    make, kind = chance.choice(
        (
            (some_json, "application/json"),
            (some_json, "application/json"),
            (some_form, "application/x-www-form-urlencoded"),
            (some_upload, "multipart/form-data; boundary=b"),
            (lambda chance: some_bytes(chance, 3000), chance.choice(VALUES[:-1])),
        )
    )
    body = make(chance)
    query = chance.choice(
        ("", "?name=a.txt&target_language=en", "?name=a.md", f"?{some_form(chance).decode('latin1')}")
    )
    fields = f"host: localhost\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
    method = chance.choice(METHODS[:5])
    return f"{method} {chance.choice(PATHS)}{query} HTTP/1.1\r\n{fields}\r\n".encode("utf-8", "replace") + body


def heads(chance: random.Random) -> bytes:
    """Return requests whose heads may be wrong."""
    written = b""
    for _ in range(chance.choice((1, 1, 2, 30))):
        version = chance.choice(("HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.1 ", ""))
        lines = [f"{chance.choice(METHODS)} {chance.choice(PATHS)} {version}"]
        lines += ["host: localhost"] if chance.random() < 0.8 else []
        lines += [f"{chance.choice(FIELDS)}: {chance.choice(VALUES)}" for _ in range(chance.randrange(5))]
        end = chance.choice(("\r\n", "\r\n", "\r\n", "\n"))
        written += (end.join(lines) + end * 2).encode()
        written += chance.choice((b"", some_json(chance), b"5\r\nhello\r\n0\r\nx: y\r\n\r\n", some_bytes(chance)))
    return written


def damaged(chance: random.Random) -> bytes:
    """Return a request with some other bytes."""
    request = bytearray(chance.choice((whole, heads))(chance))
    for _ in range(chance.randrange(1, 8)):
        request[chance.randrange(len(request))] = chance.randrange(256)
    return bytes(request[: chance.choice((None, chance.randrange(len(request))))])


async def exchange(port: int, payload: bytes) -> bytes:
    """Send bytes and return what is answered until the connection is closed, or for a moment."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    try:
        writer.write(payload)
        async with asyncio.timeout(2):
            while piece := await reader.read(65536):
                answer += piece
    except (ConnectionError, TimeoutError):
        pass
    finally:
        writer.transport.abort()
    return answer


async def attack(gateway: RunningGateway, make: Make, seed: int, *, rounds: int, statuses: Counter[str]) -> None:
    """Let attackers send what was made from the seed, while a caller is served, and count the statuses of answers."""
    chance = random.Random(seed)
    payloads = [make(chance) for _ in range(rounds)]

    async def send() -> None:
        while payloads:
            payload = payloads.pop()
            answer = await exchange(gateway.port, payload)
            seen = _STATUS.findall(answer) or [b"none"]
            assert {b"500", b"502"}.isdisjoint(seen), (seed, payload, answer)
            statuses.update(each.decode() for each in seen)

    sending = [asyncio.create_task(send()) for _ in range(ATTACKERS)]
    while not all(task.done() for task in sending):
        assert (await gateway.get("/livez")).status == 200, seed
    await asyncio.gather(*sending)


async def test_nothing_that_http_carries_harms_other_callers(tiny_bundle_repository: Path) -> None:
    replica = Replica(tiny_bundle_repository)
    try:
        replica.ready()
        flags = (f"--server={replica.address}", "--receive-timeout-seconds=1", "--document-timeout-seconds=20")
        async with gateway_process(*flags, "--request-timeout-seconds=20", "--max-documents=1000") as (
            process,
            gateway,
        ):
            log: list[dict[str, Any]] = []
            reading = asyncio.create_task(_read_log(process, log))
            for make in (whole, heads, damaged):
                ends = time.monotonic() + MINUTES * 60 * SHARE / 3
                seed, statuses = 0, Counter[str]()
                await attack(gateway, make, seed, rounds=250, statuses=statuses)
                while time.monotonic() < ends:
                    seed += 1
                    await attack(gateway, make, seed, rounds=500, statuses=statuses)
                _log.info("%s, %d seeds: %s", make.__name__, seed + 1, dict(statuses))
                body = {"texts": ["猫"], "source_language": "zh", "target_language": "en"}
                assert (await gateway.post("/v1/translate", json=body)).status == 200
            process.terminate()
            assert await process.wait() == 0
            await reading
    finally:
        replica.end()
    assert [line for line in log if line["level"] == "error"] == []


async def _read_log(process: asyncio.subprocess.Process, log: list[dict[str, Any]]) -> None:
    """Keep the lines that are no requests."""
    assert process.stderr is not None
    async for line in process.stderr:
        entry = json.loads(line)
        if entry["event"] != "request" or entry["status"] == 500:
            log.append(entry)
