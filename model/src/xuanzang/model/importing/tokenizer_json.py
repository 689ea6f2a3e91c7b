"""The SentencePiece model that a tokenizer.json was made from, for directories that have lost the original.

transformers 5 writes tokenizer.json alone, so most models that somebody has fine-tuned have nothing else. The file
holds everything that encoding needs: pieces, scores or merges, and the map of characters.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xuanzang.model.importing.directory import DirectoryError, read_object

TOKENIZER_JSON = "tokenizer.json"
_FIRST = ["<s>", "<pad>", "</s>", "<unk>"]
"""First pieces of fairseq's vocabularies; SentencePiece has others in their place."""
_SPACES = {"Regex": " {2,}"}
_UNIGRAM, _BPE = 1, 2
_UNKNOWN, _CONTROL = 2, 3


def write_sentencepiece(source: Path, target: Path) -> None:
    """Write the SentencePiece model that a tokenizer.json encodes like.

    Args:
        source: tokenizer.json of a model whose ids are fairseq's.

    Raises:
        DirectoryError: The file is damaged, or was not made from a SentencePiece model.
    """
    faults: list[str] = []
    content = read_object(source, faults)
    try:
        if not faults:
            target.write_bytes(_model(content))
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        faults.append(f"{source.name} was not made from a SentencePiece model: {error}")
    if faults:
        raise DirectoryError(source.parent, faults)


def _model(content: Mapping[str, Any]) -> bytes:
    from sentencepiece.sentencepiece_model_pb2 import (  # type: ignore[attr-defined]  # noqa: PLC0415 - seldom needed
        ModelProto,
    )

    described = content["model"]
    kind = described["type"]
    if kind not in ("BPE", "Unigram") or described.get("byte_fallback"):
        raise ValueError(f"its kind is {kind}{' with bytes' if described.get('byte_fallback') else ''}")
    added = {token["content"] for token in content["added_tokens"]}
    scores = dict(_pieces(described["vocab"], added))
    if kind == "BPE":
        scores = _ranks(list(scores), described["merges"])
    model: Any = ModelProto()
    model.trainer_spec.model_type = _BPE if kind == "BPE" else _UNIGRAM
    for piece, piece_type in (("<unk>", _UNKNOWN), ("<s>", _CONTROL), ("</s>", _CONTROL)):
        model.pieces.add(piece=piece, score=0.0, type=piece_type)
    for piece, score in scores.items():
        model.pieces.add(piece=piece, score=score)
    _set_normalization(model.normalizer_spec, content)
    return bytes(model.SerializeToString())


def _pieces(vocab: Any, added: set[str]) -> Iterator[tuple[str, float]]:
    """Yield the pieces in the order of their ids, with the scores that they have, without special tokens.

    Raises:
        ValueError: The ids are not fairseq's.
    """
    entries = [(piece, 0.0) for piece in sorted(vocab, key=vocab.__getitem__)] if isinstance(vocab, dict) else vocab
    if [piece for piece, _ in entries[: len(_FIRST)]] != _FIRST:
        raise ValueError(f"it does not begin with {', '.join(_FIRST)}")
    rest = entries[len(_FIRST) :]
    end = next((number for number, (piece, _) in enumerate(rest) if piece in added), len(rest))
    if strange := [piece for piece, _ in rest[end:] if piece not in added]:
        raise ValueError(f"{strange[0]!r} follows special tokens")
    yield from ((piece, float(score)) for piece, score in rest[:end])


def _ranks(pieces: list[str], merges: list[Any]) -> dict[str, float]:
    """Return scores that make SentencePiece merge in the order of a list.

    Raises:
        ValueError: It could not: a piece may be merged of some of its parts only, or not each time at the same rank.
    """
    scores: dict[str, float] = {}
    counts: dict[str, int] = {}
    last = ""
    for rank, merge in enumerate(merges):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        piece = left + right
        if piece != last and piece in scores:
            raise ValueError(f"the merges to {piece!r} are not together")
        scores.setdefault(piece, -float(rank))
        counts[piece] = counts.get(piece, 0) + 1
        last = piece
    known = set(pieces)
    for piece in pieces:
        splits = sum(piece[:place] in known and piece[place:] in known for place in range(1, len(piece)))
        if splits != counts.get(piece, 0):
            raise ValueError(f"{piece!r} has {counts.get(piece, 0)} merges, and {splits} pairs of pieces make it up")
    # Characters are never the result of a merge; SentencePiece gives them the lowest scores.
    return {piece: scores.get(piece, -float(len(merges) + number)) for number, piece in enumerate(pieces)}


def _set_normalization(spec: Any, content: Mapping[str, Any]) -> None:
    described = content.get("normalizer") or {}
    spec.add_dummy_prefix = spec.escape_whitespaces = True
    spec.remove_extra_whitespaces = False
    for step in described.get("normalizers", [described] if described else []):
        if step["type"] == "Precompiled":
            spec.precompiled_charsmap = base64.b64decode(step["precompiled_charsmap"], validate=True)
        elif step["type"] == "Replace" and step.get("pattern") == _SPACES:
            spec.remove_extra_whitespaces = True
        elif step["type"] != "Strip":
            raise ValueError(f"it normalises by {step['type']}")
    before = content.get("pre_tokenizer") or {}
    steps = before.get("pretokenizers", [before])
    if not any(step.get("type") == "Metaspace" for step in steps):
        raise ValueError("it does not write spaces as SentencePiece does")
