from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from tests.unit.client.conftest import Client, Script, aborting

from xuanzang import client as sdk
from xuanzang.client import StatusCode

EXPECTED = {
    StatusCode.CANCELLED: sdk.CallCancelledError,
    StatusCode.UNKNOWN: sdk.ServerFaultError,
    StatusCode.INVALID_ARGUMENT: sdk.InvalidRequestError,
    StatusCode.DEADLINE_EXCEEDED: sdk.DeadlineExceededError,
    StatusCode.NOT_FOUND: sdk.ModelNotFoundError,
    StatusCode.ALREADY_EXISTS: sdk.InvalidRequestError,
    StatusCode.PERMISSION_DENIED: sdk.AccessDeniedError,
    StatusCode.RESOURCE_EXHAUSTED: sdk.OverloadedError,
    StatusCode.FAILED_PRECONDITION: sdk.ServerFaultError,
    StatusCode.ABORTED: sdk.ServerFaultError,
    StatusCode.OUT_OF_RANGE: sdk.InvalidRequestError,
    StatusCode.UNIMPLEMENTED: sdk.ServerFaultError,
    StatusCode.INTERNAL: sdk.ServerFaultError,
    StatusCode.UNAVAILABLE: sdk.ServerUnavailableError,
    StatusCode.DATA_LOSS: sdk.ServerFaultError,
    StatusCode.UNAUTHENTICATED: sdk.AccessDeniedError,
}


def packed(*details: Any) -> list[Any]:
    """Pack details as a server does, with Google's own classes as the oracle."""
    anys = [any_pb2.Any() for _ in details]
    for each, detail in zip(anys, details, strict=True):
        each.Pack(detail)
    return anys


def refuse(script: Script, code: grpc.StatusCode, *details: Any, message: str = "no", pushback: str = "1") -> None:
    """End every call with this status and these packed details; retryable ones are repeated without delay."""
    status = status_pb2.Status(code=StatusCode[code.name].value, message=message, details=details)
    metadata = (("grpc-status-details-bin", status.SerializeToString()), ("grpc-retry-pushback-ms", pushback))
    script.on_translate = abort = aborting(code, message, *metadata)
    script.on_stream = lambda requests, context: abort(list(requests), context)


def retry_info(**delay: int) -> Any:
    return error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(**delay))


def test_every_grpc_status_code_has_a_counterpart() -> None:
    ours = {code.name: code.value for code in StatusCode}
    theirs: Any = grpc.StatusCode
    assert ours == {code.name: code.value[0] for code in theirs if code is not grpc.StatusCode.OK}
    assert set(EXPECTED) == set(StatusCode)


def last_error(call: Callable[[float], object]) -> sdk.TranslationError:
    """Return the error of a call that may be tried until its timeout, and again if that ended in the midst of a try."""
    for timeout in (0.5, 2.0, 8.0):
        with pytest.raises(sdk.TranslationError) as caught:
            call(timeout)
        if not isinstance(caught.value, sdk.DeadlineExceededError):
            break
    return caught.value


@pytest.mark.parametrize("code", StatusCode, ids=lambda code: code.name)
def test_each_code_becomes_its_error_with_the_grpc_error_as_cause(
    client: Client, script: Script, code: StatusCode
) -> None:
    refuse(script, grpc.StatusCode[code.name], message="the reason")
    error = last_error(lambda timeout: client.translate(["a"], timeout=timeout))
    assert (type(error), error.code, error.message) == (EXPECTED[code], code, "the reason")
    assert error.request_id == script.metadata[-1]["x-request-id"]
    assert str(error) == f"the reason [request {error.request_id}]"
    assert isinstance(error.__cause__, grpc.RpcError)
    assert error.retryable == (code is StatusCode.UNAVAILABLE)


