from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from xuanzang.server.access.errors import NotAWriterError, QuotaExceededError
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine import errors as engine_errors
from xuanzang.server.engine.errors import FieldViolation
from xuanzang.server.rpc import errors
from xuanzang.server.rpc.services.health import TRANSLATION_SERVICE
from xuanzang.translation.v1 import translation_pb2 as pb

VIOLATION = FieldViolation(field="contents[3]", description="must have at most 5 characters, has 6")
UNSERVED = engine_errors.UnservedLanguageError([VIOLATION], detected=["fr", "de"], served=["zh"])

EXPECTED = [
    (engine_errors.InvalidInputError([VIOLATION]), grpc.StatusCode.INVALID_ARGUMENT),
    (engine_errors.ModelNotFoundError("no model"), grpc.StatusCode.NOT_FOUND),
    (engine_errors.OverloadedError("full", retry_after_seconds=1.25), grpc.StatusCode.RESOURCE_EXHAUSTED),
    (engine_errors.ModelOverloadedError("full", retry_after_seconds=1.25), grpc.StatusCode.RESOURCE_EXHAUSTED),
    (engine_errors.MemoryLimitError("large"), grpc.StatusCode.RESOURCE_EXHAUSTED),
    (engine_errors.DeadlineExceededError("late", in_queue=True), grpc.StatusCode.DEADLINE_EXCEEDED),
    (engine_errors.DrainingError("stopping"), grpc.StatusCode.UNAVAILABLE),
    (errors.NotReadyError("loading"), grpc.StatusCode.UNAVAILABLE),
    (engine_errors.DetectionUnavailableError("not installed"), grpc.StatusCode.UNIMPLEMENTED),
    (engine_errors.ExplanationUnavailableError("not installed"), grpc.StatusCode.UNIMPLEMENTED),
    (engine_errors.ModelStateError("pinned"), grpc.StatusCode.FAILED_PRECONDITION),
    (engine_errors.NotJudgedError("no time"), grpc.StatusCode.FAILED_PRECONDITION),
    (engine_errors.ModelLoadError("damaged", retry_after_seconds=1.25), grpc.StatusCode.UNAVAILABLE),
    (engine_errors.GlossaryNotFoundError("none"), grpc.StatusCode.NOT_FOUND),
    (engine_errors.GlossaryExistsError("another"), grpc.StatusCode.ALREADY_EXISTS),
    (engine_errors.GlossaryStateError("full"), grpc.StatusCode.FAILED_PRECONDITION),
    (NotAWriterError("not this one"), grpc.StatusCode.PERMISSION_DENIED),
    (BundleError(Path("models"), ["cannot be listed"]), grpc.StatusCode.FAILED_PRECONDITION),
    (UNSERVED, grpc.StatusCode.INVALID_ARGUMENT),
]


def test_every_error_of_the_engine_has_a_code() -> None:
    answers = {kind for kind in vars(engine_errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert answers - {engine_errors.EngineError} <= {type(error) for error, _ in EXPECTED}


@pytest.mark.parametrize("kind", [MemoryError, type("ArrayMemoryError", (MemoryError,), {})])
def test_a_server_without_memory_sends_callers_elsewhere(kind: type[Exception]) -> None:
    status = errors.status_of(kind("std::bad_alloc of the secret"))
    assert errors.code_of(status) is grpc.StatusCode.UNAVAILABLE
    assert "secret" not in status.message


def test_details_can_be_read_as_google_rpc_messages() -> None:
    def detail(error: Exception, message: Any, index: int = 0) -> Any:
        theirs = status_pb2.Status.FromString(errors.status_of(error).SerializeToString())
        packed: AnyMessage = theirs.details[index]
        assert packed.Unpack(message)
        return message

    bad_request = detail(EXPECTED[0][0], error_details_pb2.BadRequest())
    assert bad_request.field_violations[0].field == "contents[3]"
    assert bad_request.field_violations[0].description == VIOLATION.description
    info = detail(UNSERVED, error_details_pb2.ErrorInfo(), index=1)
    assert (info.reason, info.domain) == ("LANGUAGE_NOT_SERVED", "xuanzang")
    assert info.metadata == {"detected_languages": "fr,de", "served_languages": "zh"}
    assert detail(EXPECTED[2][0], error_details_pb2.RetryInfo()).retry_delay.ToMilliseconds() == 1250


def test_only_a_used_up_quota_is_marked_as_one() -> None:
    for kind, is_quota in ((engine_errors.OverloadedError, False), (QuotaExceededError, True)):
        status = errors.status_of(kind("no more", retry_after_seconds=1.0))
        assert status.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        [retry, *quota] = status.details
        assert retry.type_url.endswith("google.rpc.RetryInfo")
        assert [each.type_url for each in quota] == ["type.googleapis.com/google.rpc.QuotaFailure"] * is_quota


async def test_the_caller_gets_code_message_and_details(served: Any) -> None:
    labels = {"grpc_type": "unary", "grpc_service": TRANSLATION_SERVICE, "grpc_method": "TranslateText"}
    counted = Counter[str]()
    # So little is to be done that no refusal says anything of the next call.
    served.engine.until_begun = None
    for error, code in EXPECTED:
        served.engine.raised["a"] = error
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.stub.TranslateText(pb.TranslateTextRequest(contents=["a"]))
        await served.rpc.join()
        counted[code.name] += 1
        assert served.value("grpc_server_handled_total", **labels, grpc_code=code.name) == counted[code.name]
        trailers = dict(caught.value.trailing_metadata() or ())
        assert (caught.value.code(), caught.value.details()) == (code, str(error))
        assert ("grpc-status-details-bin" in trailers) == bool(errors.status_of(error).details)
        overloaded = isinstance(error, engine_errors.OverloadedError | engine_errors.ModelLoadError)
        assert trailers.get("grpc-retry-pushback-ms") == ("1250" if overloaded else None)


@pytest.mark.parametrize(
    ("name", "logged"), [("zh-en", "zh-en"), ("zh-en/7", "zh-en/7"), ("a secret text", ""), ("a" * 99, ""), ("", "")]
)
def test_a_model_that_is_not_served_is_named_in_the_log_if_it_is_a_name(name: str, logged: str) -> None:
    reason = errors.reason_of(engine_errors.ModelNotFoundError("no such model", model=name))
    assert (reason.word, reason.model) == ("model", logged)
