"""Sentence boundaries: text to sentences and the white space between them, and translated sentences to text.

Text is cut into white space and sentences: joined, they give the text back exactly, and no sentence starts or ends with
white space.
"""

from __future__ import annotations

import itertools
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, takewhile

from xuanzang.text.offsets import Span

# Marks that end a sentence, and marks that may close it.
_TERMINATORS = re.compile(r"[。！？；…｡.!?]+")
_ALWAYS_ENDS = frozenset("。！？；…｡")
_CLOSERS = frozenset("”’」』）】》〉〕］｝)]}»›")
_FULL_WIDTH_ENDS = _ALWAYS_ENDS | frozenset("”’」』）】》〉〕］｝")
_WHITE_SPACE = re.compile(r"\s+")
_NEXT = re.compile(r"\s*+(\S)")
_LINE_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

# Markers of list items, headings and quoted lines, before white space. Of pictures and circled numbers none is
# needed, and pictures may end a line, too.
_MARKER = r"(?:[-–—*+•·●○▪◦>]|#{1,6}|\[[ xX]\]|\d{1,3}[.)])"
_PICTURES = r"[①-⑳\u2600-\u27bf\u2b00-\u2bff\ufe0f\u200d\U0001f000-\U0001faff]++"
_ORNAMENT = re.compile(rf"{_MARKER}|{_PICTURES}|\s+")
_SIGNS = r"[!-/:-@\[-`{-~\s–—―·•\u2190-\u21ff\u2500-\u25ff＊－＝＿～]+"
# A formula: each letter stands alone among signs of arithmetic.
_FORMULA = r"(?=[^<>=]*[<>=]|(?:[^&|+]*[&|+]){2})(?=[^A-Za-z]*[A-Za-z])(?:(?<![A-Za-z])[A-Za-z](?![A-Za-z])|[\W\d_])++"
_IS_COPIED = re.compile(rf"{_MARKER}|{_PICTURES}|{_SIGNS}|{_FORMULA}")
_MARKED = re.compile(rf"\s*(?:(?:{_MARKER}|{_PICTURES})\s+|{_PICTURES})+")
_PICTURED = re.compile(rf"(?:{_PICTURES}|\s)++")

# A period after one of these, or after an initial or a digit, is part of the sentence.
_ABBREVIATION = re.compile(
    "mr|mrs|ms|dr|prof|sr|jr|st|vs|etc|al|approx|inc|ltd|co|corp|dept|est|fig|vol|pp|gen|gov|hon|lt|col|capt|sgt|rev"
    "|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec",
    re.IGNORECASE,
)
_NOWHERE = (sys.maxsize, sys.maxsize)
# Longer runs without letters, white space and ASCII signs may hold characters without shape.
_ODD_RUN = re.compile(r"[^\w\s!-~]{5}|^[^\w\s!-~]+$")
_SHAPELESS = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
_MARKS = frozenset({"Mn", "Mc", "Me"})
_MAX_MARKS = 4
_LAST_WORD = re.compile(r"[^\W\d_]+$")
Count = Callable[[str], int]
"""Counter of the source tokens of a stretch of text."""
# Places to cut a sentence, best first: after commas, at white space, between scripts.
_CLAUSES = re.compile(r".*?(?:[，、]|,(?!\d))+|.+", re.DOTALL)
_WORDS = re.compile(r"\S+\s*|\s+")
_SCRIPTS = re.compile(r"[\x00-\x7f]+|[^\x00-\x7f]+")
_PAUSES = frozenset("，、,")
# Words with single spaces between them, or Chinese characters, and one mark at the end.
_PLAIN = re.compile(
    r"(?=(?:\S+ )?[A-Za-z]+[ ,.!?])[A-Za-z][A-Za-z0-9,'-]*(?: [A-Za-z0-9,'-]+)*[.!?]?"
    r"|[A-Za-z0-9]*[\u4e00-\u9fff][A-Za-z0-9\u4e00-\u9fff，、]*[。！？]?"
)
# A word in capitals, and what only programs write between such words.
_CAPITALS = re.compile(r"(?<![A-Z0-9])[A-Z]++(?:['’][A-Z]++)*+(?![0-9])")
_CODE = re.compile(r"[_={}<>*;\\]")
_FEW_WORDS, _LONG_WORD = 3, 5
# A character has fewer marks in every script; text made to have more is cut among them.
_MAX_COMBINING_MARKS = 16


