"""Translation in the event loop of the caller: the server's engine without a server."""

# ruff: noqa: ASYNC109 - these timeouts are deadlines of the engine, which may answer with a part shortly before

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Literal, Self, TypedDict, Unpack

from prometheus_client import CollectorRegistry

from xuanzang.server.engine.calls.record import Call, CallRecord
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import DeadlineExceededError, FieldViolation, InvalidInputError, OverloadedError
from xuanzang.server.engine.hardware import default_workers
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import Hypothesis
from xuanzang.server.in_process.options import settings_of, unicode_fault
from xuanzang.server.in_process.text_stream import TextStream
from xuanzang.server.in_process.translations import (
    ProgressiveTranslation,
    StreamedTranslation,
    Translation,
    hypothesis_of,
    language_of,
    model_of,
    single,
)
from xuanzang.server.metrics import Metrics
from xuanzang.server.published import folder_of
from xuanzang.server.rpc.messages import requests
from xuanzang.server.rpc.messages.responses import Provenance, detection_fields, pivot_message
from xuanzang.text.language_detection import DetectedLanguage
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.values.models import Model
from xuanzang.values.options import TranslateOptions
from xuanzang.values.provenance import pivot_of, provenance_of

# As many as the full batches of a worker hold, so that texts of similar lengths find each other.
_TEXTS_PER_WORKER = 256
_STOP_SECONDS = 5.0


class TranslatorSettings(TypedDict, total=False):
    """Keyword arguments of translators: their use of the machine. Those left out have the server's defaults."""

    workers: int
    """Threads that translate, up to 256; 0, the default: one per usable core."""
    intra_op_threads: int
    """Threads that each worker uses inside one operation, 1 to 256; 1 by default."""
    provider: Literal["cpu", "cuda", "auto"]
    """Provider that runs the models; "auto", the default: cuda where onnxruntime offers it, else cpu."""
    kernels: bool
    """True if the C++ kernels of xuanzang-kernels are used, where those were built; True by default."""
    shortlist: str
    """Models to decode with the shortlists of their bundles, as "zh-en,en-zh"; "*" for all that have one."""
    pivot: str
    """Languages that a pair goes through that no model translates, as "en" or "en,fr"; "", the default: none."""
    detection: bool
    """True if languages are detected, where the libraries of the extra `detection` are installed; True by default."""
    max_batch_sentences: int
    """Maximum sentences decoded together by one worker, 1 to 1024; 32 by default."""
    answer_cache_mb: int
    """Megabytes for kept answers, which equal sentences with equal options get again; 0, the default: none."""
    max_cache_mb: int
    """Maximum megabytes for keys and values; 0, the default: half of the memory that the process may take."""
    model_memory: str
    """Memory for the weights of all models together, as "2GB": a model is loaded by its first text, and the least
    recently used one leaves where another needs its memory; by default all are loaded at the start and stay."""
    idle_minutes: float
    """Minutes without a text after which a model leaves the memory until its next one; 0, the default: none leaves."""
    max_content_characters: int
    """Maximum characters of one text, 1 to 1,000,000; 20,000 by default."""


