"""Settings of the engine: how it uses the machine, and what it accepts."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Provider = Literal["cpu", "cuda", "auto"]
"""Execution provider of onnxruntime; auto takes cuda where there is one."""


_PIN = re.compile(r"(?P<name>[^/\s]+)/(?P<version>[1-9][0-9]{0,8})")


def _pins(text: str) -> dict[str, int]:
    matches = [_PIN.fullmatch(part.strip()) for part in text.split(",") if part.strip()]
    return {match["name"]: int(match["version"]) for match in matches if match}


def _checked_pins(text: str) -> str:
    parts = [part for part in text.split(",") if part.strip()]
    if len(_pins(text)) != len(parts):
        raise ValueError("must be MODEL/VERSION, separated by commas, one version of each model")
    return text


class EngineSettings(BaseModel):
    """How the engine uses the machine, and what it accepts."""

    model_config = ConfigDict(frozen=True)

    provider: Provider = Field(
        default="auto", description="What runs the models; auto takes cuda where onnxruntime offers it, else cpu."
    )
    workers: int = Field(default=0, ge=0, le=256, description="Threads that translate; 0: one per usable core.")
    intra_op_threads: int = Field(
        default=1, ge=1, le=256, description="Threads that each worker uses inside one operation."
    )
    kernels: bool = Field(
        default=True,
        description="Whether the decoder's own operators run as the C++ kernels of xuanzang-kernels, where those were "
        "built (--kernels), or as standard operators of onnxruntime (--no-kernels).",
    )
    shortlist: str = Field(
        default="",
        description="Models to decode with the shortlists of their bundles, as zh-en,en-zh; * for those that have one.",
    )
    detection: bool = Field(
        default=True,
        description="Whether languages are detected, if the libraries of the extra `detection` are installed; they "
        "take a second at the start and 80 MB.",
    )
    max_batch_sentences: int = Field(
        default=32, ge=1, le=1024, description="Maximum sentences decoded together by one worker."
    )
    max_join_source_tokens: int = Field(
        default=600,
        ge=1,
        le=1_000_000,
        description="Maximum source tokens of the sentences that join a running batch at one step; the others wait "
        "while these are encoded.",
    )
    max_queue_tokens: int = Field(
        default=1_000_000,
        ge=1,
        le=1_000_000_000,
        description="Maximum tokens waiting, source and expected target times beam size; beyond it RESOURCE_EXHAUSTED.",
    )
    max_content_characters: int = Field(
        default=20_000,
        ge=1,
        le=1_000_000,
        description="Maximum characters of one text; a longer one gets INVALID_ARGUMENT.",
    )

    watch_models: float = Field(
        default=0,
        ge=0,
        le=86_400,
        description="Seconds between two looks at the folder of the models; new versions are loaded while others are "
        "served, and those that are gone are unloaded; 0: only at the start, and by command.",
    )
    pin: Annotated[str, AfterValidator(_checked_pins)] = Field(
        default="",
        description="Versions that answer requests that name none, as zh-en/1,en-zh/3; other models: the highest.",
    )

    @property
    def pins(self) -> dict[str, int]:
        """Pinned versions by name."""
        return _pins(self.pin)

    @property
    def shortlists(self) -> frozenset[str]:
        """Names of the models to decode with a shortlist; "*" for all whose bundles have one."""
        return frozenset(name.strip() for name in self.shortlist.split(",")) - {""}
