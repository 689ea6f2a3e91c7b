"""MarianMT, such as the models of OPUS-MT."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xuanzang.model.importing.directory import Directory, Layout
from xuanzang.model.importing.family import Family, Languages, Vocabularies, Wanted
from xuanzang.model.importing.language_codes import language_code
from xuanzang.model.importing.pieces import check_models, table_of

SOURCE_SPM, TARGET_SPM = "source.spm", "target.spm"
VOCAB, TARGET_VOCAB = "vocab.json", "target_vocab.json"

_TOKEN = re.compile(r">>(\w+)<<")


def _layout(folder: Path, tokenizer: dict[str, Any]) -> Layout:
    separate = tokenizer.get("separate_vocabs") or (folder / TARGET_VOCAB).is_file()
    return Layout((SOURCE_SPM, TARGET_SPM), (VOCAB, TARGET_VOCAB) if separate else (VOCAB,))


def _read_text(directory: Directory, faults: list[str], wanted: Wanted) -> tuple[Vocabularies, Languages]:
    vocabularies = _read_vocabularies(directory, faults)
    return vocabularies, _find_languages(directory, vocabularies.source, faults, wanted)


def _read_vocabularies(directory: Directory, faults: list[str]) -> Vocabularies:
    """Make tables of the vocabularies and see that they belong to config and tokenisers."""
    source_size, target_size = directory.vocab_sizes
    names, vocabularies = directory.layout.vocabularies, directory.vocabularies
    source = table_of(names[0], vocabularies[0], source_size, faults)
    target = source
    if len(names) > 1 or target_size != source_size:
        target = table_of(names[-1], vocabularies[-1], target_size, faults)
    check_models(directory, faults)
    return Vocabularies(source, target, _special_ids(directory, faults))


def _special_ids(directory: Directory, faults: list[str]) -> int:
    """Check the ids of end and unknown, and return the latter."""
    unk, eos = directory.special_token("unk_token", "<unk>"), directory.special_token("eos_token", "</s>")
    eos_id, unk_id = directory.generation_setting("eos_token_id"), directory.vocabularies[0].get(unk, -1)
    for name, vocab in zip(directory.layout.vocabularies, directory.vocabularies, strict=True):
        if eos not in vocab or unk not in vocab:
            faults.append(f"{name} lacks {unk!r} or {eos!r}")
        elif vocab[eos] != eos_id:
            faults.append(f"unsupported: {eos!r} is {vocab[eos]} in {name}, but eos_token_id is {eos_id}")
        elif vocab[unk] != unk_id:
            faults.append(f"unsupported: {unk!r} is {vocab[unk]} in {name}, but {unk_id} in {VOCAB}")
    return unk_id


def _find_languages(directory: Directory, table: Sequence[str], faults: list[str], wanted: Wanted) -> Languages:
    """Find the languages, which tokenizer_config.json, README.md or pieces such as ">>fra<<" name."""
    named = _named(directory)
    names = {found[1]: number for number, piece in enumerate(table) if (found := _TOKEN.fullmatch(piece))}
    prefix_ids = _prefix_ids(names, wanted.targets, faults) if names else {}
    languages = Languages(
        list(wanted.sources) or named[:1],
        list(prefix_ids) or [target.partition("=")[0] for target in wanted.targets] or named[1:],
        prefix_ids,
    )
    for side, codes in (("source", languages.sources), ("target", languages.targets)):
        if not codes:
            faults.append(f"the {side} language is not named, give it with --{side}-language")
        faults += [f"{code!r} is no BCP-47 code of a language" for code in codes if not language_code(code)]
    if len(languages.targets) > 1 and not names:
        faults.append("the vocabulary has no pieces such as >>fra<<, so there can be only one target language")
    return languages


def _named(directory: Directory) -> list[str]:
    """Return source and target language, empty if the directory does not name them."""
    names = [directory.tokenizer.get(f"{side}_lang") or "" for side in ("source", "target")]
    for pair in (names, directory.readme.languages):
        codes = [code for name in pair if (code := language_code(name))]
        if len(pair) == len(codes) == 2:
            return codes
    return []


def _prefix_ids(names: dict[str, int], targets: Sequence[str], faults: list[str]) -> dict[str, int]:
    """Return the ids of the pieces that ask for languages, by code."""
    codes: dict[str, str] = {}
    for name in names:
        if code := language_code(name):
            codes.setdefault(code, name)
    prefix_ids = {}
    for target in targets or codes:
        code, _, name = target.partition("=")
        name = name or codes.get(code, code)
        if name in names:
            prefix_ids[code] = names[name]
        else:
            faults.append(f"the vocabulary has no piece >>{name}<<")
    return prefix_ids


MARIAN = Family(
    architecture="MarianMTModel",
    layout=_layout,
    read_text=_read_text,
    norm="post",
    positions="sinusoidal_halves",
    embedding_norm=False,
    # Variants that exist under the name of Marian and that transformers itself ignores.
    fixed={
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "static_position_embeddings": True,
    },
    unsupported=("forced_bos_token_id", "suppress_tokens", "begin_suppress_tokens", "sequence_bias"),
)
