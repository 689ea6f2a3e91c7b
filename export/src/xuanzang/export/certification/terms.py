"""Translations of sentences that contain words of the target language: does the model keep them?"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export.certification.quality import Translations, best_texts
from xuanzang.export.examples import Example
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.tokenizer import Tokenizer

REQUESTS = 100
"""Requests that are made, if there are sentences enough."""
# If fewer translations keep their term, most sentences would be searched twice.
_MIN_KEPT_SHARE = 0.5
_WORD = re.compile(r"[^\W\d_]{4,12}")
# A piece of a text without spaces between words, such as Chinese.
_UNSPACED = re.compile(r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{2,}")


def measure_terms(
    checkpoint: Checkpoint,
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
    limit = checkpoint.model.config.max_positions
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
