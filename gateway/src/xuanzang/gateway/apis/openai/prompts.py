"""Prompts of programs that translate with chat models: their text and its languages, without their instructions.

A translation model follows no instructions, and would translate them as well. So a prompt of a known form is taken
apart, and what looks like another instruction is refused. The time to read a prompt grows with its length only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

from xuanzang.gateway.languages import known_code

_HEAD_CHARACTERS = 2000
"""Length of the beginning of a prompt that may hold instructions."""
_LINE_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A text, and the languages that its prompt names."""

    text: str
    """Text."""
    source: str | None = None
    """Code of its language; None: the prompt names none."""
    target: str | None = None
    """Code of the language to translate into; None: the prompt names none."""
    has_placeholders: bool = False
    """True if its tags and names in braces are placeholders."""


# An instruction begins like this, a text to translate hardly ever.
_START = re.compile(
    r"\W{0,8}(?:(?:please|kindly|now|help me to|can you|could you)\s+)?"
    r"(?:translate\b|treat\b|you are\b|you're\b|your task\b|act as\b|as an?\b|i want you to\b)"
    r"|\W{0,8}(?:请|把|将|你是|作为|翻译|从|帮我|现在)",
    re.IGNORECASE,
)
# An instruction without a role before it: its first paragraph is the whole instruction.
_DIRECT = re.compile(r"\W{0,8}(?:please\s+|now\s+)?(?:translate|treat)\b|\W{0,8}[请把将翻]", re.IGNORECASE)
_VERB = re.compile(r"\btranslat(?:e|es|ing|ion|or)\b|译", re.IGNORECASE)
_IMPERATIVE = re.compile(r"\btranslate\b|译", re.IGNORECASE)
_INTO = re.compile(r"\b(?:in)?to\s+|译[成为到至作]\s*", re.IGNORECASE)
_FROM = re.compile(r"\bfrom\s+|从\s*", re.IGNORECASE)
_NATIVE = re.compile(r"\b(?:professional|native)\s+", re.IGNORECASE)
_QUOTES = " \t\"'“”‘’「」*`[]{}<>"
_WORD = r"[^\s,.;:!?()\"'“”*`\[\]{}<>，。；：！？、（）]+"
_WORDS = re.compile(rf"{_WORD}(?: ?\([^()\n]{{1,20}}\)| {_WORD}){{0,3}}")
_CHINESE = re.compile(r"[\u3400-\u9fff]{2,8}(?:\([\u3400-\u9fff]{2}\)|（[\u3400-\u9fff]{2}）)?")
# An instruction without a language: that of the model counts.
_BARE = re.compile(
    r"\W{0,4}(?:please\s+)?translate(?:\s+(?:this|these|the|following|text|sentence|paragraph|it)){0,4}"
    r"[ \t]*[:：]\s*"
    r"|\W{0,4}(?:请(?:帮我)?翻译|翻译(?:一下|以下|下面|下列|这))[^\n：:]{0,20}[：:]\s*",
    re.IGNORECASE,
)
# An instruction on the line of a text in another script, without a mark between them.
_RUN_ON = re.compile(
    r"\W{0,4}(?:please\s+)?translate\b[ -~]{0,100}?\b(?:in)?to\s+(?P<english>[a-z][a-z ()-]{1,30}?)"
    r"[\s:,.\"'“”]+(?=[^ -~\s“”])"
    r"|\W{0,4}[^\n]{0,40}?译[成为到](?P<chinese>[\u3400-\u9fff]{2,5}?)[\s：:，,。“”\"]*(?=[a-z])",
    re.IGNORECASE,
)
# Labels directly before a text, and after it.
_LABEL = re.compile(
    r"^[ \t>#*]*(?:(?:source |input )?text|input|source|content|(?:待翻译)?(?:原文|文本|内容|文字))"
    r"[ \t*]*[:：][ \t]*\n*",
    re.IGNORECASE | re.MULTILINE,
)
_TRAILER = re.compile(
    r"\s*(?:=>|(?:\n|\A)[ \t*]*(?:translated text|translation|output|译文|翻译)[ \t*]*[:：])\s*\Z", re.IGNORECASE
)
_FENCES = ('"""', "'''", "```")
_ONE_LINE = re.compile(
    r"\W{0,4}(?:(?:please|now)\s+)?translate\b[^\n:：]{0,150}[:：]"
    r"|\W{0,4}[^\n:：]{0,60}译[成为到至作][^\n:：]{0,60}[:：]",
    re.IGNORECASE,
)
# Beginnings of prompts that ask for no translation: many paragraphs as JSON, titles, tags, questions.
_TASKS = (("You are ", "\n## Rules\n"), ("### Task:\n", "\n### Guidelines:\n"))
_OTHER_TASK = re.compile(
    r"(?:please )?(?:translate|summari[sz]e|rewrite|rephrase|paraphrase|proofread|polish|explain|correct)\b"
    r"[^\n]{0,300}:[ \t]*\n|请?[把将]?[^\n]{0,60}(?:译[成为到]|总结|概括|润色|改写|解释|校对)[^\n]{0,60}[：:][ \t]*\n",
    re.IGNORECASE,
)
# BabelDOC's prompt for a paragraph ends with a rule and the text.
_PARAGRAPH = "\n\nNow translate the following text:\n\n"
_MAX_CANDIDATES = 16


