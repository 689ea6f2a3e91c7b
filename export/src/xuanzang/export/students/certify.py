"""Measurement of a student's graphs against numpy, step by step, and the certificate that it yields."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import version

import numpy as np
from sentencepiece import SentencePieceProcessor

from xuanzang.export.certification.certificate import Certificate, ParityError, Sample
from xuanzang.export.students.oracle import Oracle
from xuanzang.export.students.runner import StudentRunner
from xuanzang.export.students.student import EOS_ID, Student

BEAM_SIZE, LENGTH_PENALTY, LENGTH_FACTOR = 1, 1.0, 2.0
"""As Firefox searches: greedily, for at most so many target tokens for each source token, end tokens counted."""
_SENTENCES = 16
_SAMPLES = 8
_MAX_FLOAT32_DIFFERENCE = 1e-3
"""Nats."""
_MIN_INT8_AGREEMENT = 0.98
"""Share of steps; roundings of sums of floats turn a few integers into their neighbours."""
_NOT_MEASURED = (
    "How good the translations are: there were no references.",
    "Your texts: everything was measured on plain everyday sentences of the exporter.",
    f"Small losses of the number format: {_SENTENCES} sentences show large ones only.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Followed:
    """A sentence that the graphs have translated and the oracle has followed."""

    source: str
    source_ids: list[int]
    target_ids: list[int]
    agreed: list[bool]
    """Of each step, whether the oracle's best continuation is the same."""
    worst: float
    """Maximum difference of log-probabilities, nats."""
    lead: float
    """Least difference of the best two continuations of a step, nats."""


def certify(
    student: Student, runner: StudentRunner, *, precision: str, source_language: str, target_language: str
) -> Certificate:
    """Decode sentences with the graphs, let numpy follow, and return what was found.

    Raises:
        ParityError: The graphs do not compute what numpy does.
    """
    oracle = Oracle(student, integers=precision == "int8")
    tokenizer = SentencePieceProcessor(model_proto=student.source_vocabulary)
    texts = list(_texts(source_language))[:_SENTENCES]
    followed = [_follow(oracle, runner, text, [*tokenizer.encode(text), EOS_ID]) for text in texts]
    steps = [agreed for each in followed for agreed in each.agreed]
    agreement, worst = float(np.mean(steps)), max(each.worst for each in followed)
    _require_parity(precision, agreement, worst)
    return Certificate(
        oracle="numpy",
        measured_on="sample",
        directions=[f"{source_language} to {target_language}"],
        not_measured=list(_NOT_MEASURED),
        parity={
            precision: {
                "sentences": len(followed),
                "steps": len(steps),
                "max_abs_difference": worst,
                "token_agreement": agreement,
            }
        },
        quality={},
        quality_sentences=0,
        shipped_quality={},
        agreement={},
        signatures=[],
        step_milliseconds={},
        samples=_samples(student, followed),
        machine={"platform": platform.machine(), "python": platform.python_version(), **tool_versions()},
    )


def tool_versions() -> dict[str, str]:
    """Return the versions of what made and measured the graphs, by name."""
    return {package: version(package) for package in ("numpy", "onnx", "onnxruntime", "sentencepiece")}


def _follow(oracle: Oracle, runner: StudentRunner, text: str, source_ids: list[int]) -> _Followed:
    """Translate greedily with the graphs, and repeat each step in numpy."""
    memory, source = runner.encode(source_ids), oracle.encode(source_ids)
    states, expected_states = runner.start(), oracle.start()
    target_ids, agreed, worst, lead = list[int](), list[bool](), 0.0, float("inf")
    while len(target_ids) < int(LENGTH_FACTOR * len(source_ids)):
        last, position = target_ids[-1] if target_ids else EOS_ID, len(target_ids)
        found, states = runner.step(memory, last, position, states)
        expected = oracle.step(source, last, position, expected_states)
        expected_states = expected.states
        worst = max(worst, float(np.abs(expected.log_probs[found.ids] - found.log_probs).max()))
        lead = min(lead, found.log_probs[0] - found.log_probs[1])
        agreed.append(found.ids[0] == expected.log_probs.argmax())
        if found.ids[0] == EOS_ID:
            break
        target_ids.append(found.ids[0])
    return _Followed(source=text, source_ids=source_ids, target_ids=target_ids, agreed=agreed, worst=worst, lead=lead)


def _require_parity(precision: str, agreement: float, worst: float) -> None:
    if precision == "int8" and agreement < _MIN_INT8_AGREEMENT:
        raise ParityError(
            f"int8 graphs choose other tokens than integers in numpy in {1 - agreement:.1%} of steps, "
            f"the limit is {1 - _MIN_INT8_AGREEMENT:.1%}"
        )
    if precision == "float32" and worst >= _MAX_FLOAT32_DIFFERENCE:
        raise ParityError(
            f"float32 graphs differ from numpy by {worst:.2e} nats, the limit is {_MAX_FLOAT32_DIFFERENCE:.0e}"
        )


def _samples(student: Student, followed: Sequence[_Followed]) -> list[Sample]:
    """Choose sentences that both translate alike, whose choices are clear; empty translations come last.

    Other processors add floats in another order, which must not change a choice.
    """
    alike = [each for each in followed if all(each.agreed)]
    alike.sort(key=lambda each: (bool(each.target_ids), each.lead), reverse=True)
    if not alike:
        raise ParityError("no sentence is translated alike by the graphs and numpy")
    tokenizer = SentencePieceProcessor(model_proto=student.target_vocabulary)
    return [
        Sample(
            source=each.source,
            source_ids=each.source_ids,
            target_ids=each.target_ids,
            target=tokenizer.decode(each.target_ids),
            beam_size=BEAM_SIZE,
            length_penalty=LENGTH_PENALTY,
        )
        for each in alike[:_SAMPLES]
    ]


def _texts(language: str) -> Iterator[str]:
    """Yield sentences of the exporter's sample in a language, or all if it has none."""
    text = resources.files("xuanzang.export").joinpath("sample.tsv").read_text(encoding="utf-8")
    rows = [(code, sentence) for code, _, sentence in (line.partition("\t") for line in text.splitlines())]
    own = [sentence for code, sentence in rows if code == language.partition("-")[0]]
    yield from own or (sentence for _, sentence in rows)
