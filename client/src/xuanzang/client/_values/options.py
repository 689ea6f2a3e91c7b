"""Options of clients and translations: frozen values without gRPC or protobuf types."""

from __future__ import annotations

import ast
import enum
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

from xuanzang.values.provenance import SamplingOptions

Method = TypeVar("Method", bound=Callable[..., object])


Glossary: TypeAlias = Mapping[str, str | Sequence[str]]
"""Translations of terms, by term."""


class ProtectedPattern(enum.Enum):
    """Kind of text that is not translated; its name in lower case, such as "url", will do as well."""

    UNSPECIFIED = 0
    """None, or one unknown to this version."""
    URL = 1
    """Addresses of pages."""
    EMAIL = 2
    """Addresses of mail."""
    CODE = 3
    """Text between backticks, and names such as max_size, parseDate, open() and --force."""
    PLACEHOLDER = 4
    """Placeholders such as {name}, ${name}, %s and %(name)s."""
    NUMBER = 5
    """Numbers in digits."""
    TAG = 6
    """Tags and entities of markup."""


ContentFormat = Literal["text", "html", "xml"]
"""Format of texts and their translations."""


class TranslateOptions(TypedDict, total=False):
    """Keyword arguments of every translate method; those left out or None have the default of the server."""

    source_language: str | None
    """BCP-47 code of the texts' language, such as "zh"; if left out, the server detects it where there is a choice."""
    target_language: str | None
    """BCP-47 code of the language to translate into, such as "en"."""
    model: str | None
    """Name of a model, as listed by `list_models`, or "name/version"."""
    beam_size: int | None
    """Hypotheses kept per sentence at each step, 1 to 16. 1 is greedy search and the only value with `sampling`."""
    num_hypotheses: int | None
    """Hypotheses returned per text: 1 to `beam_size`, with `sampling` or `return_alternatives` 1 to 16; more than 1
    only for texts of a single sentence."""
    length_penalty: float | None
    """Exponent on the target length that divides the summed log-probability, 0 to 10; 0 is none."""
    min_target_length: int | None
    """Minimum number of target tokens per sentence, end token not counted; at most 64 or what the source justifies."""
    max_target_length: int | None
    """Maximum number of target tokens per sentence, end token counted."""
    return_scores: bool | None
    """True if hypotheses carry their score."""
    coverage_penalty: float | None
    """Weight of the penalty on hypotheses that leave out part of the source, 0 to 10; 0 is none."""
    repetition_penalty: float | None
    """Factor against tokens that the hypothesis already has, 0.1 to 10: above 1 they become less likely; 1 is none."""
    no_repeat_ngram_size: int | None
    """Length of token sequences that may not occur twice in a sentence, 0 to 16; 0: no restriction."""
    target_prefix: str | None
    """Text that every hypothesis starts with, at most 2000 characters; only for texts of a single sentence."""
    suppressed_texts: Sequence[str] | None
    """Texts that no hypothesis may contain, at most 64 of 1 to 100 characters each, in their usual tokenisation."""
    sampling: SamplingOptions | None
    """Settings for drawing tokens at random instead of searching; several hypotheses are several draws."""
    return_alternatives: bool | None
    """True if the hypotheses differ in the token right after `target_prefix`, each continued by a search of its own."""
    token_details: bool | None
    """True if hypotheses carry their tokens with scores and source spans."""
    partial_on_deadline: bool | None
    """True to answer shortly before the timeout with the best hypotheses so far, finish reason DEADLINE; without
    effect in `translate_stream`, whose texts have no timeout of their own."""
    refuse_long_sentences: bool | None
    """True if a sentence of more tokens than the model takes, and without comma or white space, is refused, not cut."""
    content_format: ContentFormat | None
    """Format of texts: "text", the default, or "html" or "xml", whose tags the translation has around the
    same words; not with `token_details`."""
    return_provenance: bool | None
    """True if translations say how they were made, and can be kept as replay capsules."""
    glossary: Glossary | None
    """Terms to keep, such as {"源": "spring"}, at most 1000: each with one translation or a sequence of them, one of
    which every hypothesis holds where the term occurs. Not together with `sampling` nor with a `beam_size` of 1."""
    glossary_name: str | None
    """Glossary of the server, as listed by `list_glossaries`, whose terms are kept as well."""
    protected_patterns: Sequence[ProtectedPattern | str] | None
    """Kinds of text that are not translated, such as "url"; the rules of `glossary` hold."""
    return_quality: bool | None
    """True if hypotheses say how far to trust them; only of models that have a quality head."""
    pass_through_unserved: bool | None
    """True if a text whose detected language no model translates is answered as it is, finish reason UNSERVED_LANGUAGE,
    instead of UnservedLanguageError; without effect if `source_language` is set."""


def lists_options(kind: Any) -> Callable[[Method], Method]:
    """Return a decorator that puts options with their meanings into the docstring of a method, where help() shows them.

    Args:
        kind: Type of the options; the docstring names it.
    """

    def listing(method: Method) -> Method:
        if method.__doc__:
            named = f"Keyword arguments listed in {kind.__name__}."
            method.__doc__ = method.__doc__.replace(named, _listed(kind) or named)
        return method

    return listing


@cache
def _listed(kind: Any) -> str:
    """Return lines of the options of a type and what stands under each; nothing if its source is not at hand."""
    try:
        # The whole module's, as looking for the class takes longer.
        tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    except OSError:
        return ""
    found = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == kind.__name__)
    lines = ["Keyword arguments; those left out or None have the default of the server:"]
    for option, meaning in pairwise(found.body):
        if isinstance(option, ast.AnnAssign) and isinstance(meaning, ast.Expr):
            text = " ".join(str(ast.literal_eval(meaning.value)).split())
            lines.append(f"{ast.unparse(option.target)} ({ast.unparse(option.annotation)}): {text}")
    return f"\n{' ' * 16}".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TLSConfig:
    """TLS settings; certificates and keys are PEM bytes. `TLSConfig()` trusts the public certificate authorities."""

    root_certificates: bytes | None = None
    """Authorities trusted to sign the server's certificate; None: the public ones."""
    certificate_chain: bytes | None = None
    """Client certificate for servers that ask for one; needs `private_key`."""
    private_key: bytes | None = None
    """Private key of the client certificate; needs `certificate_chain`."""
    server_name: str | None = None
    """Name in the server's certificate, if it differs from the address."""

    def __post_init__(self) -> None:
        if (self.certificate_chain is None) != (self.private_key is None):
            raise ValueError("certificate_chain and private_key go together: give both or neither")
