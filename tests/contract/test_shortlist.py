"""Decoding limited to the shortlist of each source."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoded import decoded
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from search_options import search_options

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export.exporter import export
from xuanzang.export.settings import ExportSettings
from xuanzang.kernels.decode import Interrupt, StepLimit
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.data.shortlist import Shortlist, save_shortlist
from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.manifest import manifest_faults
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.decoding.phrase_automaton import PhraseAutomaton, RequiredPhrase, compile_phrases
from xuanzang.server.engine.runtime.sessions import Sessions
from xuanzang.server.engine.types import SamplingOptions
from xuanzang.text.types import Variant

LIMIT = 24
ALWAYS = [*range(4), *range(270, 290)]
OUTSIDE = 300


def options(beam_size: int, **changes: Any) -> SearchOptions:
    plain = {"num_hypotheses": beam_size, "max_target_length": LIMIT}
    return search_options(beam_size=beam_size, **{**plain, **changes})


def phrases(*required: tuple[int, ...]) -> PhraseAutomaton:
    variants = [Variant(ids, guards_start=False, guards_end=False) for ids in required]
    return compile_phrases([RequiredPhrase(variants=(one,)) for one in variants], np.zeros(1000, np.int8))


KINDS = [
    options(4),
    options(1),
    options(4, coverage_penalty=0.3),
    options(2, token_details=True, min_target_length=5),
    options(4, repetition_penalty=1.4, prefix_ids=(OUTSIDE, 280, OUTSIDE + 1)),
    options(4, no_repeat_ngram_size=2, suppressed_sequences=((280,), (OUTSIDE,), (OUTSIDE + 2,))),
    options(1, sampling=SamplingOptions(top_k=100, top_p=0.9, temperature=1.2, seed=7)),
    options(4, phrases=phrases((OUTSIDE + 5, OUTSIDE + 6), (280,))),
    options(3, phrases=phrases((OUTSIDE + 7,)), prefix_ids=(281,), num_hypotheses=1, no_repeat_ngram_size=3),
]
"""The last ones require phrases, of which the shortlists lack some pieces."""
STEADY_KINDS = 2
"""The first ones, with which one step may follow another at once."""


@pytest.fixture(scope="module")
def some(checkpoint: Checkpoint) -> Shortlist:
    """Return a shortlist of the three ids that follow each source id, none of them from OUTSIDE on."""
    ids = np.arange(checkpoint.model.config.source_vocab_size)[:, None] + np.arange(3)
    return Shortlist((ids % OUTSIDE).astype(np.int32), np.array(ALWAYS, np.int32))


@pytest.fixture(scope="module")
def everything(checkpoint: Checkpoint, some: Shortlist) -> Shortlist:
    return some._replace(always=np.arange(checkpoint.model.config.target_vocab_size, dtype=np.int32))


Export = Callable[[str, Shortlist], Bundle]


@pytest.fixture(scope="module")
def export_with(export_tiny: Callable[..., Path]) -> Export:
    def export_with(precision: str, shortlist: Shortlist) -> Bundle:
        return load_bundle(export_tiny(precision=precision, shortlist=shortlist, evaluation_sentences=48))

    return export_with


OpenGraphs = Callable[[Bundle, bool], Sessions]
"""Function that opens the graphs of a bundle, with or without its shortlist."""


@pytest.fixture(scope="session")
def open_graphs(provider: str) -> OpenGraphs:
    def open_graphs(bundle: Bundle, shortlist: bool) -> Sessions:
        return Sessions(bundle, provider=provider, intra_op_threads=1, shortlist=shortlist)

    return open_graphs


def alone(runtime: Sessions, ids: list[int], options: SearchOptions) -> list[TargetHypothesis]:
    [hypotheses] = decoded(Decoder(runtime), [(0, Sentence(source_ids=ids, options=options))]).values()
    return hypotheses


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_a_shortlist_of_all_pieces_gives_the_answers_of_the_full_decoder(
    precision: str, export_with: Export, open_graphs: OpenGraphs, everything: Shortlist, texts: list[list[int]]
) -> None:
    bundle = export_with(precision, everything)
    full, shortlisted = open_graphs(bundle, False), open_graphs(bundle, True)
    for options in KINDS:
        for ids in texts:
            expected, found = alone(full, ids, options), alone(shortlisted, ids, options)
            assert [one.target_ids for one in found] == [one.target_ids for one in expected]
            assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)


@pytest.fixture(scope="module", params=["float32", "int8"])
def runtime(request: pytest.FixtureRequest, export_with: Export, open_graphs: OpenGraphs, some: Shortlist) -> Sessions:
    return open_graphs(export_with(request.param, some), True)


def test_only_pieces_of_the_shortlist_and_the_prefix_are_chosen(
    runtime: Sessions, texts: list[list[int]], some: Shortlist
) -> None:
    for ids in texts:
        suggested = {*ALWAYS, *some.suggested[ids].flatten().tolist()}
        for options in KINDS:
            hypotheses = alone(runtime, ids, options)
            assert hypotheses
            for one in hypotheses:
                assert {*one.target_ids} <= suggested | {*options.forced_ids}
                assert not options.phrases or {*options.phrases.token_ids} <= {*one.target_ids}
                assert tuple(one.target_ids[: len(options.prefix_ids)]) == options.prefix_ids


@pytest.fixture(scope="module")
def expected(runtime: Sessions, texts: list[list[int]]) -> dict[tuple[int, int], list[TargetHypothesis]]:
    return {
        (text, kind): alone(runtime, ids, options)
        for text, ids in enumerate(texts)
        for kind, options in enumerate(KINDS)
    }


@settings(max_examples=40)
@given(data=st.data())
def test_a_sentence_gets_the_same_answer_in_any_batch_and_alone(
    data: st.DataObject,
    runtime: Sessions,
    texts: list[list[int]],
    expected: dict[tuple[int, int], list[TargetHypothesis]],
) -> None:
    kinds = data.draw(st.sampled_from((len(KINDS), STEADY_KINDS)))
    choices = st.tuples(st.integers(0, 12), st.integers(0, len(texts) - 1), st.integers(0, kinds - 1))
    plan = data.draw(st.lists(choices, min_size=1, max_size=12))
    asked = [(step, Sentence(source_ids=texts[text], options=KINDS[kind])) for step, text, kind in plan]
    leaving = data.draw(st.sets(st.integers(0, len(asked) - 1)))
    steps, after_done = data.draw(st.sampled_from((1, 2, 5, 64))), data.draw(st.sampled_from((0, 1, 3, 64)))
    limit = StepLimit(steps, math.inf, Interrupt(), after_done)
    leavers = [(asked[index][0] + 2, asked[index][1]) for index in leaving]
    found = decoded(Decoder(runtime), asked, leavers, limit)
    for index, ((_, sentence), (_, text, kind)) in enumerate(zip(asked, plan, strict=True)):
        if index not in leaving or sentence in found:
            # Equal to the last bit, scores too.
            assert found[sentence] == expected[text, kind]


def test_answers_do_not_depend_on_how_long_sentences_that_are_done_wait(
    runtime: Sessions, texts: list[list[int]], expected: dict[tuple[int, int], list[TargetHypothesis]]
) -> None:
    calls = []
    for after_done in (0, 64):
        decoder = Decoder(runtime)
        asked = [Sentence(source_ids=ids, options=KINDS[0]) for ids in texts]
        decoder.admit(asked)
        found: dict[Sentence, list[TargetHypothesis]] = {}
        calls.append(0)
        while len(decoder):
            calls[-1] += 1
            found.update(decoder.advance(StepLimit(64, math.inf, Interrupt(), after_done)).done)
        assert [found[sentence] for sentence in asked] == [expected[text, 0] for text in range(len(texts))]
    assert (calls[1] < calls[0]) == (runtime.step_functions is not None)


def test_a_bundle_without_shortlist_is_refused_if_one_is_requested(
    tiny_bundle_repository: Path, open_graphs: OpenGraphs
) -> None:
    with pytest.raises(BundleError, match="the bundle has no shortlist"):
        open_graphs(load_bundle(tiny_bundle_repository / "tiny" / "1"), True)


def test_a_shortlist_for_other_tokenizers_is_not_exported(
    tiny_checkpoint: Path, toy_files: tuple[Path, Path], tmp_path: Path, some: Shortlist
) -> None:
    (tmp_path / "source.spm").write_bytes(b"another")
    save_shortlist(tmp_path / "shortlist.safetensors", some, tmp_path)
    wanted = ExportSettings(
        checkpoint=tiny_checkpoint,
        repository=tmp_path,
        model="tiny",
        valid=toy_files[1],
        shortlist=tmp_path / "shortlist.safetensors",
    )
    with pytest.raises(CorpusError, match="made with other tokenisers"):
        export(wanted)


def test_a_manifest_with_a_wrong_shortlist_is_refused(export_with: Export, some: Shortlist) -> None:
    bundle = export_with("float32", some)
    assert manifest_faults(bundle.manifest, bundle.directory) == []
    spoilt = json_format.Parse(json_format.MessageToJson(bundle.manifest), manifest_pb2.Manifest())
    del spoilt.shortlist.decoder.inputs[-1]
    spoilt.shortlist.suggestions.file = "missing.onnx"
    assert manifest_faults(spoilt, bundle.directory) == [
        "shortlist.decoder.inputs lacks 'choices'",
        "shortlist.suggestions.file is 'missing.onnx', which files does not list",
    ]
