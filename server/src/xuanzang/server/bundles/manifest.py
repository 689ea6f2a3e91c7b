"""Read manifest.json and check its contents."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from google.protobuf import json_format

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited
from xuanzang.server.bundles.graph_interface import graph_faults

MANIFEST = "manifest.json"
CERTIFICATE = "certificate.json"
FORMAT = 2

# A real manifest has some 20 KB; a limit keeps a wrong file from filling the memory.
_MAX_BYTES = 1 << 20
# Larger sizes are typing errors; unchecked they would end in a failed allocation instead of a reason. The largest
# Transformers for translation have 54 billion parameters, 64 layers, 16,384 units and 260,000 pieces.
_MAX_DIMENSIONS = {
    "d_model": 1 << 15,
    "num_heads": 1 << 10,
    "d_ff": 1 << 17,
    "num_encoder_layers": 1 << 8,
    "num_decoder_layers": 1 << 8,
    "source_vocab_size": 1 << 20,
    "target_vocab_size": 1 << 20,
    # A step compares a token with all others of the sentence.
    "max_source_length": 1 << 16,
    "max_target_length": 1 << 16,
}
# Bundles have ten files at the most.
MAX_FILES = 64
# Every byte is read before a bundle is served; this is half a minute, and 4 billion parameters in float32.
MAX_WEIGHTS_BYTES = 16 << 30
# All other files: tokenisers and tables of 250,000 pieces have some megabytes, the rest less.
MAX_FILE_BYTES = 64 << 20
_DEFAULT_RANGES = {
    "beam_size": (1, 16),
    "length_penalty": (0, 10),
    # Far beyond any length; a larger number would overflow where it is converted to a C integer.
    "max_length_factor": (0, 1000),
    "max_length_offset": (0, 1 << 16),
    "loop_retry_ngram_size": (0, 1 << 16),
}

_MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NORMALIZATIONS = ("none", "nfkc", "moses")
_PLACES = manifest_pb2.SourceLanguagePlace.keys()


def read_manifest(directory: Path) -> tuple[manifest_pb2.Manifest, str]:
    """Read a bundle's manifest, not yet checked, and the lower-case hex SHA-256 of its file, or raise BundleError."""
    content = read_limited(directory, MANIFEST, _MAX_BYTES)
    manifest = manifest_pb2.Manifest()
    try:
        json_format.Parse(content, manifest)
    except (json_format.ParseError, ValueError, TypeError, RecursionError) as error:
        raise BundleError(directory, [f"{MANIFEST} is not a manifest: {error}"]) from error
    return manifest, hashlib.sha256(content).hexdigest()


def manifest_digest(directory: Path) -> str:
    """Return the lower-case hex SHA-256 of the manifest of a bundle, or raise BundleError."""
    return hashlib.sha256(read_limited(directory, MANIFEST, _MAX_BYTES)).hexdigest()


def manifest_faults(manifest: manifest_pb2.Manifest, directory: Path) -> list[str]:
    """Find all faults that a manifest in a folder MODEL/VERSION shows without the other files."""
    if manifest.format != FORMAT:
        # In another format all other fields may differ in meaning.
        remedy = "; export the checkpoint again with xuanzang export" if 0 < manifest.format < FORMAT else ""
        return [f"format is {manifest.format}; this server reads format {FORMAT}{remedy}"]
    return [
        *_identity_faults(manifest, directory),
        *_language_faults("source_language_codes", manifest.source_language_codes),
        *_language_faults("target_language_codes", manifest.target_language_codes),
        *_dimension_faults(manifest.dimensions),
        *_special_id_faults(manifest),
        *graph_faults(manifest),
        *_file_faults(manifest),
        *_reference_faults(manifest),
        *_default_faults(manifest.generation_defaults),
        *_format_faults(manifest),
    ]


