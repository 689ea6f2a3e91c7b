"""The codec of a bundle: its tokenisers, read as files of the bundle are, and the format of its sentences."""

from __future__ import annotations

from functools import partial

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited
from xuanzang.server.bundles.manifest import MAX_FILE_BYTES
from xuanzang.text.codec import SentenceFormat, TextCodec
from xuanzang.text.tokenizer import Side, TokenizerError, open_tokenizers


def open_codec(bundle: Bundle) -> TextCodec:
    """Open the codec between the first of a bundle's languages; BundleError if a tokeniser does not fit."""
    read = partial(read_limited, bundle.directory, limit=MAX_FILE_BYTES)
    try:
        tokenizers = open_tokenizers(*_sides(bundle), read)
    except TokenizerError as error:
        raise BundleError(bundle.directory, error.faults) from error
    return TextCodec(_sentence_format(bundle.manifest), tokenizers)


def _sides(bundle: Bundle) -> tuple[Side, Side]:
    manifest = bundle.manifest
    ids, source_format, target_format = manifest.special_ids, manifest.source_format, manifest.target_format
    is_shared = manifest.source_vocabulary == manifest.target_vocabulary
    source = Side(
        tokenizer=manifest.source_tokenizer,
        vocab_size=manifest.dimensions.source_vocab_size,
        vocabulary=manifest.source_vocabulary,
        table=bundle.source_vocabulary,
        special_ids={name: getattr(ids, name) for name in ("source_pad_id", "source_eos_id", "source_unk_id")},
        unk_id=ids.source_unk_id,
        language_ids={*source_format.language_prefix_ids.values(), *source_format.source_language_ids.values()},
        silent_ids=target_format.silent_ids if is_shared else (),
    )
    target = Side(
        tokenizer=manifest.target_tokenizer,
        vocab_size=manifest.dimensions.target_vocab_size,
        vocabulary=manifest.target_vocabulary,
        table=bundle.target_vocabulary,
        special_ids={name: getattr(ids, name) for name in ("decoder_start_id", "eos_id", "unk_id")},
        unk_id=ids.unk_id,
        language_ids=target_format.language_ids.values(),
        silent_ids=target_format.silent_ids,
    )
    return source, target


def _sentence_format(manifest: manifest_pb2.Manifest) -> SentenceFormat:
    source_format = manifest.source_format
    return SentenceFormat(
        source_languages=tuple(manifest.source_language_codes),
        target_languages=tuple(manifest.target_language_codes),
        normalization=source_format.normalization,
        end_id=manifest.special_ids.source_eos_id,
        source_language_ids=dict(source_format.source_language_ids),
        is_source_named_last=source_format.source_language_place == manifest_pb2.SOURCE_LANGUAGE_PLACE_AFTER_END,
        language_prefix_ids=dict(source_format.language_prefix_ids),
        target_language_ids=dict(manifest.target_format.language_ids),
        max_source_length=manifest.dimensions.max_source_length,
        target_vocab_size=manifest.dimensions.target_vocab_size,
    )
