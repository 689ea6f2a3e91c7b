"""Provenance of translations: written with them as JSON, or kept in a capsule and replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.conftest import Run, Script

from xuanzang.translation.v1 import translation_pb2 as pb


def with_provenance(request: Any, content: str) -> pb.Translation:
    """Translate to upper case, by a model that its provenance names."""
    provenance = pb.Provenance(method="TranslateText", model="zh-en", model_version="2", kernels="avx2")
    score = -0.25 if request.settings.return_scores else None
    made = provenance if request.settings.return_provenance else None
    return pb.Translation(hypotheses=[pb.Hypothesis(text=content.upper(), score=score)], provenance=made)


@pytest.fixture
def recording(script: Script) -> Script:
    """Return a server that says how it translates."""
    script.on_stream = lambda requests, context: (
        pb.StreamTranslateTextResponse(id=each.id, translation=with_provenance(each, each.content)) for each in requests
    )
    script.on_translate = lambda request, context: pb.TranslateTextResponse(
        translations=[with_provenance(request, content) for content in request.contents]
    )
    return script


def test_provenance_is_written_as_json(run: Run, recording: Script) -> None:
    code, output, _ = run("translate", "--json", "--provenance", "a")
    assert code == 0
    assert json.loads(output)["provenance"]["kernels"] == "avx2"
    code, output, _ = run("translate", "--json", "a")
    assert "provenance" not in json.loads(output)


def test_a_capsule_is_written_and_replayed(run: Run, recording: Script, tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    assert run("translate", "--capsule", file, "a", "b") == (0, "A\nB\n", "")
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("replay", file) == (0, "text 1: identical\ntext 2: identical\nidentical\n", "")
    assert [request.settings.model for request in recording.requests[2:]] == ["zh-en/2", "zh-en/2"]


def test_a_replay_that_differs_exits_with_1(run: Run, recording: Script, tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    run("translate", "--capsule", file, "a")
    file.write_text(file.read_text().replace('"A"', '"B"').replace("avx2", "generic"))
    code, output, errors = run("replay", file)
    assert (code, errors) == (1, "")
    assert output.splitlines() == [
        "text 1: the answer differs",
        "  hypotheses[0].text, from byte 0 on: was 'B', is 'A'",
        "made under other conditions:",
        "  provenance.kernels: was generic, is avx2",
        "0 of 1 answers are identical",
    ]


def test_a_bad_capsule_is_a_wrong_argument(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    code, output, errors = run("replay", tmp_path / "bad.json")
    assert (code, output) == (2, "")
    assert errors == f'xuanzang: {tmp_path}/bad.json: format must be "xuanzang-capsule"\n'


def test_a_capsule_holds_a_limited_number_of_texts(run: Run, recording: Script, tmp_path: Path) -> None:
    code, output, errors = run("translate", "--capsule", tmp_path / "answers.json", given="a\n" * 1025)
    assert code == 2
    assert output.count("\n") == 1024
    assert errors == "xuanzang: --capsule: a capsule holds at most 1024 texts\n"
    assert not (tmp_path / "answers.json").exists()