def _identity_faults(manifest: manifest_pb2.Manifest, directory: Path) -> Iterator[str]:
    if not _MODEL_NAME.fullmatch(manifest.model):
        yield f"model is {manifest.model!r}; it must be lower-case letters, digits, '-', '_' and '.'"
    if manifest.model != directory.parent.name:
        yield f"model is {manifest.model!r} but its folder is {directory.parent.name!r}"
    if manifest.version < 1 or str(manifest.version) != directory.name:
        yield f"version is {manifest.version} but its folder is {directory.name!r}; both must be the same, 1 or greater"


def _language_faults(field: str, codes: Iterable[str]) -> Iterator[str]:
    codes = list(codes)
    if not codes:
        yield f"{field} is empty"
    yield from (f"{field}: {code!r} is not a BCP-47 code" for code in codes if not _LANGUAGE_CODE.fullmatch(code))
    if len({code.lower() for code in codes}) < len(codes):
        yield f"{field} names a language twice"


def _dimension_faults(dimensions: manifest_pb2.Dimensions) -> Iterator[str]:
    sizes = {field.name: getattr(dimensions, field.name) for field in dimensions.DESCRIPTOR.fields}
    for name, size in sizes.items():
        if not 1 <= size <= _MAX_DIMENSIONS[name]:
            yield f"dimensions.{name} is {size}; it must be 1 to {_MAX_DIMENSIONS[name]}"
    if dimensions.num_heads > 0 and dimensions.d_model % dimensions.num_heads:
        yield f"dimensions.num_heads {dimensions.num_heads} does not divide d_model {dimensions.d_model}"


def _special_id_faults(manifest: manifest_pb2.Manifest) -> Iterator[str]:
    ids, dimensions = manifest.special_ids, manifest.dimensions
    for field in ids.DESCRIPTOR.fields:
        value = getattr(ids, field.name)
        size = dimensions.source_vocab_size if field.name.startswith("source") else dimensions.target_vocab_size
        if not 0 <= value < size:
            yield f"special_ids.{field.name} is {value}; the vocabulary has {size}"
    # An omitted id is 0, which may be the end token.
    if manifest.source_vocabulary and ids.source_unk_id == ids.source_eos_id:
        yield f"special_ids.source_unk_id and source_eos_id are both {ids.source_unk_id}"
    if manifest.target_vocabulary and ids.unk_id == ids.eos_id:
        yield f"special_ids.unk_id and eos_id are both {ids.unk_id}"


def _file_faults(manifest: manifest_pb2.Manifest) -> Iterator[str]:
    names = [file.name for file in manifest.files]
    if len(set(names)) < len(names):
        yield "files names a file twice"
    if len(names) > MAX_FILES:
        yield f"files lists {len(names)} files; at most {MAX_FILES} are allowed"
    for file in manifest.files:
        limit = max_bytes(manifest, file.name)
        if file.size_bytes > limit:
            yield f"files: size_bytes of {file.name!r} is {file.size_bytes}; it must be at most {limit}"
        if not is_plain_name(file.name):
            yield f"files: {file.name!r} is not a plain file name"
        if file.name == MANIFEST:
            yield f"files lists {MANIFEST} itself"
        if not _SHA256.fullmatch(file.sha256):
            yield f"files: sha256 of {file.name!r} is not 64 lower-case hex digits"
        if file.size_bytes < 0:
            yield f"files: size_bytes of {file.name!r} is negative"


def is_plain_name(name: str) -> bool:
    """Return whether a name stays inside the bundle's folder on every system."""
    return name not in ("", ".", "..") and not set(name) & set("/\\:\0") and name.isprintable()


def max_bytes(manifest: manifest_pb2.Manifest, name: str) -> int:
    """Return the maximum size of a file."""
    return MAX_WEIGHTS_BYTES if name == manifest.weights else MAX_FILE_BYTES


