"""Descriptions of the server, its models and settings, by the names of fields that HTTP and gRPC share."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from xuanzang.client import Model
from xuanzang.gateway.apis.inference.inferences import BYTES, INPUT, MAX_NAME_CHARACTERS, OUTPUT, Statistics
from xuanzang.gateway.errors import bad_request

EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository(index)", "statistics")
_PLATFORM = "xuanzang_onnxruntime"
_LOGGER = logging.getLogger(__name__)


def metadata_of(name: str, models: Iterable[Model]) -> dict[str, Any]:
    """Return the metadata of a model, by the protocol's names of fields.

    Args:
        models: Its versions.
    """
    tensor = {"datatype": BYTES, "shape": [-1]}
    inputs, outputs = [{"name": INPUT, **tensor}], [{"name": OUTPUT, **tensor}]
    versions = [each.version for each in models]
    return {"name": name, "versions": versions, "platform": _PLATFORM, "inputs": inputs, "outputs": outputs}


def config_of(name: str) -> dict[str, Any]:
    """Return the configuration of a model, by Triton's names of fields."""
    about = {"name": name, "platform": _PLATFORM, "backend": "xuanzang", "max_batch_size": 0}
    tensor = {"data_type": "TYPE_STRING", "dims": [-1]}
    return {**about, "input": [{"name": INPUT, **tensor}], "output": [{"name": OUTPUT, **tensor}]}


def statistics_of(counted: Iterable[tuple[Model, Statistics]]) -> dict[str, Any]:
    """Return statistics by Triton's names of fields."""
    return {
        "model_stats": [
            {
                "name": model.name,
                "version": model.version,
                "last_inference": counts.last_milliseconds,
                "inference_count": counts.texts,
                "execution_count": counts.inferences,
                "inference_stats": {"success": {"count": counts.inferences, "ns": counts.nanoseconds}},
            }
            for model, counts in counted
        ]
    }


def index_of(models: Iterable[Model]) -> list[dict[str, str]]:
    """Return the index of models by Triton's names of fields."""
    return [{"name": each.name, "version": each.version, "state": "READY"} for each in models]


def trace_settings(changes: Mapping[str, Any]) -> Mapping[str, list[str]]:
    """Return Triton's settings of traces: this protocol switches none on.

    Args:
        changes: Settings that are to change; null or nothing asks for the default.

    Raises:
        RefusedError: One would change.
    """
    settings = {"trace_level": ["OFF"]}
    listed = {name: value if isinstance(value, list) else [value] for name, value in changes.items()}
    _require_unchanged(settings, {name: None if value in ([], [None]) else value for name, value in listed.items()})
    return settings


def log_settings(changes: Mapping[str, Any]) -> Mapping[str, bool | int]:
    """Return Triton's settings of the log: the operator has chosen the level.

    Args:
        changes: Settings that are to change; null asks for the default.

    Raises:
        RefusedError: One would change.
    """
    levels = {"log_info": logging.INFO, "log_warning": logging.WARNING, "log_error": logging.ERROR}
    settings: dict[str, bool | int] = {name: _LOGGER.isEnabledFor(level) for name, level in levels.items()}
    settings["log_verbose_level"] = 0
    _require_unchanged(settings, changes)
    return settings


def _require_unchanged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        current = settings.get(name)
        if current is None:
            shown = name[:MAX_NAME_CHARACTERS]
            raise bad_request(f"settings.{shown}", f"does not exist here; those are {', '.join(settings)}")
        if value is not None and (type(value) is not type(current) or value != current):
            raise bad_request(f"settings.{name}", f"is {json.dumps(current)}, which only the operator changes")
