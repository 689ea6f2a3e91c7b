"""Process that translates files from text to text in process: with our `Translator`, or with CTranslate2.

Reads a question from each line of standard input, answers with the seconds of a pass, from lines read to lines written.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

Translate = Callable[[Sequence[str], int], list[str]]
"""Lines to translations; with the sentences that CTranslate2 translates together."""

BEAM_SIZE = 4


def ours(bundle: Path, workers: int) -> Translate:
    """Return a translation by `Translator`."""
    from xuanzang.server import Translator

    # As servers and `xuanzang batch` do.
    sys.setswitchinterval(0.001)
    translator = Translator(bundle.parent.parent, workers=workers)

    def translate(lines: Sequence[str], _: int) -> list[str]:
        found = translator.translate(
            lines, source_language="zh", target_language="en", beam_size=BEAM_SIZE, length_penalty=1.0
        )
        return [each.text for each in found]

    return translate


def theirs(bundle: Path, model: Path, workers: int, threads: int) -> Translate:
    """Return a translation by CTranslate2 with the tokeniser of the bundle, in batches of one call."""
    import ctranslate2
    from sentencepiece import SentencePieceProcessor

    from xuanzang.text.sentences import split_sentences

    tokenizer = SentencePieceProcessor(model_file=str(bundle / "source.spm"))
    end = tokenizer.id_to_piece(tokenizer.eos_id())
    translator = ctranslate2.Translator(
        str(model), device="cpu", compute_type="int8", inter_threads=workers, intra_threads=threads
    )

    def translate(lines: Sequence[str], max_batch: int) -> list[str]:
        sentences = [split_sentences(line) for line in lines]
        pieces = [[*each, end] for each in tokenizer.encode([s for one in sentences for s in one], out_type=str)]
        results = translator.translate_batch(
            pieces,
            max_batch_size=max_batch,
            beam_size=BEAM_SIZE,
            length_penalty=1.0,
            min_decoding_length=0,
            max_decoding_length=2 * max(map(len, pieces)) + 20,
        )
        texts = iter(tokenizer.decode([result.hypotheses[0] for result in results]))
        return [" ".join(next(texts) for _ in one) for one in sentences]

    return translate


def main() -> None:
    """Load an engine and answer until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=["xuanzang", "ctranslate2"])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--model", type=Path, help="folder of CTranslate2's model")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    if given.engine == "xuanzang":
        translate = ours(given.bundle, given.workers)
    else:
        translate = theirs(given.bundle, given.model, given.workers, given.threads)
    for question in map(json.loads, sys.stdin):
        started = time.perf_counter()
        lines = Path(question["lines"]).read_text(encoding="utf-8").splitlines()[:: question["every"]]
        translated = translate(lines, question["max_batch"])
        Path(question["output"]).write_text("".join(f"{line}\n" for line in translated), encoding="utf-8")
        print(json.dumps(time.perf_counter() - started), flush=True)


if __name__ == "__main__":
    main()
