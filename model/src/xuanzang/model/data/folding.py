"""Folding of traditional Chinese characters into simplified ones, by the tokeniser itself."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import sentencepiece

from xuanzang.model.data.corpus import CorpusError

_HAN = (range(0x3400, 0xA000), range(0xF900, 0xFB00))


def fold_traditional(*paths: Path) -> None:
    """Make tokenisers encode traditional characters as their simplified ones, wherever the files are used.

    SentencePiece keeps a table of characters to replace in the model file. Vocabulary and decoding stay as they are.

    Args:
        paths: SentencePiece model files to rewrite.

    Raises:
        CorpusError: The packages opencc and protobuf are not installed.
    """
    try:
        from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]  # noqa: PLC0415
    except ImportError as error:
        raise _missing("protobuf") from error
    table = ModelProto.FromString(_model_with_rules()).normalizer_spec
    for path in paths:
        model = ModelProto.FromString(path.read_bytes())
        model.normalizer_spec.name = table.name
        model.normalizer_spec.precompiled_charsmap = table.precompiled_charsmap
        path.write_bytes(model.SerializeToString())


def _rules() -> list[str]:
    """Return what SentencePiece reads: code points of a traditional and its simplified character, for each."""
    try:
        import opencc  # noqa: PLC0415 - optional
    except ImportError as error:
        raise _missing("opencc") from error
    converter = opencc.OpenCC("t2s")
    pairs = ((code, converter.convert(chr(code))) for block in _HAN for code in block)
    return [f"{code:X}\t{ord(simple):X}" for code, simple in pairs if len(simple) == 1 and simple != chr(code)]


def _model_with_rules() -> bytes:
    """Return a model whose only use is its table, which nothing but SentencePiece's trainer compiles."""
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as file:
        file.write("\n".join(_rules()) + "\n")
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


def _missing(package: str) -> CorpusError:
    return CorpusError(f"fold_traditional needs the package {package}: pip install 'opencc>=1.1.9' 'protobuf>=5'")
