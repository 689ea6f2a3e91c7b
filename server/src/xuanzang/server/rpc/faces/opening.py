"""Opens the faces that a setting names; each needs the extra of the same name only when it is opened."""

from __future__ import annotations

from collections.abc import Collection

from xuanzang.server.rpc.faces.face import Face
from xuanzang.server.rpc.service import TranslationService


def open_faces(names: Collection[str], service: TranslationService) -> tuple[Face, ...]:
    """Make the faces that are named.

    Args:
        names: Names of faces, of those in `settings.FACE_NAMES`.
        service: Service that does what they are asked.

    Returns:
        The faces, ready to be added to a server.

    Raises:
        ImportError: The extra of a face is not installed.
        ValueError: There is no face of that name.
    """
    return tuple(_open(name, service) for name in sorted(set(names)))


def _open(name: str, service: TranslationService) -> Face:
    match name:
        case "google":
            # Google's package takes a second to import, and is there only with the extra.
            from xuanzang.server.rpc.faces.google.face import google_face  # noqa: PLC0415

            return google_face(service)
        case _:
            raise ValueError(f"there is no face {name!r}")
