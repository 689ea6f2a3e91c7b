"""Documents, for the blocking client; their formats are the extra `documents`, loaded when one is translated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from xuanzang.client._calls.blocking import BlockingCalls
from xuanzang.client._calls.connected import ConnectedClient
from xuanzang.client._errors import TranslationError
from xuanzang.client._messages.requests import translation_settings
from xuanzang.client._methods.stream import BlockingStream
from xuanzang.client._methods.stream_state import StreamState
from xuanzang.client._values.options import lists_options
from xuanzang.client._values.results import DocumentTranslation, StreamedTranslation, Translation
from xuanzang.values.models import Model
from xuanzang.values.options import TranslateOptions

if TYPE_CHECKING:
    from xuanzang.client._methods.document_jobs import ServerJob
    from xuanzang.documents import DocumentFile, DocumentTexts, Limits, OnProgress, TranslatedTexts, TranslationMemory


class DocumentCalls(ConnectedClient[BlockingCalls]):
    """Methods of a blocking client about documents."""

    @lists_options(TranslateOptions)
    def translate_document(
        self,
        source: str | Path | bytes,
        *,
        suffix: str | None = None,
        encoding: str | None = None,
        columns: Sequence[str] | None = None,
        memory: TranslationMemory | None = None,
        on_progress: OnProgress | None = None,
        limits: Limits | None = None,
        timeout: float | None = None,
        **options: Unpack[TranslateOptions],
    ) -> DocumentTranslation:
        """Translate the texts of a file and keep everything else; docs/documents.md lists the texts of each format.

        A text that the server refuses stays unchanged; `summary.refusals` names it. Needs the extra `documents`.

        Args:
            source: Path, or the content of a file.
            suffix: Suffix that tells the format, such as ".md"; None: that of the path.
            encoding: Name of the character encoding; None: declared by the file, else UTF-8.
            columns: Names of the columns of a table, or keys of JSON values, to translate; None: all JSON values.
            memory: Translation memory; known texts are not sent, and new translations are added.
            on_progress: Receiver of the number of texts done and of all texts.
            timeout: Time limit in seconds of each wait for an answer; None: the client's.
            options: Keyword arguments listed in TranslateOptions.

        Raises:
            DocumentError: The file is over a limit, is not of its format, or needs an argument or a library.
            OSError: The file cannot be read.
            TranslationError: The server could not be reached, failed, or refused more than single texts.
            ValueError: The memory is damaged, or `timeout` is out of range.
        """
        settings = {"suffix": suffix, "encoding": encoding, "columns": columns, "limits": limits}
        file, texts = self._read(source, target_language=options.get("target_language"), **settings)
        found = self.translate_document_texts(texts, memory=memory, on_progress=on_progress, timeout=timeout, **options)
        written = self._open_calls.apart(file.rewritten, found.translations)
        return DocumentTranslation(content=written.content, summary=found.summary.with_refusals_of(written))

    @lists_options(TranslateOptions)
    def translate_document_texts(
        self,
        texts: DocumentTexts,
        *,
        memory: TranslationMemory | None = None,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        **options: Unpack[TranslateOptions],
    ) -> TranslatedTexts:
        """Translate the texts of a document that was read elsewhere, such as in another process.

        `DocumentFile` reads them, and writes the file with the translations. Finished translations are kept in the
        memory, whatever ends the call.

        Args:
            memory: Translation memory; known texts are not sent, and new translations are added.
            on_progress: Receiver of the number of texts done and of all texts.
            timeout: Time limit in seconds of each wait for an answer; None: the client's.
            options: Keyword arguments listed in TranslateOptions.

        Raises:
            TranslationError: The server could not be reached, failed, or refused more than single texts.
            ValueError: The memory is damaged, or `timeout` is out of range.
        """
        from xuanzang.client._methods.document_jobs import ServerJob  # noqa: PLC0415

        models = self.list_models(timeout=timeout) if memory else []
        job = self._open_calls.apart(ServerJob, texts, models, options, memory=memory, on_progress=on_progress)
        try:
            self._translate_pending(job, timeout)
        finally:
            if job.has_unsaved:
                self._open_calls.apart(job.save)
        return job.finish()

    def _read(self, source: str | Path | bytes, **settings: Any) -> tuple[DocumentFile, DocumentTexts]:
        from xuanzang.documents import DocumentFile  # noqa: PLC0415

        file = self._open_calls.apart(DocumentFile.of, source, **settings)
        return file, self._open_calls.apart(file.texts)

    def _translate_pending(self, job: ServerJob, timeout: float | None) -> None:
        state = StreamState(translation_settings(**job.options), ordered=False, timeout=self._seconds(timeout))
        if not job.pending:
            return
        stream = BlockingStream(job.pending, state, self._open_calls, on_usage=job.count)
        with closing(stream.run()) as items:
            for item in items:
                result = result_or_retry(self, item, job.options, timeout)
                if job.record(item.source, result):
                    self._open_calls.apart(job.save)

    @abstractmethod
    def translate_one(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> Translation:
        """Translate one text."""

    @abstractmethod
    def list_models(self, *, timeout: float | None = None) -> list[Model]:
        """List the models that the server offers."""


def result_or_retry(
    client: DocumentCalls, item: StreamedTranslation, options: TranslateOptions, timeout: float | None = None
) -> Translation | TranslationError:
    """Return the result of a text, asked for once more if that may help: gRPC retries only whole calls."""
    if item.error is None or not item.error.retryable:
        return item.result
    try:
        return client.translate_one(item.source, timeout=timeout, **options)
    except TranslationError as error:
        return error
