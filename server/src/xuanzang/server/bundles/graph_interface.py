"""Inputs and outputs of the graphs in a bundle of format 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xuanzang.bundle.v1 import manifest_pb2

_FLOATS = ("float32", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One input or output: the types that it may have, and the number of its dimensions."""

    dtypes: Sequence[str]
    rank: int


_IDS = Expected(dtypes=("int64",), rank=1)
_ID_MATRIX = Expected(dtypes=("int64",), rank=2)
_MASK = Expected(dtypes=("bool",), rank=2)
_SCORES = Expected(dtypes=("float32",), rank=2)
_BY_BEAM = Expected(dtypes=("float32",), rank=3)
_SOURCES = {"source_lengths": _IDS, "source_page_table": _ID_MATRIX}
_CACHE = Expected(dtypes=_FLOATS, rank=4)
_STATE = Expected(dtypes=("float32",), rank=3)
# Half of what onnxruntime sums at a time: sums over pages of other sizes might depend on how many there are.
_PAGE_STEP = 32
# A sentence has at least one page, so that a page of millions of slots would take gigabytes.
_MAX_PAGE_SLOTS = 1024
_MAX_PAGE_DIGITS = 9
_MAX_LAYERS = 1024


def graph_faults(manifest: manifest_pb2.Manifest) -> Iterator[str]:
    """Find differences between a manifest's graphs and the server's expectations."""
    encoder_inputs = {"source_ids": _ID_MATRIX, **_SOURCES, **_key_values("past_cross_key_values", manifest)}
    present = _key_values("present_cross_key_values", manifest)
    decoder_inputs, decoder_outputs = _decoder_inputs(manifest), _decoder_outputs(manifest)
    yield from _faults_of("encoder", manifest.encoder, encoder_inputs, present)
    yield from _faults_of("decoder", manifest.decoder, decoder_inputs, decoder_outputs)
    yield from _head_faults(manifest)
    yield from _page_faults(manifest)
    yield from _state_faults(manifest)
    if manifest.HasField("shortlist"):
        graphs = manifest.shortlist
        suggested = {"suggested": _MASK, "always_ids": _IDS}
        yield from _faults_of("shortlist.suggestions", graphs.suggestions, {"source_ids": _ID_MATRIX}, suggested)
        inputs = decoder_inputs | {"choices": _ID_MATRIX}
        yield from _faults_of("shortlist.decoder", graphs.decoder, inputs, decoder_outputs)


def _decoder_inputs(manifest: manifest_pb2.Manifest) -> dict[str, Expected]:
    inputs = {
        "token_ids": _ID_MATRIX,
        "positions": _ID_MATRIX,
        "scores": _SCORES,
        "candidate_count": _IDS,
        "edited_ids": Expected(dtypes=("int64",), rank=3),
        "edit_penalties": _BY_BEAM,
        "edit_biases": _BY_BEAM,
        **_SOURCES,
        "source_page_owners": _ID_MATRIX,
        **_key_values("cross_key_values", manifest),
        **_past(manifest),
    }
    if inspects_rows(manifest):
        inputs |= {"inspected_rows": _IDS, "required_ids": _ID_MATRIX}
    return inputs


def _past(manifest: manifest_pb2.Manifest) -> dict[str, Expected]:
    """Return the inputs for what the decoder keeps of the target."""
    if is_recurrent(manifest):
        return {"parents": _ID_MATRIX, **_states("past_states", manifest)}
    return {
        "page_table": _ID_MATRIX,
        "page_owners": _ID_MATRIX,
        "slot_indices": Expected(dtypes=("int64",), rank=4),
        "visible": Expected(dtypes=("bool",), rank=3),
        **_key_values("past_key_values", manifest),
    }


def _decoder_outputs(manifest: manifest_pb2.Manifest) -> dict[str, Expected]:
    recurrent = is_recurrent(manifest)
    outputs = {
        "candidate_scores": _SCORES,
        "candidate_ids": _ID_MATRIX,
        "candidate_parents": _ID_MATRIX,
        "attention": _BY_BEAM,
        **(_states("present_states", manifest) if recurrent else _key_values("present_key_values", manifest)),
    }
    if inspects_rows(manifest):
        outputs |= {"row_scores": _SCORES, "row_ids": _ID_MATRIX, "required_scores": _SCORES}
    return outputs


def is_recurrent(manifest: manifest_pb2.Manifest) -> bool:
    """Return whether the decoder keeps a state of each hypothesis, instead of keys and values of its tokens."""
    return bool(manifest.decoder_state == manifest_pb2.DECODER_STATE_RECURRENT)


