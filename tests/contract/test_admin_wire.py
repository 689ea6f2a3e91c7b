"""Numbers and names of the administration service, which commands of other versions speak, too."""

from __future__ import annotations

from xuanzang.admin.v1 import admin_pb2

FIELDS = {
    "Model": {
        "name": 1,
        "version": 2,
        "state": 3,
        "is_default": 4,
        "is_pinned": 5,
        "manifest_sha256": 6,
        "precision": 7,
        "running_requests": 8,
        "refusal_reasons": 9,
        "is_previous": 10,
        "promotion_refusals": 11,
    },
    "ListModelsRequest": {},
    "ListModelsResponse": {"models": 1},
    "GetModelRequest": {"name": 1, "version": 2},
    "GetModelResponse": {"model": 1},
    "LoadModelRequest": {"name": 1, "version": 2},
    "LoadModelResponse": {"model": 1},
    "UnloadModelRequest": {"name": 1, "version": 2},
    "UnloadModelResponse": {},
    "ReloadModelsRequest": {},
    "ReloadModelsResponse": {"models": 1},
    "PinModelRequest": {"name": 1, "version": 2},
    "PinModelResponse": {"model": 1},
    "UnpinModelRequest": {"name": 1},
    "UnpinModelResponse": {"model": 1},
    "EvaluateModelRequest": {"name": 1, "version": 2},
    "EvaluateModelResponse": {"evaluation": 1},
    "PromoteModelRequest": {"name": 1, "version": 2, "force_reason": 3},
    "PromoteModelResponse": {"model": 1, "evaluation": 2},
    "RollbackModelRequest": {"name": 1},
    "RollbackModelResponse": {"model": 1},
    "Evaluation": {"passed": 1, "checks": 2, "reasons": 3, "golden_set_sentences": 4},
    "EvaluationCheck": {"name": 1, "measured": 2, "bound": 3, "passed": 4},
}


def test_fields_keep_their_numbers() -> None:
    found = {
        name: {field.name: field.number for field in message.fields}
        for name, message in admin_pb2.DESCRIPTOR.message_types_by_name.items()
    }
    assert found == FIELDS


def test_states_keep_their_numbers() -> None:
    assert dict(admin_pb2.ModelState.items()) == {
        "MODEL_STATE_UNSPECIFIED": 0,
        "MODEL_STATE_SERVING": 1,
        "MODEL_STATE_LOADING": 2,
        "MODEL_STATE_RETIRING": 3,
        "MODEL_STATE_UNLOADED": 4,
        "MODEL_STATE_REFUSED": 5,
    }


def test_methods_keep_their_names() -> None:
    service = admin_pb2.DESCRIPTOR.services_by_name["ModelService"]
    assert service.full_name == "xuanzang.admin.v1.ModelService"
    assert {method.name: (method.input_type.name, method.output_type.name) for method in service.methods} == {
        name: (f"{name}Request", f"{name}Response")
        for name in (
            *("ListModels", "GetModel", "LoadModel", "UnloadModel", "ReloadModels", "PinModel", "UnpinModel"),
            *("EvaluateModel", "PromoteModel", "RollbackModel"),
        )
    }
