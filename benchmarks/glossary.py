"""What required terms do to translations, and what they cost.

    python -m benchmarks.glossary server/models/zh-en/2 valid.tsv.gz

Terms are taken from the references: words that a free search left out, one or two a sentence. Printed are the share of
them that translations hold, BLEU with and without them on the same sentences, and processor time: of sentences with
terms against the same without, in all and by token of the translations, and of sentences without terms: what they add
to a batch of others with terms, to what they add to one without. The runs of a comparison take turns, batch by batch,
and each batch counts with its shortest time. Made requests require texts that no translation of theirs would hold.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sacrebleu

from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.decoding.phrases.automaton import RequiredPhrase, compile_phrases
from xuanzang.server.engine.runtime.sessions import Sessions
from xuanzang.server.engine.text.codec import TextCodec
from xuanzang.server.engine.text.words import find_whole
from xuanzang.server.engine.types import DecodingOptions

BATCH = 16
MADE_REQUESTS = 500
RESAMPLES = 2000
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]{3,}(?: [A-Z][a-z]+)*")
_MADE = (
    *("Zephyrix {n}", "v{n}.2.1", "https://example.org/{n}", "Kowalczyk-{n} GmbH"),
    *("max_size_{n}", "ann{n}@example.org"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A sentence with its reference and its terms."""

    source: str
    reference: str
    terms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Translations with terms and without."""

    held: list[str]
    free: list[str]
    cost: float
    """Processor time with, to without."""
    length: float
    """Tokens of the translations with, to without."""

    def __str__(self) -> str:
        per_token = self.cost / self.length
        return f"cost {self.cost:.2f}, of it by longer translations {self.length:.2f}, by token {per_token:.2f}"


class Bench:
    """A model, and what it is asked."""

    def __init__(self, directory: Path) -> None:
        bundle = load_bundle(directory)
        defaults = bundle.manifest.generation_defaults
        self.codec = TextCodec(bundle)
        self._sessions = Sessions(bundle, provider="cpu", intra_op_threads=1)
        self._options = DecodingOptions(
            beam_size=defaults.beam_size,
            num_hypotheses=1,
            length_penalty=defaults.length_penalty,
            min_target_length=1,
            max_target_length=None,
        )

    def translate(self, items: Sequence[Item]) -> tuple[list[TargetHypothesis], float]:
        """Return the translations of one batch, and its processor time in seconds."""
        started = time.process_time()
        decoder, sentences = Decoder(self._sessions), [self._sentence(item) for item in items]
        decoder.admit(sentences)
        found: dict[Sentence, TargetHypothesis] = {}
        while len(decoder):
            found |= {sentence: best[0] for sentence, best in decoder.step()}
        return [found[sentence] for sentence in sentences], time.process_time() - started

    def _sentence(self, item: Item) -> Sentence:
        ids, target = self.codec.encode(item.source), self.codec.target_phrases
        phrases = [RequiredPhrase(variants=target.variants(term)) for term in dict.fromkeys(item.terms)]
        options = SearchOptions(
            decoding=self._options,
            max_target_length=2 * len(ids) + 20 + sum(phrase.min_tokens for phrase in phrases),
            phrases=compile_phrases(phrases, target.classes) if phrases else None,
        )
        return Sentence(source_ids=ids, options=options)

    def texts(self, items: Sequence[Item]) -> list[str]:
        """Return the translations of one batch."""
        return [self.codec.decode(found.target_ids) for found in self.translate(items)[0]]

    def race(self, batches: Sequence[Sequence[Item]], rounds: int) -> list[float]:
        """Translate batches in turns; return the shortest processor time of each in seconds."""
        spent = [[self.translate(one)[1] for one in batches] for _ in range(rounds)]
        return [min(times) for times in zip(*spent, strict=True)]

    def compare(self, these: Sequence[Item], rounds: int) -> Comparison:
        """Translate items with and without their terms, batch by batch in turns."""
        texts: tuple[list[str], list[str]] = ([], [])
        seconds, tokens = [0.0, 0.0], [0, 0]
        for start in range(0, len(these), BATCH):
            batch = these[start : start + BATCH]
            sides = [batch, [replace(item, terms=()) for item in batch]]
            for side, spent in enumerate(self.race(sides, rounds)):
                found, _ = self.translate(sides[side])
                texts[side].extend(self.codec.decode(one.target_ids) for one in found)
                tokens[side] += sum(one.token_count for one in found)
                seconds[side] += spent
        return Comparison(*texts, cost=seconds[0] / seconds[1], length=tokens[0] / tokens[1])


def read(path: Path, count: int) -> list[Item]:
    """Return the first pairs that are long enough to leave words out."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t")[:2] for line in file]
    return [Item(source=source, reference=target) for source, target in pairs if 15 < len(target) < 200][:count]


