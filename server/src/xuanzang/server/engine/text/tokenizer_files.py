"""Opening of the tokenisers of a bundle."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited
from xuanzang.server.bundles.manifest import MAX_FILE_BYTES
from xuanzang.server.engine.text.tokenizer import TableTokenizer, Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """Facts of a manifest about the tokens of source or target."""

    tokenizer: str
    vocab_size: int
    vocabulary: str
    table: Sequence[str]
    special_ids: Mapping[str, int]
    unk_id: int
    language_ids: Collection[int] = ()
    silent_ids: Collection[int] = ()


def open_tokenizers(bundle: Bundle) -> tuple[Tokenizer, Tokenizer]:
    """Open the tokenisers of a bundle.

    Args:
        bundle: Bundle with the tokenisers.

    Returns:
        The tokenisers of source and target; the same one if both sides have the same files.

    Raises:
        BundleError: A tokeniser cannot be read or does not fit the vocabulary.
    """
    source, target = _source(bundle), _target(bundle)
    if (both := _merged(source, target)) is not None:
        tokenizer = _open(bundle.directory, {both.tokenizer: _read(bundle.directory, both.tokenizer)}, both)
        return tokenizer, tokenizer
    names = dict.fromkeys((source.tokenizer, target.tokenizer))
    processors = {name: _read(bundle.directory, name) for name in names}
    return _open(bundle.directory, processors, source), _open(bundle.directory, processors, target)


def _merged(source: _Side, target: _Side) -> _Side | None:
    """Return one side that stands for both, with the special tokens of either; None if they differ."""
    special_ids = {**source.special_ids, **target.special_ids}
    language_ids = {*source.language_ids, *target.language_ids}
    merged = [replace(side, special_ids=special_ids, language_ids=language_ids) for side in (source, target)]
    return merged[0] if merged[0] == merged[1] else None


def _source(bundle: Bundle) -> _Side:
    manifest = bundle.manifest
    ids = manifest.special_ids
    is_shared = manifest.source_vocabulary == manifest.target_vocabulary
    return _Side(
        tokenizer=manifest.source_tokenizer,
        vocab_size=manifest.dimensions.source_vocab_size,
        vocabulary=manifest.source_vocabulary,
        table=bundle.source_vocabulary,
        special_ids={name: getattr(ids, name) for name in ("source_pad_id", "source_eos_id", "source_unk_id")},
        unk_id=ids.source_unk_id,
        language_ids={
            *manifest.source_format.language_prefix_ids.values(),
            *manifest.source_format.source_language_ids.values(),
        },
        silent_ids=manifest.target_format.silent_ids if is_shared else (),
    )


def _target(bundle: Bundle) -> _Side:
    manifest = bundle.manifest
    ids = manifest.special_ids
    return _Side(
        tokenizer=manifest.target_tokenizer,
        vocab_size=manifest.dimensions.target_vocab_size,
        vocabulary=manifest.target_vocabulary,
        table=bundle.target_vocabulary,
        special_ids={name: getattr(ids, name) for name in ("decoder_start_id", "eos_id", "unk_id")},
        unk_id=ids.unk_id,
        language_ids=manifest.target_format.language_ids.values(),
        silent_ids=manifest.target_format.silent_ids,
    )


def _read(directory: Path, name: str) -> SentencePieceProcessor:
    content = read_limited(directory, name, MAX_FILE_BYTES)
    if not content:
        # SentencePiece takes it for no model at all, not for a faulty one.
        raise BundleError(directory, [f"{name} is empty"])
    try:
        return SentencePieceProcessor(model_proto=content)
    except (OSError, RuntimeError) as error:
        raise BundleError(directory, [f"{name} is not a SentencePiece model: {error}"]) from error


def _open(directory: Path, processors: Mapping[str, SentencePieceProcessor], side: _Side) -> Tokenizer:
    processor = processors[side.tokenizer]
    if faults := list(_faults(processor, side)):
        raise BundleError(directory, faults)
    if not side.table:
        return Tokenizer(processor)
    reserved = {*side.special_ids.values(), *side.language_ids}
    return TableTokenizer(processor, table=side.table, unk_id=side.unk_id, reserved=reserved, silent=side.silent_ids)


def _faults(processor: SentencePieceProcessor, side: _Side) -> Iterator[str]:
    if side.table:
        for name, token_id in side.special_ids.items():
            if _is_text(processor, side.table[token_id]):
                yield f"{side.vocabulary} has the piece {side.table[token_id]!r} where special_ids.{name} is"
    elif processor.vocab_size() != side.vocab_size:
        yield f"{side.tokenizer} has {processor.vocab_size()} pieces; the dimensions say {side.vocab_size}"


def _is_text(processor: SentencePieceProcessor, piece: str) -> bool:
    """Return whether a tokeniser makes this piece from text."""
    own_id = processor.piece_to_id(piece)
    return not (processor.is_unknown(own_id) or processor.is_control(own_id))
