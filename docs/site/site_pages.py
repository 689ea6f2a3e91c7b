"""Hooks of the site's build: pages from outside docs/, generated references, links, and what a page may load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from posixpath import normpath, relpath
from types import MappingProxyType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from site_references import references

ROOT = Path(__file__).parents[2]
# Pages of the site, by the files of the repository that they are.
_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "README.md": "index.md",
        "README.zh.md": "index.zh.md",
        "ARCHITECTURE.md": "architecture.md",
        "CHANGELOG.md": "changelog.md",
        "CONTRIBUTING.md": "contributing.md",
        "CODE_OF_CONDUCT.md": "code-of-conduct.md",
        "SECURITY.md": "security-policy.md",
        "client/README.md": "client.md",
    }
)
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//|<link\b[^>]*rel=[\"']?(?:stylesheet|preload|icon|preconnect)[^>]*href=[\"']?(?:https?:)?//"
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/.

    Args:
        config: Configuration of the site.
    """
    for source, page in _ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for page, content in references(ROOT).items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let links of the repository lead to pages of the site; name the files that are none."""
    outside = {page: source for source, page in _ELSEWHERE.items()}
    source = outside.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    # Pictures that are HTML, for dark and light pages.
    return linked(markdown, source=source, page=page.file.src_uri).replace('="docs/pictures/', '="pictures/')


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Refuse a page that loads something from elsewhere.

    Args:
        output: HTML of the page.
    """
    if found := _LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads something from elsewhere: {found[0]}")
    return output


def linked(markdown: str, *, source: str, page: str) -> str:
    """Rewrite the links of a text, but for those in code blocks.

    Args:
        source: File of the repository that it is from.
        page: Page of the site that it becomes.

    Raises:
        PluginError: A link leads to a file that is not in the repository.
    """

    def replace(match: re.Match[str]) -> str:
        return _replacement(match, source, page)

    ends = [0, *(end for fence in _FENCE.finditer(markdown) for end in fence.span()), len(markdown)]
    parts = [markdown[start:end] for start, end in pairwise(ends)]
    return "".join(part if index % 2 else _LINK.sub(replace, part) for index, part in enumerate(parts))


def _replacement(match: re.Match[str], source: str, page: str) -> str:
    target = match["target"]
    if not target or "://" in target or target.startswith("mailto:"):
        return match[0]
    path = normpath(f"{source.rpartition('/')[0]}/{target}".lstrip("/"))
    if not (ROOT / path).exists() and not path.startswith("docs/reference/"):
        raise PluginError(f"{source} links to {path}, which is not there")
    found = _ELSEWHERE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
    if found is None:
        text = match["text"].strip("`")
        return f"`{path}`" if text in (path, Path(path).name) else f"{match['text']} (`{path}`)"
    anchor = match["anchor"] or ""
    return f"{match['image']}[{match['text']}]({relpath(found, page.rpartition('/')[0] or '.')}{anchor})"
