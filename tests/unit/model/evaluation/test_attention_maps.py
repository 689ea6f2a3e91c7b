from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from xuanzang.model.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from xuanzang.model.evaluation.attention_maps import attention_maps
from xuanzang.model.evaluation.attention_pictures import Panel, PictureError, save_with_matplotlib
from xuanzang.model.network.transformer import Transformer

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def checkpoint(make_model: Callable[..., Transformer], data: Path, tmp_path: Path) -> Checkpoint:
    model = make_model(source_vocab_size=300, target_vocab_size=300, num_encoder_layers=3)
    save_checkpoint(tmp_path / "best", dict(model.named_parameters()), model.config, data, training={})
    return load_checkpoint(tmp_path / "best")


def test_every_layer_and_head_has_a_map_whose_rows_sum_to_one(checkpoint: Checkpoint) -> None:
    maps = attention_maps(checkpoint, "猫狗", "dog cat")
    source, target = len(maps.source_pieces), len(maps.target_input_pieces)
    assert maps.source_pieces[-1] == maps.target_output_pieces[-1] == "</s>"
    assert maps.target_input_pieces == ["<s>", *maps.target_output_pieces[:-1]]
    assert maps.encoder_self_attention.shape == (3, 4, source, source)
    assert maps.decoder_self_attention.shape == (2, 4, target, target)
    assert maps.cross_attention.shape == (2, 4, target, source)
    for weights in (maps.encoder_self_attention, maps.decoder_self_attention, maps.cross_attention):
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    assert not np.triu(maps.decoder_self_attention, k=1).any()


def test_without_a_target_the_model_translates(checkpoint: Checkpoint) -> None:
    maps = attention_maps(checkpoint, "猫狗")
    assert maps.target_output_pieces[-1] == "</s>"
    assert maps.cross_attention.shape[2:] == (len(maps.target_output_pieces), len(maps.source_pieces))


def test_numbers_are_written_as_json_and_npz(checkpoint: Checkpoint, tmp_path: Path) -> None:
    maps = attention_maps(checkpoint, "猫狗", "dog cat")
    maps.save(tmp_path / "maps.json")
    maps.save(tmp_path / "maps.npz")
    read = json.loads((tmp_path / "maps.json").read_text(encoding="utf-8"))
    assert read["source_pieces"] == maps.source_pieces
    np.testing.assert_array_equal(np.array(read["cross_attention"], dtype=np.float32), maps.cross_attention)
    with np.load(tmp_path / "maps.npz") as arrays:
        assert arrays["target_output_pieces"].tolist() == maps.target_output_pieces
        np.testing.assert_array_equal(arrays["encoder_self_attention"], maps.encoder_self_attention)


def test_svg_holds_the_labels_as_text_and_a_square_for_every_weight(checkpoint: Checkpoint, tmp_path: Path) -> None:
    maps = attention_maps(checkpoint, "猫 <狗", "dog & cat")
    maps.save(tmp_path / "maps.svg")
    root = ET.fromstring((tmp_path / "maps.svg").read_text(encoding="utf-8"))
    labels = [element.text for element in root.iter(f"{SVG}text")]
    pieces = [*maps.source_pieces, *maps.target_input_pieces, *maps.target_output_pieces]
    assert set(pieces) <= set(labels)
    assert any("猫" in (label or "") for label in labels)
    layers = (*maps.encoder_self_attention, *maps.decoder_self_attention, *maps.cross_attention)
    squares = [element for element in root.iter(f"{SVG}rect") if element.get("fill-opacity")]
    assert len(squares) == sum(int((heads.mean(axis=0) > 0.005).sum()) for heads in layers)


def panels(label: str) -> list[list[Panel]]:
    return [[Panel(title="cross", weights=np.eye(2, dtype=np.float32), queries=["a", label], keys=["b", "$"])]]


@pytest.fixture
def _only_the_fonts_of_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    from matplotlib.font_manager import fontManager

    own = [font for font in fontManager.ttflist if font.fname.startswith(matplotlib.get_data_path())]
    assert own
    monkeypatch.setattr(fontManager, "ttflist", own)


@pytest.mark.usefixtures("_only_the_fonts_of_matplotlib")
@pytest.mark.parametrize("ending", ["png", "pdf"])
def test_a_picture_is_drawn_if_a_font_has_its_labels(tmp_path: Path, ending: str) -> None:
    save_with_matplotlib(panels("ö▁"), tmp_path / f"maps.{ending}")
    assert (tmp_path / f"maps.{ending}").read_bytes()[:5] in {b"\x89PNG\r", b"%PDF-"}


@pytest.mark.usefixtures("_only_the_fonts_of_matplotlib")
def test_without_a_font_for_its_labels_a_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PictureError, match=r"no installed font has the characters 狗猫: .*\.svg.*fonts-noto-cjk"):
        save_with_matplotlib(panels("猫狗"), tmp_path / "maps.png")
    assert not list(tmp_path.iterdir())


def test_an_unknown_kind_of_file_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in one of \.json, \.npz"):
        attention_maps(checkpoint, "猫", "cat").save(tmp_path / "maps.txt")