def graph_files(manifest: manifest_pb2.Manifest) -> dict[str, str]:
    """Return the file names of a bundle's graphs, by the fields that name them."""
    files = {"encoder.file": manifest.encoder.file, "decoder.file": manifest.decoder.file}
    if manifest.HasField("shortlist"):
        files["shortlist.suggestions.file"] = manifest.shortlist.suggestions.file
        files["shortlist.decoder.file"] = manifest.shortlist.decoder.file
    return files


def _reference_faults(manifest: manifest_pb2.Manifest) -> Iterator[str]:
    listed = {file.name for file in manifest.files}
    references = graph_files(manifest) | {"the certificate": CERTIFICATE}
    for field in ("weights", "source_tokenizer", "target_tokenizer", "source_vocabulary", "target_vocabulary"):
        name = getattr(manifest, field)
        # Without a table the ids are the tokeniser's.
        if name or not field.endswith("vocabulary"):
            references[field] = name
    for field, name in references.items():
        if name not in listed:
            yield f"{field} is {name!r}, which files does not list"


def _default_faults(defaults: manifest_pb2.GenerationDefaults) -> Iterator[str]:
    for name, (minimum, maximum) in _DEFAULT_RANGES.items():
        value = getattr(defaults, name)
        # Not a number is not in any range.
        if not minimum <= value <= maximum:
            yield f"generation_defaults.{name} is {value}; it must be {minimum} to {maximum}"
    if defaults.stopping not in manifest_pb2.Stopping.values():
        yield f"generation_defaults.stopping is {defaults.stopping}, which is not known"
    if defaults.max_length_factor == 0 and defaults.max_length_offset == 0:
        yield "generation_defaults leave no room for a target: max_length_factor and max_length_offset are both 0"


def _format_faults(manifest: manifest_pb2.Manifest) -> Iterator[str]:
    if manifest.precision not in manifest_pb2.Precision.values() or not manifest.precision:
        yield f"precision is {manifest.precision}; it must be one of {manifest_pb2.Precision.keys()[1:]}"
    normalization = manifest.source_format.normalization
    if normalization not in _NORMALIZATIONS:
        yield f"source_format.normalization is {normalization!r}; it must be one of {_NORMALIZATIONS}"
    if normalization == "moses" and not find_spec("sacremoses"):
        yield "source_format.normalization is 'moses', which needs sacremoses: install xuanzang-server[moses]"
    place = manifest.source_format.source_language_place
    if place not in manifest_pb2.SourceLanguagePlace.values():
        yield f"source_format.source_language_place is {place}; it must be one of {_PLACES}"
    for name, side, language_side in (
        ("source_format.language_prefix_ids", "source", "target"),
        ("source_format.source_language_ids", "source", "source"),
        ("target_format.language_ids", "target", "target"),
    ):
        yield from _language_id_faults(manifest, name, side=side, language_side=language_side)
    size = manifest.dimensions.target_vocab_size
    if wrong := [number for number in manifest.target_format.silent_ids if not 0 <= number < size]:
        yield f"target_format.silent_ids has {wrong[0]}; the target vocabulary has {size}"


def _language_id_faults(manifest: manifest_pb2.Manifest, field: str, *, side: str, language_side: str) -> Iterator[str]:
    """Find the faults of a table of ids in the vocabulary of one side, "source" or "target", by languages of one."""
    message, _, name = field.partition(".")
    ids = getattr(getattr(manifest, message), name)
    codes_field, size = f"{language_side}_language_codes", getattr(manifest.dimensions, f"{side}_vocab_size")
    codes = {*getattr(manifest, codes_field)}
    if not ids:
        return
    for code in getattr(manifest, codes_field):
        if code not in ids:
            yield f"{field} lacks {code!r}, one of {codes_field}"
    for code in sorted(ids):
        if code not in codes:
            yield f"{field} has {code!r}, which {codes_field} does not list"
        if not 0 <= ids[code] < size:
            yield f"{field} has {ids[code]} for {code!r}; the {side} vocabulary has {size}"
