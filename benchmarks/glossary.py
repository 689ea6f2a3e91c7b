"""Effect of terms on translations, and their cost.

    python -m benchmarks.glossary server/models zh-en valid.tsv.gz

Two kinds of sentences have a term each. Product sentences are those of `tests/support/product_sentences.tsv`; `--show`
prints their translations, which only a reader can judge; `--sentences` takes others, such as
`tests/support/held_back_sentences.tsv`. Made requests are sentences of the pairs in which a word, one that the model
translates as the reference does, and by nothing else, is to be a made name. Printed are the share of terms that
translations hold, the share of sentences that are searched again, chrF with the term left out of both sides beside that
of the free translation without the word, and processor time: that of sentences with terms, and that of others beside
them. Sides of a ratio take turns, batch by batch, and each batch counts with its shortest time. `--search-alone` keeps
terms out of the source.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import random
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from unittest.mock import patch

import sacrebleu

from xuanzang.server import AsyncTranslator, GlossaryOutcome, Translation
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.text.words import find_whole

PRODUCTS = Path(__file__).parents[1] / "tests" / "support" / "product_sentences.tsv"
BATCH = 16
LARGE_BATCH = 100
MADE_REQUESTS = 500
RESAMPLES = 2000
_SLOT = " _ "
_WORD = re.compile(r"[A-Za-z]{4,}|[\u4e00-\u9fff]{2,4}")
_LETTERS = re.compile(r"\w+(?: \w+)?")
# Further characters that may stand for a part of a term: articles and marks.
_NO_WORD = re.compile(r"\s*(?:the|an?|\W*)\s*", re.IGNORECASE)
_DETERMINER = r"(?:\b(?:the|an?|this|that|these|those|my|your|his|her|its|our|their) )?"
# English words that are nouns nearly always, by their neighbours.
_NOUN = r"\b(?:the|this|your) {}(?=[.,;:]| (?:is|are|was|were|of|in|on|for|and|with|from|at|has|can|will)\b)"
_MADE = {
    "en": ("control hub", "Zephyrix {n}", "workbench", "OpenDesk", "Kowalczyk app"),
    "zh": ("控制中枢", "泽菲{n}号", "工作台", "飞书", "科瓦奇软件"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A sentence with a term, or without."""

    source: str
    term: str = ""
    target: str = ""
    word: str = ""
    """Word of the reference, and of the free translation, that the target replaces."""
    reference: str = ""

    @property
    def glossary(self) -> dict[str, str]:
        """Terms of the request."""
        return {self.term: self.target} if self.term else {}


class Bench:
    """A model and its requests."""

    def __init__(self, models: Path, model: str) -> None:
        self.model, self._translator = model, AsyncTranslator(models, workers=1)
        self.language = model.rpartition("-")[2]

    async def open(self) -> None:
        """Load the models."""
        await self._translator.__aenter__()

    async def close(self) -> None:
        """Stop the threads."""
        await self._translator.__aexit__(None, None, None)

    async def translate(self, items: Sequence[Item], **options: bool) -> tuple[list[Translation], float]:
        """Return the translations of one batch, and its processor time in seconds."""
        started = time.process_time()
        calls = (self._translator.translate_one(each.source, **self._asked(each), **options) for each in items)  # type: ignore[arg-type]
        found = await asyncio.gather(*calls)
        return list(found), time.process_time() - started

    def _asked(self, item: Item) -> dict[str, object]:
        return {"model": self.model, "glossary": item.glossary or None, "return_provenance": True}

    async def all(self, items: Sequence[Item], **options: bool) -> list[Translation]:
        """Return the translations of many sentences."""
        batches = [items[start : start + BATCH] for start in range(0, len(items), BATCH)]
        return [one for batch in batches for one in (await self.translate(batch, **options))[0]]

    async def race(self, sides: Sequence[Sequence[Item]], rounds: int) -> list[float]:
        """Translate batches in turns; return the shortest processor time of each in seconds."""
        spent = [[(await self.translate(side))[1] for side in sides] for _ in range(rounds)]
        return [min(times) for times in zip(*spent, strict=True)]