def read_prompt(prompt: str) -> Prompt | None:
    """Return the text of a prompt that asks for a translation; None if it is no prompt of a known form."""
    head = prompt[:_HEAD_CHARACTERS]
    if (run := _RUN_ON.match(head)) and (code := known_code(run["english"] or run["chinese"])):
        return Prompt(text=prompt[run.end() :], target=code)
    bare = _BARE.match(head)
    if bare and prompt[bare.end() :].strip() and directions(bare[0])[1] is None:
        return Prompt(text=_without_frame(prompt[bare.end() :]))
    verb = _IMPERATIVE.search(head)
    if verb is None or not _START.match(head):
        return None
    instructions, text, has_placeholders = _parts(prompt, head, verb.start())
    source, target = directions(instructions)
    if target is None or not text.strip():
        return None
    return Prompt(text=_without_frame(text), source=source, target=target, has_placeholders=has_placeholders)


def is_instruction(prompt: str) -> bool:
    """Return whether a text is an instruction for a chat model, which would be translated with its text."""
    if any(prompt.startswith(start) and heading in prompt for start, heading in _TASKS) or _OTHER_TASK.match(prompt):
        return True
    head = prompt[:_HEAD_CHARACTERS]
    names_target = _START.match(head) and _IMPERATIVE.search(head) and directions(head)[1]
    return bool(names_target) and "\n\n" in prompt


def directions(instructions: str) -> tuple[str | None, str | None]:
    """Return the languages that instructions name, source and target, or None.

    Args:
        instructions: Instructions of a program, such as its system message; their beginning is read.
    """
    head = instructions[:_HEAD_CHARACTERS]
    verb = _VERB.search(head)
    if verb is None:
        return None, None
    source, _ = _named(head, _FROM)
    target, _ = _named(head, _INTO, verb.start())
    if target is None:
        target, _ = _named(head, _NATIVE)
    return source, target


def _parts(prompt: str, head: str, verb: int) -> tuple[str, str, bool]:
    """Return instructions and text of a prompt, and whether it is of a program that sends placeholders.

    Args:
        head: Beginning of the prompt.
        verb: Position of the word "translate".
    """
    before, mark, text = prompt.partition(_PARAGRAPH)
    if mark and before.startswith("You are "):
        return before[-_HEAD_CHARACTERS:], text, True
    for fence in _FENCES:
        start, end = head.find(fence, verb), prompt.rfind(fence)
        if start > 0 and start + len(fence) <= end and not prompt[end + len(fence) :].strip():
            return head[:start], prompt[start + len(fence) : end], False
    return *_after_instruction(prompt, head, verb), False


def _after_instruction(prompt: str, head: str, verb: int) -> tuple[str, str]:
    """Return instructions and the text behind them: on their line, after a colon or a label, or a paragraph later."""
    target, at = _named(head, _INTO, verb)
    line, blank = (head.find(end, at) if target else -1 for end in ("\n", "\n\n"))
    if target and line < 0:
        one = _ONE_LINE.match(head)
        return (head[: one.end()], prompt[one.end() :].lstrip()) if one else (head, "")
    if line >= 0 and head[:line].rstrip().endswith((":", "：")):
        return head[:line], prompt[line:]
    label = _LABEL.search(head, verb)
    if label and (blank < 0 or not head[blank : label.start()].strip()):
        return head[: label.start()], prompt[label.end() :]
    if blank < 0 or not _DIRECT.match(head):
        return head, ""
    return head[:blank], prompt[blank:]


def _named(head: str, before: re.Pattern[str], start: int = 0) -> tuple[str | None, int]:
    """Return the code of the first language that follows a word, and where that word ends.

    Args:
        start: Where to begin.
    """
    for found in islice(before.finditer(head, start), _MAX_CANDIDATES):
        rest = head[found.end() : found.end() + 64].lstrip(_QUOTES)
        candidates: list[str] = []
        if chinese := _CHINESE.match(rest):
            candidates = [chinese[0][:size] for size in range(len(chinese[0]), 1, -1)]
        elif words := _WORDS.match(rest):
            spaced = words[0].split(" ")
            candidates = [" ".join(spaced[:size]) for size in range(len(spaced), 0, -1)]
        if code := next(filter(None, map(known_code, candidates)), None):
            return code, found.end()
    return None, 0


def _without_frame(text: str) -> str:
    """Return a text without what prompts put behind it, and around it."""
    if trailer := _TRAILER.search(text[-_LINE_CHARACTERS:]):
        text = text[: max(0, len(text) - _LINE_CHARACTERS) + trailer.start()].strip()
        if len(text) > 2 and text[0] == text[-1] == '"':
            text = text[1:-1]
    return text.strip("\n")
