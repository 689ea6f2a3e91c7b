"""Inputs and outputs of the graphs, as tables of names, types and dimensions."""

from __future__ import annotations

from typing import NamedTuple, Protocol

PAGE_SLOTS = 32
"""Slots of a page: 32 floats are two AVX-512 registers, and a translation seldom fills more than three pages."""

STATE_AXES: dict[str, tuple[str | int, ...]] = {"encoder": (1, "token"), "decoder": ("batch", "beam")}
"""Axes of the states of each graph, before that of the model."""


class Dimensions(Protocol):
    """Sizes of a model that decide on inputs and outputs."""

    @property
    def d_model(self) -> int:
        """Width of states."""

    @property
    def num_heads(self) -> int:
        """Attention heads."""

    @property
    def d_head(self) -> int:
        """Width of a head."""

    @property
    def num_decoder_layers(self) -> int:
        """Decoder layers."""

    @property
    def target_vocab_size(self) -> int:
        """Target pieces."""


class TensorSpec(NamedTuple):
    """One input or output of a graph."""

    name: str
    dtype: str
    """"int64", "float32", "float16" or "bool"."""
    shape: tuple[str | int, ...]
    """Numbers, and names of the dimensions that may vary."""


def key_values(config: Dimensions, prefix: str, floats: str) -> list[TensorSpec]:
    """Return the keys and values of each decoder layer: one of each per slot, in pages of one sentence each.

    past_key_values and present_key_values: self-attention's, before and after a step, which writes the slots of its
    tokens. past_cross_key_values and present_cross_key_values: the source's, before and after the encoder writes those
    of some sentences; cross_key_values are the same for the decoder, which only reads them. One buffer may serve as
    past and present.
    """
    shape = ("source_page" if "cross" in prefix else "page", config.num_heads, PAGE_SLOTS, config.d_head)
    return [
        TensorSpec(f"{prefix}.{layer}.{part}", floats, shape)
        for layer in range(config.num_decoder_layers)
        for part in ("key", "value")
    ]


def encoder_inputs(config: Dimensions, floats: str = "float32") -> list[TensorSpec]:
    """Return the encoder's inputs: padded sentences, their lengths without padding, and the pages to write.

    source_page_table: the page that holds each logical page of a sentence, enough of them for its tokens.
    """
    return [
        TensorSpec("source_ids", "int64", ("batch", "source")),
        TensorSpec("source_lengths", "int64", ("batch",)),
        TensorSpec("source_page_table", "int64", ("batch", "source_logical_page")),
        *key_values(config, "past_cross_key_values", floats),
    ]


def encoder_outputs(config: Dimensions, floats: str = "float32") -> list[TensorSpec]:
    """Return the encoder's outputs: the pages with the keys and values of these sentences."""
    return key_values(config, "present_cross_key_values", floats)


def decoder_inputs(config: Dimensions, floats: str = "float32") -> list[TensorSpec]:
    """Return the inputs of one decoder step.

    token_ids: last token of each hypothesis. positions: position of that token, one per sentence. scores: summed
    log-probabilities so far; that of a dead hypothesis is hugely negative. candidate_count: continuations to return.

    The slots of a sentence are those of its logical pages, in order. page_table: the page that holds each logical page,
    or -1. page_owners: the inverse, (sentence, logical page) of each page; those of a free page may be any.
    slot_indices: where the key and value of each hypothesis are written, (page, head, page_slot). visible: the slots
    that each hypothesis sees, its new one included. source_page_table and source_page_owners are the same for the pages
    of the source, whose first source_lengths slots hold it.

    Logit edits come before anything is chosen: the logit of each edited id is multiplied by its penalty if negative,
    divided by it if positive, and its bias is added. An id named twice must have equal edits.

    inspected_rows: hypotheses, counted through the batch, whose own continuations are returned as well, as a search
    with required phrases needs them. required_ids: ids of each whose log-probabilities are returned whatever they are.
    """
    return [
        *_hypotheses(),
        TensorSpec("slot_indices", "int64", ("batch", "beam", config.num_heads, 3)),
        TensorSpec("page_table", "int64", ("batch", "logical_page")),
        TensorSpec("page_owners", "int64", ("page", 2)),
        TensorSpec("visible", "bool", ("batch", "beam", "slot")),
        *_choice(),
        *_source(config, floats),
        *key_values(config, "past_key_values", floats),
    ]