def read_pairs(path: Path, count: int, *, turned: bool) -> list[Item]:
    """Return the first pairs of ordinary length."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t")[:2] for line in file]
    sides = [pair[::-1] if turned else pair for pair in pairs]
    fitting = [(source, target) for source, target in sides if 8 < len(source) < 250 and 8 < len(target) < 250]
    return [Item(source=source, reference=target) for source, target in fitting][:count]


def read_products(model: str, path: Path = PRODUCTS) -> list[Item]:
    """Return the product sentences of a model."""
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [Item(source=text, term=term, target=target) for name, text, term, target in lines if name == model]


async def made_requests(bench: Bench, items: Sequence[Item], count: int) -> tuple[list[Item], list[str]]:
    """Return sentences with a made name in place of a word, and their free translations."""
    made: list[Item] = []
    texts: list[str] = []
    chosen = random.Random(1)
    for item, translation in zip(items, await bench.all(items, token_details=True), strict=True):
        words = list(_aligned_words(item, translation))
        if not words or len(made) == count:
            continue
        term, word = chosen.choice(words)
        names = _MADE[bench.language]
        target = names[len(made) % len(names)].format(n=1 + len(made) % 9)
        made.append(replace(item, term=term, target=target, word=word))
        texts.append(translation.text)
    return made, texts


def _aligned_words(item: Item, translation: Translation) -> Iterable[tuple[str, str]]:
    """Yield words shared by a translation and the reference, each once, and their origin in the source."""
    [hypothesis] = translation.hypotheses
    text = "".join(token.text for token in hypothesis.tokens)
    ends = list(accumulate(len(token.text) for token in hypothesis.tokens))
    tokens = list(zip([0, *ends], ends, hypothesis.tokens, strict=False))
    for match in _WORD.finditer(text):
        word = match.group()
        inside = [token for start, end, token in tokens if start < match.end() and match.start() < end]
        start, end = min(token.source_start for token in inside), max(token.source_end for token in inside)
        term = item.source[start:end].strip()
        others = [token for _, _, token in tokens if token not in inside and not _NO_WORD.fullmatch(token.text)]
        alone = not any(token.source_start < end and start < token.source_end for token in others)
        once = item.reference.count(word) == translation.text.count(word) == item.source.count(term) == 1
        whole = len(term) > 1 and _LETTERS.fullmatch(term) and find_whole(item.source, term) >= 0
        if alone and once and whole and any(_is_noun(item, each) for each in (term, word)):
            yield term, word


def _is_noun(item: Item, word: str) -> bool:
    return any(re.search(_NOUN.replace("{}", re.escape(word)), text) for text in (item.source, item.reference))


def masked_chrf(texts: Sequence[str], slots: Sequence[str], items: Sequence[Item], *, determiner: str = "") -> float:
    """Return chrF with a slot for the term in the translations, and for the word in the references.

    A determiner that a pattern finds before them is left out as well: nouns have one where names have none.
    """
    pairs = [
        tuple(
            re.sub(f"{determiner}{re.escape(each)}", _SLOT, whole, count=1, flags=re.IGNORECASE)
            for whole, each in ((text, slot), (item.reference, item.word))
        )
        for text, slot, item in zip(texts, slots, items, strict=True)
    ]
    return float(sacrebleu.corpus_chrf([text for text, _ in pairs], [[reference for _, reference in pairs]]).score)


def kept(items: Sequence[Item], translations: Sequence[Translation]) -> str:
    """Say how many terms translations hold, and how often a second search was needed."""
    held = sum(each.glossary_matches[0].outcome is GlossaryOutcome.HONOURED for each in translations)
    sentences = [one for each in translations if each.provenance for one in each.provenance.sentences]
    again = sum(sentence.searches > 1 for sentence in sentences)
    return f"honoured {held / len(items):.2%}, searched again {again / len(sentences):.1%}"


async def cost(bench: Bench, items: Sequence[Item], rounds: int) -> str:
    """Return the ratio of processor time with terms to that without, and the ratio of the tokens."""
    seconds, tokens = [0.0, 0.0], [0, 0]
    for start in range(0, len(items), LARGE_BATCH):
        batch = items[start : start + LARGE_BATCH]
        sides = [batch, [replace(item, term="") for item in batch]]
        for side, spent in enumerate(await bench.race(sides, rounds)):
            seconds[side] += spent
            tokens[side] += sum(each.hypotheses[0].token_count for each in (await bench.translate(sides[side]))[0])
    return f"cost {seconds[0] / seconds[1]:.3f}, of it by longer translations {tokens[0] / tokens[1]:.3f}"


async def report_products(bench: Bench, _: Sequence[Item], parsed: argparse.Namespace) -> None:
    """Print the results for product sentences."""
    items = read_products(bench.model, parsed.sentences)
    found = await bench.all(items)
    if parsed.show:
        for item, each in zip(items, found, strict=True):
            print(f"{item.source}\t{item.target}\t{each.text}")
    print(f"{len(items)} product sentences: {kept(items, found)}, {await cost(bench, items, parsed.rounds)}")


async def report_made(bench: Bench, pairs: Sequence[Item], parsed: argparse.Namespace) -> None:
    """Print the results for made requests."""
    items, free = await made_requests(bench, pairs, MADE_REQUESTS)
    found = await bench.all(items)
    if parsed.show:
        for item, each, text in zip(items, found, free, strict=True):
            print(f"{item.source}\t{item.term}={item.target}\t{each.text}\t{text}\t{item.reference}")
    slots = [each.glossary_matches[0].target or item.target for item, each in zip(items, found, strict=True)]
    words = [item.word for item in items]
    scores = []
    for determiner in ("", _DETERMINER):
        bound = masked_chrf([each.text for each in found], slots, items, determiner=determiner)
        unbound = masked_chrf(free, words, items, determiner=determiner)
        scores.append(f"{bound:.2f}, of free translations {unbound:.2f}")
    print(
        f"{len(items)} made requests: {kept(items, found)}, chrF without the terms {scores[0]}; without determiners "
        f"before them {scores[1]}; {await cost(bench, items, parsed.rounds)}"
    )


async def report_neighbours(bench: Bench, pairs: Sequence[Item], parsed: argparse.Namespace) -> None:
    """Print the cost of sentences without terms among others with one, relative to that among others without.

    The others' own cost is taken from a batch of theirs.
    """
    items, _ = await made_requests(bench, pairs, MADE_REQUESTS)
    half, costs = BATCH // 2, []
    for start in range(0, min(len(pairs), len(items)) - half + 1, half):
        these, those = pairs[start : start + half], items[start : start + half]
        without = [replace(item, term="") for item in those]
        sides = ([*these, *those], those, [*these, *without], without)
        held, alone, lacked, alone_without = await bench.race(sides, parsed.rounds)
        costs.append((held - alone, lacked - alone_without))
    print(f"cost of sentences among others with a term, relative to others without: {ratio_of(costs)}")


def ratio_of(costs: Sequence[tuple[float, float]]) -> str:
    """Return the ratio of two sums, and the interval that holds 95% of those of resampled batches."""
    chosen = random.Random(1)

    def ratio(sample: Sequence[tuple[float, float]]) -> float:
        return sum(held for held, _ in sample) / sum(lacked for _, lacked in sample)

    resampled = sorted(ratio(chosen.choices(costs, k=len(costs))) for _ in range(RESAMPLES))
    low, high = (resampled[int(RESAMPLES * share)] for share in (0.025, 0.975))
    return f"{ratio(costs):.3f} (95%: {low:.3f} to {high:.3f}, {len(costs)} batches)"


_PARTS = {"products": report_products, "made": report_made, "neighbours": report_neighbours}


def _parsed() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("models", type=Path)
    arguments.add_argument("model", help="name of one of them, such as zh-en")
    arguments.add_argument("valid", type=Path, help="pairs, Chinese<TAB>English, gzip")
    arguments.add_argument("--sentences", type=Path, default=PRODUCTS, help="product sentences")
    arguments.add_argument("--pairs", type=int, default=1500)
    arguments.add_argument("--rounds", type=int, default=2, help="times that each batch is translated")
    arguments.add_argument("--parts", nargs="+", choices=_PARTS, default=list(_PARTS))
    arguments.add_argument("--search-alone", action="store_true", help="put no term into the source")
    arguments.add_argument("--show", action="store_true", help="print sentences")
    return arguments.parse_args()


async def _run(parsed: argparse.Namespace) -> None:
    bench = Bench(parsed.models, parsed.model)
    pairs = read_pairs(parsed.valid, parsed.pairs, turned=parsed.model.startswith("en"))
    alone: AbstractContextManager[object] = nullcontext()
    if parsed.search_alone:
        alone = patch.object(LoadedModel, "reads_terms", new=False)
    await bench.open()
    try:
        with alone:
            await bench.translate(pairs[:BATCH])
            for part in parsed.parts:
                await _PARTS[part](bench, pairs, parsed)
    finally:
        await bench.close()


def main() -> None:
    """Print the figures."""
    asyncio.run(_run(_parsed()))


if __name__ == "__main__":
    main()