def with_missed_words(bench: Bench, items: Sequence[Item], count: int) -> list[Item]:
    """Give each item words of its reference that a free search leaves out; items without enough are left out."""
    chosen, found = random.Random(1), []
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        for item, text in zip(batch, bench.texts(batch), strict=True):
            words = [match.group() for match in _WORD.finditer(item.reference) if match.start()]
            missed = [word for word in dict.fromkeys(words) if word.lower() not in text.lower()]
            missed = [word for word in missed if bench.codec.target_phrases.variants(word)]
            if len(missed) >= count:
                found.append(replace(item, terms=tuple(chosen.sample(missed, count))))
    return found


def made(bench: Bench, items: Sequence[Item]) -> list[Item]:
    """Give items terms that no translation of theirs would hold."""
    requests = []
    for number in range(MADE_REQUESTS):
        terms = [_MADE[(number + more) % len(_MADE)].format(n=number) for more in range(1 + number % 3)]
        writable = tuple(term for term in terms if bench.codec.target_phrases.variants(term))
        if writable:
            requests.append(replace(items[number % len(items)], terms=writable))
    return requests


def honoured(items: Sequence[Item], texts: Sequence[str]) -> float:
    """Return the share of terms that the translations hold."""
    held = [find_whole(text, term) >= 0 for item, text in zip(items, texts, strict=True) for term in item.terms]
    return sum(held) / len(held)


def bleu(items: Sequence[Item], texts: Sequence[str]) -> float:
    """Return the BLEU of translations."""
    return float(sacrebleu.corpus_bleu(list(texts), [[item.reference for item in items]]).score)


def added_costs(bench: Bench, free: Sequence[Item], bound: Sequence[Item], rounds: int) -> list[tuple[float, float]]:
    """Return what free sentences add to batches of others with terms, and to the same without, in seconds.

    Sentences with terms may be longer, and a step costs something whatever the batch has; so the others' own cost is
    taken from a batch of theirs.
    """
    costs, half = [], BATCH // 2
    for start in range(0, min(len(free), len(bound)) - half + 1, half):
        place = slice(start, start + half)
        these, those = free[place], bound[place]
        without = [replace(item, terms=()) for item in those]
        held, alone, lacked, alone_without = bench.race(([*these, *those], those, [*these, *without], without), rounds)
        costs.append((held - alone, lacked - alone_without))
    return costs


def ratio_of(costs: Sequence[tuple[float, float]]) -> str:
    """Return the ratio of two sums, and the interval that holds 95% of those of resampled batches."""
    chosen = random.Random(1)

    def ratio(sample: Sequence[tuple[float, float]]) -> float:
        return sum(held for held, _ in sample) / sum(lacked for _, lacked in sample)

    resampled = sorted(ratio(chosen.choices(costs, k=len(costs))) for _ in range(RESAMPLES))
    low, high = (resampled[int(RESAMPLES * share)] for share in (0.025, 0.975))
    return f"{ratio(costs):.3f} (95%: {low:.3f} to {high:.3f}, {len(costs)} batches)"


def report_terms(bench: Bench, items: Sequence[Item], rounds: int) -> None:
    """Print what terms do and cost."""
    for count in (1, 2):
        bound = with_missed_words(bench, items, count)
        found = bench.compare(bound, rounds)
        print(
            f"{count} term(s) a sentence, {len(bound)} sentences: honoured {honoured(bound, found.held):.2%}, "
            f"BLEU {bleu(bound, found.held):.2f} against {bleu(bound, found.free):.2f}, {found}"
        )
    requests = made(bench, items)
    found = bench.compare(requests, rounds)
    print(f"{len(requests)} made requests: honoured {honoured(requests, found.held):.2%}, {found}")


def report_neighbours(bench: Bench, items: Sequence[Item], rounds: int) -> None:
    """Print what sentences without terms cost beside others with one."""
    bound = with_missed_words(bench, items, 1)
    ratio = ratio_of(added_costs(bench, items, bound, rounds))
    print(f"cost of sentences without terms beside others with one, to that beside others without: {ratio}")


_PARTS = {"terms": report_terms, "neighbours": report_neighbours}


def main() -> None:
    """Print the figures."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("bundle", type=Path)
    arguments.add_argument("valid", type=Path, help="pairs, source<TAB>reference, gzip")
    arguments.add_argument("--pairs", type=int, default=1000)
    arguments.add_argument("--rounds", type=int, default=3, help="times that each batch is translated")
    arguments.add_argument("--parts", nargs="+", choices=_PARTS, default=list(_PARTS))
    parsed = arguments.parse_args()
    bench, items = Bench(parsed.bundle), read(parsed.valid, parsed.pairs)
    bench.translate(items[:BATCH])
    for part in parsed.parts:
        _PARTS[part](bench, items, parsed.rounds)


if __name__ == "__main__":
    main()