def is_plain(text: str) -> bool:
    """Return whether a text is one sentence of ordinary words, as most are: nothing of it is copied or carried."""
    return _PLAIN.fullmatch(text) is not None


def lowered(sentence: str) -> str:
    """Return an English sentence in capitals as models know it, in small letters; its length stays the same.

    A sentence of at most two words, or without a word of five letters, stays: it may be a name or abbreviations.
    """
    words = list(_CAPITALS.finditer(sentence))
    if len(words) < _FEW_WORDS or max(len(word[0]) for word in words) < _LONG_WORD or _CODE.search(sentence):
        return sentence
    small = _CAPITALS.sub(_lowered_word, sentence)
    start = words[0].start()
    return f"{small[:start]}{sentence[start]}{small[start + 1 :]}"


def _lowered_word(word: re.Match[str]) -> str:
    """Return a word in small letters, except "I" and single letters other than "A"."""
    first, rest = word[0][0], word[0][1:].lower()
    is_kept = first != "A" if not rest else first == "I" and not rest[0].isalpha()
    return (first if is_kept else first.lower()) + rest


def is_copied(seen: str) -> bool:
    """Return whether a part of a text, given by its visible characters, has no words and is copied.

    That is white space, markers of lines, pictures, rules of signs such as "-----" and "═════", and formulas.
    """
    return not seen or _IS_COPIED.fullmatch(seen) is not None


def seen_text(text: str) -> str:
    """Return a text without its invisible characters: long runs of controls, formats and marks, but the first marks.

    To a tokeniser each of these characters is as much as a word, or more.
    """
    if not (unseen := _unseen(text)):
        return text
    starts, ends = [0, *(end for _, end in unseen)], [*(start for start, _ in unseen), len(text)]
    return "".join(text[start:end] for start, end in zip(starts, ends, strict=True))


def before_seen(text: str, spans: Sequence[Span]) -> list[Span]:
    """Map spans of the visible text to the text itself."""
    if not (unseen := _unseen(text)):
        return list(spans)
    hidden = {place for start, end in unseen for place in range(start, end)}
    places = [place for place in range(len(text)) if place not in hidden] + [len(text)]
    return [(places[start], places[end] if start < end else places[start]) for start, end in spans]


def _unseen(text: str) -> list[Span]:
    """Return the places of a text's invisible characters."""
    if not _ODD_RUN.search(text):
        return []
    categories = {character: unicodedata.category(character) for character in set(text)}
    marks = {character for character, category in categories.items() if category in _MARKS}
    shapeless = {character for character, category in categories.items() if category in _SHAPELESS}
    odd = marks | {character for character in shapeless if not character.isspace()}
    if categories.keys() <= odd:
        return [(0, len(text))]
    if not odd:
        return []
    places = []
    for run in re.finditer(f"[{''.join(map(re.escape, odd))}]{{{_MAX_MARKS + 1},}}", text):
        # Those at the beginning have no letter.
        kept = takewhile(marks.__contains__, run.group()[: _MAX_MARKS if run.start() else 0])
        places.append((run.start() + sum(1 for _ in kept), run.end()))
    return places


def split_sentences(text: str) -> list[str]:
    """Cut text into sentences, what marks or decorates lines, and the white space between them; joined they are `text`.

    A sentence ends at a line break, after a Chinese terminator, and after a Latin one that white space or a letter of
    another script follows, if that cannot be an abbreviation, an initial, a number, or the end of a quotation within a
    sentence. Closing quotes and brackets stay with their sentence.
    """
    parts: list[str] = []
    start = 0
    for space in _WHITE_SPACE.finditer(text):
        if _LINE_BREAK.search(space.group()):
            parts += _split_line(text[start : space.start()])
            parts.append(space.group())
            start = space.end()
    return parts + _split_line(text[start:])


def split_around_words(text: str, words: Iterable[Span]) -> list[str]:
    """Cut text into sentences as `split_sentences` does if some of its characters are letters of names."""
    masked, end = list[str](), 0
    for word in words:
        masked += text[end : word[0]], "X" * (word[1] - word[0])
        end = word[1]
    ends = [0, *accumulate(map(len, split_sentences("".join((*masked, text[end:])))))]
    return [text[start:stop] for start, stop in itertools.pairwise(ends)]