class AsyncTranslator:
    """Translates with the models of a folder, in the event loop that enters it.

    Nothing computes on the loop for long: workers decode in threads of their own. Texts beyond what the workers can
    take wait for their turn instead of being refused. Arguments and errors are those of `Translator`.
    """

    def __init__(self, models: str | os.PathLike[str], **settings: Unpack[TranslatorSettings]) -> None:
        if unknown := settings.keys() - TranslatorSettings.__optional_keys__:
            raise TypeError(f"no such setting: {', '.join(sorted(unknown))}")
        checked = EngineSettings(**settings)
        self._engine = Engine(folder_of(models), settings=checked, metrics=Metrics(CollectorRegistry()))
        workers = checked.workers or default_workers(self._engine.runtime.execution_provider, checked.intra_op_threads)
        self._room = workers * _TEXTS_PER_WORKER
        self._places = asyncio.Semaphore(self._room)
        self._state: Literal["new", "open", "closed"] = "new"

    async def start(self) -> None:
        """Load, check and warm the models; `async with` does it.

        Raises:
            BundleError: No bundle can be served. If only some cannot, a warning in the log says why.
        """
        self._require("new")
        self._state = "open"
        try:
            await self._engine.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish the texts in translation, for 5 seconds at most, and stop the threads."""
        if self._state != "closed":
            self._state = "closed"
            await self._engine.join(_STOP_SECONDS)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def translate(
        self, texts: Sequence[str], *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> list[Translation]:
        """Translate texts, any number of them, all or none; see `Translator.translate`."""
        checked = _checked(texts)
        deadline = _deadline(timeout)
        # Without texts an empty one reveals faults of the options.
        call = await self._read(settings_of(options), checked or ("",))

        async def answer(index: int, _: str) -> Translation:
            try:
                texts, readings = call.texts[index : index + 1], call.readings[index : index + 1]
                return await self._answer(dataclasses.replace(call, texts=texts, readings=readings), deadline)
            except InvalidInputError as error:
                raise requests.for_single_text(error, f"contents[{index}]") from None

        stream = TextStream(checked, answer, ordered=True, max_in_flight=self._room)
        async with aclosing(stream.results()) as results:
            return [result.translation async for result in results]

    async def translate_one(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> Translation:
        """Translate one text; see `translate`."""
        return (await self.translate([text], timeout=timeout, **options))[0]

    def translate_stream(
        self,
        texts: Iterable[str] | AsyncIterable[str],
        *,
        ordered: bool = False,
        max_in_flight: int | None = None,
        **options: Unpack[TranslateOptions],
    ) -> AsyncGenerator[StreamedTranslation, None]:
        """Translate any number of texts as they arrive; see `Translator.translate_stream`."""
        return self.text_stream(texts, ordered=ordered, max_in_flight=max_in_flight, options=options).results()

    def text_stream(
        self,
        texts: Iterable[str] | AsyncIterable[str],
        *,
        ordered: bool,
        max_in_flight: int | None,
        options: TranslateOptions,
    ) -> TextStream:
        """Return what `translate_stream` yields from, for callers of another thread."""
        if isinstance(texts, str | bytes):
            raise TypeError("texts is an iterable of str; for a single text call translate_one")
        if max_in_flight is not None and max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, not {max_in_flight}")
        settings = settings_of(options)

        async def answer(_: int, text: str) -> Translation:
            try:
                return await self._answer(await self._read(settings, _checked([text])), None)
            except InvalidInputError as error:
                raise requests.for_single_text(error, "content") from None

        return TextStream(texts, answer, ordered=ordered, max_in_flight=max_in_flight or self._room)

    async def translate_progressively(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> AsyncGenerator[ProgressiveTranslation, None]:
        """Translate one text and yield each part of the translation as soon as it is final; see `Translator`."""
        deadline, sent = _deadline(timeout), 0
        try:
            call = await self._read(settings_of(options), _checked([text]))
            while True:
                record = CallRecord()
                parts = self._engine.translate_progressively(call, deadline=deadline, record=record)
                try:
                    async with aclosing(parts):
                        async for part in parts:
                            if isinstance(part, str):
                                sent += len(part)
                                yield ProgressiveTranslation(text_delta=part, translation=None)
                            else:
                                whole = self._translation(call, part, record, "TranslateTextProgressively")
                                yield ProgressiveTranslation(text_delta=whole.text[sent:], translation=whole)
                except OverloadedError as error:
                    if sent:
                        raise
                    await _pause(error, deadline)
                else:
                    return
        except InvalidInputError as error:
            raise requests.for_single_text(error, "content") from None

    async def detect_languages(self, texts: Sequence[str]) -> list[list[DetectedLanguage]]:
        """Detect the languages of texts; see `Translator.detect_languages`."""
        self._require("open")
        detections = await self._engine.router.detect_languages(_checked(texts))
        return [[language_of(language) for language in languages] for languages in detections]

    def list_models(self) -> list[Model]:
        """List the models, by name and version."""
        self._require("open")
        return [model_of(model) for model in self._engine.router.with_pivots(self._engine.live.served())]

    def _require(self, state: Literal["new", "open"]) -> None:
        if self._state != state:
            messages = {"new": "is not started: use `async with`", "open": "was started before", "closed": "is closed"}
            raise RuntimeError(f"the translator {messages[self._state]}")

    async def _read(self, settings: pb.TranslationSettings, texts: tuple[str, ...]) -> Call:
        """Check the options as a server does, and find the model that texts get."""
        self._require("open")
        engine = self._engine
        checked = requests.check_settings(settings, texts, max_characters=engine.max_content_characters)
        return await requests.completed(checked, engine.router.route, engine.glossaries)

    async def _answer(self, call: Call, deadline: float | None) -> Translation:
        async with self._place(deadline):
            while True:
                record = CallRecord()
                try:
                    [found] = await self._engine.translate(call, deadline=deadline, record=record)
                    return self._translation(call, found, record, "TranslateText")
                except OverloadedError as error:
                    # Long texts fill the queue before the places are taken.
                    await _pause(error, deadline)

    def _translation(self, call: Call, found: Sequence[Hypothesis], record: CallRecord, method: str) -> Translation:
        """Return the translation of the only text of a call."""
        provenance = None
        if call.return_provenance:
            provenance = provenance_of(Provenance(call, record, self._engine.runtime, method=method).of_text(0))
        detection = detection_fields(call, 0)
        confidence = detection.get("detected_language_confidence")
        return Translation(
            hypotheses=tuple(hypothesis_of(each, scored=call.return_scores) for each in found),
            model=call.model.name,
            model_version=str(call.model.version),
            provenance=provenance,
            detected_language=detection.get("detected_language_code", ""),
            detected_language_confidence=confidence and single(confidence),
            glossary_matches=found[0].matches,
            pivot=pivot_of(pb.Translation(pivot=pivot_message(call))),
        )

    @asynccontextmanager
    async def _place(self, deadline: float | None) -> AsyncGenerator[None, None]:
        """Wait for one of the places of texts in translation, and hold it."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._places.acquire()
        except TimeoutError:
            raise DeadlineExceededError("the time passed while the text waited for its turn", in_queue=True) from None
        try:
            yield
        finally:
            self._places.release()


