"""Translation for callers without an event loop: the engine in a separate thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from xuanzang.server.in_process.aio_translator import AsyncTranslator, TranslatorSettings
from xuanzang.server.in_process.translations import ProgressiveTranslation, StreamedTranslation, Translation
from xuanzang.text.language_detection import DetectedLanguage
from xuanzang.values.models import Model
from xuanzang.values.options import TranslateOptions

Result = TypeVar("Result")


class Translator:
    """Translates with the models of a folder; several threads may call it at once.

    The models are loaded, checked and warm when the constructor returns. `close`, or the end of `with`, stops the
    threads. Texts beyond what the workers can take wait for their turn instead of being refused.

    Args:
        models: Folder of bundles, laid out as MODEL/VERSION/, or the name of a published model, such as
            "Helsinki-NLP/opus-mt-zh-en", which the extra `hub` pulls unless it is there, and which is then the
            only one to translate.
        settings: Keyword arguments listed in TranslatorSettings.

    Raises:
        HubError: The published model cannot be had.
        BundleError: No bundle can be served. If only some cannot, a warning in the log says why.
        EngineError: The provider is "cuda", and onnxruntime comes without.
        TypeError: There is no such setting.
        ValueError: A setting is out of range.
    """

    def __init__(self, models: str | os.PathLike[str], **settings: Unpack[TranslatorSettings]) -> None:
        self._translator = AsyncTranslator(models, **settings)
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._closed = False
        self._lock = threading.Lock()
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="translator", daemon=True)
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish the texts in translation, for 5 seconds at most, and stop the threads."""
        with self._lock:
            self._closed = True
            # The loop is closed already if the models could not be loaded.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def translate(
        self, texts: Sequence[str], *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> list[Translation]:
        """Translate texts, any number of them, all or none, and return one translation per text in the same order.

        Without texts the options are checked. The timeout is in seconds.

        Raises:
            InvalidInputError: Texts or options are refused; `violations` names fields, such as "contents[3]".
            UnservedLanguageError: No model translates the language of a text.
            ModelNotFoundError: There is no such model, or none for the languages.
            DeadlineExceededError: The time was too short.
            TypeError: A lone text instead of a sequence, a value of the wrong type, or an unknown option.
        """
        return self._await(self._translator.translate(texts, timeout=timeout, **options))

    def translate_one(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> Translation:
        """Translate one text; see `translate`."""
        return self.translate([text], timeout=timeout, **options)[0]

    def translate_stream(
        self,
        texts: Iterable[str],
        *,
        ordered: bool = False,
        max_in_flight: int | None = None,
        **options: Unpack[TranslateOptions],
    ) -> Iterator[StreamedTranslation]:
        """Translate any number of texts as they arrive; a refused text yields a result with `error`.

        Args:
            texts: Texts in the source language. An iterable that is no sequence is read by another thread. An exception
                of it is raised here after the results of the texts before it.
            ordered: True if results come in the order of the texts instead of as they finish.
            max_in_flight: Maximum number of texts that were read and have no result yet; None: 256 per worker.

        Raises:
            InvalidInputError: An option has an impossible value; options that a model refuses are errors of the texts.
            TypeError: A lone text instead of an iterable, a value of the wrong type, or an unknown option.
            ValueError: `max_in_flight` is out of range.
        """
        stream = self._translator.text_stream(texts, ordered=ordered, max_in_flight=max_in_flight, options=options)

        def results() -> Iterator[StreamedTranslation]:
            try:
                while taken := self._await(stream.take()):
                    yield from taken
            finally:
                self._give_up(stream.aclose())

        return results()

    def translate_progressively(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> Iterator[ProgressiveTranslation]:
        """Translate one text and yield each part of the translation as soon as it is final.

        The timeout is in seconds, from the first part that is asked for.

        Raises:
            EngineError: As `translate` says; parts already yielded remain valid.
            TypeError: A value of the wrong type, or an unknown option.
        """
        parts = self._translator.translate_progressively(text, timeout=timeout, **options)

        async def following() -> ProgressiveTranslation | None:
            return await anext(parts, None)

        try:
            while (part := self._await(following())) is not None:
                yield part
        finally:
            self._give_up(parts.aclose())

    def detect_languages(self, texts: Sequence[str]) -> list[list[DetectedLanguage]]:
        """Detect the languages that each text may be in, likeliest first; none if nothing tells its language.

        The first 1000 characters of a text are looked at.

        Raises:
            DetectionUnavailableError: The libraries of the extra `detection` are not installed.
            TypeError: A lone text instead of a sequence, or an element that is no str.
        """
        return self._await(self._translator.detect_languages(texts))

    def list_models(self) -> list[Model]:
        """List the models, by name and version."""
        return self._translator.list_models()

    def _await(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the loop; what ends the wait, such as Ctrl-C, ends the work."""
        with self._lock:
            if self._closed:
                work.close()
                raise RuntimeError("the translator is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError("the translator is closed") from None
        except BaseException:
            future.cancel()
            raise

    def _give_up(self, ending: Coroutine[Any, Any, None]) -> None:
        """Wait for running work; a closed translator has ended it."""
        try:
            self._await(ending)
        except RuntimeError:
            if not self._closed:
                raise

    def _run(self, started: Future[None]) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: Future[None]) -> None:
        try:
            await self._translator.start()
        except BaseException as error:  # noqa: BLE001 - the constructor raises it
            started.set_exception(error)
            return
        started.set_result(None)
        await self._stopping.wait()
        await self._translator.close()
