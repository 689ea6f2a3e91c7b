"""Settings of the engine: use of the machine, limits on requests, and promotion of versions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, DirectoryPath, Field

Provider = Literal["cpu", "cuda", "auto"]
"""Execution provider of onnxruntime; auto takes cuda where there is one."""
Promotion = Literal["direct", "gate", "manual"]
"""Rule for going live: as soon as it is loaded, if it passes the gate, or by command."""

_PIN = re.compile(r"([^/\s]+)/([1-9][0-9]{0,8})")
_LIMIT = re.compile(r"([^=\s]+)=([1-9][0-9]{0,6})")
_SIZE = re.compile(r"([1-9][0-9]{0,6}(?:\.[0-9]{1,3})?) ?([MGT])B")
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8}){0,4}")
_MEGABYTE = 10**6
_UNITS = {"M": _MEGABYTE, "G": 10**9, "T": 10**12}


def _numbers(pattern: re.Pattern[str], text: str) -> dict[str, int]:
    """Return the numbers by the names of models that a setting has between commas."""
    matches = [pattern.fullmatch(part.strip()) for part in text.split(",") if part.strip()]
    return {match[1]: int(match[2]) for match in matches if match}


def _checked(pattern: re.Pattern[str], fault: str, text: str) -> str:
    if len(_numbers(pattern, text)) != sum(bool(part.strip()) for part in text.split(",")):
        raise ValueError(fault)
    return text


_PINS = "must be MODEL/VERSION, separated by commas, one version of each model"
_LIMITS = "must be MODEL=N, separated by commas, one limit of each model, from 1 to 9999999"
_MEMORY_LIMITS = f"{_LIMITS}, in megabytes; the memory of all models together is --model-memory, such as 2GB"
_SIZES = (
    "must be a number and MB, GB or TB, such as 2GB, for all models together; the limit of one model is "
    "--model-memory-mb, such as zh-en=500"
)


def _checked_size(text: str) -> str:
    if text and not _SIZE.fullmatch(text):
        raise ValueError(_SIZES)
    return text


def _checked_languages(text: str) -> str:
    languages = text.split(",") if text else []
    if not all(_LANGUAGE.fullmatch(each.strip()) for each in languages):
        raise ValueError("must be codes of languages, separated by commas, such as en,fr")
    return text


Limits = Annotated[str, AfterValidator(partial(_checked, _LIMIT, _LIMITS))]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    """Limits on each version of a model; None for no limit."""

    workers: int | None = None
    """Workers that decode with it at the same time."""
    memory_bytes: int | None = None
    """Bytes of its weights and of its keys and values."""

    def __str__(self) -> str:
        workers = f"--model-workers {self.workers}" if self.workers else ""
        memory = f"--model-memory-mb {self.memory_bytes // _MEGABYTE}" if self.memory_bytes else ""
        return ", ".join(filter(None, (workers, memory))) or "nothing"


UNLIMITED = ModelLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDemand:
    """Limits of the models that are in memory, together; None for no limit."""

    memory_bytes: int | None = None
    """Bytes that their weights may take."""
    idle_seconds: float | None = None
    """Seconds without calls after which a model leaves."""


class EngineSettings(BaseModel):
    """Use of the machine, and limits on requests."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    provider: Provider = "auto"
    """Provider that runs the models; auto takes cuda where onnxruntime offers it, else cpu."""
    workers: int = Field(default=0, ge=0, le=256)
    """Threads that translate; 0: one per usable core."""
    intra_op_threads: int = Field(default=1, ge=1, le=256)
    """Threads that each worker uses inside one operation."""
    kernels: bool = True
    """Use the C++ kernels of xuanzang-kernels, where they were built; off: standard operators of onnxruntime."""
    shortlist: str = ""
    """Models to decode with the shortlists of their bundles, as zh-en,en-zh; * for all that have one."""
    detection: bool = True
    """Detect languages by their words, with the extra `detection` and up to 75 MB; off: by scripts alone."""
    pivot: Annotated[str, AfterValidator(_checked_languages)] = ""
    """Languages between two models for pairs that none translates, as en or en,fr; the first that works is taken;
    unset: none."""
    max_batch_sentences: int = Field(default=32, ge=1, le=1024)
    """Maximum sentences decoded together by one worker; those with wide beams count several times."""
    max_join_source_tokens: int = Field(default=600, ge=1, le=1_000_000)
    """Maximum source tokens of the sentences that join a running batch at one step."""
    max_queue_tokens: int = Field(default=1_000_000, ge=1, le=1_000_000_000)
    """Maximum tokens waiting, source and expected target times beam size; beyond it RESOURCE_EXHAUSTED."""
    answer_cache_mb: int = Field(default=0, ge=0, le=1_000_000)
    """Megabytes for kept answers of sentences with the same model and options; 0: none."""
    share_answers: bool = False
    """Share kept answers among callers, who can then tell by the time of a call that an answer was kept."""
    max_cache_mb: int = Field(default=0, ge=0, le=10_000_000)
    """Maximum megabytes for keys and values; further sentences wait; 0: half of the memory that the weights
    leave."""
    model_workers: Limits = ""
    """Workers that may decode with a model at the same time, as zh-en=1,en-zh=2; others: all."""
    model_memory_mb: Annotated[str, AfterValidator(partial(_checked, _LIMIT, _MEMORY_LIMITS))] = ""
    """Megabytes for the weights, keys and values of single models, as zh-en=500,en-zh=300; further sentences wait,
    and a bundle with larger weights is refused."""
    model_memory: Annotated[str, AfterValidator(_checked_size)] = ""
    """Memory for all models' weights, as 2GB: a model is loaded by its first request, and the least recently used
    one leaves; unset: all stay loaded."""
    idle_minutes: float = Field(default=0, ge=0, le=1_000_000)
    """Minutes without a request after which a model leaves the memory until its next request; 0: none leaves."""
    max_content_characters: int = Field(default=20_000, ge=1, le=1_000_000)
    """Maximum characters of one text; a longer one gets INVALID_ARGUMENT."""

    watch_models: float = Field(default=0, ge=0, le=86_400)
    """Seconds between two looks for new and removed versions in the folder of the models; 0: only at the start, and
    by command."""
    pin: Annotated[str, AfterValidator(partial(_checked, _PIN, _PINS))] = ""
    """Versions that answer requests that name none, as zh-en/1,en-zh/3; other models: the highest."""

    @property
    def pivot_languages(self) -> tuple[str, ...]:
        """Languages that a pair may go through, in their order."""
        return tuple(language.strip() for language in self.pivot.split(",") if language.strip())

    @property
    def pins(self) -> dict[str, int]:
        """Pinned versions by name."""
        return _numbers(_PIN, self.pin)

    @property
    def answer_cache_bytes(self) -> int:
        """Bytes for kept answers; 0 for none."""
        return self.answer_cache_mb * _MEGABYTE

    @property
    def max_cache_bytes(self) -> int:
        """Maximum bytes of keys and values of all models; 0 for a share of the memory."""
        return self.max_cache_mb * _MEGABYTE

    @property
    def on_demand(self) -> OnDemand | None:
        """Limits of the models in memory; None if all are loaded at the start and stay."""
        size = _SIZE.fullmatch(self.model_memory)
        if not size and not self.idle_minutes:
            return None
        return OnDemand(
            memory_bytes=round(float(size[1]) * _UNITS[size[2]]) if size else None,
            idle_seconds=60 * self.idle_minutes or None,
        )

    @property
    def limited_models(self) -> frozenset[str]:
        """Names of the models with limits of their own."""
        return frozenset(_numbers(_LIMIT, self.model_workers)) | frozenset(_numbers(_LIMIT, self.model_memory_mb))

    def limits_of(self, model: str) -> ModelLimits:
        """Return the limits of a model."""
        megabytes = _numbers(_LIMIT, self.model_memory_mb).get(model)
        return ModelLimits(
            workers=_numbers(_LIMIT, self.model_workers).get(model),
            memory_bytes=None if megabytes is None else megabytes * _MEGABYTE,
        )

    @property
    def shortlists(self) -> frozenset[str]:
        """Names of the models to decode with a shortlist; "*" for all whose bundles have one."""
        return frozenset(name.strip() for name in self.shortlist.split(",")) - {""}


