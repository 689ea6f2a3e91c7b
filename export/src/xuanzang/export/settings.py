"""Settings of an export."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from xuanzang.command.files import PathName


class ExportSettings(BaseModel):
    """Turn a checkpoint into a bundle that the server loads."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, extra="forbid")

    checkpoint: Path
    """Folder with model.safetensors, config.json and tokenisers, such as the `best` of a training run."""
    repository: Path
    """Folder of models; the bundle becomes <repository>/<model>/<version>."""
    model: Annotated[str, AfterValidator(PathName)]
    """Name that clients ask for, such as zh-en."""
    version: int = Field(default=0, ge=0)
    """Version of the bundle; 0 takes the next free one."""
    precision: Literal["int8", "float16", "float32"] = "int8"
    """Number format of the weights: int8 for CPUs, float16 for GPUs."""
    valid: Path | None = None
    """Pairs of source<TAB>target for parity, calibration, quality and samples; never trained on."""
    texts: Path | None = None
    """In place of `valid` sentences without translations, one a line: precisions are compared with each other, quality
    is not measured. With neither, a sample of 16 languages that the exporter has."""
    source_language: str = ""
    """Language of the sources of `valid` or `texts`, as the checkpoint has it; needed if that names several to the
    model. Without these files, the only language of the sample to translate from."""
    target_language: str = ""
    """The same for the targets."""
    parity_sentences: int = Field(default=0, ge=0)
    """Sentences decoded to the end by numpy and by the graphs; 0 for 50, or fewer if the model is large."""
    calibration_sentences: int = Field(default=0, ge=0)
    """Sentences for the ranges of int8 activations; 0 for 300, or fewer if the model is large."""
    evaluation_sentences: int = Field(default=0, ge=0)
    """Pairs whose translations by the graphs are scored with BLEU and chrF; 0 for 500, or fewer if the model is
    large."""
    beam_size: int = Field(default=4, ge=1, le=16)
    """Default of requests to this model, and of the evaluation."""
    length_penalty: float = Field(default=1.0, ge=0, le=10)
    """Default of requests to this model, and of the evaluation."""
    stopping: Literal["first-finished", "none-better"] = "first-finished"
    """When searches end: as soon as `beam_size` hypotheses have finished, or once no live one is better than these,
    which takes more steps and is what transformers does by default."""
    loop_retry_ngram_size: int = Field(default=0, ge=0, le=16)
    """N-gram limit for a second search when a translation repeats itself endlessly; 0 for no second search."""
    max_float32_difference: float = Field(default=1e-4, gt=0)
    """Maximum difference of a log-probability between numpy and the float32 graphs, nats."""
    test: dict[str, Path] = Field(default_factory=dict)
    """More pairs, by name such as tatoeba=FILE, to compare the precision with float32."""
    test_sentences: int = Field(default=0, ge=0)
    """Sentences of `valid` or `texts` and of each test translated to compare the precision with float32; 0 for 2000, or
    fewer if the model is large, and fewer still without `valid`."""
    max_bleu_change: float = Field(default=0.3, gt=0)
    """Maximum loss in BLEU against the float32 graphs, on `valid` and on each test. An export is refused only if the
    loss exceeds it with 95% confidence; a gain never counts."""
    max_chrf_change: float = Field(default=0.2, gt=0)
    """The same for chrF."""
    min_agreement: float = Field(default=70.0, ge=0, le=100)
    """Minimum chrF of the translations in this precision against those of the float32 graphs, where there are no pairs
    to compare both with."""
    shortlist: Path | None = None
    """Table from `xuanzang shortlist`; the bundle then allows decoding with the pieces that a source suggests."""
    card: Path | None = None
    """Markdown on data, licences and limits, for the model card."""

    @model_validator(mode="after")
    def _one_file(self) -> Self:
        if self.valid and self.texts:
            raise ValueError("valid and texts cannot be given both")
        return self

    def inheriting(self, defaults: Mapping[str, object]) -> ExportSettings:
        """Return the settings with the defaults of another bundle where they choose none.

        Args:
            defaults: Values by setting, of the bundle that this model was trained further from.
        """
        inherited = {name: value for name, value in defaults.items() if name not in self.model_fields_set}
        return ExportSettings(**(self.model_dump(include=self.model_fields_set) | inherited))

    def sized_for(self, parameters: int) -> ExportSettings:
        """Return the settings with the numbers of sentences that they leave open.

        Args:
            parameters: Parameters of the model. A certificate of a large model takes minutes instead of hours because
                it has fewer sentences; its measure of the translations is the less sure.
        """
        numbers = _USUAL if self.valid else _USUAL | _WITHOUT_PAIRS
        chosen = {name: usual.sentences(parameters) for name, usual in numbers.items() if not getattr(self, name)}
        return self.model_copy(update=chosen)


class _Usual(NamedTuple):
    """Number of sentences where none is set."""

    maximum: int
    minimum: int
    """For models however large."""
    parameters: float
    """Parameters below which it is the maximum; above, it falls with the power 1.5 of their number."""

    def sentences(self, parameters: int) -> int:
        wanted = self.maximum * min(1.0, self.parameters / parameters) ** 1.5
        return max(self.minimum, round(wanted))


_USUAL = {
    "parity_sentences": _Usual(50, 4, 20e6),
    "calibration_sentences": _Usual(300, 16, 64e6),
    "evaluation_sentences": _Usual(500, 12, 32e6),
    "test_sentences": _Usual(2000, 12, 16e6),
}
_WITHOUT_PAIRS = {"test_sentences": _Usual(2000, 12, 8e6)}
"""Agreement has a limit far from what good graphs have; small losses show on pairs only."""
