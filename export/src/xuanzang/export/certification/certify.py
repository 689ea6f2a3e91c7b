"""Measurement of graphs against numpy, and the certificate that it yields."""

from __future__ import annotations

import ctypes
import gc
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import NamedTuple

import numpy as np
import onnxruntime
from sacrebleu.metrics import CHRF

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export.certification.certificate import Certificate, ParityError, Sample
from xuanzang.export.certification.parity import Parity, follow
from xuanzang.export.certification.quality import (
    Translations,
    compare_precisions,
    measure_agreement,
    onnx_translations,
    require_agreement,
    require_quality,
    score,
)
from xuanzang.export.certification.recording import Recording, record
from xuanzang.export.certification.runner import OnnxModel, open_graphs, open_shortlisted
from xuanzang.export.certification.samples import choose_samples, measure_terms, not_measured
from xuanzang.export.certification.step_inputs import LiveHypotheses, pages_for, step_inputs
from xuanzang.export.examples import Example, Examples, sources_of
from xuanzang.export.graphs.build import GraphSet
from xuanzang.export.settings import ExportSettings
from xuanzang.export.tensors import PAGE_SLOTS
from xuanzang.model.beams import Hypothesis, SearchRules
from xuanzang.model.evaluation.scores import Scores
from xuanzang.model.stored_checkpoint import StoredCheckpoint

_MIN_RUNS, _MAX_SECONDS = 5, 2.0


def return_freed_memory() -> None:
    """Free reference cycles, such as graphs of onnxruntime, and let glibc return their memory."""
    gc.collect()
    # Only glibc has it, and only there it is needed.
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def step_milliseconds(
    onnx_model: OnnxModel, position: int, *, batch: int = 8, beam_size: int = 4, runs: int = 15
) -> float:
    """Return the median time of one decoder step with a history of `position` tokens per hypothesis.

    After a few steps, a large model takes as many as fit in some seconds.
    """
    config = onnx_model.config
    memory = onnx_model.encode([[config.unk_id] * 24 + [config.eos_id]] * batch)
    # Slots of one translation of that length, and some of the tokens that the other hypotheses do not share.
    pages = pages_for(position + 4 * beam_size)
    shape = (batch, beam_size)
    live = LiveHypotheses(np.full(shape, config.bos_id), np.zeros(shape, np.float32), np.zeros(shape, np.int64))
    visible = np.ones((*shape, pages * PAGE_SLOTS), dtype=bool)
    inputs = step_inputs(config, live, position, np.tile(np.arange(beam_size), (batch, 1)), visible)
    feed = memory | onnx_model.empty_pages(batch * pages)
    feed |= {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in inputs.items()}
    times: list[float] = []
    while len(times) < runs and (len(times) < _MIN_RUNS or sum(times) < _MAX_SECONDS):
        started = time.perf_counter()
        onnx_model.step(feed)
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


class _Measured(NamedTuple):
    """Results of the graphs of one precision."""

    parity: Parity
    translations: Translations
    tests: dict[str, Translations]
    step_milliseconds: dict[str, float]


