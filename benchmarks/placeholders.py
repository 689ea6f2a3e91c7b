"""Every kind of placeholder in every sentence, both directions: how many are kept, refused by name, or lost.

    python benchmarks/placeholders.py [SENTENCES]

Prints a line per direction, and one for texts of digits and signs alone. 129 kinds in 40 sentences take some minutes.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from placeholder_kinds import CHINESE, ENGLISH, KINDS, is_kept  # noqa: E402 - of the tests

from xuanzang.server import Translator  # noqa: E402
from xuanzang.text.spans.catalogue import find  # noqa: E402
from xuanzang.text.types import PlaceholderFamily  # noqa: E402

FAMILIES = tuple(family.value for family in PlaceholderFamily)
SIGNS = "0123456789 .,:;-+()%#$/"


def main() -> None:
    """Print the counts."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    with Translator(ROOT / "server" / "models", workers=2) as translator:
        for model, sentences in (("en-zh", ENGLISH), ("zh-en", CHINESE)):
            cases = [(kind, each.replace("{}", kind)) for kind in KINDS for each in sentences[:count]]
            found = translator.translate([text for _, text in cases], model=model, placeholders=FAMILIES)
            refused = sum(bool(each.hypotheses[0].lost_placeholders) for each in found)
            lost = [
                (text, each.text)
                for (kind, text), each in zip(cases, found, strict=True)
                if not is_kept(kind, text, each.text)
            ]
            print(f"{model}: {len(cases)} texts, {refused} refused by name, {len(lost)} lost")
            for text, translation in lost:
                print(f"  {text} -> {translation}")
            rng = random.Random(1)
            signs = ["".join(rng.choices(SIGNS, k=rng.randint(1, 24))) for _ in range(2000)]
            changed = sum(
                each.text != text for text, each in zip(signs, translator.translate(signs, model=model), strict=True)
            )
            print(f"{model}: {len(signs)} texts of digits and signs, {changed} changed")
    _time_catalogue()


def _time_catalogue() -> None:
    families = frozenset(PlaceholderFamily)
    text = (" ".join(ENGLISH).replace("{}", "it") * 20)[:20_000]
    seconds = []
    for _ in range(20):
        begun = time.perf_counter()
        find(text, families)
        seconds.append(time.perf_counter() - begun)
    print(f"catalogue on {len(text)} characters: {1000 * min(seconds):.2f} ms")


if __name__ == "__main__":
    main()
