from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from learning_curve import Point, add_run, draw, main

CURVE = Path(__file__).parents[3] / "model" / "recipes" / "zh-en" / "curve.json"


def row(step: int, loss: float) -> Point:
    return {"step": step, "loss": loss, "bleu": 10.0, "chrf": 40.0, "train_loss": None}


def test_a_run_goes_on_from_the_tokens_of_the_one_before() -> None:
    first = add_run([], "first", [row(100, 4.0), row(200, 3.0)], 50)
    points = add_run(first, "second", [row(100, 2.5)], 80)
    assert [(point["run"], point["step"], point["target_tokens"]) for point in points] == [
        ("first", 100, 5000),
        ("first", 200, 10000),
        ("second", 100, 18000),
    ]
    assert add_run(points, "second", [row(100, 2.5)], 80) == points


def test_what_a_resumed_run_measured_twice_counts_once() -> None:
    rows = [row(100, 4.0), row(200, 3.5), row(200, 3.4), row(300, 3.0)]
    points = add_run([], "first", rows, 1)
    assert [(point["step"], point["validation_loss"]) for point in points] == [(100, 4.0), (200, 3.4), (300, 3.0)]


def test_the_picture_is_svg_and_depends_on_the_points_alone(tmp_path: Path) -> None:
    points = json.loads(CURVE.read_text(encoding="utf-8"))["points"]
    pictures = [tmp_path / name for name in ("one.svg", "two.svg")]
    for picture in pictures:
        draw(points, picture)
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    words = {element.text for element in ET.parse(pictures[0]).iter("{http://www.w3.org/2000/svg}text")}
    assert {"first run", "second run", "million target tokens"} <= words


def test_the_command_adds_a_run_to_the_file_and_draws_it(tmp_path: Path) -> None:
    curve, picture, validations = (tmp_path / name for name in ("curve.json", "curve.svg", "validations.jsonl"))
    curve.write_bytes(CURVE.read_bytes())
    assert main([str(curve), str(picture)]) == 0
    assert curve.read_bytes() == CURVE.read_bytes()
    validations.write_text(json.dumps(row(10, 2.0)) + "\n")
    assert main([str(curve), str(picture), "--add", "new", str(validations), "1000"]) == 0
    before, after = (json.loads(path.read_text(encoding="utf-8"))["points"] for path in (CURVE, curve))
    assert after[:-1] == before
    assert after[-1]["target_tokens"] == before[-1]["target_tokens"] + 10_000
    assert "new run" in picture.read_text()


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.json"), str(tmp_path / "x.svg")]) == 2
    assert "none.json" in capsys.readouterr().err
