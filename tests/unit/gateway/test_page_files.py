"""The files of the page: small, complete, in two languages, and without anything from elsewhere."""

from __future__ import annotations

import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

from xuanzang.client import FinishReason, GlossaryOutcome, ProtectedPattern, QualityFlag
from xuanzang.documents import SUFFIXES
from xuanzang.gateway.page_serving import page_files
from xuanzang.server.engine.settings import EngineSettings

MAX_BYTES = 150_000
FILES = dict(page_files())
SCRIPTS = {path: content.decode() for path, content in FILES.items() if path.endswith(".js")}
INDEX = FILES["index.html"].decode()
GATEWAY = Path(__file__).parents[3] / "gateway"
# `text(`flag_${each}`)`: the names that follow come from the SDK, and are compared below.
FAMILIES = {
    "flag": [each.name for each in QualityFlag],
    "finish": [each.name for each in FinishReason],
    "outcome": [each.name for each in GlossaryOutcome],
    "pattern": [each.name for each in ProtectedPattern if each.value],
}


def texts() -> dict[str, dict[str, str]]:
    """Return the texts by language and key."""
    found = {}
    for name, language in (("EN", "en"), ("ZH", "zh")):
        (block,) = re.findall(rf"const {name} = \{{\n(.*?)\n\}};", SCRIPTS["texts.js"], re.DOTALL)
        pairs = re.findall(r'^  (\w+): "(.*)",$', block, re.MULTILINE)
        assert len(pairs) == len(block.splitlines())
        found[language] = dict(pairs)
        assert len(found[language]) == len(pairs), "a key stands twice"
    return found


class Elements(HTMLParser):
    """Elements of a page, which must be closed in their order."""

    VOID = ("meta", "link", "img", "input", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute of {tag} stands twice"
        self.attributes.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_text_stands_in_both_languages_with_the_same_values() -> None:
    english, chinese = texts()["en"], texts()["zh"]
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert text
        assert chinese[key]
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", chinese[key])), key


def test_every_text_that_is_asked_for_exists_and_every_other_is_gone() -> None:
    known = set(texts()["en"])
    code = "\n".join(content for path, content in SCRIPTS.items() if path != "texts.js")
    asked = set(re.findall(r'\btext\("(\w+)"', code)) | set(
        re.findall(r'data-(?:text|label|placeholder)="(\w+)"', INDEX)
    )
    families = set(re.findall(r"\btext\(`(\w+?)_\$\{", code))
    assert asked <= known
    listed = set(re.findall(r'"(\w+)"', code))
    assert {key for key in known - asked - listed if key.partition("_")[0] not in families} == set()


def test_whatever_the_server_may_say_has_a_text() -> None:
    known = texts()["en"].keys()
    assert {f"{family}_{name.lower()}" for family, names in FAMILIES.items() for name in names} <= known
    assert {f"flag_{name.lower()}_why" for name in FAMILIES["flag"]} <= known


def test_the_page_knows_the_limit_of_a_text_and_the_documents_that_are_taken() -> None:
    (limit,) = re.findall(r"^const LIMIT = ([\d_]+);$", SCRIPTS["core/session.js"], re.MULTILINE)
    assert int(limit) == EngineSettings.model_fields["max_content_characters"].default
    assert " ".join(SUFFIXES) in SCRIPTS["parts/files.js"]


def test_the_page_is_small_with_nothing_from_elsewhere_and_no_markup_from_strings() -> None:
    assert sum(map(len, FILES.values())) <= MAX_BYTES
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\son\w+=|\sstyle=|url\("
    for path, content in FILES.items():
        assert set(re.findall(r"\w+://[^\"'\s)]*", content.decode())) <= {"http://www.w3.org/2000/svg"}, path
        assert re.findall(forbidden, content.decode()) == [], path


def test_every_import_and_every_file_of_the_index_exists_and_is_used() -> None:
    used = {"index.html", *re.findall(r'(?:src|href)="/page/([^"]+)"', INDEX)}
    waiting = [path for path in used if path.endswith(".js")]
    while waiting:
        path = waiting.pop()
        for name in re.findall(r'^import .* from "([^"]+)";$', SCRIPTS[path], re.MULTILINE):
            imported = str((Path("/") / path).parent.joinpath(name).resolve().relative_to("/"))
            if imported not in used:
                used.add(imported)
                waiting.append(imported)
    assert used == FILES.keys()


def test_the_index_is_valid_html_with_the_elements_that_scripts_look_for() -> None:
    assert INDEX.startswith('<!doctype html>\n<html lang="en">')
    elements = Elements(INDEX)
    assert elements.open == []
    ids = [attributes["id"] for _, attributes in elements.attributes if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert all("alt" in attributes for tag, attributes in elements.attributes if tag == "img")
    kinds = {attributes.get("type") for tag, attributes in elements.attributes if tag == "button"}
    assert kinds <= {"button", "submit"}
    assert {each for content in SCRIPTS.values() for each in re.findall(r'byId\("([\w-]+)"\)', content)} <= {*ids}


def test_the_wheel_takes_every_kind_of_file() -> None:
    project = tomllib.loads((GATEWAY / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["*"]
    on_disk = [each for each in (GATEWAY / "src/xuanzang/gateway/page").rglob("*") if each.is_file()]
    assert {f"*{each.suffix}" for each in on_disk} <= set(patterns)
    assert len(on_disk) == len(FILES)
