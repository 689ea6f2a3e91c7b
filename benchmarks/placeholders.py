"""Every kind of placeholder in every sentence, both directions: how many are kept, refused by name, or lost.

    python benchmarks/placeholders.py [SENTENCES]

Prints a line per direction, one for messages in the forms of programs, and one for texts of digits and signs alone;
then the time that the search for placeholders takes. 129 kinds in 40 sentences take some minutes.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from message_forms import CHINESE_FORMS, ENGLISH_FORMS, Form  # noqa: E402 - of the tests
from placeholder_kinds import CHINESE, ENGLISH, KINDS, is_kept  # noqa: E402

from xuanzang.server import Translator  # noqa: E402
from xuanzang.text.catalogue import find  # noqa: E402
from xuanzang.text.spans.carrying import Carrier, is_no_language  # noqa: E402
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
            _count_forms(translator, model, ENGLISH_FORMS if model == "en-zh" else CHINESE_FORMS)
            rng = random.Random(1)
            signs = ["".join(rng.choices(SIGNS, k=rng.randint(1, 24))) for _ in range(2000)]
            changed = sum(
                each.text != text for text, each in zip(signs, translator.translate(signs, model=model), strict=True)
            )
            print(f"{model}: {len(signs)} texts of digits and signs, {changed} changed")
        _time_catalogue(translator)


def _count_forms(translator: Translator, model: str, forms: Sequence[Form]) -> None:
    found = translator.translate([form.text for form in forms], model=model, placeholders=FAMILIES)
    refused = [form.text for form, each in zip(forms, found, strict=True) if each.hypotheses[0].lost_placeholders]
    changed = [form.text for form, each in zip(forms, found, strict=True) if form.fault(each.text)]
    print(f"{model}: {len(forms)} messages of programs, {len(refused)} refused by name, {len(changed)} changed")
    for text in (*refused, *changed):
        print(f"  {text}")


def _time_catalogue(translator: Translator) -> None:
    families = frozenset(PlaceholderFamily)
    prose = [each.replace("{}", "it") for each in ENGLISH]
    dense = ("%s", "{n}", "<b>", "</b>", "&amp;", ":id", "@bob", "${x}")
    for name, text in (
        ("prose", " ".join(prose) * 20),
        ("messages", " ".join(form.text for form in ENGLISH_FORMS) * 4),
        ("a field for 8 characters", "see {a} " * 2500),
        ("a span for 8 characters", " ".join(f"go {each}" for each in dense) * 400),
    ):
        seconds = _least_seconds(partial(find, text[:20_000], families), 40)
        print(f"catalogue on 20,000 characters, {name}: {1000 * seconds:.2f} ms")
    carried = _least_seconds(lambda: [_parts_of(text, families) for text in prose], 40)
    called = _least_seconds(lambda: translator.translate(prose, model="en-zh", beam_size=1), 3)
    print(f"texts without placeholders: the search for them is {carried / called:.2%} of a greedy translation")


def _parts_of(text: str, families: frozenset[PlaceholderFamily]) -> object:
    return is_no_language(text) or Carrier(families, text, bool).parts_of_text(text)


def _least_seconds(work: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


if __name__ == "__main__":
    main()
