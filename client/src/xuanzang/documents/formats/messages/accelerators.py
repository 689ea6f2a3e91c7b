"""Accelerators of menus and buttons, such as the & of "&Open" and the _ of "_Open": taken out, and put back.

A translation in letters of another script has the accelerator behind it, as programs in Chinese do: "打开(&O)".
"""

from __future__ import annotations

import re
from dataclasses import replace

from xuanzang.documents.splicing import Edit

_MAX_CHARACTERS = 80
_BEHIND = re.compile(r"\s?[(（](?P<mark>[&_])(?P<key>[A-Za-z0-9])[)）]")
_WITHIN = re.compile(
    r"(?<![\w&])(?P<mark>[&_])(?P<key>[A-Za-z0-9])(?![A-Za-z0-9]*[;_&])"
    r"|(?<![\w&])(?:[A-Z][a-z]{0,10})(?P<inner>[&_])(?P<letter>[a-z])(?![a-z]*[;_&])"
)
_MARKS = re.compile(r"&(?!#?\w+;)|_")
_END = re.compile(r"(?:\.{3}|…+|[:：])?\s*$")


def unmarked(edit: Edit) -> Edit:
    """Return an edit whose texts have no accelerators, which their translations get back."""
    texts = tuple(map(without_accelerator, edit.texts))
    if texts == edit.texts:
        return edit
    return replace(edit, texts=texts, render=lambda found: edit.render(tuple(map(with_accelerator, found, edit.texts))))


def _accelerator(text: str) -> tuple[int, int, str, str] | None:
    """Return the span of the only accelerator, without the letter that words have, its mark and its key."""
    if len(text) > _MAX_CHARACTERS or "\n" in text or len(_MARKS.findall(text)) != 1:
        return None
    if behind := _BEHIND.search(text):
        return *behind.span(), behind["mark"], behind["key"]
    if within := _WITHIN.search(text):
        group = "mark" if within["mark"] else "inner"
        return *within.span(group), within[group], within["key"] or within["letter"]
    return None


def without_accelerator(text: str) -> str:
    """Return a text without its accelerator; one that has none, or several, stays."""
    found = _accelerator(text)
    return text if found is None else text[: found[0]] + text[found[1] :]


def with_accelerator(translation: str, source: str) -> str:
    """Return the translation of a text that was without its accelerator, with one."""
    found = _accelerator(source)
    if found is None:
        return translation
    *_, mark, key = found
    beginning = re.search(rf"(?<![A-Za-z0-9<{{%$]){re.escape(key)}(?=[A-Za-z])", translation, re.IGNORECASE)
    if beginning:
        return translation[: beginning.start()] + mark + translation[beginning.start() :]
    end = _END.search(translation)
    place = end.start() if end else len(translation)
    return f"{translation[:place]}({mark}{key.upper()}){translation[place:]}"
