"""Decoding limited to the shortlist of each source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoded import decoded
from google.protobuf import json_format
from search_options import search_options
from tests.contract.conftest import ALWAYS, OUTSIDE

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.shortlist import Shortlist
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


@pytest.fixture(scope="module")
def everything(checkpoint: Checkpoint, some_shortlist: Shortlist) -> Shortlist:
    return some_shortlist._replace(always=np.arange(checkpoint.model.config.target_vocab_size, dtype=np.int32))


Export = Callable[[str, Shortlist], Bundle]


@pytest.fixture(scope="module")
def export_with(export_tiny: Callable[..., Path]) -> Export:
    def export_with(precision: str, shortlist: Shortlist) -> Bundle:
        return load_bundle(export_tiny(precision=precision, shortlist=shortlist))

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


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_only_pieces_of_the_shortlist_and_the_prefix_are_chosen(
    precision: str, open_runtime: Callable[..., Sessions], texts: list[list[int]], some_shortlist: Shortlist
) -> None:
    runtime = open_runtime(f"{precision} shortlist", kernels=True)
    for ids in texts:
        suggested = {*ALWAYS, *some_shortlist.suggested[ids].flatten().tolist()}
        for options in KINDS:
            hypotheses = alone(runtime, ids, options)
            assert hypotheses
            for one in hypotheses:
                assert {*one.target_ids} <= suggested | {*options.forced_ids}
                assert not options.phrases or {*options.phrases.token_ids} <= {*one.target_ids}
                assert tuple(one.target_ids[: len(options.prefix_ids)]) == options.prefix_ids


def test_a_manifest_with_a_wrong_shortlist_is_refused(export_with: Export, some_shortlist: Shortlist) -> None:
    bundle = export_with("float32", some_shortlist)
    assert manifest_faults(bundle.manifest, bundle.directory) == []
    spoilt = json_format.Parse(json_format.MessageToJson(bundle.manifest), manifest_pb2.Manifest())
    del spoilt.shortlist.decoder.inputs[-1]
    spoilt.shortlist.suggestions.file = "missing.onnx"
    assert manifest_faults(spoilt, bundle.directory) == [
        "shortlist.decoder.inputs lacks 'choices'",
        "shortlist.suggestions.file is 'missing.onnx', which files does not list",
    ]


def test_a_bundle_without_shortlist_is_refused_if_one_is_requested(
    tiny_bundle_repository: Path, open_graphs: OpenGraphs
) -> None:
    with pytest.raises(BundleError, match="the bundle has no shortlist"):
        open_graphs(load_bundle(tiny_bundle_repository / "tiny" / "1"), True)