@pytest.mark.parametrize("code", [StatusCode.INTERNAL, StatusCode.UNAVAILABLE], ids=lambda code: code.name)
def test_a_stream_that_fails_as_a_whole_raises_the_same_error(client: Client, script: Script, code: StatusCode) -> None:
    refuse(script, grpc.StatusCode[code.name], message="the reason")
    error = last_error(lambda timeout: client.translate_stream(["a", "b"], timeout=timeout))
    assert (type(error), error.message) == (EXPECTED[code], "the reason")


def test_violations_name_the_fields_and_reasons(client: Client, script: Script) -> None:
    sent, expected = "contents[3] settings.options.beam_size settings.model", "contents[3] options.beam_size model"
    violations = [
        error_details_pb2.BadRequest.FieldViolation(field=field, description="is wrong") for field in sent.split()
    ]
    message = "; ".join(f"{each.field}: {each.description}" for each in violations)
    details = packed(error_details_pb2.BadRequest(field_violations=violations))
    refuse(script, grpc.StatusCode.INVALID_ARGUMENT, *details, message=message)
    with pytest.raises(sdk.InvalidRequestError) as caught:
        client.translate(["a"])
    assert caught.value.violations == tuple(
        sdk.FieldViolation(field=field, description="is wrong") for field in expected.split()
    )
    assert caught.value.message == "; ".join(f"{field}: is wrong" for field in expected.split())
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("delay", "retry_after"),
    [
        ({"seconds": 2, "nanos": 500_000_000}, 2.5),
        # Those that no server can mean are an overload as any.
        ({"seconds": 1 << 62}, 2.0**62),
        ({"seconds": -5}, 0.0),
    ],
)
def test_the_retry_delay_of_an_overloaded_server_is_reported(
    client: Client, script: Script, delay: dict[str, int], retry_after: float
) -> None:
    # This asks gRPC itself not to try again.
    refuse(script, grpc.StatusCode.RESOURCE_EXHAUSTED, *packed(retry_info(**delay)), pushback="-1")
    with pytest.raises(sdk.OverloadedError) as caught:
        client.translate(["a"])
    assert (caught.value.retry_after, caught.value.retryable, len(script.requests)) == (retry_after, True, 1)


def test_unknown_and_broken_details_are_ignored(client: Client, script: Script) -> None:
    broken = any_pb2.Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\xff\xff")
    known = packed(error_details_pb2.DebugInfo(detail="x"), retry_info(seconds=1))
    refuse(script, grpc.StatusCode.INTERNAL, broken, *known)
    with pytest.raises(sdk.ServerFaultError) as caught:
        client.translate(["a"])
    assert caught.value.retry_after == 1


def test_an_undecodable_details_header_is_ignored(client: Client, script: Script) -> None:
    metadata = ("grpc-status-details-bin", b"\xff\xff")
    script.on_translate = aborting(grpc.StatusCode.NOT_FOUND, "no such model", metadata)
    with pytest.raises(sdk.ModelNotFoundError, match="no such model"):
        client.translate(["a"])


def test_an_unreachable_server_is_unavailable(client_type: type[Client]) -> None:
    with pytest.raises(sdk.ServerUnavailableError) as caught:
        client_type("127.0.0.1:1").translate(["a"], timeout=3)
    assert caught.value.retryable


def test_a_status_without_a_message_is_told_by_its_name(client: Client, script: Script) -> None:
    script.on_translate = aborting(grpc.StatusCode.UNIMPLEMENTED, "")
    with pytest.raises(sdk.ServerFaultError, match="UNIMPLEMENTED"):
        client.translate(["a"])


def test_errors_survive_pickling() -> None:
    violations = (sdk.FieldViolation(field="model", description="is unknown"),)
    error = sdk.OverloadedError("busy", code=StatusCode.RESOURCE_EXHAUSTED, retry_after=1.5, violations=violations)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is sdk.OverloadedError
    assert (copy.message, copy.code, copy.retry_after, copy.violations) == ("busy", error.code, 1.5, violations)
