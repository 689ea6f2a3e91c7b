"""Contents with tags: whether all tags come back, around which words, and what it costs.

    PYTHONPATH=tests/benchmark:tests/support python tests/benchmark/markup.py --html /usr/share/doc

Generated fragments are well-formed and translated as XML; pages are those of 2 to 5 kB in a folder, translated as HTML.
The cases are the 200 that were read, whose verdicts hold for translations that have not changed since. The cost is the
CPU time of the server per call of the cases, without tags as text, and with their tags, in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from xml.etree.ElementTree import ParseError

from markup_fragments import fragment, tags, text_of
from provenance import cpu_milliseconds, started
from served import HERE, ServedModel

from xuanzang.client import ContentFormat, TranslationClient
from xuanzang.server.engine.markup.html_tokens import html_tokens
from xuanzang.server.engine.markup.tokens import TokenKind

ROOT = HERE.parents[1]
CASES = ROOT / "tests/integration/markup_cases.jsonl"
PAGES = ROOT / "tests/integration/markup_pages.jsonl"
MIN_PAGE_BYTES, MAX_PAGE_BYTES = 2000, 5000


def markup_of(page: str) -> Counter[str]:
    """Return how often each tag, comment and declaration of a page occurs."""
    return Counter(token.raw for token in html_tokens(page) if token.kind is not TokenKind.TEXT)


def is_nested(page: str) -> bool:
    """Return whether every end tag ends the element that was begun last."""
    opened: list[str] = []
    for token in html_tokens(page):
        if token.kind is TokenKind.OPEN:
            opened.append(token.name)
        elif token.kind is TokenKind.CLOSE and (not opened or opened.pop() != token.name):
            return False
    return not opened


def is_well_formed(markup: str) -> bool:
    """Return whether an XML parser reads a fragment."""
    try:
        text_of(markup)
    except ParseError:
        return False
    return True


def pages(folder: Path, count: int) -> Iterator[str]:
    """Yield pages of a folder, spread over it, each text once."""
    found = sorted(folder.rglob("*.html"))
    fitting = [page for page in found if MIN_PAGE_BYTES <= page.stat().st_size <= MAX_PAGE_BYTES]
    texts = dict.fromkeys(page.read_text(encoding="utf-8", errors="replace") for page in fitting)
    yield from islice(texts, 0, None, max(1, len(texts) // count))


def translated(
    client: TranslationClient, contents: Iterable[str], content_format: ContentFormat
) -> Iterator[tuple[str, str]]:
    """Yield contents and their translations."""
    for item in client.translate_stream(contents, content_format=content_format, beam_size=1, ordered=True):
        yield item.source, item.translation.text


def report_tags(client: TranslationClient, html: Path | None, fragments: int, count: int) -> None:
    """Print how many contents keep all their tags and their nesting."""
    generated = list(translated(client, (fragment(seed, with_islands=True) for seed in range(fragments)), "xml"))
    kept = sum(tags(source) == tags(text) and is_well_formed(text) for source, text in generated)
    print(f"generated fragments with all tags, well-formed: {kept} of {len(generated)}")
    if html:
        real = list(translated(client, islice(pages(html, count), count), "html"))
        kept = sum(markup_of(source) == markup_of(text) for source, text in real)
        nested = [text for source, text in real if is_nested(source)]
        number = sum(sum(markup_of(source).values()) for source, _ in real)
        print(f"pages with all tags: {kept} of {len(real)}, {number} tags")
        print(f"pages whose tags are nested, and still are: {sum(map(is_nested, nested))} of {len(nested)}")


def report_cases(client: TranslationClient, file: Path) -> None:
    """Print the verdicts on the cases of a file, and those to be read again."""
    cases = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    found = client.translate([case["source"] for case in cases], content_format="html")
    same = [case for case, each in zip(cases, found, strict=True) if each.text == case["translation"]]
    print(f"{file.stem} with tags around the right words: {sum(case['right'] for case in same)} of {len(same)} as read")
    for case, each in zip(cases, found, strict=True):
        if each.text != case["translation"]:
            print(f"  changed: {case['source']} {each.text}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--html", type=Path, help="folder with pages")
    parser.add_argument("--fragments", type=int, default=2000, help="number of generated fragments (2000)")
    parser.add_argument("--pages", type=int, default=200, help="number of pages (200)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the cost (5)")
    arguments = parser.parse_args()
    bundle = max((ROOT / "server/models/zh-en").iterdir(), key=lambda folder: int(folder.name))
    contents = [json.loads(line)["source"] for line in CASES.read_text(encoding="utf-8").splitlines()]
    texts = [text_of(content.replace("&", "&amp;")) for content in contents]
    with started(ROOT, ServedModel(name="zh-en", bundle=bundle, ctranslate2=bundle, texts=texts)) as (server, client):
        report_cases(client, CASES)
        report_cases(client, PAGES)
        ratios = []
        for _ in range(arguments.rounds + 1):
            costs = []
            kinds: tuple[tuple[list[str], ContentFormat], ...] = ((texts, "text"), (contents, "html"))
            for each, content_format in kinds:
                before = cpu_milliseconds(server)
                for content in each:
                    client.translate_one(content, content_format=content_format)
                costs.append(cpu_milliseconds(server) - before)
            ratios.append(costs[1] / costs[0])
        # The first round warms up.
        print(f"CPU time with tags to that without: {statistics.median(ratios[1:]):.3f}")
        sys.stdout.flush()
        report_tags(client, arguments.html, arguments.fragments, arguments.pages)


if __name__ == "__main__":
    main()