def recurrent_decoder_inputs(config: Dimensions) -> list[TensorSpec]:
    """Return the inputs of one step of a decoder that keeps a state of each hypothesis in place of keys and values.

    parents: beam position of each hypothesis before the last step, whose state it continues. past_states: states after
    the last step, by those positions; zeros before the first. Others as in `decoder_inputs`.
    """
    return [
        *_hypotheses(),
        TensorSpec("parents", "int64", ("batch", "beam")),
        *_choice(),
        *_source(config, "float32"),
        *states(config, "past_states"),
    ]


def states(config: Dimensions, prefix: str) -> list[TensorSpec]:
    """Return the recurrent states of each decoder layer, before or after a step; one buffer may serve as both."""
    shape = ("batch", "beam", config.d_model)
    return [TensorSpec(f"{prefix}.{layer}", "float32", shape) for layer in range(config.num_decoder_layers)]


def _hypotheses() -> list[TensorSpec]:
    return [
        TensorSpec("token_ids", "int64", ("batch", "beam")),
        TensorSpec("positions", "int64", ("batch", 1)),
        TensorSpec("scores", "float32", ("batch", "beam")),
    ]


def _choice() -> list[TensorSpec]:
    edits = ("batch", "beam", "edit")
    return [
        TensorSpec("candidate_count", "int64", (1,)),
        TensorSpec("edited_ids", "int64", edits),
        TensorSpec("edit_penalties", "float32", edits),
        TensorSpec("edit_biases", "float32", edits),
        TensorSpec("inspected_rows", "int64", ("row",)),
        TensorSpec("required_ids", "int64", ("row", "required")),
    ]


def _source(config: Dimensions, floats: str) -> list[TensorSpec]:
    return [
        TensorSpec("source_lengths", "int64", ("batch",)),
        TensorSpec("source_page_table", "int64", ("batch", "source_logical_page")),
        TensorSpec("source_page_owners", "int64", ("source_page", 2)),
        *key_values(config, "cross_key_values", floats),
    ]


def with_choices(inputs: list[TensorSpec]) -> list[TensorSpec]:
    """Return the inputs of one decoder step with a shortlist, of those without.

    choices: ids of the pieces that each sentence may choose apart from the `always_ids`, padded with the size of the
    vocabulary, which stands for no piece. edited_ids and required_ids are indices into always_ids and choices,
    concatenated.
    """
    return [*inputs, TensorSpec("choices", "int64", ("batch", "choice"))]


def suggestions_inputs() -> list[TensorSpec]:
    """Return the inputs of the suggestions: padded sentences."""
    return [TensorSpec("source_ids", "int64", ("batch", "source"))]


def suggestions_outputs(config: Dimensions) -> list[TensorSpec]:
    """Return the outputs of the suggestions.

    suggested: True at the pieces that the source of each sentence suggests. always_ids: the pieces that every sentence
    may also choose, padded with the size of the vocabulary.
    """
    return [
        TensorSpec("suggested", "bool", ("batch", config.target_vocab_size)),
        TensorSpec("always_ids", "int64", ("always",)),
    ]


def decoder_outputs(config: Dimensions, floats: str = "float32") -> list[TensorSpec]:
    """Return the outputs of one decoder step: the best continuations of each sentence, and the slots after the step.

    candidate_scores: summed log-probabilities, best first. candidate_parents: the hypothesis that each continues.
    attention: the weight that the last layer gives each source position, averaged over its heads.

    row_scores, row_ids: log-probabilities and ids of the best continuations of each inspected row, best first.
    required_scores: log-probabilities of its required ids. All come after the logit edits.
    """
    return [*_continuations(), *key_values(config, "present_key_values", floats)]


def recurrent_decoder_outputs(config: Dimensions) -> list[TensorSpec]:
    """Return the outputs of one step of a decoder that keeps states, which are those after the step."""
    return [*_continuations(), *states(config, "present_states")]


def _continuations() -> list[TensorSpec]:
    candidates = ("batch", "candidate")
    return [
        TensorSpec("candidate_scores", "float32", candidates),
        TensorSpec("candidate_ids", "int64", candidates),
        TensorSpec("candidate_parents", "int64", candidates),
        TensorSpec("attention", "float32", ("batch", "beam", "source")),
        TensorSpec("row_scores", "float32", ("row", "row_candidate")),
        TensorSpec("row_ids", "int64", ("row", "row_candidate")),
        TensorSpec("required_scores", "float32", ("row", "required")),
    ]


def floats_of(precision: str) -> str:
    """Return the type of states, keys and values in graphs of a precision."""
    return "float16" if precision == "float16" else "float32"
