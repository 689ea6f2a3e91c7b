"""Inferences as requests of the translation service, and its answers as tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xuanzang.inference.v2 import inference_pb2 as v2
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.rpc.faces.open_inference.parameters import OF_REQUESTS, read_parameters
from xuanzang.server.rpc.faces.open_inference.tensors import BYTES, INPUT, OUTPUT, raw_contents, read_texts
from xuanzang.server.rpc.messages.requests import MAX_ID_BYTES
from xuanzang.translation.v1 import translation_pb2 as pb

PLATFORM = "xuanzang_onnxruntime"

_NAMES = (
    (re.compile(r"^contents"), "inputs[0].contents"),
    (re.compile(r"^settings\.model$"), "model_name"),
    (re.compile(r"^settings\.(options\.)?"), "parameters."),
)


def read_inference(request: v2.ModelInferRequest) -> pb.TranslateTextRequest:
    """Read an inference as a request for translations.

    Args:
        request: Inference with a tensor of texts.

    Raises:
        InvalidInputError: The inference has a fault.
    """
    _require_sizes(request)
    if unknown := [tensor.name for tensor in request.outputs if tensor.name != OUTPUT]:
        raise _fault("outputs", f"must be {OUTPUT} or nothing, has {len(unknown)} others")
    if any(tensor.parameters for tensor in request.outputs):
        raise _fault("outputs[0].parameters", "must be empty: there are neither classes nor shared memory")
    values = read_parameters(request.parameters)
    fields = {name: values.pop(name) for name in OF_REQUESTS if name in values}
    return pb.TranslateTextRequest(
        contents=read_texts(request),
        settings=pb.TranslationSettings(
            model=served_name(request.model_name, request.model_version),
            options=pb.DecodingOptions(**values),
            **fields,
        ),
    )


def inference_response(request: v2.ModelInferRequest, answer: pb.TranslateTextResponse) -> v2.ModelInferResponse:
    """Write translations as a tensor of the shape of the texts, in the form that the request has.

    Args:
        request: Valid inference.
        answer: Answer to it.
    """
    texts = [translation.hypotheses[0].text for translation in answer.translations]
    tensor = v2.ModelInferResponse.InferOutputTensor(name=OUTPUT, datatype=BYTES, shape=request.inputs[0].shape)
    response = v2.ModelInferResponse(model_name=answer.model, model_version=answer.model_version, id=request.id)
    if request.raw_input_contents:
        response.raw_output_contents.append(raw_contents(texts))
    else:
        tensor.contents.bytes_contents.extend(text.encode() for text in texts)
    response.outputs.append(tensor)
    return response


def metadata_response(models: Iterable[pb.Model]) -> v2.ModelMetadataResponse:
    """Describe a model.

    Args:
        models: Its versions, at least one.
    """
    versions = list(models)
    metadata = v2.ModelMetadataResponse.TensorMetadata
    return v2.ModelMetadataResponse(
        name=versions[0].name,
        versions=[model.version for model in versions],
        platform=PLATFORM,
        inputs=[metadata(name=INPUT, datatype=BYTES, shape=[-1])],
        outputs=[metadata(name=OUTPUT, datatype=BYTES, shape=[-1])],
    )


def served_name(model: str, version: str) -> str:
    """Return the name by which the server knows a model.

    Args:
        model: Name, or nothing for any.
        version: Version, or nothing for the default one.

    Raises:
        InvalidInputError: There is a version of no model.
    """
    if version and not model:
        raise _fault("model_version", "must be empty without model_name")
    return f"{model}/{version}" if version else model


def in_inference(error: InvalidInputError) -> InvalidInputError:
    """Rename the fields of an error about a `TranslateTextRequest` to those of an inference.

    Args:
        error: Error of the translation service.
    """
    return InvalidInputError(
        FieldViolation(field=_renamed(fault.field), description=fault.description) for fault in error.violations
    )


def _renamed(field: str) -> str:
    for pattern, name in _NAMES:
        if pattern.match(field):
            return pattern.sub(name, field)
    return field


def _require_sizes(request: v2.ModelInferRequest) -> None:
    if len(request.id.encode()) > MAX_ID_BYTES:
        raise _fault("id", f"must have at most {MAX_ID_BYTES} bytes")


def _fault(field: str, description: str) -> InvalidInputError:
    return InvalidInputError([FieldViolation(field=field, description=description)])
