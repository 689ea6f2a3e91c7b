"""Tables of pieces, from JSON and from SentencePiece models."""

from __future__ import annotations

from collections.abc import Mapping

from xuanzang.model.importing.directory import Directory
from xuanzang.model.tokenizer import Tokenizer


def check_models(directory: Directory, faults: list[str]) -> None:
    """See that the SentencePiece models of a directory can be opened.

    Args:
        faults: List that receives faults.
    """
    for path in directory.models:
        try:
            Tokenizer(path)
        except OSError:
            faults.append(f"{path.name} is not a SentencePiece model")


def table_of(name: str, ids: Mapping[str, int], size: object, faults: list[str]) -> list[str]:
    """Turn ids by piece into pieces by id.

    Args:
        faults: List that receives faults.

    Returns:
        Pieces by id; empty if the ids are not 0 to size - 1, each once.
    """
    if len(ids) != size:
        faults.append(f"{name} has {len(ids)} pieces, config.json says {size}")
        return []
    numbers = [number for number in ids.values() if type(number) is int]
    if sorted(numbers) != list(range(len(ids))):
        faults.append(f"{name}: the ids are not 0 to {len(ids) - 1}, each once")
        return []
    return sorted(ids, key=lambda piece: ids[piece])


def fairseq_pieces(directory: Directory, faults: list[str]) -> list[str]:
    """Return the pieces of the SentencePiece model by the ids that fairseq gives them.

    These are one greater than SentencePiece's, and begin with another order of the special tokens.

    Args:
        directory: Model directory with one SentencePiece model.
        faults: List that receives faults.

    Returns:
        Pieces by id; empty if the model cannot be read or is of another kind.
    """
    [path] = directory.models
    try:
        tokenizer = Tokenizer(path)
    except OSError:
        faults.append(f"{path.name} is not a SentencePiece model")
        return []
    pieces = tokenizer.pieces(range(len(tokenizer)))
    if pieces[:3] != ["<unk>", "<s>", "</s>"]:
        faults.append(f"unsupported: {path.name} begins with {', '.join(pieces[:3])}, not with <unk>, <s>, </s>")
        return []
    return ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:]]