class Certifier:
    """Measures one set of graphs after the other; only one is open at a time, and none while numpy computes."""

    def __init__(
        self,
        checkpoint: StoredCheckpoint,
        examples: Examples,
        tests: Mapping[str, Sequence[Example]],
        settings: ExportSettings,
    ) -> None:
        """Prepare measurements.

        Args:
            checkpoint: Exported model.
            examples: Sentences to measure with.
            tests: More pairs, by name.
            settings: Settings with the numbers of sentences, all of them set, and the limits.
        """
        self._checkpoint, self._examples, self._settings = checkpoint, examples, settings
        self._tests = {name: test[: settings.test_sentences] for name, test in tests.items()}
        self._rules = SearchRules(settings.stopping == "none-better", checkpoint.metadata.forces_end)
        self._measured: dict[str, _Measured] = {}
        self._shortlisted: Translations = []
        self._expected: list[list[int]] = []
        self._samples: list[Sample] = []
        self.terms = manifest_pb2.Terms()
        """Share of terms that the shipped graphs keep; unset before it is measured."""

    @property
    def translations(self) -> Translations:
        """Translations of the first sentences by the graphs that were measured first."""
        return next(iter(self._measured.values())).translations

    def measure(self, graphs: GraphSet) -> None:
        """Measure graphs: float32 first, the shipped last.

        Raises:
            ParityError: Float32 graphs do not compute what numpy does, or no sentence is translated alike by all.
        """
        if shortlisted := open_shortlisted(graphs, self._checkpoint.config):
            self._shortlisted = onnx_translations(
                shortlisted, self._compared()[: self._scored()], self._settings, self._rules
            )
            del shortlisted
        model = open_graphs(graphs, self._checkpoint.config)
        recordings, settings = self._record(model), self._settings
        translations: list[Sequence[Hypothesis]] = [found for batch in recordings for found in batch.found]
        translations += onnx_translations(model, self._compared()[len(translations) :], settings, self._rules)
        tests = {name: onnx_translations(model, test, settings, self._rules) for name, test in self._tests.items()}
        times = _step_times(model)
        if graphs.precision == settings.precision:
            self._choose_samples(model, translations)
            self.terms = self._measured_terms(model, translations)
        # Closes the graphs.
        del model
        return_freed_memory()
        parity, self._expected = follow(
            self._checkpoint.network, recordings, beam_size=settings.beam_size, expected=self._expected
        )
        self._checkpoint.weights.release()
        if graphs.precision == "float32":
            _require_parity(parity, settings)
        self._measured[graphs.precision] = _Measured(parity, translations, tests, times)

    def _record(self, model: OnnxModel) -> list[Recording]:
        """Decode the sentences that numpy is to follow."""
        examples, settings = self._examples.sentences[: self._settings.parity_sentences], self._settings
        return record(
            model,
            sources_of(examples),
            beam_size=settings.beam_size,
            length_penalty=settings.length_penalty,
            rules=self._rules,
            prefixes=[example.prefix_ids for example in examples],
        )

    def certificate(self) -> Certificate:
        """Return the certificate of the graphs measured.

        Raises:
            ParityError: The shipped graphs translate worse than the float32 graphs.
        """
        checkpoint, settings, pairs = self._checkpoint, self._settings, self._examples.kind == "pairs"
        shipped = self._measured[settings.precision].translations
        agreement = measure_agreement(checkpoint, self.translations, shipped) if len(self._measured) > 1 else {}
        shipped_quality = self._shipped_quality() if agreement else {}
        require_quality(shipped_quality, settings.precision, settings)
        if not pairs:
            require_agreement(agreement, settings.precision, settings)
        scores = self._scores() if pairs else {}
        compared = self._examples._replace(sentences=self._compared())
        return Certificate(
            measured_on=self._examples.kind,
            directions=compared.directions,
            not_measured=not_measured(checkpoint, compared),
            parity={precision: measured.parity._asdict() for precision, measured in self._measured.items()},
            quality={name: {"bleu": round(s.bleu, 3), "chrf": round(s.chrf, 3)} for name, s in scores.items()},
            quality_sentences=self._scored() if pairs else 0,
            shipped_quality=shipped_quality,
            agreement=agreement,
            signatures=_signatures(scores),
            step_milliseconds={precision: measured.step_milliseconds for precision, measured in self._measured.items()},
            samples=self._samples,
            machine=_machine(),
        )

    def _compared(self) -> list[Example]:
        """Return the sentences that all precisions translate; the first of them are scored."""
        wanted = [self._settings.evaluation_sentences if self._examples.kind == "pairs" else 0]
        wanted += [self._settings.test_sentences] if self._settings.precision != "float32" else []
        wanted += [self._settings.parity_sentences]
        return self._examples.sentences[: max(wanted)]

    def _scored(self) -> int:
        return min(self._settings.evaluation_sentences, len(self._examples.sentences))

    def _choose_samples(self, model: OnnxModel, shipped: Translations) -> None:
        found = [measured.translations for measured in self._measured.values()]
        found += [shipped, *([self._shortlisted] if self._shortlisted else [])]
        self._samples = choose_samples(
            self._checkpoint, model, self._examples.sentences, found, self._settings, self._rules
        )

    def _measured_terms(self, model: OnnxModel, translations: Translations) -> manifest_pb2.Terms:
        def translate(made: Sequence[Example]) -> Translations:
            return onnx_translations(model, made, self._settings, self._rules)

        return measure_terms(self._checkpoint, self._examples.sentences, translations, translate)

    def _scores(self) -> dict[str, Scores]:
        found = {f"onnx_{precision}": measured.translations for precision, measured in self._measured.items()}
        found |= {"shortlist": self._shortlisted} if self._shortlisted else {}
        count = self._scored()
        pairs = self._examples.sentences[:count]
        return {name: score(self._checkpoint, translations[:count], pairs) for name, translations in found.items()}

    def _shipped_quality(self) -> dict[str, dict[str, float]]:
        quality = {}
        if self._examples.kind == "pairs":
            found = {precision: measured.translations for precision, measured in self._measured.items()}
            quality["valid"] = compare_precisions(self._checkpoint, found, self._examples.sentences, self._settings)
        for name, test in self._tests.items():
            found = {precision: measured.tests[name] for precision, measured in self._measured.items()}
            quality[name] = compare_precisions(self._checkpoint, found, test, self._settings)
        return quality


def _require_parity(parity: Parity, settings: ExportSettings) -> None:
    if parity.max_abs_difference >= settings.max_float32_difference:
        raise ParityError(
            f"float32 graphs differ from numpy by {parity.max_abs_difference:.2e} nats, "
            f"the limit is {settings.max_float32_difference:.0e}"
        )
    if parity.token_agreement < 1.0:
        raise ParityError(
            f"float32 graphs give other tokens than numpy for {1 - parity.token_agreement:.0%} of sentences"
        )


def _step_times(model: OnnxModel) -> dict[str, float]:
    positions = [position for position in (10, 200) if position < model.config.max_positions]
    return {str(position): round(step_milliseconds(model, position), 3) for position in positions}


def _signatures(scores: Mapping[str, Scores]) -> list[str]:
    if not scores:
        metric = CHRF()
        metric.corpus_score([""], [[""]])
        return [str(metric.get_signature())]
    any_of_them = next(iter(scores.values()))
    return [any_of_them.bleu_signature, any_of_them.chrf_signature]


def _machine() -> dict[str, str]:
    packages = ("numpy", "onnx", "onnxruntime", "sentencepiece", "sacrebleu")
    return {"platform": platform.machine(), "python": platform.python_version()} | {p: version(p) for p in packages}
