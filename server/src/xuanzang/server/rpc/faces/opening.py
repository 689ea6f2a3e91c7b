"""Opens the faces that a setting names; each is imported only when it is opened."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from xuanzang.server.engine.types import ServedModel
from xuanzang.server.rpc.gate import RpcGate
from xuanzang.server.rpc.methods import Service
from xuanzang.server.rpc.services.translation import TranslationService


def open_faces(
    names: Collection[str], service: TranslationService, gate: RpcGate, models: Callable[[], Iterable[ServedModel]]
) -> tuple[Service, ...]:
    """Make the faces that are named.

    Args:
        names: Names of faces, of those in `settings.FACE_NAMES`.
        service: Service that does what they are asked.
        gate: Gate of the server.
        models: Function that returns the served models.

    Returns:
        The faces, ready to be added to a server.

    Raises:
        ImportError: The extra of a face is not installed.
        ValueError: There is no face of that name.
    """
    faces = []
    for name in sorted(set(names)):
        match name:
            case "google":
                # Google's package takes a second to import, and is there only with the extra.
                from xuanzang.server.rpc.faces.google.face import google_face  # noqa: PLC0415

                faces.append(google_face(service))
            case "open-inference":
                # Its messages have the names of others' packages, with which they cannot be in one process.
                from xuanzang.server.rpc.faces.open_inference.face import open_inference_face  # noqa: PLC0415

                faces.append(open_inference_face(service, gate, models))
            case _:
                raise ValueError(f"there is no face {name!r}")
    return tuple(faces)
