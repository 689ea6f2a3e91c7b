"""Measure the detection of languages on short lines: translations of programs that this machine has installed.

    python tests/benchmark/language_detection.py [--lines 150]
    python tests/benchmark/language_detection.py --pairs tatoeba-test.turned.tsv.gz

Every program with messages in many languages brings catalogues of gettext. Their messages are short, and each is in the
language of its catalogue, but for names and words that languages share, which no detector can tell apart.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from gettext import GNUTranslations
from pathlib import Path

from xuanzang.model.data.corpus import read_rows
from xuanzang.server.engine.errors import InvalidInputError
from xuanzang.server.engine.models.routing import detected_language
from xuanzang.server.engine.text.language_detection import LanguageDetector, shared_detector

LANGUAGES = {
    "zh_CN": "zh",
    "zh_TW": "zh",
    "pt_BR": "pt",
    **{
        code: code
        for code in "ja ko fr de es it nl sv da fi pl cs ru uk tr vi id el he ar th hu ro bg".split()  # noqa: SIM905
    },
}
"""Languages of catalogues, and what the detector should say."""
# A character of these is about three of the others.
_DENSE = frozenset({"zh_CN", "zh_TW", "ja", "ko", "th"})
_BOUNDS = (12, 30, 100)
_MARKUP = re.compile(r"[%{}<>\\_$]|--")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--root", type=Path, default=Path("/usr"), help="folder with catalogues (default: /usr)")
    parser.add_argument("--lines", type=int, default=150, help="lines of each language and length (default: 150)")
    parser.add_argument(
        "--pairs", type=Path, nargs="+", default=[], help="en<TAB>zh files to choose models for instead"
    )
    flags = parser.parse_args()
    if flags.pairs:
        print(choices(flags.pairs))
        return
    samples = sampled(flags.root, flags.lines)
    if not samples:
        sys.exit(f"{flags.root} has no catalogues of gettext")
    detector = shared_detector()
    detector.open()
    print("| characters, of Latin letters | lines | right | µs a line | sure (0.5 and more) | right of these |")
    print("|---|---|---|---|---|---|")
    for bound in _BOUNDS:
        print(row(detector, bound, samples[bound]))


def choices(files: Iterable[Path]) -> str:
    """Say how many texts of both languages a server with the bundled models would give to the model for them."""
    found: Counter[str] = Counter()
    for path in files:
        for source, target, *_ in read_rows(path):
            found.update((chosen(source, "en"), chosen(target, "zh")))
    return ", ".join(f"{number:,} {name}" for name, number in found.most_common())


def chosen(text: str, language: str) -> str:
    """Return whether a text's language is found: right, wrong or refused."""
    try:
        best = detected_language(text, shared_detector().detect(text, ("en", "zh")), ("en", "zh"))
    except InvalidInputError:
        return "refused"
    return "right" if best.startswith(language) else "wrong"


def sampled(root: Path, lines: int) -> Mapping[int, Sequence[tuple[str, str]]]:
    """Return messages with their languages, by the bound of their length."""
    found: dict[tuple[int, str], list[str]] = defaultdict(list)
    for language, message in sorted(set(messages(root))):
        found[bound_of(language, message), language].append(message)
    samples: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for (bound, language), of_kind in sorted(found.items()):
        chosen = random.Random(1).sample(of_kind, min(lines, len(of_kind)))
        samples[bound] += [(language, message) for message in chosen]
    return samples


def messages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the messages of all catalogues with their languages."""
    for path in root.rglob("LC_MESSAGES/*.mo"):
        language = path.parent.parent.name
        if language in LANGUAGES:
            yield from ((language, text) for text in plain(catalogue(path).items()))


def catalogue(path: Path) -> Mapping[object, object]:
    """Return originals and translations; none of a file that Python cannot read, such as one in an old encoding."""
    try:
        with path.open("rb") as file:
            entries: Mapping[object, object] = vars(GNUTranslations(file))["_catalog"]
    except (UnicodeDecodeError, OSError):
        return {}
    return entries


def plain(entries: Iterable[tuple[object, object]]) -> Iterator[str]:
    """Yield the translations that are prose without placeholders and markup."""
    for original, translation in entries:
        text = " ".join(str(translation).split())
        is_prose = sum(map(str.isalpha, text)) >= 0.7 * len(text) and not _MARKUP.search(text)
        if original and text and is_prose and translation != original:
            yield text


def bound_of(language: str, message: str) -> int:
    """Return the least bound that a message is within; 0 if none."""
    length = len(message) * (3 if language in _DENSE else 1)
    return next((bound for bound in _BOUNDS if length <= bound), 0)


def row(detector: LanguageDetector, bound: int, samples: Sequence[tuple[str, str]]) -> str:
    """Measure the messages of one length."""
    began = time.process_time()
    answers = [(LANGUAGES[language], detector.detect(message)) for language, message in samples]
    microseconds = (time.process_time() - began) / len(samples) * 1e6
    right = [bool(found) and found[0].code.partition("-")[0] == wanted for wanted, found in answers]
    sure = [
        is_right for is_right, (_, found) in zip(right, answers, strict=True) if found and found[0].confidence >= 0.5
    ]
    return (
        f"| {bound} | {len(samples)} | {sum(right) / len(right):.1%} | {microseconds:.0f} "
        f"| {len(sure) / len(right):.1%} | {sum(sure) / max(1, len(sure)):.1%} |"
    )


if __name__ == "__main__":
    main()
