"""The interface of the two graphs, as tables: name, type and dimensions of every input and output."""

from __future__ import annotations

from typing import NamedTuple

from xuanzang.model.config import TransformerConfig

PAGE_SLOTS = 32
"""Slots of a page: 32 floats are two AVX-512 registers, and a translation seldom fills more than three pages."""


class TensorSpec(NamedTuple):
    """One input or output of a graph."""

    name: str
    dtype: str
    """"int64", "float32", "float16" or "bool"."""
    shape: tuple[str | int, ...]
    """Numbers, and names of the dimensions that may vary."""


def key_values(config: TransformerConfig, prefix: str, floats: str) -> list[TensorSpec]:
    """Keys and values of each decoder layer, one per slot, in pages that belong to one sentence each.

    past_key_values and present_key_values: of self-attention, before and after a step, which writes the slots of its
    tokens. past_cross_key_values and present_cross_key_values: of the source, before and after the encoder has written
    those of some sentences; cross_key_values are the same for the decoder, which only reads them. One buffer may serve
    as past and present.
    """
    shape = ("source_page" if "cross" in prefix else "page", config.num_heads, PAGE_SLOTS, config.d_head)
    return [
        TensorSpec(f"{prefix}.{layer}.{part}", floats, shape)
        for layer in range(config.num_decoder_layers)
        for part in ("key", "value")
    ]


def encoder_inputs(config: TransformerConfig, floats: str = "float32") -> list[TensorSpec]:
    """What the encoder takes: padded sentences, their true lengths, and where it writes.

    source_page_table: the page at each place of a sentence; there must be enough of them for the padding, too.
    """
    return [
        TensorSpec("source_ids", "int64", ("batch", "source")),
        TensorSpec("source_lengths", "int64", ("batch",)),
        TensorSpec("source_page_table", "int64", ("batch", "source_place")),
        *key_values(config, "past_cross_key_values", floats),
    ]


def encoder_outputs(config: TransformerConfig, floats: str = "float32") -> list[TensorSpec]:
    """What the encoder gives: the pages, with the keys and values of these sentences."""
    return key_values(config, "present_cross_key_values", floats)


def decoder_inputs(config: TransformerConfig, floats: str = "float32") -> list[TensorSpec]:
    """What one step takes.

    token_ids: last token of each hypothesis. positions: of that token, one per sentence; sentences may stand at
    different ones. scores: summed log-probabilities so far; a dead row has a hugely negative one. candidate_count: how
    many continuations to return.

    The slots of a sentence are those of its pages, side by side. page_table: the page at each place of a sentence, or
    -1. page_places: where in the table each page stands, as (sentence, place); a page that is not in it may name any.
    slot_indices: where each hypothesis' keys and values are written, as (page, head, slot of the page). visible: the
    slots that each hypothesis may see, its new one included. source_page_table and source_page_places say the same of
    the pages of the source, whose first source_lengths slots hold it.

    Edits change logits before anything is chosen: the logit of each edited id is multiplied by its penalty if negative,
    divided by it if positive, and its bias is added. An id named twice must have equal edits.
    """
    edits = ("batch", "beam", "edit")
    return [
        TensorSpec("token_ids", "int64", ("batch", "beam")),
        TensorSpec("positions", "int64", ("batch", 1)),
        TensorSpec("scores", "float32", ("batch", "beam")),
        TensorSpec("slot_indices", "int64", ("batch", "beam", config.num_heads, 3)),
        TensorSpec("page_table", "int64", ("batch", "place")),
        TensorSpec("page_places", "int64", ("page", 2)),
        TensorSpec("visible", "bool", ("batch", "beam", "slot")),
        TensorSpec("candidate_count", "int64", (1,)),
        TensorSpec("edited_ids", "int64", edits),
        TensorSpec("edit_penalties", "float32", edits),
        TensorSpec("edit_biases", "float32", edits),
        TensorSpec("source_lengths", "int64", ("batch",)),
        TensorSpec("source_page_table", "int64", ("batch", "source_place")),
        TensorSpec("source_page_places", "int64", ("source_page", 2)),
        *key_values(config, "cross_key_values", floats),
        *key_values(config, "past_key_values", floats),
    ]


def shortlist_decoder_inputs(config: TransformerConfig, floats: str = "float32") -> list[TensorSpec]:
    """What one step takes that chooses among some pieces only.

    choices: ids of the pieces that each sentence may choose from besides the `always_ids`, filled up with the size of
    the vocabulary, which stands for no piece. edited_ids are places among these and those, side by side.
    """
    return [*decoder_inputs(config, floats), TensorSpec("choices", "int64", ("batch", "choice"))]


def suggestions_inputs() -> list[TensorSpec]:
    """What the suggestions are made from: padded sentences."""
    return [TensorSpec("source_ids", "int64", ("batch", "source"))]


def suggestions_outputs(config: TransformerConfig) -> list[TensorSpec]:
    """Which pieces each sentence may choose from: always_ids, which all sentences may, and suggested, True at others.

    always_ids are filled up, too.
    """
    return [
        TensorSpec("suggested", "bool", ("batch", config.target_vocab_size)),
        TensorSpec("always_ids", "int64", ("always",)),
    ]


def decoder_outputs(config: TransformerConfig, floats: str = "float32") -> list[TensorSpec]:
    """What one step gives: the best continuations of each sentence, best first, and the slots after the step.

    candidate_scores are summed log-probabilities, candidate_parents the hypothesis that each continues. attention is
    what the last layer's heads give to each source position, on average.
    """
    candidates = ("batch", "candidate")
    return [
        TensorSpec("candidate_scores", "float32", candidates),
        TensorSpec("candidate_ids", "int64", candidates),
        TensorSpec("candidate_parents", "int64", candidates),
        TensorSpec("attention", "float32", ("batch", "beam", "source")),
        *key_values(config, "present_key_values", floats),
    ]


def floats_of(precision: str) -> str:
    """Return the type of states, keys and values in graphs of a precision."""
    return "float16" if precision == "float16" else "float32"
