"""Samples and terms of a bundle, by which a server sees that it translates as it was exported."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export.certification.certificate import ParityError, Sample
from xuanzang.export.certification.quality import Translations, best_texts, translate_together
from xuanzang.export.certification.runner import OnnxModel
from xuanzang.export.examples import Example, Examples
from xuanzang.export.settings import ExportSettings
from xuanzang.model.beams import Hypothesis, SearchRules
from xuanzang.model.stored_checkpoint import StoredCheckpoint
from xuanzang.model.tokenizer import Tokenizer

REQUESTS = 100
"""Requests that are made, if there are sentences enough."""
# If fewer translations keep their term, most sentences would be searched twice.
_MIN_KEPT_SHARE = 0.5
_WORD = re.compile(r"[^\W\d_]{4,12}")
# A piece of a text without spaces between words, such as Chinese.
_UNSPACED = re.compile(r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{2,}")


def measure_terms(
    checkpoint: StoredCheckpoint,
    examples: Sequence[Example],
    translations: Translations,
    translate: Callable[[Sequence[Example]], Translations],
) -> manifest_pb2.Terms:
    """Translate sentences with one word replaced by a word of another translation.

    Args:
        checkpoint: Exported model, for the languages of the sentences.
        translate: Translates sentences with the shipped graphs.

    Returns:
        The share of words that came through, and where the server should put terms for that.
    """
    pairs = [
        (example, text)
        for example, text in zip(examples, best_texts(checkpoint, translations), strict=False)
        # A model of many languages is tested on its default pair.
        if checkpoint.source_ids(example.source) == example.source_ids
    ]
    requests = made_requests(pairs, checkpoint.source_tokenizer, checkpoint.target_tokenizer)[:REQUESTS]
    made = [example._replace(source_ids=checkpoint.source_ids(example.source)) for example, _ in requests]
    limit = checkpoint.config.max_positions
    fitting = [number for number, example in enumerate(made) if len(example.source_ids) <= limit]
    if not fitting:
        return manifest_pb2.Terms()
    found = best_texts(checkpoint, translate([made[number] for number in fitting]))
    kept = sum(requests[number][1] in text for number, text in zip(fitting, found, strict=True))
    share = kept / len(fitting)
    place = manifest_pb2.TERM_PLACE_SOURCE if share >= _MIN_KEPT_SHARE else manifest_pb2.TERM_PLACE_SEARCH
    return manifest_pb2.Terms(place=place, requests=len(fitting), kept_share=round(share, 3))


def made_requests(
    pairs: Sequence[tuple[Example, str]], source: Tokenizer, target: Tokenizer
) -> list[tuple[Example, str]]:
    """Return sentences with a word of the target language in the place of one of theirs, and that word.

    Args:
        pairs: Sentences and their translations, the source of the words, each for another sentence.
        source: Tokeniser of the sentences, whose pieces are words where no spaces are.
        target: The same for the translations.
    """
    words = [word for _, text in pairs if (word := _longest_word(text, target))]
    requests = []
    for number, (example, text) in enumerate(pairs):
        replaced = _longest_word(example.source, source)
        given = next((word for word in (*words[number + 1 :], *words[:number]) if word not in text), "")
        if replaced and given and given not in example.source:
            made = re.sub(rf"\s*{re.escape(replaced)}\s*", f" {given} ", example.source, count=1).strip()
            requests.append((example._replace(source=made), given))
    return requests


def _longest_word(text: str, tokenizer: Tokenizer) -> str:
    """Return the longest word of a sentence that does not begin it; empty if it has none."""
    pieces = tokenizer.pieces(tokenizer.encode(text)) if _UNSPACED.search(text) else []
    unspaced = [piece for piece in pieces if _UNSPACED.fullmatch(piece)]
    spaced = [match.group() for match in _WORD.finditer(text) if match.start()]
    return max(unspaced or spaced, key=len, default="")


_FEW_SENTENCES = 200
"""Below this number a loss of int8 has to be large to be seen."""
_NAMED = 4
"""Directions that are named; more would say less."""
SAMPLES = 8
"""Sentences that the server replays, at most: only sentences that numpy has confirmed."""
_FAR_AHEAD = 0.02
"""Lead of a hypothesis that no processor changes, in nats: between AVX2 and AVX-512 scores differ by up to 0.001."""


def not_measured(checkpoint: StoredCheckpoint, examples: Examples) -> list[str]:
    """Say what a certificate does not.

    Args:
        checkpoint: Exported model.
        examples: Sentences that all precisions translated.

    Returns:
        A sentence for each thing.
    """
    gaps = []
    if examples.kind != "pairs":
        gaps.append(
            "How good the translations are: there were no references, so precisions were compared with each other only "
            "(--valid measures it)."
        )
    if examples.kind == "sample":
        gaps.append(
            "Your texts: everything was measured on, and int8 ranges were taken from, plain everyday sentences of the "
            "exporter (--texts takes sentences of yours)."
        )
    metadata, measured = checkpoint.metadata, examples.directions
    directions = len(metadata.source_languages) * len(metadata.target_languages)
    if len(measured) < directions:
        named = f", all but {', '.join(measured)}" if len(measured) <= _NAMED else ""
        gaps.append(f"{directions - len(measured)} of {directions} directions{named}.")
    if (compared := len(examples.sentences)) < _FEW_SENTENCES:
        gaps.append(f"Small losses of the number format: {compared} sentences show large ones only.")
    return gaps


def choose_samples(
    checkpoint: StoredCheckpoint,
    model: OnnxModel,
    examples: Sequence[Example],
    found: Sequence[Translations],
    settings: ExportSettings,
    rules: SearchRules,
) -> list[Sample]:
    """Choose sentences that all graphs translate alike, and whose best hypotheses are far ahead of the second.

    Other processors add floats in another order, which must not change the best hypothesis. Where too few sentences
    are that clear, those with the greatest lead are taken; empty translations, which show little, come last.

    Args:
        checkpoint: Exported model.
        model: The shipped graphs, open.
        found: Translations of the first of them, by each of the graphs.
        rules: When searches end.

    Raises:
        ParityError: There is no such sentence.
    """
    alike = [
        (example, translations)
        for example, *translations in zip(examples, *found, strict=False)
        if 4 <= len(example.source_ids) <= 40 and len({tuple(best.target_ids) for best, *_ in translations}) == 1
    ]
    alike.sort(key=lambda one: _clearness(one[1]), reverse=True)
    samples: list[Sample] = []
    for example, translations in alike:
        alone = translate_together(model, [example], settings, rules)[0][0].target_ids  # as the server replays it
        if alone == translations[0][0].target_ids:
            samples.append(_sample(checkpoint, example, alone, settings))
        if len(samples) == min(SAMPLES, settings.parity_sentences):
            break
    if not samples:
        raise ParityError("no sentence is translated alike by all graphs")
    return samples


def _clearness(translations: Translations) -> tuple[bool, float]:
    is_something = all(best.target_ids for best, *_ in translations)
    return is_something, min(_FAR_AHEAD, *map(_lead, translations))


def _lead(hypotheses: Sequence[Hypothesis]) -> float:
    """Return by how much the best hypothesis is better than the second, in nats; 0 if nothing else has finished."""
    return hypotheses[0].score - hypotheses[1].score if len(hypotheses) > 1 else 0.0


def _sample(checkpoint: StoredCheckpoint, example: Example, target_ids: list[int], settings: ExportSettings) -> Sample:
    return Sample(
        source=example.source,
        source_ids=example.source_ids,
        target_ids=target_ids,
        target=checkpoint.target_tokenizer.decode(target_ids),
        beam_size=settings.beam_size,
        length_penalty=settings.length_penalty,
    )
