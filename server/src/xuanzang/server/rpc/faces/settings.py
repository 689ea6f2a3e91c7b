"""Settings of the faces."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

FACE_NAMES = ("google", "open-inference")
"""Faces that there are, by the names that settings have for them."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(sorted({name.strip() for name in text.split(",")} - {""}))


def _checked_names(text: str) -> str:
    if unknown := set(_names(text)).difference(FACE_NAMES):
        raise ValueError(f"must be {', '.join(FACE_NAMES)}, or several of them with commas, not {min(unknown)}")
    return text


class FaceSettings(BaseModel):
    """Other APIs that the server answers."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    faces: Annotated[str, AfterValidator(_checked_names)] = Field(
        default="",
        description="Other APIs to serve on --address, separated by commas: google, that of Google Cloud Translation "
        "v3, which needs the extra google; open-inference, that of KServe and Triton.",
    )

    @property
    def face_names(self) -> tuple[str, ...]:
        """Names of the faces to open."""
        return _names(self.faces)
