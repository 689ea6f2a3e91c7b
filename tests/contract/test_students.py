"""Bundles of Firefox Translations' students against a forward pass and a search in plain numpy."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoded import decoded
from search_options import search_options
from sentencepiece import SentencePieceProcessor
from synthetic_students import float_student, quantized

from xuanzang.export.graphs.precision import Int8
from xuanzang.export.students import ParityError, StudentError, build_bundle
from xuanzang.export.students.graphs import decoder_graph, encoder_graph
from xuanzang.export.students.oracle import Oracle, Source
from xuanzang.export.students.runner import StudentRunner
from xuanzang.hub.marian import Student
from xuanzang.hub.marian_items import Tensor
from xuanzang.server import Translator
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.graph_interface import is_recurrent
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchRules, Sentence, TargetHypothesis
from xuanzang.server.engine.runtime.sessions import Sessions

Toy = Callable[[str, bool], Student]
Bundles = Callable[[str, bool], Path]
EOS = 0


@pytest.fixture(scope="module")
def sentences(toy_student: Toy, toy_pairs: list[tuple[str, str]]) -> Callable[[bool], list[list[int]]]:
    def sentences(shared: bool) -> list[list[int]]:
        tokenizer = SentencePieceProcessor(model_proto=toy_student("float32", shared).source_vocabulary)
        return [[*tokenizer.encode(source), EOS] for source, _ in toy_pairs[::10]]

    return sentences


def decode(sessions: Sessions, sources: list[list[int]], **options: Any) -> list[list[TargetHypothesis]]:
    """Decode sentences together by the rules of students."""
    asked = [
        Sentence(
            source_ids=ids,
            options=search_options(max_target_length=2 * len(ids), rules=SearchRules(shrinks=True), **options),
        )
        for ids in sources
    ]
    found = decoded(Decoder(sessions), [(0, sentence) for sentence in asked])
    return [found[sentence] for sentence in asked]


def marian_beam_search(oracle: Oracle, source_ids: list[int], beam_size: int) -> list[tuple[float, list[int]]]:
    """Search as Marian does: a hypothesis that ends takes its place in the beam along."""
    source, limit = oracle.encode(source_ids), 2 * len(source_ids)
    live, ended = [(0.0, list[int](), oracle.start())], list[tuple[float, list[int]]]()
    width = beam_size
    for position in range(limit):
        steps = [oracle.step(source, ids[-1] if ids else EOS, position, states) for _, ids, states in live]
        totals = np.concatenate([score + step.log_probs for (score, *_), step in zip(live, steps, strict=True)])
        parents, tokens = np.divmod(np.argsort(-totals, kind="stable")[:width], len(steps[0].log_probs))
        grown = [
            (
                float(totals[parent * len(steps[0].log_probs) + token]),
                [*live[parent][1], int(token)],
                steps[parent].states,
            )
            for parent, token in zip(parents.tolist(), tokens.tolist(), strict=True)
        ]
        live = [each for each in grown if each[1][-1] != EOS and position + 1 < limit]
        ended += [(score / (position + 1), ids) for score, ids, _ in grown if ids[-1] == EOS or position + 1 == limit]
        width = len(live)
        if not width:
            break
    return sorted(ended, key=lambda each: -each[0])


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "no kernels"])
@pytest.mark.parametrize("shared", [True, False], ids=["one vocabulary", "two vocabularies"])
@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_of_the_float32_bundle_are_marians(
    toy_student: Toy,
    student_bundle: Bundles,
    sentences: Callable[[bool], list[list[int]]],
    shared: bool,
    beam_size: int,
    kernels: bool,
) -> None:
    bundle, oracle = load_bundle(student_bundle("float32", shared)), Oracle(toy_student("float32", shared))
    sessions = Sessions(bundle, provider="cpu", intra_op_threads=1, kernels=kernels)
    for ids, found in zip(
        sentences(shared),
        decode(sessions, sentences(shared), beam_size=beam_size, num_hypotheses=beam_size),
        strict=True,
    ):
        expected = marian_beam_search(oracle, ids, beam_size)
        assert [[*each.target_ids, *([EOS] if each.finished else [])] for each in found] == [ids for _, ids in expected]
        assert [each.score for each in found] == pytest.approx([score for score, _ in expected], abs=1e-4)


def test_an_end_at_once_is_searched_as_marian_does_and_is_no_answer(
    toy_student: Toy, toy_pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    student = toy_student("float32", True)
    bias = student.tensors["decoder_ff_logit_out_b"].array.copy()
    bias[0, EOS] += 3  # many searches find an end among their first tokens
    eager = replace(student, tensors={**student.tensors, "decoder_ff_logit_out_b": Tensor(array=bias)})
    place = tmp_path / "student" / "1"
    build_bundle(eager, place, source_language="zh", target_language="en")
    sessions = Sessions(load_bundle(place), provider="cpu", intra_op_threads=1, kernels=True)
    tokenizer = SentencePieceProcessor(model_proto=eager.source_vocabulary)
    texts = [source for source, _ in toy_pairs[::10]]
    free, forced = (
        [
            # The server leaves out bytes that form no character.
            tokenizer.decode(best.target_ids).replace("\ufffd", "").strip()
            for [best] in decode(
                sessions, [[*tokenizer.encode(text), EOS] for text in texts], beam_size=4, min_target_length=minimum
            )
        ]
        for minimum in (0, 1)
    )
    with Translator(tmp_path, workers=1) as translator:
        answers = [translator.translate_one(text, beam_size=4).text for text in texts]
        empty = [translator.translate_one(text, beam_size=4, min_target_length=0).text for text in texts]
    assert "" in free
    assert any(one and one != other for one, other in zip(free, forced, strict=True))
    assert answers == [one or other for one, other in zip(free, forced, strict=True)]
    assert empty == free


@pytest.mark.parametrize("shared", [True, False], ids=["one vocabulary", "two vocabularies"])
def test_integers_of_the_file_are_multiplied_as_they_are(
    toy_student: Toy, sentences: Callable[[bool], list[list[int]]], tmp_path: Path, shared: bool
) -> None:
    lively = toy_student("float32", shared)
    # Calm enough that an integer that is rounded otherwise, of thousands, changes no token.
    calm = float_student(lively.source_vocabulary, lively.target_vocabulary, one_table=shared, gain=1.2)
    student = quantized(calm, sentences(shared)[:10])
    certificate = build_bundle(student, tmp_path / "student" / "1", source_language="zh", target_language="en")
    assert certificate.oracle == "numpy"
    assert certificate.parity["int8"]["token_agreement"] >= 0.995
    assert certificate.parity["int8"]["steps"] > 10


@pytest.mark.parametrize("shared", [True, False], ids=["one vocabulary", "two vocabularies"])
def test_a_step_of_a_lively_student_is_exact_from_the_same_state(
    toy_student: Toy, sentences: Callable[[bool], list[list[int]]], shared: bool
) -> None:
    # An integer that is a tie of rounding changes later steps of such weights, so each begins where the graphs are.
    sources = sentences(shared)
    student = quantized(toy_student("float32", shared), sources[:10])
    oracle, precision = Oracle(student, integers=True), Int8({})
    shape, agreed, differences = oracle.shape, list[bool](), list[float]()
    runner = StudentRunner(encoder_graph(student, precision), decoder_graph(student, precision), shape)
    layers = range(shape.num_decoder_layers)
    for ids in sources:
        memory, states = runner.encode(ids), runner.start()
        keys, values = (
            [
                memory[f"cross_key_values.{layer}.{part}"]
                .transpose(1, 0, 2, 3)
                .reshape(shape.num_heads, -1, shape.d_head)[:, : len(ids)]
                .astype(np.float32)
                for layer in layers
            ]
            for part in ("key", "value")
        )
        token = EOS
        for position in range(2 * len(ids)):
            before = [states[f"past_states.{layer}"][0, 0].astype(np.float32) for layer in layers]
            step = oracle.step(Source(keys, values), token, position, before)
            found, states = runner.step(memory, token, position, states)
            token = found.ids[0]
            agreed.append(token == step.log_probs.argmax())
            differences.append(float(np.abs(step.log_probs[found.ids] - found.log_probs).max()))
            if token == EOS:
                break
    assert len(agreed) > 50
    assert np.mean(agreed) >= 0.995
    # All but the steps with a tie of their own.
    assert np.mean(np.array(differences) < 1e-3) >= 0.95


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "no kernels"])
def test_the_alignment_is_the_first_heads_of_the_last_layer(
    toy_student: Toy, student_bundle: Bundles, sentences: Callable[[bool], list[list[int]]], kernels: bool
) -> None:
    oracle, bundle = Oracle(toy_student("float32", True)), load_bundle(student_bundle("float32", True))
    sessions = Sessions(bundle, provider="cpu", intra_op_threads=1, kernels=kernels)
    for ids, [found] in zip(
        sentences(True), decode(sessions, sentences(True), beam_size=1, token_details=True), strict=True
    ):
        assert found.details
        source, states, expected = oracle.encode(ids), oracle.start(), []
        for position in range(found.token_count):
            step = oracle.step(source, found.target_ids[position - 1] if position else EOS, position, states)
            states = step.states
            expected.append(int(step.attention.argmax()))
        assert found.details.alignment == expected


def test_a_shortlist_lets_a_sentence_choose_among_marians_pieces(
    toy_student: Toy, student_bundle: Bundles, sentences: Callable[[bool], list[list[int]]]
) -> None:
    student, bundle = toy_student("float32", True), load_bundle(student_bundle("float32", True))
    shortlist = student.shortlist
    assert shortlist
    assert not load_bundle(student_bundle("float32", False)).has_shortlist
    sessions = Sessions(bundle, provider="cpu", intra_op_threads=1, shortlist=True)
    for ids, [found] in zip(sentences(True), decode(sessions, sentences(True), beam_size=1), strict=True):
        entries = [shortlist.entries[shortlist.offsets[piece] : shortlist.offsets[piece + 1]] for piece in ids]
        allowed = {*range(shortlist.first), *ids, *np.concatenate(entries).tolist()}
        assert {*found.target_ids} <= allowed
        assert found.target_ids


def test_a_recurrent_sentence_takes_no_more_memory_than_is_reserved_for_it(
    student_bundle: Bundles, sentences: Callable[[bool], list[list[int]]]
) -> None:
    sessions = Sessions(load_bundle(student_bundle("float32", True)), provider="cpu", intra_op_threads=1)
    decoder, shape = Decoder(sessions), sessions.cache_shape
    asked = [Sentence(source_ids=ids, options=search_options(max_target_length=50)) for ids in sentences(True)]
    decoder.admit(asked)
    needed = sum(shape.bytes_needed(4, source_tokens=len(one.source_ids), target_tokens=50) for one in asked)
    # However long the translation becomes.
    assert needed == sum(shape.bytes_needed(4, source_tokens=len(one.source_ids), target_tokens=500) for one in asked)
    while len(decoder):
        decoder.step()
        assert sum(decoder.held_bytes.values()) <= needed


def test_a_manifest_that_says_another_decoder_than_its_graphs_is_refused(
    student_bundle: Bundles, tmp_path: Path
) -> None:
    folder = tmp_path / "student" / "1"
    folder.mkdir(parents=True)
    for path in student_bundle("float32", True).iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    assert is_recurrent(load_bundle(folder).manifest)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["decoder_state"] = "DECODER_STATE_KEY_VALUES"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match=r"past_key_values\.0\.key"):
        load_bundle(folder)


def test_floats_are_not_rounded_to_integers_that_no_file_has(toy_student: Toy, tmp_path: Path) -> None:
    with pytest.raises(StudentError, match="float32"):
        build_bundle(
            toy_student("float32", True),
            tmp_path / "student" / "1",
            source_language="zh",
            target_language="en",
            precision="int8",
        )


def test_graphs_that_compute_something_else_become_no_bundle(
    toy_student: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The oracle's normalisation differs from the graphs'.
    monkeypatch.setattr("xuanzang.export.students.oracle.MARIAN_EPSILON", 0.5)
    student = replace(toy_student("float32", True), digests={})
    with pytest.raises(ParityError, match="nats"):
        build_bundle(student, tmp_path / "student" / "1", source_language="zh", target_language="en")
    assert not (tmp_path / "student" / "1").exists()
