"""Requests for explanations, and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from xuanzang.client._errors import ServerFaultError, StatusCode
from xuanzang.client._messages.requests import checked_text, invalid, numbers, require_known, translation_settings
from xuanzang.client._messages.responses import explained_translation
from xuanzang.client._values.explanations import Attention, AttentionKind, Explanation
from xuanzang.translation.v1 import explanation_pb2
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.values.options import ExplainOptions
from xuanzang.values.reading import value_of


def explanation_request(
    text: str,
    *,
    attention_kinds: Sequence[AttentionKind | str],
    attention_layers: Sequence[int],
    attention_heads: bool,
    **options: Unpack[ExplainOptions],
) -> pb.ExplainTranslationRequest:
    """Build the request for an explanation; it raises the errors that the module `requests` names."""
    require_known(options, ExplainOptions.__optional_keys__, kind="option of an explanation")
    content = checked_text(text, path="content")
    request = pb.ExplainTranslationRequest(content=content, settings=translation_settings(**options))
    request.attention_kinds.extend(numbers(explanation_pb2.AttentionKind, attention_kinds, path="attention_kinds"))
    try:
        request.attention_layers.extend(attention_layers)
    except ValueError as error:  # outside 32 bits; the server checks the range
        raise invalid("attention_layers", "is out of range") from error
    request.attention_heads = attention_heads
    return request


def explanation(response: pb.ExplainTranslationResponse) -> Explanation:
    """Read the answer to a request.

    Raises:
        ServerFaultError: There is no hypothesis, or weights are missing.
    """
    message = response.explanation
    attention = tuple(map(_attention, message.attention))
    return value_of(Explanation, message, translation=explained_translation(response), attention=attention)


def _attention(message: explanation_pb2.Attention) -> Attention:
    weights, columns = tuple(message.weights), message.columns
    if len(weights) != message.rows * columns:
        message_text = "the server answered with another number of weights than rows and columns have"
        raise ServerFaultError(message_text, code=StatusCode.INTERNAL)
    rows = tuple(weights[row * columns : (row + 1) * columns] for row in range(message.rows))
    return value_of(Attention, message, weights=rows)
