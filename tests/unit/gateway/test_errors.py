from __future__ import annotations

import pytest

from xuanzang.client import FieldViolation, StatusCode, TranslationError
from xuanzang.gateway.errors import Fault, bad_request, fault_of


@pytest.mark.parametrize("code", list(StatusCode))
def test_every_code_of_grpc_is_an_error_of_http(code: StatusCode) -> None:
    assert 400 <= fault_of(TranslationError("x", code=code)).status < 600


def test_a_call_whose_time_is_over_is_a_gateway_timeout() -> None:
    assert fault_of(TranslationError("x", code=StatusCode.DEADLINE_EXCEEDED)).status == 504


def test_a_delay_is_rounded_up_to_whole_seconds() -> None:
    fault = fault_of(TranslationError("x", code=StatusCode.RESOURCE_EXHAUSTED, retry_after=1.2))
    assert (fault.status, fault.headers) == (429, {"retry-after": "2"})
    assert fault_of(TranslationError("x", code=StatusCode.RESOURCE_EXHAUSTED)).status == 413


def test_what_servers_are_called_is_not_told() -> None:
    error = TranslationError("10.0.0.1:50051 refused", code=StatusCode.UNAVAILABLE)
    assert "10.0.0.1" not in fault_of(error).description


def test_faulty_fields_have_the_names_of_the_api() -> None:
    violation = FieldViolation(field="contents[3]", description="is too long")
    fault = Fault(status=bad_request("x", "y").fault.status, message="m", violations=(violation,))
    assert fault.named({"contents": "q"}).description == "q[3]: is too long"
