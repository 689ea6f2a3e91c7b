from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from search_options import search_options

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.decoding.hypotheses import Sentence
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.settings import EngineSettings, ModelLimits
from xuanzang.server.metrics import Metrics
from xuanzang.text.tokenizer import Processors


class LimitedSettings(EngineSettings):
    memory_bytes: int

    def limits_of(self, model: str) -> ModelLimits:
        return ModelLimits(memory_bytes=self.memory_bytes) if model == "tiny" else ModelLimits()


@pytest.fixture
def model(tiny_bundle_repository: Path, metrics: Metrics) -> LoadedModel:
    return LoadedModel(tiny_bundle_repository / "tiny" / "1", metrics)


def test_weights_larger_than_the_memory_of_their_model_are_refused(model: LoadedModel) -> None:
    with pytest.raises(BundleError, match=r"the weights have \d+ bytes, and --model-memory-mb allows 1000 in all"):
        model.open(LimitedSettings(memory_bytes=1000))


def test_keys_and_values_get_what_the_weights_leave(model: LoadedModel, metrics: Metrics) -> None:
    weights = (model.bundle.directory / "weights.bin").stat().st_size
    model.open(LimitedSettings(memory_bytes=weights + 5000, provider="cpu"))
    assert model.max_cache_bytes == 5000
    limit = metrics.registry.get_sample_value("nmt_model_cache_limit_bytes", {"model": "tiny", "version": "1"})
    assert limit == 5000


def test_graphs_that_are_open_before_the_digest_of_their_weights_do_not_count(
    tiny_bundle_repository: Path, tmp_path: Path, metrics: Metrics
) -> None:
    directory = Path(shutil.copytree(tiny_bundle_repository, tmp_path / "models")) / "tiny" / "1"
    settings = EngineSettings(provider="cpu")
    assert LoadedModel(directory, metrics, settings).sessions
    with (directory / "weights.bin").open("r+b") as file:
        [first] = file.read(1)
        file.seek(0)
        file.write(bytes([first ^ 1]))
    with pytest.raises(BundleError, match=r"weights\.bin has SHA-256"):
        LoadedModel(directory, metrics, settings)


def test_models_with_the_same_vocabularies_have_them_in_memory_once(
    tiny_bundle_repository: Path, tmp_path: Path, metrics: Metrics
) -> None:
    directory, processors = tiny_bundle_repository / "tiny" / "1", Processors()
    other = Path(shutil.copytree(tiny_bundle_repository, tmp_path / "models")) / "tiny" / "1"
    text = "abc abc"
    alone = LoadedModel(directory, metrics, processors=processors)
    vocabularies, ids = processors.count, alone.codec.encode(text)
    second = LoadedModel(other, metrics, processors=processors)
    assert processors.count == vocabularies > 0
    alone.close()
    assert second.codec.encode(text) == ids
    second.close()
    assert processors.count == 0


def test_a_sentence_needs_the_more_memory_the_wider_its_beam_is(model: LoadedModel) -> None:
    assert model.cache_bytes_of(_sentence(beam_size=4)) == 0
    model.open(EngineSettings(provider="cpu"))
    needed = [model.cache_bytes_of(_sentence(beam_size=beam_size)) for beam_size in (1, 4, 16)]
    assert 0 < needed[0] < needed[1] < needed[2]


def _sentence(*, beam_size: int) -> Sentence:
    options = search_options(beam_size=beam_size, max_target_length=64)
    return Sentence(source_ids=[5] * 10, options=options)
