"""Models of random weights in the files that the hub has of each family, and their translations by transformers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from marian_directories import write_directory
from marian_directories import write_tokenizers as write_marian_tokenizers
from multilingual_directories import SPM, pickle_weights, write_m2m, write_mbart, write_nllb, write_tokenizer
from transformers import (
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianMTModel,
    MarianTokenizer,
    MBart50Tokenizer,
    MBartForConditionalGeneration,
    NllbTokenizer,
)
from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as MBART_LANGUAGES
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB_LANGUAGES

LIMIT = 30
UNK, MARIAN_UNK = 3, 1
_SEARCH: dict[str, Any] = {
    "max_new_tokens": LIMIT,
    "num_beams": 4,
    "do_sample": False,
    "length_penalty": 1.0,
    "early_stopping": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A repository as it is published."""

    write: Callable[[Path, Path], None]
    """Writes it: folder of tokenisers, folder to write."""
    translate: Callable[[Path, list[str]], list[str]]
    """Translates Chinese into English with transformers, which read the same folder."""
    target_limit: int = LIMIT - 1
    """Tokens of a translation, end included, the token of the language left out."""


def write_tokenizers(folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Train the tokenisers that the layouts need."""
    texts = [text for pair in pairs for text in pair]
    write_tokenizer(folder / "bpe.model", texts)
    write_tokenizer(folder / "unigram.model", texts, kind="unigram")
    write_marian_tokenizers(folder, pairs)


def _names(folder: Path, languages: Sequence[str], **facts: Any) -> None:
    """Name the languages where repositories of these families do: in special_tokens_map.json, in the order of ids."""
    (folder / "tokenizer_config.json").write_text(json.dumps(facts), encoding="utf-8")
    listed = {"additional_special_tokens": [*languages], "unk_token": "<unk>"}
    (folder / "special_tokens_map.json").write_text(json.dumps(listed), encoding="utf-8")


def _opus_mt(tokenizers: Path, folder: Path) -> None:
    write_directory(tokenizers, folder, never=(MARIAN_UNK,))
    pickle_weights(folder)
    (folder / "README.md").write_text("---\nlanguage:\n- zh\n- en\nlicense: cc-by-nc-4.0\n---\n# A toy\n")
    (folder / "tf_model.h5").write_bytes(bytes(1000))


def _nllb(tokenizers: Path, folder: Path, *, seed: int = 2, **settings: Any) -> None:
    write_nllb(tokenizers / "bpe.model", folder, seed=seed, never=(UNK,), languages=NLLB_LANGUAGES, **settings)
    # transformers 5 takes the languages for unknown words unless tokenizer.json, which all repositories have, is there.
    NllbTokenizer.from_pretrained(folder).save_pretrained(folder)
    _names(folder, NLLB_LANGUAGES, tokenizer_class="NllbTokenizer", src_lang="eng_Latn")


def _sharded_nllb(tokenizers: Path, folder: Path) -> None:
    _nllb(tokenizers, folder, part_size="40KB")


def _pickled_nllb(tokenizers: Path, folder: Path) -> None:
    _nllb(tokenizers, folder)
    pickle_weights(folder)


def _m2m(tokenizers: Path, folder: Path, *, seed: int = 15, **settings: Any) -> None:
    write_m2m(tokenizers / "bpe.model", folder, every_language=True, never=(UNK,), seed=seed, **settings)


def _sharded_m2m(tokenizers: Path, folder: Path) -> None:
    _m2m(tokenizers, folder, part_size="40KB")


def _small_100(tokenizers: Path, folder: Path) -> None:
    _m2m(tokenizers, folder, small=True, seed=6, encoder_layers=3, decoder_layers=1)


def _mbart(tokenizers: Path, folder: Path) -> None:
    model = tokenizers / "unigram.model"
    write_mbart(model, folder, seed=4, never=(UNK,), languages=MBART_LANGUAGES, activation_function="gelu")
    _names(folder, MBART_LANGUAGES, tokenizer_class="MBart50Tokenizer", src_lang="en_XX")


def _resaved(write: Callable[[Path, Path], None], tokenizer: Any) -> Callable[[Path, Path], None]:
    """Return a writer of what transformers 5 save of a model that somebody has fine-tuned: tokenizer.json alone."""

    def write_and_save(tokenizers: Path, folder: Path) -> None:
        write(tokenizers, folder)
        tokenizer.from_pretrained(folder).save_pretrained(folder)
        for name in (SPM, "special_tokens_map.json"):
            (folder / name).unlink()
        assert (folder / "tokenizer.json").is_file()

    return write_and_save


@torch.inference_mode()
def _generated(model: Any, tokenizer: Any, sources: list[str], **options: Any) -> list[str]:
    encoded = tokenizer(sources, return_tensors="pt", padding=True)
    found = model.generate(**encoded, **_SEARCH, **options)
    texts = tokenizer.batch_decode(found, skip_special_tokens=True)
    # Tokenisers do not know that languages are special where no file says so.
    return [re.sub(r"__[a-z]{2,3}__|[a-z]{3}_[A-Z][a-z]{3}", "", text).strip() for text in texts]


def _by_marian(folder: Path, sources: list[str]) -> list[str]:
    return _generated(MarianMTModel.from_pretrained(folder), MarianTokenizer.from_pretrained(folder), sources)


def _by_nllb(folder: Path, sources: list[str]) -> list[str]:
    tokenizer = NllbTokenizer.from_pretrained(folder, src_lang="zho_Hans")
    first = tokenizer.convert_tokens_to_ids("eng_Latn")
    return _generated(
        M2M100ForConditionalGeneration.from_pretrained(folder), tokenizer, sources, forced_bos_token_id=first
    )


def _by_mbart(folder: Path, sources: list[str]) -> list[str]:
    tokenizer = MBart50Tokenizer.from_pretrained(folder, src_lang="zh_CN")
    first = tokenizer.convert_tokens_to_ids("en_XX")
    return _generated(
        MBartForConditionalGeneration.from_pretrained(folder), tokenizer, sources, forced_bos_token_id=first
    )


def _by_m2m(folder: Path, sources: list[str]) -> list[str]:
    tokenizer = M2M100Tokenizer.from_pretrained(folder, src_lang="zh")
    first = tokenizer.get_lang_id("en")
    return _generated(
        M2M100ForConditionalGeneration.from_pretrained(folder), tokenizer, sources, forced_bos_token_id=first
    )


def _by_small_100(folder: Path, sources: list[str]) -> list[str]:
    # Its own tokeniser, which comes as code with the model, puts the target language where M2M-100's puts the source's.
    tokenizer = M2M100Tokenizer.from_pretrained(folder, src_lang="en")
    return _generated(M2M100ForConditionalGeneration.from_pretrained(folder), tokenizer, sources)


LAYOUTS = {
    "Helsinki-NLP/opus-mt-zh-en": Layout(write=_opus_mt, translate=_by_marian, target_limit=LIMIT),
    "facebook/nllb-200-3.3B": Layout(write=_sharded_nllb, translate=_by_nllb),
    "facebook/nllb-200-distilled-600M": Layout(write=_pickled_nllb, translate=_by_nllb),
    "facebook/m2m100_418M": Layout(write=_sharded_m2m, translate=_by_m2m),
    "alirezamsh/small100": Layout(write=_small_100, translate=_by_small_100, target_limit=LIMIT),
    "facebook/mbart-large-50-many-to-many-mmt": Layout(write=_mbart, translate=_by_mbart),
    "team/nllb-fine-tuned": Layout(write=_resaved(_nllb, NllbTokenizer), translate=_by_nllb),
    "team/mbart-fine-tuned": Layout(write=_resaved(_mbart, MBart50Tokenizer), translate=_by_mbart),
}
"""By a name under which a repository has such files."""