def inspects_rows(manifest: manifest_pb2.Manifest) -> bool:
    """Return whether the decoder scores continuations of single hypotheses, as required phrases need it.

    Bundles of older exporters do without, and are served without glossaries.
    """
    return any(tensor.name == "inspected_rows" for tensor in manifest.decoder.inputs)


def page_slots(manifest: manifest_pb2.Manifest) -> int:
    """Return the slots of a page of keys and values; 0 if the manifest does not state one number."""
    tensors = [*manifest.encoder.inputs, *manifest.decoder.inputs]
    pages = [tensor for tensor in tensors if "key_values." in tensor.name]
    numbers = {tensor.shape[2] for tensor in pages if len(tensor.shape) == _CACHE.rank}
    number = numbers.pop() if len(numbers) == 1 else ""
    return int(number) if _is_number(number) else 0


def _page_faults(manifest: manifest_pb2.Manifest) -> Iterator[str]:
    slots = page_slots(manifest)
    if not 1 <= slots <= _MAX_PAGE_SLOTS or slots % _PAGE_STEP:
        yield (
            f"inputs: pages must have a multiple of {_PAGE_STEP} slots, {_MAX_PAGE_SLOTS} at the most, "
            "the same in all key_values"
        )


def _head_faults(manifest: manifest_pb2.Manifest) -> Iterator[str]:
    """Compare the heads of keys and values with the dimensions, by the first tensor that differs in their number."""
    heads = manifest.dimensions.num_heads
    for name, graph in (("encoder", manifest.encoder), ("decoder", manifest.decoder)):
        for tensor in (*graph.inputs, *graph.outputs):
            stated = tensor.shape[1] if "key_values." in tensor.name and len(tensor.shape) == _CACHE.rank else ""
            if _is_number(stated) and int(stated) != heads:
                yield f"dimensions.num_heads is {heads}, and {tensor.name!r} of the {name} has {stated} heads"
                return


def _state_faults(manifest: manifest_pb2.Manifest) -> Iterator[str]:
    """Compare what the decoder keeps with the manifest, and its width with the dimensions."""
    if manifest.decoder_state not in manifest_pb2.DecoderState.values():
        yield f"decoder_state is {manifest.decoder_state}, which is not known"
    width = manifest.dimensions.d_model
    for tensor in (*manifest.decoder.inputs, *manifest.decoder.outputs):
        stated = tensor.shape[2] if "_states." in tensor.name and len(tensor.shape) == _STATE.rank else str(width)
        if stated != str(width):
            yield f"dimensions.d_model is {width}, and {tensor.name!r} of the decoder has {stated}"
            return


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_PAGE_DIGITS


def _faults_of(
    name: str, graph: manifest_pb2.Graph, inputs: Mapping[str, Expected], outputs: Mapping[str, Expected]
) -> Iterator[str]:
    if graph.opset < 1:
        yield f"{name}.opset is {graph.opset}"
    yield from _tensor_faults(f"{name}.inputs", graph.inputs, inputs)
    yield from _tensor_faults(f"{name}.outputs", graph.outputs, outputs)


def _key_values(prefix: str, manifest: manifest_pb2.Manifest) -> dict[str, Expected]:
    layers = min(manifest.dimensions.num_decoder_layers, _MAX_LAYERS)
    return {f"{prefix}.{layer}.{part}": _CACHE for layer in range(layers) for part in ("key", "value")}


def _states(prefix: str, manifest: manifest_pb2.Manifest) -> dict[str, Expected]:
    layers = min(manifest.dimensions.num_decoder_layers, _MAX_LAYERS)
    return {f"{prefix}.{layer}": _STATE for layer in range(layers)}


def _tensor_faults(
    field: str, tensors: Sequence[manifest_pb2.Tensor], expected: Mapping[str, Expected]
) -> Iterator[str]:
    given = {tensor.name: tensor for tensor in tensors}
    if len(given) < len(tensors):
        yield f"{field} names a tensor twice"
    for name in sorted(expected.keys() - given.keys()):
        yield f"{field} lacks {name!r}"
    for name in sorted(given.keys() - expected.keys()):
        yield f"{field} has {name!r}, which this server does not know"
    for name in sorted(expected.keys() & given.keys()):
        tensor, wanted = given[name], expected[name]
        if tensor.dtype not in wanted.dtypes:
            yield f"{field}: {name!r} has type {tensor.dtype!r}; it must be {' or '.join(wanted.dtypes)}"
        if len(tensor.shape) != wanted.rank:
            yield f"{field}: {name!r} has {len(tensor.shape)} dimensions; it must have {wanted.rank}"