def with_unbroken(parts: Sequence[str], unbroken: Iterable[tuple[int, int]]) -> list[str]:
    """Join parts of a text that end within some places, in their order, or at the end of one before no white space.

    Line breaks are where they were.
    """
    remaining = iter(unbroken)
    start, end = next(remaining, _NOWHERE)
    joined: list[list[str]] = []
    place = 0
    for part in parts:
        while end < place:
            start, end = next(remaining, _NOWHERE)
        is_within = start < place and (place < end or (place == end and not part[0].isspace()))
        if is_within and not _is_line_break(joined[-1][-1]) and not _is_line_break(part):
            joined[-1].append(part)
        else:
            joined.append([part])
        place += len(part)
    return ["".join(parts) for parts in joined]


def _is_line_break(part: str) -> bool:
    return part.isspace() and _LINE_BREAK.search(part) is not None


def _split_line(line: str) -> list[str]:
    parts, line, back = _ornaments(line)
    start = 0
    # Straight quotes before each position; counting them anew for each sentence would be quadratic.
    quotes = [0, *accumulate(mark == '"' for mark in line)] if '"' in line else [0] * (len(line) + 1)
    for terminators in _TERMINATORS.finditer(line):
        end = _end_of_closers(line, start, terminators.end(), quotes)
        if end > start and _is_boundary(line, start, terminators, end):
            parts += set_space_apart(line[start:end])
            start = end
    return [*parts, *set_space_apart(line[start:]), *back]


def _ornaments(line: str) -> tuple[list[str], str, list[str]]:
    """Return the markers and pictures that a line begins with, its sentences, and the pictures that it ends with."""
    marked = _MARKED.match(line)
    front, rest = (_ORNAMENT.findall(marked.group()), line[marked.end() :]) if marked else ([], line)
    pictured = _PICTURED.match(rest[::-1])
    if not pictured:
        return front, rest, []
    end = len(rest) - pictured.end()
    return front, rest[:end], _ORNAMENT.findall(rest[end:])


def _end_of_closers(line: str, start: int, end: int, quotes: Sequence[int]) -> int:
    """Return the end of the quotes and brackets that close the sentence from `start`, with terminators until `end`."""
    while end < len(line):
        mark = line[end]
        # Straight quotes look alike open and closed: one closes if it follows an odd number, or if no word follows it.
        closes_quotation = mark == '"' and (quotes[end] - quotes[start]) % 2 == 1
        closes_straight = mark in "\"'" and not line[end + 1 : end + 2].isalnum()
        if mark not in _CLOSERS and not closes_quotation and not closes_straight:
            break
        end += 1
    return end


def _is_boundary(line: str, start: int, terminators: re.Match[str], end: int) -> bool:
    """Return whether the sentence from `start` ends at `end`, behind these terminators."""
    marks = terminators.group()
    if _ALWAYS_ENDS & set(marks):
        return True
    following = line[end : end + 1]
    if following.isspace():
        after = _NEXT.match(line, end)
        continues = after is not None and after[1].islower()  # "Wait... what", "'Stop!' he said"
        return not continues and not (marks == "." and _is_within(line, start, terminators.start()))
    return "." not in marks and not following.isascii()  # "你好!再见", but not "a.b" nor "x?y=1"


def _is_within(line: str, start: int, period: int) -> bool:
    """Return whether the period at `period` belongs to a number, an initial or an abbreviation."""
    if line[period - 1 : period].isdigit():
        return True
    # Few letters suffice; a search through the whole sentence would make the cost quadratic.
    word = _LAST_WORD.search(line[max(start, period - 10) : period])
    return word is not None and (len(word.group()) == 1 or _ABBREVIATION.fullmatch(word.group()) is not None)


def set_space_apart(text: str) -> list[str]:
    """Return text without white space at its ends, and that white space, in their order."""
    body = text.strip()
    if len(body) in (0, len(text)):
        return [text] if text else []
    start = len(text) - len(text.lstrip())
    return [part for part in (text[:start], body, text[start + len(body) :]) if part]


