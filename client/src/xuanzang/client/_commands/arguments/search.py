"""Arguments of the search, which the commands that translate share."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from xuanzang.client._values.explanations import ExplainOptions

_FLAGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "--source": {"metavar": "CODE", "help": 'language to translate from, such as "zh"'},
        "--target": {"metavar": "CODE", "help": 'language to translate into, such as "en"'},
        "--model": {"metavar": "NAME", "help": "name of a model, as listed by `xuanzang models`"},
        "--beam-size": {"type": int, "metavar": "N", "help": "hypotheses kept at each step; 1 is greedy search"},
        "--num-hypotheses": {"type": int, "metavar": "N", "help": "hypotheses written per text"},
        "--length-penalty": {"type": float, "metavar": "X", "help": "exponent on the length that divides scores"},
        "--min-target-length": {"type": int, "metavar": "N", "help": "minimum number of tokens per sentence"},
        "--max-target-length": {"type": int, "metavar": "N", "help": "maximum number of tokens per sentence"},
        "--coverage-penalty": {"type": float, "metavar": "X", "help": "penalty on leaving out parts of the source"},
        "--repetition-penalty": {"type": float, "metavar": "X", "help": "above 1: penalty on repeated tokens"},
        "--no-repeat-ngram-size": {"type": int, "metavar": "N", "help": "let no sequence of N tokens occur twice"},
        "--target-prefix": {"metavar": "TEXT", "help": "text that every hypothesis starts with"},
        "--suppressed-text": {
            "dest": "suppressed_texts",
            "action": "append",
            "metavar": "TEXT",
            "help": "text that no translation may contain; repeatable",
        },
    }
)


def add_search(group: argparse._ArgumentGroup, *, without: Collection[str] = ()) -> None:
    """Add the arguments."""
    for flag, settings in _FLAGS.items():
        if flag not in without:
            group.add_argument(flag, **settings)


def search_options(arguments: argparse.Namespace) -> ExplainOptions:
    """Return the options that the arguments describe, which every command takes that shows a search as a whole.

    Args:
        arguments: Parsed arguments of a command that has all of them.
    """
    return {
        "source_language": arguments.source,
        "target_language": arguments.target,
        "model": arguments.model,
        "beam_size": arguments.beam_size,
        "num_hypotheses": arguments.num_hypotheses,
        "length_penalty": arguments.length_penalty,
        "min_target_length": arguments.min_target_length,
        "max_target_length": arguments.max_target_length,
        "coverage_penalty": arguments.coverage_penalty,
        "repetition_penalty": arguments.repetition_penalty,
        "no_repeat_ngram_size": arguments.no_repeat_ngram_size,
        "target_prefix": arguments.target_prefix,
        "suppressed_texts": arguments.suppressed_texts,
    }
