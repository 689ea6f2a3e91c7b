"""An engine in a thread of its own, for callers that have no event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry

from xuanzang.batch.errors import InputError
from xuanzang.batch.job import Decoding
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import InvalidInputError, OverloadedError
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import kept_texts
from xuanzang.server.metrics import Metrics
from xuanzang.server.rpc.messages import requests
from xuanzang.server.rpc.messages.options import range_violations
from xuanzang.translation.v1 import translation_pb2 as pb

Result = TypeVar("Result")

# As many texts as full batches of several workers hold, so that texts of similar lengths find each other.
_TEXTS_PER_CORE = 256
_SWITCH_SECONDS = 0.001
_STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why a text has no translation."""

    reason: str


class Translator:
    """Translates lists of texts; several threads may call it at once."""

    def __init__(self, models: Path, decoding: Decoding, *, cores: int) -> None:
        """Load and warm the model.

        Args:
            models: Folder of bundles.
            decoding: Model and options.
            cores: Threads that translate.

        Raises:
            BundleError: The bundle cannot be served.
            EngineError: The model does not take the options.
            InputError: The model is not what it was.
        """
        # As the server does, and for its reason.
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="batch-engine", daemon=True)
        self._thread.start()
        metrics = Metrics(CollectorRegistry())
        self._engine = Engine(models, settings=EngineSettings(workers=cores), metrics=metrics)
        self._places = asyncio.Semaphore(_TEXTS_PER_CORE * cores)
        try:
            self._await(self._engine.start())
            self._request = self._await(self._checked(decoding))
            self._names_source = bool(decoding.source_language)
        except BaseException:
            self.close()
            raise

    def translate(self, texts: Sequence[str]) -> list[str | Refusal]:
        """Translate texts; one that is refused does not disturb the others.

        Args:
            texts: Texts in the source language.

        Returns:
            Best translation of each text, or the reason why it has none.
        """
        return self._await(self._translated(texts))

    def close(self) -> None:
        """Stop the threads; no text may be in translation."""
        self._await(self._engine.join(_STOP_SECONDS))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _checked(self, decoding: Decoding) -> requests.TranslationRequest:
        request = await requests.read_unary_request(
            _message(decoding), self._engine.router.route, self._engine.glossaries
        )
        if request.model.manifest_sha256 != decoding.manifest_sha256:
            raise InputError(f"the bundle {decoding.model} is not the one that the job began with")
        return request

    def _await(self, work: Coroutine[None, None, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _translated(self, texts: Sequence[str]) -> list[str | Refusal]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._translation(text)) for text in texts]
        return [task.result() for task in tasks]

    async def _translation(self, text: str) -> str | Refusal:
        async with self._places:
            while True:
                try:
                    return await self._best(text)
                except InvalidInputError as error:
                    return Refusal(reason=str(requests.for_single_text(error)))
                except OverloadedError as error:
                    # Long texts fill the queue before the places are taken.
                    await asyncio.sleep(error.retry_after_seconds)

    async def _best(self, text: str) -> str:
        route = await self._engine.router.route(
            model=f"{self._request.model.name}/{self._request.model.version}",
            source_language=self._request.source_language if self._names_source else "",
            target_language=self._request.target_language,
            texts=[text],
        )
        [hypotheses] = await self._engine.translate(
            [text],
            model=self._request.model,
            options=self._request.options,
            deadline=None,
            source_language=route.source_language,
            kept_texts=kept_texts(route.readings),
            target_language=self._request.target_language,
        )
        return hypotheses[0].text


def check_options(decoding: Decoding) -> None:
    """Refuse options that no model takes, before a model is loaded.

    Args:
        decoding: Model and options.

    Raises:
        InputError: A value is outside of its range.
    """
    faults = list(range_violations(_message(decoding).settings.options))
    if faults:
        raise InputError("; ".join(f"{fault.field}: {fault.description}" for fault in faults))


def _message(decoding: Decoding) -> pb.TranslateTextRequest:
    options = pb.DecodingOptions(
        beam_size=decoding.beam_size,
        num_hypotheses=1,
        length_penalty=decoding.length_penalty,
        max_target_length=decoding.max_target_length,
    )
    # A text, because a request has one.
    return pb.TranslateTextRequest(
        contents=[""],
        settings=pb.TranslationSettings(
            model=decoding.model,
            source_language_code=decoding.source_language,
            target_language_code=decoding.target_language,
            options=options,
        ),
    )
