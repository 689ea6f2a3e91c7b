"""Requests of a soak: kinds, shares, and permitted outcomes."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from xuanzang.translation.v1 import translation_pb2 as pb

Shape = Literal["unary", "stream", "progressive"]
LengthClass = Literal["short", "medium", "long"]

SHORT_CHARACTERS, MEDIUM_CHARACTERS = 40, 120
"""Maximum source characters of the classes; whatever is longer is long."""
_INNER_END = re.compile(r"[。！？；.!?;…:：].")
VARIANTS = 40
"""Different requests of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Requests of one sort."""

    name: str
    share: int
    """Requests of this kind among a hundred."""
    shape: Shape = "unary"
    texts: int = 1
    """Texts of a request."""
    sentences: int = 1
    """Sentences of a text."""
    options: dict[str, Any]
    """Fields of DecodingOptions."""
    details: bool = False
    """True if scores and tokens are returned."""
    cancels: bool = False
    """True if the caller cancels within a fifth of a second."""
    deadlines: tuple[float, float] | None = None
    """Bounds of deadlines that may pass, in seconds; None: a deadline that must not."""


KINDS = (
    Kind(name="greedy", share=22, options={"beam_size": 1}),
    Kind(name="beam", share=22, options={"beam_size": 4}),
    Kind(name="several texts", share=10, texts=4, options={"beam_size": 4}),
    Kind(name="long text", share=8, sentences=6, options={"beam_size": 1}),
    Kind(name="stream", share=8, shape="stream", texts=6, options={"beam_size": 1}),
    Kind(name="progressive", share=8, shape="progressive", sentences=2, options={"beam_size": 4}),
    Kind(name="token details", share=6, options={"beam_size": 4}, details=True),
    Kind(name="hypotheses", share=2, options={"beam_size": 4, "num_hypotheses": 4}, details=True),
    Kind(name="sampling", share=2, options={"sampling": {"seed": 7, "top_k": 10}}),
    Kind(name="cancelled", share=6, sentences=3, options={"beam_size": 4}, cancels=True),
    Kind(name="deadline", share=3, sentences=3, options={"beam_size": 4}, deadlines=(0.02, 0.5)),
    Kind(
        name="partial",
        share=3,
        sentences=3,
        options={"beam_size": 4, "partial_on_deadline": True},
        deadlines=(0.05, 0.5),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One request, serialised beforehand so that sending it costs little."""

    number: int
    kind: Kind
    length: LengthClass
    messages: tuple[bytes, ...]
    """One message, or those of a stream."""


def jobs(texts: Sequence[str], seed: int) -> list[list[Job]]:
    """Make the requests of every kind.

    Args:
        texts: Sentences to make them of.

    Returns:
        Requests by kind, in the order of `KINDS`.
    """
    chance = random.Random(seed)
    # Several hypotheses are possible only for a text of a single sentence.
    single = [text for text in texts if not _INNER_END.search(text)]
    made: list[list[Job]] = []
    for index, kind in enumerate(KINDS):
        pool = single if "num_hypotheses" in kind.options else texts
        contents = [
            ["".join(chance.choices(pool, k=kind.sentences)) for _ in range(kind.texts)] for _ in range(VARIANTS)
        ]
        made.append(
            [
                Job(
                    number=index * VARIANTS + variant,
                    kind=kind,
                    length=length_class(sum(map(len, each))),
                    messages=_messages(kind, each),
                )
                for variant, each in enumerate(contents)
            ]
        )
    return made


def length_class(characters: int) -> LengthClass:
    """Return the class of a request.

    Args:
        characters: Source characters of all its texts.
    """
    if characters <= SHORT_CHARACTERS:
        return "short"
    return "medium" if characters <= MEDIUM_CHARACTERS else "long"


def _messages(kind: Kind, contents: Sequence[str]) -> tuple[bytes, ...]:
    settings = pb.TranslationSettings(
        options=pb.DecodingOptions(**kind.options), return_scores=kind.details, token_details=kind.details
    )
    if kind.shape == "stream":
        return tuple(
            pb.StreamTranslateTextRequest(id=str(number), content=content, settings=settings).SerializeToString()
            for number, content in enumerate(contents)
        )
    if kind.shape == "progressive":
        request = pb.TranslateTextProgressivelyRequest(content=contents[0], settings=settings)
        return (request.SerializeToString(),)
    return (pb.TranslateTextRequest(contents=contents, settings=settings).SerializeToString(),)


def signature(job: Job, answers: Sequence[bytes]) -> bytes:
    """Reduce the messages of an answer to the part that repeats with the request.

    Raises:
        ValueError: The answer is not one to this request.
    """
    if job.kind.shape == "progressive":
        parts = [pb.TranslateTextProgressivelyResponse.FromString(each) for each in answers]
        text = "".join(part.text_delta for part in parts)
        if not parts or not text or parts[-1].translation.hypotheses[0].text != text:
            raise ValueError("the parts are not the translation")
        return parts[-1].translation.SerializeToString()
    if len(answers) != len(job.messages):
        raise ValueError(f"{len(answers)} answers to {len(job.messages)} messages")
    # A stream answers in any order; each answer begins with its id.
    return b"".join(sorted(answers))


def require_translations(job: Job, answers: Sequence[bytes]) -> None:
    """Check that an answer holds a translation of every text.

    Raises:
        ValueError: It does not.
    """
    if job.kind.shape == "progressive":
        return
    if job.kind.shape == "stream":
        streamed = [pb.StreamTranslateTextResponse.FromString(each) for each in answers]
        translations = [each.translation for each in streamed if each.WhichOneof("result") == "translation"]
    else:
        translations = list(pb.TranslateTextResponse.FromString(answers[0]).translations)
    if len(translations) != job.kind.texts or not all(
        each.hypotheses and each.hypotheses[0].text.strip() for each in translations
    ):
        raise ValueError("a text has no translation")
