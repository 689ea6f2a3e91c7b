"""Folding of traditional Chinese characters into simplified ones, in tokenisers and in texts to compare."""

from __future__ import annotations

import functools
import io
import tempfile
from collections.abc import Mapping
from pathlib import Path

import opencc
import sentencepiece
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

_HAN = (range(0x3400, 0xA000), range(0xF900, 0xFB00))


def fold_traditional(*paths: Path) -> None:
    """Make tokenisers encode traditional characters as their simplified ones, wherever the files are used.

    SentencePiece keeps a table of characters to replace in the model file. Vocabulary and decoding are unchanged.

    Args:
        paths: SentencePiece model files to rewrite.
    """
    table = ModelProto.FromString(_model_with_rules()).normalizer_spec
    for path in paths:
        model = ModelProto.FromString(path.read_bytes())
        model.normalizer_spec.name = table.name
        model.normalizer_spec.precompiled_charsmap = table.precompiled_charsmap
        path.write_bytes(model.SerializeToString())


@functools.cache
def simplified_characters() -> Mapping[int, int]:
    """Return the code points of traditional characters with those of their simplified ones, for `str.translate`."""
    converter = opencc.OpenCC("t2s")
    pairs = ((code, converter.convert(chr(code))) for block in _HAN for code in block)
    return {code: ord(simple) for code, simple in pairs if len(simple) == 1 and simple != chr(code)}


def _model_with_rules() -> bytes:
    """Return a model whose only use is its table, which nothing but SentencePiece's trainer compiles."""
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as file:
        file.writelines(f"{code:X}\t{simple:X}\n" for code, simple in simplified_characters().items())
        file.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c d e"] * 10),
            model_writer=model,
            model_type="char",
            vocab_size=10,
            hard_vocab_limit=False,
            normalization_rule_tsv=file.name,
            minloglevel=2,
        )
    return model.getvalue()
