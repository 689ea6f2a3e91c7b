from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from xuanzang import client as sdk
from xuanzang.client import StatusCode

if TYPE_CHECKING:
    from tests.unit.client.conftest import Client, Script


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


def number_of(code: grpc.StatusCode) -> int:
    number: int = cast("Any", code.value)[0]
    return number


def packed(*details: Any) -> Any:
    """Pack details as a server does, with Google's own classes as the oracle."""
    anys = []
    for detail in details:
        anys.append(any_pb2.Any())
        anys[-1].Pack(detail)
    return anys


def refuse(script: Script, code: grpc.StatusCode, *details: Any, message: Any = "no", pushback: Any = "1") -> None:
    """End every call with this status and these details; gRPC repeats retryable ones without delay."""
    status = status_pb2.Status(code=StatusCode[code.name].value, message=message, details=packed(*details))

    def abort(request: Any, context: Any) -> None:
        details_and_pushback = (
            ("grpc-status-details-bin", status.SerializeToString()),
            ("grpc-retry-pushback-ms", pushback),
        )
        context.set_trailing_metadata(details_and_pushback)
        context.abort(code, message)

    script.on_translate = abort

    def abort_at_the_end(requests: Any, context: Any) -> None:
        list(requests)
        abort(None, context)

    script.on_stream = abort_at_the_end


def retry_info(seconds: float) -> Any:
    delay = duration_pb2.Duration()
    delay.FromNanoseconds(int(seconds * 1e9))
    return error_details_pb2.RetryInfo(retry_delay=delay)


def test_every_grpc_status_code_has_a_counterpart() -> None:
    ours = {code.name: code.value for code in StatusCode}
    assert ours == {code.name: number_of(code) for code in grpc.StatusCode if code is not grpc.StatusCode.OK}
    assert set(EXPECTED) == set(StatusCode)


def last_error(call: Callable[[float], object]) -> sdk.TranslationError:
    """Return the error of a call that may be tried until its timeout, and again if that ended in the midst of a try."""
    for timeout in (2.0, 4.0, 8.0):
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
    assert type(error) is EXPECTED[code]
    assert (error.code, error.message) == (code, "the reason")
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
    violations = [
        error_details_pb2.BadRequest.FieldViolation(field="contents[3]", description="is too long"),
        error_details_pb2.BadRequest.FieldViolation(field="settings.options.beam_size", description="must be 1 to 16"),
        error_details_pb2.BadRequest.FieldViolation(field="settings.model", description="is unknown"),
    ]
    message = "; ".join(f"{each.field}: {each.description}" for each in violations)
    details = error_details_pb2.BadRequest(field_violations=violations)
    refuse(script, grpc.StatusCode.INVALID_ARGUMENT, details, message=message)
    with pytest.raises(sdk.InvalidRequestError) as caught:
        client.translate(["a"])
    assert caught.value.violations == (
        sdk.FieldViolation(field="contents[3]", description="is too long"),
        sdk.FieldViolation(field="options.beam_size", description="must be 1 to 16"),
        sdk.FieldViolation(field="model", description="is unknown"),
    )
    assert caught.value.message == "contents[3]: is too long; options.beam_size: must be 1 to 16; model: is unknown"
    assert not caught.value.retryable


def test_the_retry_delay_of_an_overloaded_server_is_reported(client: Client, script: Script) -> None:
    refuse(
        script,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        retry_info(2.5),
        pushback="-1",  # asks gRPC itself not to try again
    )
    with pytest.raises(sdk.OverloadedError) as caught:
        client.translate(["a"])
    assert caught.value.retry_after == 2.5
    assert caught.value.retryable
    assert len(script.requests) == 1


@pytest.mark.parametrize(("seconds", "retry_after"), [(1 << 62, 2.0**62), (-5, 0.0)])
def test_an_impossible_retry_delay_is_an_overload_as_any(
    client: Client, script: Script, seconds: int, retry_after: float
) -> None:
    delay = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=seconds))
    refuse(script, grpc.StatusCode.RESOURCE_EXHAUSTED, delay, pushback="-1")
    with pytest.raises(sdk.OverloadedError) as caught:
        client.translate(["a"])
    assert caught.value.retry_after == retry_after


def test_unknown_and_broken_details_are_ignored(client: Client, script: Script) -> None:
    broken = any_pb2.Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\xff\xff")
    status = status_pb2.Status(details=[broken, *packed(error_details_pb2.DebugInfo(detail="x"), retry_info(1))])

    def abort(request: Any, context: Any) -> None:
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.INTERNAL, "no")

    script.on_translate = abort
    with pytest.raises(sdk.ServerFaultError) as caught:
        client.translate(["a"])
    assert caught.value.retry_after == 1


def test_an_undecodable_details_header_is_ignored(client: Client, script: Script) -> None:
    def abort(request: Any, context: Any) -> None:
        context.set_trailing_metadata((("grpc-status-details-bin", b"\xff\xff"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "no such model")

    script.on_translate = abort
    with pytest.raises(sdk.ModelNotFoundError, match="no such model"):
        client.translate(["a"])


def test_an_unreachable_server_is_unavailable(client_type: type[Client]) -> None:
    with pytest.raises(sdk.ServerUnavailableError) as caught:
        client_type("127.0.0.1:1").translate(["a"], timeout=0.5)
    assert caught.value.retryable


def test_an_unimplemented_method_is_a_server_fault(client_type: type[Client], serve: Callable[..., Script]) -> None:
    script = serve()
    script.on_translate = lambda request, context: context.abort(grpc.StatusCode.UNIMPLEMENTED, "")
    with pytest.raises(sdk.ServerFaultError, match="UNIMPLEMENTED"):
        client_type(script.address).translate(["a"])


def test_errors_survive_pickling() -> None:
    violations = (sdk.FieldViolation(field="model", description="is unknown"),)
    error = sdk.OverloadedError("busy", code=StatusCode.RESOURCE_EXHAUSTED, retry_after=1.5, violations=violations)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is sdk.OverloadedError
    assert (copy.message, copy.code, copy.retry_after, copy.violations) == ("busy", error.code, 1.5, violations)
