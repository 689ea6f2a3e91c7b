"""The graphs against the model that they were built from, in numpy and in torch."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from xuanzang.export import tensors
from xuanzang.export.builder import IR_VERSION, OPSET
from xuanzang.export.certification.parity import compare
from xuanzang.export.certification.runner import Candidates, OnnxModel, translate_batch
from xuanzang.export.certification.step_inputs import LiveHypotheses
from xuanzang.export.graphs.build import decoder_graph, encoder_graph
from xuanzang.export.graphs.precision import Floats
from xuanzang.export.graphs.shortlist import suggestions_graph
from xuanzang.model.checkpoint import network_of
from xuanzang.model.data.shortlist import Shortlist
from xuanzang.model.network.arrays import ArrayNetwork, pad, parameter_shapes
from xuanzang.model.network.config import PRESETS, TransformerConfig
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.search import beam_search

FLOAT32 = Floats("float32")


@pytest.fixture
def onnx_model(network: ArrayNetwork) -> OnnxModel:
    return OnnxModel(encoder_graph(network, FLOAT32), decoder_graph(network, FLOAT32), network.config)


def test_numpy_computes_what_torch_does(model: Transformer, network: ArrayNetwork, sentences: list[list[int]]) -> None:
    assert parameter_shapes(model.config) == {name: value.shape for name, value in model.named_parameters()}
    source_ids, mask = pad(sentences, model.config.pad_id)
    target_ids, _ = pad([[model.config.bos_id, *ids] for ids in sentences], model.config.pad_id)
    with torch.inference_mode():
        memory, real = model.encode(torch.from_numpy(source_ids), torch.from_numpy(mask)), torch.from_numpy(mask)
        states = model.decoder_states(torch.from_numpy(target_ids), memory, real)
    found = network.observed_states(source_ids, mask, target_ids, lambda _name, _inputs: None)
    np.testing.assert_allclose(found, states.numpy(), atol=1e-5)


def test_steps_in_numpy_are_those_of_torch(
    model: Transformer, network: ArrayNetwork, sentences: list[list[int]]
) -> None:
    beam_size = 3
    source_ids, mask = pad(sentences, model.config.pad_id)
    generator, shape = np.random.default_rng(3), (len(sentences), beam_size)
    first_row, cache = np.arange(len(sentences))[:, None] * beam_size, network.start(source_ids, mask, beam_size)
    with torch.inference_mode():
        rows = [torch.from_numpy(array).repeat_interleave(beam_size, 0) for array in (source_ids, mask)]
        expected_cache, token_ids = model.start(model.encode(*rows), rows[1]), np.full(shape, model.config.bos_id)
        for _ in range(5):
            logits, expected_cache = model.step(torch.from_numpy(token_ids).flatten(), expected_cache)
            log_probs, cache = network.step(token_ids, cache)
            expected = logits.log_softmax(-1).view(*shape, -1).numpy()
            np.testing.assert_allclose(log_probs, expected, atol=1e-5)
            parents, token_ids = generator.integers(beam_size, size=shape), generator.integers(4, 47, size=shape)
            cache = cache.select(parents)
            expected_cache = expected_cache.select(torch.from_numpy(first_row + parents).flatten())


def test_float32_graphs_decode_as_numpy_does(
    network: ArrayNetwork, onnx_model: OnnxModel, sentences: list[list[int]]
) -> None:
    parity = compare(network, onnx_model, sentences, beam_size=3, batch_sentences=6)
    assert parity.sentences == len(sentences)
    assert parity.steps > 10
    assert parity.max_abs_difference < 1e-4
    assert parity.token_agreement == 1.0


@pytest.mark.parametrize("model", ["pre-norm", "as Marian", "as mBART"], indirect=True)
def test_float16_graphs_differ_by_what_16_bits_leave_out(network: ArrayNetwork, sentences: list[list[int]]) -> None:
    half = Floats("float16")
    graphs = OnnxModel(encoder_graph(network, half), decoder_graph(network, half), network.config)
    parity = compare(network, graphs, sentences, beam_size=3, batch_sentences=6)
    assert parity.steps > 10
    assert 1e-4 < parity.max_abs_difference < 0.05


@pytest.mark.parametrize("model", ["pre-norm", "as Marian", "as mBART"], indirect=True)
@pytest.mark.parametrize("floats", ["float32", "float16"])
def test_the_graphs_state_the_tables_and_what_onnxruntime_runs(network: ArrayNetwork, floats: str) -> None:
    precision, config = Floats(floats), network.config
    for graph, inputs, outputs in (
        (
            encoder_graph(network, precision),
            tensors.encoder_inputs(config, floats),
            tensors.encoder_outputs(config, floats),
        ),
        (
            decoder_graph(network, precision),
            tensors.decoder_inputs(config, floats),
            tensors.decoder_outputs(config, floats),
        ),
    ):
        onnx.checker.check_model(graph, full_check=True)
        assert [value.name for value in graph.graph.input] == [spec.name for spec in inputs]
        assert [value.name for value in graph.graph.output] == [spec.name for spec in outputs]
        assert graph.ir_version == IR_VERSION
        assert {opset.domain: opset.version for opset in graph.opset_import}[""] == OPSET


@pytest.mark.parametrize("model", ["pre-norm"], indirect=True)
def test_candidates_are_distinct_sorted_and_twice_the_beam(onnx_model: OnnxModel, sentences: list[list[int]]) -> None:
    seen: list[Candidates] = []

    def record(live: LiveHypotheses, candidates: Candidates) -> None:
        assert candidates.scores.shape == (len(sentences), 2 * live.token_ids.shape[1])
        seen.append(candidates)

    translate_batch(onnx_model, sentences, beam_size=3, length_penalty=1.0, max_target_length=6, on_step=record)
    for candidates in seen:
        assert (np.diff(candidates.scores, axis=1) <= 0).all()
        for parents, ids in zip(candidates.parents.tolist(), candidates.ids.tolist(), strict=True):
            assert len(set(zip(parents, ids, strict=True))) == len(ids)


def test_a_beam_wider_than_the_vocabulary_is_searched_exhaustively() -> None:
    from xuanzang.model.network.config import PRESETS, TransformerConfig

    torch.manual_seed(0)
    small = Transformer(TransformerConfig(source_vocab_size=6, target_vocab_size=6, **PRESETS["tiny"])).eval()
    network = network_of(small)
    graphs = OnnxModel(encoder_graph(network, FLOAT32), decoder_graph(network, FLOAT32), small.config)
    [found] = translate_batch(graphs, [[4, 5, 2]], beam_size=16, length_penalty=1.0, max_target_length=3)
    source = torch.tensor([[4, 5, 2]])
    [expected] = beam_search(
        small, source, torch.ones_like(source, dtype=torch.bool), beam_size=16, num_hypotheses=16, max_target_length=3
    )
    assert [h.target_ids for h in found] == [h.target_ids for h in expected]


@pytest.mark.parametrize("model", ["as Marian"], indirect=True)
def test_banned_pieces_are_no_candidates(model: Transformer, onnx_model: OnnxModel, sentences: list[list[int]]) -> None:
    asked: list[tuple[LiveHypotheses, Candidates]] = []
    translate_batch(
        onnx_model,
        sentences[:4],
        beam_size=4,
        length_penalty=1.0,
        max_target_length=20,
        on_step=lambda live, candidates: asked.append((live, candidates)),
    )
    found = {piece for _, candidates in asked for piece in candidates.ids.flatten().tolist()}
    assert found
    assert not found & {*model.config.banned_ids}


def test_banned_pieces_are_not_suggested() -> None:
    shortlist = Shortlist(np.array([[2, 5], [5, 6], [1, 6], [6, 3]], np.int32), np.array([0, 4, 6], np.int32))
    config = TransformerConfig(
        source_vocab_size=4, target_vocab_size=8, share_embeddings=False, **PRESETS["tiny"], banned_ids=(5, 6)
    )
    session = onnxruntime.InferenceSession(suggestions_graph(shortlist, config).SerializeToString())
    suggested, always = session.run(None, {"source_ids": np.array([[0, 1], [2, 3]])})
    assert [np.flatnonzero(row).tolist() for row in suggested] == [[2], [1]]
    assert [piece for piece in always.tolist() if piece < config.target_vocab_size] == [0, 4]
