"""The Open Inference Protocol in front of an engine that the test controls; the official client is in integration."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.inference.v2 import inference_pb2 as v2
from xuanzang.inference.v2 import inference_pb2_grpc
from xuanzang.server.engine.errors import DrainingError, InvalidInputError, OverloadedError
from xuanzang.server.rpc.faces.open_inference.parameters import OPTIONS
from xuanzang.server.rpc.faces.open_inference.tensors import raw_contents, read_texts
from xuanzang.translation.v1 import status_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

FACES = ["open-inference"]
Code = grpc.StatusCode


def stub_of(served: Any) -> Any:
    return inference_pb2_grpc.GRPCInferenceServiceStub(served.channel)


def tensor(*elements: bytes, **fields: Any) -> v2.ModelInferRequest.InferInputTensor:
    contents = v2.InferTensorContents(bytes_contents=elements)
    given: dict[str, Any] = {"name": "text", "datatype": "BYTES", "shape": [len(elements)], "contents": contents}
    return v2.ModelInferRequest.InferInputTensor(**(given | fields))


def inference(*texts: str, **fields: Any) -> v2.ModelInferRequest:
    fields = {"model_name": "tiny", "inputs": [tensor(*(text.encode() for text in texts))]} | fields
    return v2.ModelInferRequest(**fields)


def raw(content: bytes, count: int) -> v2.ModelInferRequest:
    return inference(inputs=[tensor(contents=None, shape=[count])], raw_input_contents=[content])


def parameter(value: Any) -> v2.InferParameter:
    kinds = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}
    return v2.InferParameter(**{kinds[type(value)]: value})


def parameters(**values: Any) -> dict[str, v2.InferParameter]:
    return {name: parameter(value) for name, value in values.items()}


async def refused(call: Any, code: grpc.StatusCode) -> list[str]:
    """Return the fields that the status of a call names."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is code
    details = dict(caught.value.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    faults = status_pb2.BadRequest()
    for detail in status_pb2.Status.FromString(details).details:
        detail.Unpack(faults) if detail.Is(faults.DESCRIPTOR) else faults.MergeFromString(detail.value)
    return [violation.field for violation in faults.field_violations]


@given(st.lists(st.text()))
def test_raw_contents_are_read_as_they_are_written(texts: list[str]) -> None:
    assert read_texts(raw(raw_contents(texts), len(texts))) == texts or not texts


@given(st.binary(), st.integers(0, 4))
def test_no_raw_contents_end_the_reading_otherwise_than_by_a_fault(content: bytes, count: int) -> None:
    try:
        texts = read_texts(raw(content, count))
    except InvalidInputError:
        return
    assert raw_contents(texts) == content


async def test_texts_are_translated_in_the_form_in_which_they_came(serve: Any) -> None:
    async with serve(faces=FACES) as served:
        answer = await stub_of(served).ModelInfer(inference("a", "", "c", id="7"))
        assert list(answer.outputs[0].contents.bytes_contents) == [b"A", b"", b"C"]
        assert (answer.model_name, answer.model_version, answer.id) == ("tiny", "1", "7")
        again = await stub_of(served).ModelInfer(raw(raw_contents(["a", "b"]), 2))
        assert list(again.raw_output_contents) == [raw_contents(["A", "B"])]
        assert not again.outputs[0].HasField("contents")


@pytest.mark.parametrize("shape", [[2], [2, 1]])
async def test_translations_have_the_shape_of_the_texts(serve: Any, shape: list[int]) -> None:
    async with serve(faces=FACES) as served:
        answer = await stub_of(served).ModelInfer(inference(inputs=[tensor(b"a", b"b", shape=shape)]))
        assert list(answer.outputs[0].shape) == shape


async def test_parameters_are_options_of_the_search(serve: Any) -> None:
    values = {"beam_size": 2, "length_penalty": 0.5, "repetition_penalty": 2, "target_prefix": "x"}
    async with serve(faces=FACES) as served:
        request = inference("a", parameters=parameters(**values, target_language_code="en", source_language_code="zh"))
        await stub_of(served).ModelInfer(request)
        [options] = served.engine.asked_for("options")
        assert {name: getattr(options, name) for name in values} == values


def test_options_without_a_tensor_of_their_own_are_no_parameters() -> None:
    assert {"beam_size", "target_prefix", "partial_on_deadline"} <= set(OPTIONS)
    assert not {"num_hypotheses", "return_scores", "sampling", "suppressed_texts"} & set(OPTIONS)


def faults() -> Iterator[Any]:
    yield pytest.param(inference("a", inputs=[]), ["inputs"], id="no tensor")
    yield pytest.param(inference(inputs=[tensor(b"a", name="other")]), ["inputs"], id="another tensor")
    yield pytest.param(inference(inputs=[tensor(b"a")] * 2), ["inputs"], id="two tensors")
    yield pytest.param(inference(inputs=[tensor(b"a", datatype="FP32")]), ["inputs[0].datatype"], id="datatype")
    memory = tensor(b"a", parameters=parameters(shared_memory_region="x"))
    yield pytest.param(inference(inputs=[memory]), ["inputs[0].parameters"], id="shared memory")
    classes = {"name": "translation", "parameters": parameters(classification=1)}
    yield pytest.param(inference("a", outputs=[classes]), ["outputs[0].parameters"], id="classes")
    for shape in ([], [2], [1, 2], [1, 1, 1], [-1], [1, -1]):
        yield pytest.param(inference(inputs=[tensor(b"a", shape=shape)]), ["inputs[0].shape"], id=f"shape {shape}")
    yield pytest.param(inference(inputs=[tensor(b"a", b"\xff")]), ["inputs[0].contents[1]"], id="UTF-8")
    yield pytest.param(inference(inputs=[tensor(shape=[0])]), ["inputs[0].contents"], id="no texts")
    yield pytest.param(inference(*"a" * 1025), ["inputs[0].contents"], id="many texts")
    yield pytest.param(raw(b"\x05\0\0\0a", 1), ["raw_input_contents[0]"], id="short element")
    yield pytest.param(raw(b"\x05\0", 1), ["raw_input_contents[0]"], id="short size")
    yield pytest.param(inference("a", raw_input_contents=[b""]), ["raw_input_contents"], id="both contents")
    yield pytest.param(inference("a", id="x" * 257), ["id"], id="id")
    yield pytest.param(inference("a", model_name="", model_version="1"), ["model_version"], id="version of nothing")
    yield pytest.param(inference("a", outputs=[{"name": "scores"}]), ["outputs"], id="output")
    yield pytest.param(inference("a", parameters=parameters(timeout=1)), ["parameters.timeout"], id="parameter")
    for value in (1.5, True, "2", 2**40):
        wrong = inference("a", parameters=parameters(beam_size=value))
        yield pytest.param(wrong, ["parameters.beam_size"], id=f"beam size {value}")
    yield pytest.param(inference("a", parameters=parameters(beam_size=99)), ["parameters.beam_size"], id="range")
    language = inference("a", parameters=parameters(source_language_code="??"))
    yield pytest.param(language, ["parameters.source_language_code"], id="language")


@pytest.mark.parametrize(("request_", "named"), list(faults()))
async def test_a_fault_is_an_invalid_argument_with_its_field(
    serve: Any, request_: v2.ModelInferRequest, named: list[str]
) -> None:
    async with serve(faces=FACES) as served:
        assert await refused(stub_of(served).ModelInfer(request_), Code.INVALID_ARGUMENT) == named
        assert not served.engine.asked_for("options")


async def test_a_stream_is_answered_in_its_order_and_survives_errors(serve: Any) -> None:
    async with serve(faces=FACES) as served:
        served.engine.raised["b"] = OverloadedError("the queue is full", retry_after_seconds=1)
        requests = [inference(text, id=text) for text in "abc"]
        answers = [answer async for answer in stub_of(served).ModelStreamInfer(iter(requests))]
        assert [answer.infer_response.id for answer in answers] == ["a", "b", "c"]
        assert [answer.error_message for answer in answers] == ["", "RESOURCE_EXHAUSTED: the queue is full", ""]


async def test_a_stream_ends_at_the_drain(serve: Any) -> None:
    async with serve(faces=FACES) as served:
        call = stub_of(served).ModelStreamInfer()
        await call.write(inference("a"))
        assert (await call.read()).infer_response.model_name == "tiny"
        await served.rpc.close()
        assert await call.code() is Code.UNAVAILABLE
        await served.rpc.join()


async def test_a_text_of_a_draining_engine_has_no_answer(serve: Any) -> None:
    async with serve(faces=FACES) as served:
        served.engine.raised["a"] = DrainingError("the server is stopping")
        call = stub_of(served).ModelStreamInfer(iter([inference("a")]))
        assert [answer async for answer in _until_error(call)] == []
        assert await call.code() is Code.UNAVAILABLE


async def _until_error(call: Any) -> Any:
    try:
        async for answer in call:
            yield answer
    except grpc.aio.AioRpcError:
        return


async def test_readiness_follows_the_life_of_the_server_and_needs_no_key(serve: Any, tmp_path: Any) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text('{"format": 1, "keys": []}', encoding="utf-8")
    async with serve(faces=FACES, opened=False, keys_file=keys, anonymous=False) as served:
        stub = stub_of(served)

        async def ready() -> list[bool]:
            named = [v2.ModelReadyRequest(name=name, version=version) for name, version in NAMES]
            server = (await stub.ServerReady(v2.ServerReadyRequest())).ready
            return [server, *[(await stub.ModelReady(name)).ready for name in named]]

        assert await ready() == [False, False, False, False, False]
        await served.rpc.open(["tiny"])
        assert await ready() == [True, True, True, False, False]
        assert (await stub.ServerLive(v2.ServerLiveRequest())).live
        await refused(stub.ModelMetadata(v2.ModelMetadataRequest(name="tiny")), Code.UNAUTHENTICATED)
        await refused(stub.ModelInfer(inference("a")), Code.UNAUTHENTICATED)
        await served.rpc.close()
        assert not any(await ready())
        assert (await stub.ServerLive(v2.ServerLiveRequest())).live


NAMES = (("tiny", ""), ("tiny", "1"), ("tiny", "2"), ("large", ""))


async def test_metadata_describe_the_server_and_the_model(serve: Any) -> None:
    async with serve(faces=FACES) as served:
        server = await stub_of(served).ServerMetadata(v2.ServerMetadataRequest())
        model = await stub_of(served).ModelMetadata(v2.ModelMetadataRequest(name="tiny"))
        assert server.name == "xuanzang-server"
        assert (model.name, list(model.versions)) == ("tiny", ["1"])
        assert [(each.name, each.datatype, list(each.shape)) for each in (*model.inputs, *model.outputs)] == [
            ("text", "BYTES", [-1]),
            ("translation", "BYTES", [-1]),
        ]
        await refused(stub_of(served).ModelMetadata(v2.ModelMetadataRequest(name="large")), Code.NOT_FOUND)


async def test_a_busy_server_refuses_unread(serve: Any) -> None:
    async with serve(faces=FACES) as served:
        served.engine.needed_seconds = 1000.0
        await refused(stub_of(served).ModelInfer(inference("a"), timeout=60), Code.RESOURCE_EXHAUSTED)
        assert not served.engine.asked_for("options")
        labels = {"grpc_service": "inference.GRPCInferenceService", "grpc_method": "ModelInfer", "grpc_type": "unary"}
        async with asyncio.timeout(30):
            while not served.value("grpc_server_handled_total", **labels, grpc_code="RESOURCE_EXHAUSTED"):
                await served.stub.ListModels(pb.ListModelsRequest())


async def test_the_deadline_reaches_the_engine_and_ends_its_work(serve: Any) -> None:
    async with serve(faces=FACES) as served:
        await served.let_expire("a", lambda timeout: stub_of(served).ModelInfer(inference("a"), timeout=timeout))
