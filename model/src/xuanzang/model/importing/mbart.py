"""mBART, and mBART-50."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from xuanzang.model.importing.directory import Directory, Layout
from xuanzang.model.importing.family import Family, Languages, Vocabularies, Wanted
from xuanzang.model.importing.multilingual import LanguageToken, choose_languages, named_on_both_sides, special_tokens
from xuanzang.model.importing.pieces import fairseq_pieces

SPM = "sentencepiece.bpe.model"

_TOKEN = LanguageToken(re.compile(r"([a-z]{2}_[A-Z]{2})"))


def _layout(_folder: Path, _tokenizer: dict[str, Any]) -> Layout:
    return Layout((SPM,), ())


def _read_text(directory: Directory, faults: list[str], wanted: Wanted) -> tuple[Vocabularies, Languages]:
    special = special_tokens(directory, fairseq_pieces(directory, faults), _TOKEN, faults)
    ids = choose_languages(directory, special.language_ids, faults, wanted)
    return special.vocabularies, _languages(directory, *ids)


def _languages(directory: Directory, source_ids: dict[str, int], target_ids: dict[str, int]) -> Languages:
    first = str(directory.tokenizer.get("tokenizer_class", "")).startswith("MBartTokenizer")
    languages = named_on_both_sides(source_ids, target_ids, "after_end" if first else "before")
    # Of the first mBART, what the decoder starts with is the language itself.
    starts = directory.generation_setting("decoder_start_token_id") in target_ids.values()
    return languages._replace(target_ids={}) if starts else languages


MBART = Family(
    architecture="MBartForConditionalGeneration",
    layout=_layout,
    read_text=_read_text,
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