class Joiner:
    """Joins translated sentences and the white space of the source, one segment after the other."""

    def __init__(self, *, spaced: bool) -> None:
        """Start a text; `spaced`: whether a space is added between sentences where the source had none.

        Otherwise spaces of the source are left out after full-width punctuation.
        """
        self._spaced = spaced
        self._end = " "

    def add(self, segment: str, *, is_last: bool = False) -> str:
        """Return the text that a segment adds: unchanged white space, always if it is last, or a translation."""
        is_superfluous = not self._spaced and self._end in _FULL_WIDTH_ENDS and not segment.strip(" ")
        if not segment or (is_superfluous and not is_last):
            return ""
        space = " " if self._spaced and not self._end.isspace() and not segment[0].isspace() else ""
        self._end = segment[-1]
        return space + segment

    def pieces(self, segments: Sequence[str]) -> list[str]:
        """Return what each of all segments of a text adds to it."""
        return [self.add(segment, is_last=number == len(segments)) for number, segment in enumerate(segments, start=1)]

    def extend(self, text: str) -> str:
        """Return the text that a continuation of the last segment adds."""
        self._end = text[-1:] or self._end
        return text


def split_long_sentence(sentence: str, count: Count, max_tokens: int) -> list[str]:
    """Cut a sentence that is too long at commas, else at white space, else between scripts, else anywhere.

    A stretch of ASCII without white space, such as an encoded file or the address of a page, stays whole: a part of it
    means nothing.

    Returns:
        White space and stretches; joined they are `sentence`. None is too long but those of ASCII alone and single
        characters with marks.
    """
    atoms = _atoms(sentence, (_CLAUSES, _WORDS, _SCRIPTS), count, max_tokens)
    return _packed([part for atom in atoms for part in _even_parts(atom, count, max_tokens)], count, max_tokens)


def split_at_pauses(sentence: str, count: Count, max_tokens: int) -> list[str]:
    """Cut a sentence that is too long at commas, else at white space; a stretch may still be too long."""
    return _packed(_atoms(sentence, (_CLAUSES, _WORDS), count, max_tokens), count, max_tokens)


def is_forced_cut(left: str, right: str) -> bool:
    """Return whether a reader would not pause between two neighbouring parts of a sentence."""
    return not (left[-1].isspace() or left[-1] in _PAUSES or right[0].isspace())


def _atoms(sentence: str, places: Iterable[re.Pattern[str]], count: Count, max_tokens: int) -> list[str]:
    """Cut overlong parts, in ever worse places."""
    atoms = [sentence]
    for place in places:
        atoms = [part for atom in atoms for part in ([atom] if count(atom) <= max_tokens else place.findall(atom))]
    return atoms


def _even_parts(text: str, count: Count, max_tokens: int) -> list[str]:
    """Cut text of one script into parts of about the same number of characters."""
    tokens = count(text)
    if tokens <= max_tokens or text.isascii() or len(text) == 1:
        return [text]
    number = min(len(text), -(-tokens // max_tokens))
    places = [0, *(_before_marks(text, len(text) * part // number) for part in range(1, number)), len(text)]
    parts = [text[start:end] for start, end in itertools.pairwise(places) if start < end]
    return parts if len(parts) == 1 else [atom for part in parts for atom in _even_parts(part, count, max_tokens)]


def _before_marks(text: str, place: int) -> int:
    """Return the place, moved behind the marks of the character before it."""
    marks = itertools.takewhile(
        lambda mark: unicodedata.category(mark) in ("Mn", "Mc", "Me", "Cf"), text[place : place + _MAX_COMBINING_MARKS]
    )
    return place + sum(1 for _ in marks)


def _packed(atoms: Sequence[str], count: Count, max_tokens: int) -> list[str]:
    """Join neighbours into few stretches; each atom is counted once, so that the cost is linear in the text."""
    stretches: list[list[str]] = []
    size = max_tokens + 1
    for atom in atoms:
        tokens = count(atom)
        if size + tokens > max_tokens:
            stretches.append([])
            size = 0
        stretches[-1].append(atom)
        size += tokens
    texts = [text for stretch in stretches for text in _halve_until_short(stretch, count, max_tokens)]
    return [part for text in texts for part in set_space_apart(text)]


def _halve_until_short(atoms: Sequence[str], count: Count, max_tokens: int) -> list[str]:
    # Joined atoms have, rarely, more tokens than the sum of theirs.
    text = "".join(atoms)
    if len(atoms) == 1 or count(text) <= max_tokens:
        return [text]
    middle = len(atoms) // 2
    halves = (atoms[:middle], atoms[middle:])
    return [part for half in halves for part in _halve_until_short(half, count, max_tokens)]
