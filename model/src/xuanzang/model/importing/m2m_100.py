"""M2M-100, NLLB-200 and SMaLL-100, which transformers keeps under one name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from xuanzang.model.importing.directory import Directory, Layout
from xuanzang.model.importing.family import Family, Languages, Vocabularies, Wanted
from xuanzang.model.importing.multilingual import LanguageToken, choose_languages, named_on_both_sides, special_tokens
from xuanzang.model.importing.pieces import check_models, fairseq_pieces, table_of

SPM, VOCAB = "sentencepiece.bpe.model", "vocab.json"

_M2M_LANGUAGES = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
_M2M_TOKEN = LanguageToken(re.compile(r"__([a-z]{2,3})__"), tuple(f"__{name}__" for name in _M2M_LANGUAGES.split()))
_NLLB_TOKEN = LanguageToken(re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"))
_SMALL_100 = "SMALL100Tokenizer"


def _layout(folder: Path, tokenizer: dict[str, Any]) -> Layout:
    has_table = (folder / VOCAB).is_file() or tokenizer.get("tokenizer_class") in ("M2M100Tokenizer", _SMALL_100)
    return Layout((SPM,), (VOCAB,) if has_table else ())


def _read_text(directory: Directory, faults: list[str], wanted: Wanted) -> tuple[Vocabularies, Languages]:
    has_table = bool(directory.vocabularies)
    pieces = _m2m_pieces(directory, faults) if has_table else fairseq_pieces(directory, faults)
    token = _M2M_TOKEN if has_table else _NLLB_TOKEN
    special = special_tokens(directory, pieces, token, faults)
    ids = choose_languages(directory, special.language_ids, faults, wanted)
    return special.vocabularies, _languages(directory, *ids)


def _m2m_pieces(directory: Directory, faults: list[str]) -> list[str]:
    check_models(directory, faults)
    [vocabulary] = directory.vocabularies
    return table_of(VOCAB, vocabulary, len(vocabulary), faults)


def _languages(directory: Directory, source_ids: dict[str, int], target_ids: dict[str, int]) -> Languages:
    if directory.tokenizer.get("tokenizer_class") == _SMALL_100:
        # It is told the target language before the source, and nothing else.
        return Languages(list(source_ids), list(target_ids), target_ids)
    legacy = bool(directory.tokenizer.get("legacy_behaviour"))
    return named_on_both_sides(source_ids, target_ids, "after_end" if legacy else "before")


M2M_100 = Family(
    architecture="M2M100ForConditionalGeneration",
    layout=_layout,
    read_text=_read_text,
    norm="pre",
    positions="sinusoidal_fairseq",
    embedding_norm=False,
    fixed={"normalize_before": True, "normalize_embedding": False, "add_final_layer_norm": True},
    unsupported=("suppress_tokens", "begin_suppress_tokens", "sequence_bias"),
)
