"""RPCs with API keys: a keys file, calls of every kind, and what their statuses say."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from xuanzang.server.access.keys import ApiKey, change_keys, new_key, read_keys
from xuanzang.translation.v1 import status_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

Code = grpc.StatusCode


def bearer(key: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {key}"),)


@dataclasses.dataclass
class Clock:
    """A clock that stands still."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclasses.dataclass
class KeysFile:
    """A keys file, and what to do with it."""

    path: Path

    def add(self, name: str = "holder", **quotas: Any) -> str:
        key, entry = new_key(name, **quotas)
        change_keys(self.path, lambda old: [*old, entry])
        return key

    def change(self, **values: Any) -> None:
        """Change all entries."""
        change_keys(self.path, lambda old: [entry.model_copy(update=values) for entry in old])

    def clear(self) -> None:
        change_keys(self.path, lambda _: [])

    def entries(self) -> list[ApiKey]:
        return list(read_keys(self.path))


async def unary(served: Any, metadata: Any = (), text: str = "a") -> status_pb2.Status:
    call = served.stub.TranslateText(pb.TranslateTextRequest(contents=[text]), metadata=metadata)
    return await ended(call)


async def progressive(served: Any, metadata: Any = (), text: str = "a") -> status_pb2.Status:
    request = pb.TranslateTextProgressivelyRequest(content=text)
    call = served.stub.TranslateTextProgressively(request, metadata=metadata)
    with suppress(grpc.aio.AioRpcError):
        assert [part async for part in call]
    return await ended(call)


async def stream(served: Any, metadata: Any = (), text: str = "a") -> status_pb2.Status:
    """Return the error of the one text, or the status of the stream."""
    call = served.stub.StreamTranslateText(iter([pb.StreamTranslateTextRequest(content=text)]), metadata=metadata)
    try:
        [answer] = [answer async for answer in call]
    except grpc.aio.AioRpcError:
        status = await ended(call)
        # grpc.aio puts its own error in the place of a refusal that arrives just before the text is written.
        return await stream(served, metadata, text) if status.message == "Internal error from Core" else status
    return answer.error if answer.HasField("error") else await ended(call)


async def listing(served: Any, metadata: Any = ()) -> status_pb2.Status:
    return await ended(served.stub.ListModels(pb.ListModelsRequest(), metadata=metadata))


async def ended(call: Any) -> status_pb2.Status:
    code = await call.code()
    status = status_pb2.Status(code=code.value[0], message=await call.details() or "")
    for name, value in await call.trailing_metadata() or ():
        if name == "grpc-status-details-bin":
            status.MergeFromString(value)
            status.code = code.value[0]
    return status


FACES = [unary, progressive, stream]
Face = Callable[..., Awaitable[status_pb2.Status]]


def code_of(status: status_pb2.Status) -> grpc.StatusCode:
    return next(code for code in grpc.StatusCode if code.value[0] == status.code)


def retry_seconds(status: status_pb2.Status) -> float:
    [detail] = [each for each in status.details if each.type_url.endswith("google.rpc.RetryInfo")]
    return status_pb2.RetryInfo.FromString(detail.value).retry_delay.ToMilliseconds() / 1000


def is_of_quota(status: status_pb2.Status) -> bool:
    return any(each.type_url.endswith("google.rpc.QuotaFailure") for each in status.details)


def violations(status: status_pb2.Status) -> dict[str, str]:
    [detail] = [each for each in status.details if each.type_url.endswith("google.rpc.BadRequest")]
    faults = status_pb2.BadRequest.FromString(detail.value).field_violations
    return {fault.field: fault.description for fault in faults}
