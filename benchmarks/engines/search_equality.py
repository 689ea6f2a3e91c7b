"""Our search and CTranslate2's on real sentences in float32: every hypothesis and its score.

    python -m benchmarks.engines.search_equality --count 200

Prints the sentences that differ; fails if a difference is not a tie of scores.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import ctranslate2
from tqdm import tqdm

from benchmarks.engines.models import first_sentences, load_model, write_models
from benchmarks.engines.workload import target_limit
from benchmarks.engines.xuanzang_engine import steps_of
from benchmarks.harness.bundled_model import SENTENCES, newest_bundle
from xuanzang.model.data.corpus import CorpusError
from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.manifest import read_manifest
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.runtime.sessions import Sessions
from xuanzang.server.engine.types import DecodingOptions

BEAM_SIZE = 4
BATCH = 16
TIE = 1e-4
"""Scores closer than this, in nats, count as equal, because rounding decides the order of such hypotheses."""

Found = list[tuple[list[str], float]]
"""Pieces and score of each hypothesis of a sentence, best first."""


def main() -> None:
    """Compare the searches with the settings of the command line."""
    arguments = parser().parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model = load_model(
            arguments.model, bundle=arguments.bundle, sentences=arguments.sentences, scratch=Path(scratch)
        )
        written = write_models(model, ["float32"], arguments.sentences, Path(scratch))
        sentences = first_sentences(model, arguments.count)
        pieces = model.checkpoint.target_tokenizer.pieces
        ours = [
            [(pieces(ids), score) for ids, score in found]
            for found in tqdm(translate(written.bundles["float32"], sentences), total=len(sentences), unit="sentence")
        ]
        theirs = list(peer(written.ctranslate2, [pieces(ids) for ids in sentences], sentences))
    differing = [index for index, pair in enumerate(zip(ours, theirs, strict=True)) if not equal(*pair)]
    for index in differing:
        print(f"sentence {index + 1}: {model.pairs[index].source}")
        for name, found in (("ours", ours[index]), ("CTranslate2", theirs[index])):
            print("\n".join(f"  {name:12}{score:10.5f}  {''.join(text)}" for text, score in found))
    print(f"{len(sentences) - len(differing)} of {len(sentences)} sentences have equal hypotheses and scores")
    untied = [index + 1 for index in differing if not tied(ours[index], theirs[index])]
    if untied:
        raise SystemExit(f"no tie: sentences {', '.join(map(str, untied))}")


def parser() -> argparse.ArgumentParser:
    """Return the command line parser."""
    result = argparse.ArgumentParser(description=__doc__)
    result.add_argument("--model", default="bundled", help="as for make bench (default: bundled)")
    result.add_argument("--bundle", type=Path, default=newest_bundle())
    result.add_argument("--sentences", type=Path, default=SENTENCES, help="file of source<TAB>target lines")
    result.add_argument("--count", type=int, default=200, help="number of sentences to compare (default: 200)")
    return result


def translate(folder: Path, sentences: Sequence[Sequence[int]]) -> Iterator[list[tuple[list[int], float]]]:
    """Translate with our engine and yield ids and score of each hypothesis, sentence by sentence."""
    manifest, digest = read_manifest(folder)
    bundle = Bundle(directory=folder, manifest=manifest, manifest_sha256=digest, samples=())
    decoder = Decoder(Sessions(bundle, provider="cpu", intra_op_threads=1))
    for start in range(0, len(sentences), BATCH):
        batch = [Sentence(source_ids=list(ids), options=options(ids)) for ids in sentences[start : start + BATCH]]
        decoder.admit(batch)
        found: dict[Sentence, list[TargetHypothesis]] = {}
        while len(decoder):
            found.update(decoder.advance(steps_of(decoder)).done)
        yield from ([(one.target_ids, one.score) for one in found[sentence]] for sentence in batch)


def options(source_ids: Sequence[int]) -> SearchOptions:
    """Return the search options of a sentence, the same for both engines."""
    decoding = DecodingOptions(
        beam_size=BEAM_SIZE,
        num_hypotheses=BEAM_SIZE,
        length_penalty=1.0,
        min_target_length=0,
        max_target_length=None,
    )
    return SearchOptions(decoding=decoding, max_target_length=target_limit(source_ids))


def peer(folder: Path, sources: Sequence[list[str]], sentences: Sequence[Sequence[int]]) -> Iterator[Found]:
    """Translate with CTranslate2."""
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32")
    for source, ids in zip(sources, sentences, strict=True):
        [result] = translator.translate_batch(
            [source],
            beam_size=BEAM_SIZE,
            num_hypotheses=BEAM_SIZE,
            length_penalty=1.0,
            min_decoding_length=0,
            max_decoding_length=target_limit(ids),
            return_scores=True,
        )
        yield list(zip(result.hypotheses, result.scores, strict=True))


def equal(ours: Found, theirs: Found) -> bool:
    """Return whether hypotheses and scores are the same, apart from rounding."""
    texts = [[text for text, _ in found] for found in (ours, theirs)]
    return texts[0] == texts[1] and scores_agree(ours, theirs)


def tied(ours: Found, theirs: Found) -> bool:
    """Return whether the scores at each rank agree, so that the order alone differs among equal scores."""
    return len(ours) == len(theirs) and scores_agree(ours, theirs)


def scores_agree(ours: Found, theirs: Found) -> bool:
    """Return whether the scores at each rank are the same, apart from rounding."""
    return all(abs(mine[1] - other[1]) < TIE for mine, other in zip(ours, theirs, strict=False))


if __name__ == "__main__":
    try:
        main()
    except CorpusError as error:
        raise SystemExit(f"search_equality: {error}") from error
