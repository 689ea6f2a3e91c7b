"""From a student to a bundle: graphs, certificate, manifest and files."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Literal

import numpy as np
import onnx

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.export import tensors
from xuanzang.export.bundle.folder import (
    DECODER_FILE,
    ENCODER_FILE,
    SHORTLIST_DECODER_FILE,
    SUGGESTIONS_FILE,
    WEIGHTS_FILE,
    write_bundle,
    write_graphs,
)
from xuanzang.export.bundle.interface import FORMAT, PRECISIONS, git_commit, graph_of
from xuanzang.export.certification.certificate import Certificate
from xuanzang.export.graphs.precision import Floats, Int8, Precision
from xuanzang.export.graphs.shortlist import always_pieces, suggestions_graph
from xuanzang.export.students.certify import BEAM_SIZE, LENGTH_FACTOR, LENGTH_PENALTY, certify, tool_versions
from xuanzang.export.students.graphs import decoder_graph, encoder_graph, shortlist_decoder_graph
from xuanzang.export.students.runner import StudentRunner
from xuanzang.export.students.student import (
    EOS_ID,
    MAX_POSITIONS,
    UNK_ID,
    Shape,
    Student,
    StudentError,
    is_quantized,
    shape_of,
    shortlist_of,
)
from xuanzang.export.weight_store import WeightStore

_TOKENIZER_FILES = ("source.spm", "target.spm")


def build_bundle(
    student: Student,
    folder: Path,
    *,
    source_language: str,
    target_language: str,
    precision: Literal["int8", "float32"] | None = None,
) -> Certificate:
    """Write the bundle of a student; on failure write nothing.

    Args:
        folder: <repository>/<model>/<version>, the name and version of the bundle, which it replaces.
        source_language, target_language: BCP-47 codes.
        precision: Number format of the weights; None for the file's. Integers are taken unchanged.

    Raises:
        StudentError: int8 is requested for a file of floats.
        ParityError: The graphs differ from numpy.
        FileExistsError: The folder is not a bundle.
    """
    name = precision or ("int8" if is_quantized(student) else "float32")
    if name == "int8" and not is_quantized(student):
        raise StudentError("the file has no integers for every matrix: only a bundle in float32 can be made of it")
    chosen: Precision = Int8({}) if name == "int8" else Floats(name)
    shape = shape_of(student)
    with tempfile.TemporaryDirectory() as scratch, closing(WeightStore(Path(scratch))) as weights:
        graphs = _graphs(student, shape, chosen, weights)
        runner = StudentRunner(graphs[ENCODER_FILE], graphs[DECODER_FILE], shape, folder=Path(scratch))
        certificate = certify(
            student, runner, precision=name, source_language=source_language, target_language=target_language
        )
        manifest = _manifest(student, shape, name, has_shortlist=SUGGESTIONS_FILE in graphs)
        manifest.model, manifest.version = folder.parent.name, int(folder.name)
        manifest.source_language_codes.append(source_language)
        manifest.target_language_codes.append(target_language)
        files = _files(student, manifest, certificate, name)
        write_bundle(folder, files, manifest, lambda place: write_graphs(graphs, place, weights))
    return certificate


def _graphs(student: Student, shape: Shape, precision: Precision, weights: WeightStore) -> dict[str, onnx.ModelProto]:
    """Return the graphs by file, with those of a shortlist if the student has one."""
    graphs = {
        ENCODER_FILE: encoder_graph(student, precision, weights),
        DECODER_FILE: decoder_graph(student, precision, weights),
    }
    if shortlist := shortlist_of(student):
        always = always_pieces(shortlist, shape)
        graphs[SUGGESTIONS_FILE] = suggestions_graph(shortlist, shape, weights)
        graphs[SHORTLIST_DECODER_FILE] = shortlist_decoder_graph(student, precision, always, weights)
    return graphs


def _manifest(student: Student, shape: Shape, precision: str, *, has_shortlist: bool) -> manifest_pb2.Manifest:
    """Return the manifest without what the place and the languages decide."""
    shared = student.shares_vocabulary
    inputs, outputs = tensors.recurrent_decoder_inputs(shape), tensors.recurrent_decoder_outputs(shape)
    manifest = manifest_pb2.Manifest(
        format=FORMAT,
        dimensions=_dimensions(shape),
        # Only the position of the decoder's first input counts.
        special_ids=manifest_pb2.SpecialIds(
            source_pad_id=shape.pad_id,
            source_eos_id=EOS_ID,
            decoder_start_id=EOS_ID,
            eos_id=EOS_ID,
            source_unk_id=UNK_ID,
            unk_id=UNK_ID,
        ),
        precision=PRECISIONS[precision],
        decoder_state=manifest_pb2.DECODER_STATE_RECURRENT,
        encoder=graph_of(ENCODER_FILE, tensors.encoder_inputs(shape), tensors.encoder_outputs(shape)),
        decoder=graph_of(DECODER_FILE, inputs, outputs),
        weights=WEIGHTS_FILE,
        source_tokenizer=_TOKENIZER_FILES[0],
        target_tokenizer=_TOKENIZER_FILES[0 if shared else 1],
        generation_defaults=manifest_pb2.GenerationDefaults(
            beam_size=BEAM_SIZE,
            length_penalty=LENGTH_PENALTY,
            max_length_factor=LENGTH_FACTOR,
            stopping=manifest_pb2.STOPPING_SHRINKING_BEAM,
        ),
        provenance=_provenance(student),
        source_format=manifest_pb2.SourceFormat(normalization="none"),
    )
    if has_shortlist:
        suggestions = tensors.suggestions_inputs(), tensors.suggestions_outputs(shape)
        manifest.shortlist.suggestions.CopyFrom(graph_of(SUGGESTIONS_FILE, *suggestions))
        manifest.shortlist.decoder.CopyFrom(graph_of(SHORTLIST_DECODER_FILE, tensors.with_choices(inputs), outputs))
    return manifest


def _files(
    student: Student, manifest: manifest_pb2.Manifest, certificate: Certificate, precision: str
) -> dict[str, bytes]:
    return {
        _TOKENIZER_FILES[0]: student.source_vocabulary,
        manifest.target_tokenizer: student.target_vocabulary,
        "certificate.json": (certificate.model_dump_json(indent=2) + "\n").encode(),
        "MODEL_CARD.md": _card(student, manifest, certificate, precision).encode(),
    }


def _dimensions(shape: Shape) -> manifest_pb2.Dimensions:
    return manifest_pb2.Dimensions(
        d_model=shape.d_model,
        num_heads=shape.num_heads,
        d_ff=shape.d_ff,
        num_encoder_layers=shape.num_encoder_layers,
        num_decoder_layers=shape.num_decoder_layers,
        source_vocab_size=shape.source_vocab_size,
        target_vocab_size=shape.target_vocab_size,
        max_source_length=MAX_POSITIONS,
        max_target_length=MAX_POSITIONS,
    )


def _provenance(student: Student) -> manifest_pb2.Provenance:
    origin = student.origin
    provenance = manifest_pb2.Provenance(
        git_commit=git_commit(),
        tool_versions=tool_versions(),
        source=manifest_pb2.Source(
            name=origin.name, revision=origin.revision, licence=origin.licence, file_sha256=dict(student.digests)
        ),
    )
    provenance.create_time.GetCurrentTime()
    return provenance


def _card(student: Student, manifest: manifest_pb2.Manifest, certificate: Certificate, precision: str) -> str:
    dimensions, parity, origin = manifest.dimensions, certificate.parity[precision], student.origin
    parameters = sum(int(np.prod(tensor.array.shape)) for tensor in student.tensors.values())
    rows = {
        "architecture": f"Transformer encoder of {dimensions.num_encoder_layers} blocks, SSRU decoder of "
        f"{dimensions.num_decoder_layers}, width {dimensions.d_model}",
        "parameters": f"{parameters / 1e6:.1f} million",
        "vocabulary": f"{dimensions.source_vocab_size} source and {dimensions.target_vocab_size} target pieces",
        "weights": precision,
        "imported from": origin.name,
        **({"version": origin.revision} if origin.revision else {}),
        "licence": origin.licence or "not stated",
        **{f"SHA-256 of `{name}`": f"`{digest}`" for name, digest in sorted(student.digests.items())},
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"""# {manifest.model}, version {manifest.version}

Translates from {manifest.source_language_codes[0]} to {manifest.target_language_codes[0]}.

| | |
|---|---|
{table}

Measured against numpy in {parity["steps"]:.0f} steps of {parity["sentences"]:.0f} sentences: the same token in
{parity["token_agreement"]:.1%}, log-probabilities that differ by at most {parity["max_abs_difference"]:.1e} nats.

Not measured:

{chr(10).join(f"- {gap}" for gap in certificate.not_measured)}
"""