def check_options(**options: Unpack[TranslateOptions]) -> None:
    """Check options before models are loaded; `translate` checks those that depend on a model.

    Raises:
        InvalidInputError: Values that no model takes.
        TypeError: A value of the wrong type, or an unknown option.
    """
    if faults := list(requests.settings_violations(settings_of(options))):
        raise InvalidInputError(faults)


def _checked(texts: Sequence[str]) -> tuple[str, ...]:
    """Return texts that the engine can read."""
    if isinstance(texts, str | bytes):
        raise TypeError("texts is a sequence of str; for a single text call translate_one")
    faults = []
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"contents[{index}] is a {type(text).__name__}, not a str")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            faults.append(FieldViolation(field=f"contents[{index}]", description=unicode_fault(error)))
    if faults:
        raise InvalidInputError(faults)
    return tuple(texts)


def _deadline(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if not timeout > 0:
        raise ValueError(f"timeout must be above 0, is {timeout}")
    return time.monotonic() + timeout


async def _pause(error: OverloadedError, deadline: float | None) -> None:
    """Wait until the queue may have room; after the deadline the engine says that it has passed."""
    left = error.retry_after_seconds if deadline is None else max(deadline - time.monotonic(), 0.0)
    await asyncio.sleep(min(error.retry_after_seconds, left))