def _in_a_folder(path: Path) -> Path:
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError("must be a file, which need not exist, in a folder that does")
    return path


class PromotionSettings(BaseModel):
    """Rules for the live version of a model."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    promotion: Promotion = "direct"
    """Rule by which a new version goes live: direct, once it is loaded, if it is the highest; gate, once it has
    passed the gate; manual, by `xuanzang admin promote`."""
    promotion_state: Annotated[Path, AfterValidator(_in_a_folder)] | None = None
    """File for pins and live versions; unset: .promotion.json in the folder of the models, if it is writable."""
    golden_sets: DirectoryPath | None = None
    """Folder of the gate's golden sets, MODEL.tsv with lines of source, tab and reference; without one a model
    passes no gate."""
    gate_max_chrf_loss: float = Field(default=1.0, ge=0, le=100)
    """Maximum points of chrF below the live version on the golden set."""
    gate_max_certified_loss: float = Field(default=1.0, ge=0, le=100)
    """Maximum points of chrF lost by the precision, as the certificate states."""
    gate_min_agreement: float = Field(default=50.0, ge=0, le=100)
    """Minimum chrF with the live version's translations as references."""
    gate_min_exact_match: float = Field(default=0.0, ge=0, le=1)
    """Minimum share of translations equal to the live version's."""
    gate_max_length_change: float = Field(default=0.15, ge=0, le=10)
    """Maximum change of the translations' length, as a share."""
    gate_timeout_seconds: float = Field(default=300.0, gt=0, le=3600)
    """Maximum seconds to translate a golden set."""
