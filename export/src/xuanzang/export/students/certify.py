"""Measurement of a student's graphs against numpy, step by step, and the certificate that it yields."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import version
from itertools import islice

import numpy as np
from sentencepiece import SentencePieceProcessor

from xuanzang.export.certification.certificate import Certificate, ParityError, Sample
from xuanzang.export.students.oracle import Oracle
from xuanzang.export.students.runner import StudentRunner
from xuanzang.export.students.student import EOS_ID, Student

BEAM_SIZE, LENGTH_PENALTY, LENGTH_FACTOR = 1, 1.0, 2.0
"""As Firefox searches: greedily, with this limit of target tokens for each source token, end tokens counted."""
_SENTENCES, _STEPS = 16, 300
"""Sentences measured, at most, and steps after which no other is begun."""
_SAMPLES = 8
_MAX_FLOAT32_DIFFERENCE = 1e-3
"""Maximum of a step, nats."""
_MAX_INT8_DIFFERENCE = 0.25
"""Mean over steps, nats. A float that is rounded otherwise in its last bit turns an integer into its neighbour once in
some thousands, which moves the scores of a lively network with random weights by 0.03 on average."""
_CLEAR_LEAD = 0.5
"""Lead of the best continuation over the second, nats, that no processor's rounding changes."""
_NOT_MEASURED = (
    "How good the translations are: there were no references.",
    "Your texts: everything was measured on plain everyday sentences of the exporter.",
    "Small losses of the number format: so few sentences show large ones only.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Followed:
    """A sentence that the graphs have translated and the oracle has followed."""

    source: str
    source_ids: list[int]
    target_ids: list[int]
    agreed: list[bool]
    """Of each step, whether the oracle's best continuation is the same."""
    differences: list[float]
    """Of each step, the maximum difference of the log-probabilities of the best two continuations, nats."""
    lead: float
    """Least difference of the best two continuations of a step, nats."""


def certify(
    student: Student, runner: StudentRunner, *, precision: str, source_language: str, target_language: str
) -> Certificate:
    """Decode sentences with the graphs, let numpy follow, and return the results.

    Raises:
        ParityError: The graphs do not compute what numpy does.
    """
    oracle = Oracle(student, integers=precision == "int8")
    tokenizer = SentencePieceProcessor(model_proto=student.source_vocabulary)
    followed: list[_Followed] = []
    for text in islice(_texts(source_language), _SENTENCES):
        if sum(len(each.agreed) for each in followed) < _STEPS:
            followed.append(_follow(oracle, runner, text, [*tokenizer.encode(text), EOS_ID]))
    steps = [agreed for each in followed for agreed in each.agreed]
    differences = [difference for each in followed for difference in each.differences]
    _require_parity(precision, differences)
    return Certificate(
        measured_on="sample",
        directions=[f"{source_language} to {target_language}"],
        not_measured=list(_NOT_MEASURED),
        parity={
            precision: {
                "sentences": len(followed),
                "steps": len(steps),
                "max_abs_difference": max(differences),
                "mean_abs_difference": float(np.mean(differences)),
                "token_agreement": float(np.mean(steps)),
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
    target_ids, agreed, differences, lead = list[int](), list[bool](), list[float](), float("inf")
    while len(target_ids) < int(LENGTH_FACTOR * len(source_ids)):
        last, position = target_ids[-1] if target_ids else EOS_ID, len(target_ids)
        found, states = runner.step(memory, last, position, states)
        expected = oracle.step(source, last, position, expected_states)
        expected_states = expected.states
        differences.append(float(np.abs(expected.log_probs[found.ids] - found.log_probs).max()))
        lead = min(lead, found.log_probs[0] - found.log_probs[1])
        agreed.append(found.ids[0] == expected.log_probs.argmax())
        if found.ids[0] == EOS_ID:
            break
        target_ids.append(found.ids[0])
    return _Followed(
        source=text, source_ids=source_ids, target_ids=target_ids, agreed=agreed, differences=differences, lead=lead
    )


def _require_parity(precision: str, differences: Sequence[float]) -> None:
    measured, found, limit = (
        ("on average", float(np.mean(differences)), _MAX_INT8_DIFFERENCE)
        if precision == "int8"
        else ("", max(differences), _MAX_FLOAT32_DIFFERENCE)
    )
    if not found < limit:
        raise ParityError(
            f"{precision} graphs differ from numpy by {found:.2e} nats {measured}, the limit is {limit:g}"
        )


def _samples(student: Student, followed: Sequence[_Followed]) -> list[Sample]:
    """Choose sentences that both translate alike and whose choices are clear, or at least the clearest.

    Other processors add floats in another order, which must not change a choice. Empty translations come last.
    """
    alike = [each for each in followed if all(each.agreed)]
    alike.sort(key=lambda each: (bool(each.target_ids), each.lead), reverse=True)
    if not alike:
        raise ParityError("no sentence is translated alike by the graphs and numpy")
    chosen = [each for each in alike if each.lead >= _CLEAR_LEAD] or alike[:1]
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
        for each in chosen[:_SAMPLES]
    ]


def _texts(language: str) -> Iterator[str]:
    """Yield sentences of the exporter's sample in a language, or all if it has none."""
    text = resources.files("xuanzang.export").joinpath("sample.tsv").read_text(encoding="utf-8")
    rows = [(code, sentence) for code, _, sentence in (line.partition("\t") for line in text.splitlines())]
    own = [sentence for code, sentence in rows if code == language.partition("-")[0]]
    yield from own or (sentence for _, sentence in rows)
