"""Families of many languages: M2M-100, NLLB-200, SMaLL-100, mBART; tokens after the pieces name languages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from xuanzang.model.importing.directory import Directory, Layout, read_object
from xuanzang.model.importing.family import Family, Languages, Vocabularies, Wanted
from xuanzang.model.importing.language_codes import codes_of, language_code
from xuanzang.model.importing.pieces import check_models, fairseq_pieces, table_of

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
        faults: List that receives faults.
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
        faults: List that receives faults.

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


SPM, VOCAB = "sentencepiece.bpe.model", "vocab.json"
_MBART_TOKEN = LanguageToken(re.compile(r"([a-z]{2}_[A-Z]{2})"))

_M2M_LANGUAGES = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
_M2M_TOKEN = LanguageToken(re.compile(r"__([a-z]{2,3})__"), tuple(f"__{name}__" for name in _M2M_LANGUAGES.split()))
_NLLB_TOKEN = LanguageToken(re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"))
_SMALL_100 = "SMALL100Tokenizer"


def _m2m_layout(folder: Path, tokenizer: dict[str, Any]) -> Layout:
    has_table = (folder / VOCAB).is_file() or tokenizer.get("tokenizer_class") in ("M2M100Tokenizer", _SMALL_100)
    return Layout((SPM,), (VOCAB,) if has_table else ())


def _m2m_text(directory: Directory, faults: list[str], wanted: Wanted) -> tuple[Vocabularies, Languages]:
    has_table = bool(directory.vocabularies)
    pieces = _m2m_pieces(directory, faults) if has_table else fairseq_pieces(directory, faults)
    token = _M2M_TOKEN if has_table else _NLLB_TOKEN
    special = special_tokens(directory, pieces, token, faults)
    ids = choose_languages(directory, special.language_ids, faults, wanted)
    return special.vocabularies, _m2m_languages(directory, *ids)


def _m2m_pieces(directory: Directory, faults: list[str]) -> list[str]:
    check_models(directory, faults)
    [vocabulary] = directory.vocabularies
    return table_of(VOCAB, vocabulary, len(vocabulary), faults)


def _m2m_languages(directory: Directory, source_ids: dict[str, int], target_ids: dict[str, int]) -> Languages:
    if directory.tokenizer.get("tokenizer_class") == _SMALL_100:
        # It is told the target language before the source, and nothing else.
        return Languages(list(source_ids), list(target_ids), target_ids)
    legacy = bool(directory.tokenizer.get("legacy_behaviour"))
    return named_on_both_sides(source_ids, target_ids, "after_end" if legacy else "before")


M2M_100 = Family(
    architecture="M2M100ForConditionalGeneration",
    layout=_m2m_layout,
    read_text=_m2m_text,
    norm="pre",
    positions="sinusoidal_fairseq",
    embedding_norm=False,
    fixed={"normalize_before": True, "normalize_embedding": False, "add_final_layer_norm": True},
    unsupported=("suppress_tokens", "begin_suppress_tokens", "sequence_bias"),
)


def _mbart_layout(_folder: Path, _tokenizer: dict[str, Any]) -> Layout:
    return Layout((SPM,), ())


def _mbart_text(directory: Directory, faults: list[str], wanted: Wanted) -> tuple[Vocabularies, Languages]:
    special = special_tokens(directory, fairseq_pieces(directory, faults), _MBART_TOKEN, faults)
    ids = choose_languages(directory, special.language_ids, faults, wanted)
    return special.vocabularies, _mbart_languages(directory, *ids)


def _mbart_languages(directory: Directory, source_ids: dict[str, int], target_ids: dict[str, int]) -> Languages:
    first = str(directory.tokenizer.get("tokenizer_class", "")).startswith("MBartTokenizer")
    languages = named_on_both_sides(source_ids, target_ids, "after_end" if first else "before")
    # The first mBART's decoder starts with the language itself.
    starts = directory.generation_setting("decoder_start_token_id") in target_ids.values()
    return languages._replace(target_ids={}) if starts else languages


MBART = Family(
    architecture="MBartForConditionalGeneration",
    layout=_mbart_layout,
    read_text=_mbart_text,
    norm="pre",
    positions="learned",
    embedding_norm=True,
    fixed={
        "normalize_before": True,
        "normalize_embedding": True,
        "add_final_layer_norm": True,
        "static_position_embeddings": False,
        "add_bias_logits": False,
    },
    unsupported=("suppress_tokens", "begin_suppress_tokens", "sequence_bias"),
)
