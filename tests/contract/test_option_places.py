"""An option of translations stands wherever callers may give it: a test fails that names the file without it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from gateways import running_gateway
from stand_in_server import StandIn, standing_in

from xuanzang.client import SamplingOptions, TranslateOptions
from xuanzang.client.__main__ import parser
from xuanzang.client._commands.translation_arguments import translate_options
from xuanzang.gateway.apis.inference.inferences import PARAMETERS
from xuanzang.gateway.apis.json_api.messages import BaseRequest, Options, Sampling

ROOT = Path(__file__).parents[2]
OPTIONS = sorted(TranslateOptions.__optional_keys__)
WIRE_NAMES = {
    "source_language": "source_language_code",
    "target_language": "target_language_code",
    "glossary": "glossary_entries",
    "glossary_name": "glossary",
}
NOT_OF_INFERENCES = {
    *("model", "num_hypotheses", "return_alternatives", "return_scores", "token_details"),
    *("return_provenance", "return_quality"),  # the answer is a tensor of one text each
    *("content_format", "glossary", "glossary_name", "placeholders", "protected_patterns"),
    *("sampling", "suppressed_texts"),
}
"""The model is named by the protocol; others have no place in the answer, or are no scalars."""
VALUES: dict[str, Any] = {
    "source_language": "zh",
    "target_language": "en",
    "model": "tiny",
    "content_format": "html",
    "glossary": {"a": "b"},
    "glossary_name": "names",
    "protected_patterns": ["url"],
    "placeholders": ["printf"],
    "sampling": {"top_k": 3},
    "suppressed_texts": ["a"],
    "target_prefix": "a",
    **dict.fromkeys(("beam_size", "num_hypotheses", "min_target_length", "max_target_length"), 3),
    **dict.fromkeys(("length_penalty", "coverage_penalty", "repetition_penalty"), 0.5),
    "no_repeat_ngram_size": 3,
}
"""Values that are not the defaults; True for the rest."""


def of_command() -> Collection[str]:
    return translate_options(parser({}).parse_args(["translate", "a"])).keys()


PLACES: dict[str, Callable[[], Collection[str]]] = {
    "client/src/xuanzang/client/_commands/translation_arguments.py": of_command,
    "gateway/src/xuanzang/gateway/apis/json_api/messages.py": lambda: {
        *BaseRequest.model_fields,
        *Options.model_fields,
    },
    "gateway/src/xuanzang/gateway/apis/inference/inferences.py": lambda: (
        {name.removesuffix("_code") for name in PARAMETERS} | NOT_OF_INFERENCES
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_every_option_has_its_place_in_each_file(place: str) -> None:
    assert set(OPTIONS) - set(PLACES[place]()) == set(), place


def test_every_option_is_described() -> None:
    text = (ROOT / "docs" / "options.md").read_text()
    assert [option for option in OPTIONS if f"`{option}`" not in text] == []


def test_settings_of_sampling_are_those_of_the_gateway() -> None:
    assert set(SamplingOptions.__dataclass_fields__) == set(Sampling.model_fields)


async def test_the_gateway_sends_on_every_option() -> None:
    given = {name: VALUES.get(name, True) for name in OPTIONS}
    body = {name: value for name, value in given.items() if name in BaseRequest.model_fields}
    body["options"] = {name: value for name, value in given.items() if name in Options.model_fields}
    server = StandIn(glossaries={"names": None})  # type: ignore[dict-item]  # named, and not used
    async with standing_in(server) as address, running_gateway(address, anonymous=True) as gateway:
        answer = await gateway.post("/v1/translate", json={"texts": ["a"], **body})
    assert server.asked, answer.body
    settings = server.asked[0].settings
    sent = {field.name for field, _ in (*settings.ListFields(), *settings.options.ListFields())}
    missing = {name for name in OPTIONS if WIRE_NAMES.get(name, name) not in sent}
    assert not missing, "gateway/src/xuanzang/gateway/apis/json_api/calls.py does not send them on"
