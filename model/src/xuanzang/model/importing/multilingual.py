"""Shared parts of families of many languages: tokens that name languages, among special tokens after the pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from xuanzang.model.importing.directory import Directory, read_object
from xuanzang.model.importing.family import Languages, Vocabularies, Wanted
from xuanzang.model.importing.language_codes import codes_of, language_code

_FILLER = "madeupword"


class LanguageToken(NamedTuple):
    """Shape of the tokens that name languages."""

    pattern: re.Pattern[str]
    """Pattern of the whole token, whose first group is the name of the language."""
    known: tuple[str, ...] = ()
    """Tokens in the order of their ids, for directories whose files do not list them."""


class Special(NamedTuple):
    """The vocabulary of a model of many languages."""

    vocabularies: Vocabularies
    language_ids: dict[str, int]
    """Ids of the tokens that name languages, by these names, such as "zho_Hans"."""


def special_tokens(directory: Directory, pieces: Sequence[str], token: LanguageToken, faults: list[str]) -> Special:
    """Complete a table of pieces with the special tokens after them.

    Args:
        pieces: Pieces by id; empty if they could not be read.
        token: Shape of the tokens that name languages.
        faults: List to which faults are added.
    """
    size = directory.config.get("vocab_size")
    if not pieces or type(size) is not int:
        return Special(Vocabularies([], [], -1), {})
    ids = _ids(directory, pieces, token)
    names = {found[1]: number for piece, number in ids.items() if (found := token.pattern.fullmatch(piece))}
    if not names:
        faults.append("neither tokenizer_config.json, tokenizer.json nor special_tokens_map.json names languages")
    last = max(ids.values(), default=len(pieces) - 1)
    if last >= size or len(pieces) > size:
        faults.append(f"the tokeniser has {max(last + 1, len(pieces))} pieces, config.json says {size}")
        return Special(Vocabularies([], [], -1), {})
    table = [*pieces, *(f"{_FILLER}{number:04d}" for number in range(size - len(pieces)))]
    for piece, number in ids.items():
        table[number] = piece
    _check(directory, table, faults)
    unk_id = table.index("<unk>") if "<unk>" in table else -1
    silent = [number for number in range(size) if number >= len(pieces) or table[number] in ("<s>", "<mask>")]
    return Special(Vocabularies(table, table, unk_id, silent), names)


def _ids(directory: Directory, pieces: Sequence[str], token: LanguageToken) -> dict[str, int]:
    """Return the ids of the special tokens after the pieces."""
    listed = {piece: number for piece, number in _numbered(directory) if number >= len(pieces)}
    if any(token.pattern.fullmatch(piece) for piece in listed):
        return listed
    ordered = [piece for piece in _ordered(directory) if token.pattern.fullmatch(piece)] or token.known
    return {piece: number for number, piece in enumerate(dict.fromkeys(ordered), start=len(pieces))}


def _numbered(directory: Directory) -> Iterator[tuple[str, int]]:
    """Find special tokens that have their ids with them."""
    for number, token in _object(directory.tokenizer.get("added_tokens_decoder")).items():
        if isinstance(token, dict) and str(number).isdecimal():
            yield str(token.get("content")), int(number)
    tokens = read_object(directory.folder / "tokenizer.json", [], optional=True).get("added_tokens")
    for token in tokens if isinstance(tokens, list) else ():
        if isinstance(token, dict) and type(token.get("id")) is int:
            yield str(token.get("content")), token["id"]


def _ordered(directory: Directory) -> Iterator[str]:
    """Find special tokens that are listed in the order of their ids."""
    others = read_object(directory.folder / "special_tokens_map.json", [], optional=True)
    for contents in (others, directory.tokenizer):
        for name in ("additional_special_tokens", "extra_special_tokens"):
            tokens = contents.get(name)
            for token in tokens if isinstance(tokens, list) else ():
                yield str(token.get("content") if isinstance(token, dict) else token)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _check(directory: Directory, table: Sequence[str], faults: list[str]) -> None:
    """See that the special ids of the config are those of the table, and that no piece is there twice."""
    if len(set(table)) < len(table):
        faults.append("the tokeniser has a piece twice")
    if "<unk>" not in table:
        faults.append("the tokeniser lacks '<unk>'")
    for name, piece in (("eos_token_id", "</s>"), ("pad_token_id", "<pad>")):
        number = directory.generation_setting(name)
        if type(number) is int and 0 <= number < len(table) and table[number] != piece:
            faults.append(f"unsupported: {name} is {number}, which is {table[number]!r} and not {piece!r}")


def choose_languages(
    directory: Directory, language_ids: Mapping[str, int], faults: list[str], wanted: Wanted
) -> tuple[dict[str, int], dict[str, int]]:
    """Choose the languages to offer.

    Args:
        directory: Model directory, whose settings may force one target language.
        language_ids: Ids by the names that the vocabulary has for languages.
        faults: List to which faults are added.

    Returns:
        Ids by BCP-47 code, of the source languages and of the target languages.
    """
    forced = directory.generation_setting("forced_bos_token_id")
    start = directory.generation_setting("decoder_start_token_id")
    only = next((number for number in (forced, start) if number in language_ids.values()), None)
    if forced is not None and only is None and language_ids:
        faults.append(f"unsupported: forced_bos_token_id is {forced}, which is no language")
    writable = {name: number for name, number in language_ids.items() if only in (None, number)}
    return _chosen(language_ids, wanted.sources, faults), _chosen(writable, wanted.targets, faults)


def _chosen(language_ids: Mapping[str, int], wanted: Sequence[str], faults: list[str]) -> dict[str, int]:
    codes = codes_of(language_ids)
    chosen = {}
    for each in wanted or codes:
        code, _, name = each.partition("=")
        number = language_ids.get(name or code, codes.get(name or code))
        code = code if name or code in codes else language_code(code) or code
        if number is None:
            faults.append(f"the vocabulary has no language {name or code!r}")
        elif not language_code(code):
            faults.append(f"{code!r} is no BCP-47 code of a language")
        else:
            chosen[code] = number
    return chosen


def named_on_both_sides(
    source_ids: dict[str, int], target_ids: dict[str, int], place: Literal["before", "after_end"]
) -> Languages:
    """Return the languages of a model that is told the language of the source and begins with that of the target.

    Args:
        place: Place of the id of the source language.
    """
    return Languages(
        list(source_ids), list(target_ids), {}, source_ids=source_ids, source_place=place, target_ids=target_ids
    )
