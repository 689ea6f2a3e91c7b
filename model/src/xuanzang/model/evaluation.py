"""How good a model is: BLEU and chrF of its translations, and what goes wrong in them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF
from tqdm import tqdm

from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.dataset import pad_rows
from xuanzang.model.data.spans import kept_spans
from xuanzang.model.search import Hypothesis, beam_search
from xuanzang.model.tokenizer import PAD_ID, normalize
from xuanzang.model.transformer import Transformer

# Words or a piece of one four times in a row, or one character ten times. The space lets the last word be without one.
_LOOP = re.compile(r"(\S.{1,60}?)\1{3}|(\S)\2{9}", re.DOTALL)


class SourceLengthError(ValueError):
    """A sentence with more tokens than the model has positions."""


class Scores(NamedTuple):
    """Corpus scores of translations against one reference each."""

    bleu: float
    """0 to 100."""
    chrf: float
    """0 to 100, chrF2."""
    bleu_signature: str
    """What makes the BLEU comparable."""
    chrf_signature: str
    """What makes the chrF comparable."""

    def __str__(self) -> str:
        """Return two lines for people."""
        return f"BLEU {self.bleu:.2f}  ({self.bleu_signature})\nchrF {self.chrf:.2f}  ({self.chrf_signature})"


def score_translations(translations: Sequence[str], references: Sequence[str], target_language: str) -> Scores:
    """Score translations with sacreBLEU; Chinese and Japanese are cut into characters.

    Args:
        translations: One per sentence.
        references: As many.
        target_language: BCP-47 code, which chooses the tokenisation.
    """
    primary = target_language.split("-", maxsplit=1)[0].lower()
    bleu, chrf = BLEU(tokenize={"zh": "zh", "ja": "char"}.get(primary, "13a")), CHRF()
    bleu_score = bleu.corpus_score(translations, [references])
    chrf_score = chrf.corpus_score(translations, [references])
    return Scores(bleu_score.score, chrf_score.score, str(bleu.get_signature()), str(chrf.get_signature()))


class Faults(NamedTuple):
    """What goes wrong in translations, counted without knowing the language."""

    empty: int
    """Translations without a character."""
    loops: int
    """Translations that repeat themselves where the source does not."""
    length_ratio: float
    """Characters of all translations per character of the references."""
    spans: int
    """Placeholders, tags, links, paths, names and numbers in the sources."""
    kept: int
    """Those of them that are in the translation."""

    def __str__(self) -> str:
        """Return one line for people."""
        share = f"{self.kept / self.spans:.1%} of {self.spans}" if self.spans else "none to keep"
        return (
            f"empty {self.empty}  loops {self.loops}  length {self.length_ratio:.2f} of the references  "
            f"placeholders, markup, links, names and numbers kept: {share}"
        )


def count_faults(sources: Sequence[str], translations: Sequence[str], references: Sequence[str]) -> Faults:
    """Count what goes wrong in translations.

    Args:
        sources: Normalised, one per sentence.
        translations: As many.
        references: As many, with at least one character.
    """
    spans = [kept_spans(*pair) for pair in zip(sources, translations, strict=True)]
    return Faults(
        empty=sum(not text.strip() for text in translations),
        loops=sum(has_loop(text) and not has_loop(source) for source, text in zip(sources, translations, strict=True)),
        length_ratio=sum(map(len, translations)) / sum(map(len, references)),
        spans=sum(wanted for _, wanted in spans),
        kept=sum(kept for kept, _ in spans),
    )


def has_loop(text: str) -> bool:
    """Return whether a piece of a text follows itself three times over, as when decoding does not find its end."""
    return _LOOP.search(f"{text} ") is not None


def translate_ids(
    model: Transformer,
    sentences: Sequence[Sequence[int]],
    *,
    beam_size: int,
    num_hypotheses: int = 1,
    length_penalty: float = 1.0,
    batch_sentences: int = 32,
) -> list[list[Hypothesis]]:
    """Translate tokenised sentences of any number, batched by length.

    Args:
        model: In evaluation mode.
        sentences: Source ids, eos last.
        beam_size: Hypotheses kept; 1 is greedy.
        num_hypotheses: Hypotheses returned for each sentence.
        length_penalty: α of score = sum / length^α.
        batch_sentences: Sentences per batch.

    Returns:
        Hypotheses of each sentence in the order given, best first.

    Raises:
        SourceLengthError: A sentence has more tokens than the model takes.
    """
    _check_lengths(sentences, model.config.max_positions)
    device, max_positions = model.output_projection.weight.device, model.config.max_positions

    def translate(batch: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
        source_ids = pad_rows(batch).to(device)
        return beam_search(
            model,
            source_ids,
            source_ids != PAD_ID,
            beam_size=beam_size,
            num_hypotheses=num_hypotheses,
            length_penalty=length_penalty,
            # Each sentence has its own limit, so that its translation does not depend on its batch mates.
            max_target_length=[min(2 * len(ids) + 20, max_positions - 1) for ids in batch],
        )

    return translate_by_length(sentences, translate, batch_sentences=batch_sentences)


def translate_by_length(
    sentences: Sequence[Sequence[int]],
    translate: Callable[[Sequence[Sequence[int]]], list[list[Hypothesis]]],
    *,
    batch_sentences: int = 32,
) -> list[list[Hypothesis]]:
    """Translate sentences in batches of like length, with a progress bar.

    Args:
        sentences: Source ids, eos last.
        translate: Translates one batch.
        batch_sentences: Most sentences per batch.

    Returns:
        Hypotheses of each sentence in the order given.
    """
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
    results: dict[int, list[Hypothesis]] = {}
    starts = range(0, len(order), batch_sentences)
    for start in tqdm(starts, desc="translating", unit="batch", file=sys.stderr, leave=False):
        part = order[start : start + batch_sentences]
        results.update(zip(part, translate([sentences[i] for i in part]), strict=True))
    return [results[i] for i in range(len(sentences))]


def translate_texts(
    checkpoint: Checkpoint,
    texts: Sequence[str],
    *,
    beam_size: int = 4,
    num_hypotheses: int = 1,
    length_penalty: float = 1.0,
) -> list[list[tuple[str, float]]]:
    """Translate texts, one sentence each.

    Args:
        checkpoint: To translate with.
        texts: Sentences of the source language, as people write them.
        beam_size: Hypotheses kept; 1 is greedy.
        num_hypotheses: Hypotheses returned for each sentence.
        length_penalty: α of score = sum / length^α.

    Returns:
        Text and score of every hypothesis, best first.

    Raises:
        SourceLengthError: A sentence has more tokens than the model takes.
    """
    normalized = [normalize(text, checkpoint.metadata.source_normalization) for text in texts]
    found = translate_ids(
        checkpoint.model,
        checkpoint.source_tokenizer.encode_all(normalized),
        beam_size=beam_size,
        num_hypotheses=num_hypotheses,
        length_penalty=length_penalty,
    )
    return [[(checkpoint.target_tokenizer.decode(h.target_ids), h.score) for h in hypotheses] for hypotheses in found]


def _check_lengths(sentences: Sequence[Sequence[int]], limit: int) -> None:
    for number, sentence in enumerate(sentences, start=1):
        if len(sentence) > limit:
            raise SourceLengthError(f"sentence {number} has {len(sentence)} tokens, the model takes at most {limit}")
