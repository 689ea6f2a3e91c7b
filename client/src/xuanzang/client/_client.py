"""Blocking client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from xuanzang.client._calls.waits import BlockingWaits, iterated, run
from xuanzang.client._methods import core, requests
from xuanzang.client._methods.core import ClientCore
from xuanzang.client._methods.stream import TEXTS_IN_FLIGHT
from xuanzang.client._values.capsule import Capsule, Replay
from xuanzang.client._values.explanations import AttentionKind, Explanation
from xuanzang.client._values.options import lists_options
from xuanzang.client._values.results import (
    DetectedLanguage,
    DocumentTranslation,
    ProgressiveTranslation,
    StoredGlossary,
    StreamedTranslation,
    Translation,
)
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.values.models import Model
from xuanzang.values.options import ExplainOptions, Glossary, TranslateOptions

if TYPE_CHECKING:
    from xuanzang.documents import DocumentTexts, Limits, OnProgress, TranslatedTexts, TranslationMemory


class TranslationClient(ClientCore):
    """Client of one or several xuanzang servers; threads may share it.

    A call that a server did not answer is made again, on another address if there is one, within its timeout;
    client/README.md says when.

    Every method takes `timeout`, the time limit in seconds of each call or, of streams and documents, of each wait for
    an answer; None: the client's. Every method raises TranslationError if the server refuses the request, fails, or
    cannot be reached in time, TypeError for a value of the wrong type or an unknown option, and ValueError for a
    `timeout` that is out of range.

    Args:
        address: Server as "host:port", or several as a sequence of them; the port is 50051 if there is none. If a host
            name has several addresses, all are used in turn.
        connections: Connections to each address, 1 to 64; calls take the one with the fewest in progress. None: one,
            and once a server of several processes has answered, four for each of them, at most 16.
        tls: TLS settings; None: no encryption.
        timeout: Default time limit of a call in seconds, retries included.
        client_id: Name of the caller, such as "nightly-import", used by a busy server to divide its time; None: the
            server goes by the network address. A caller with a key is known by the key.
        api_key: Key that the server's operator has given out; None: that of the environment variable
            XUANZANG_API_KEY, if it is set; "": none. It is sent with every call, never logged and never shown.
        allow_insecure_key: Whether the key may be sent without TLS to another machine.
        max_message_bytes: Maximum size of a message, sent or received.
        on_usage: Receiver of what each call has used, called by the thread that waits for the answer.
        throttle: True to hold back calls that an overloaded server would refuse, judged by its last refusals; they
            fail with OverloadedError without being sent, if they cannot wait.
        uses_proxy: Whether a proxy that the environment names may be used; never with a key in plain text.
        wait_for_server: Whether calls wait as long as their timeout for servers that have never answered; without it,
            they fail after three seconds if every address refuses connections, and at once if no server there speaks
            the same protocol.

    Raises:
        ValueError: An address, the timeout, the client_id or the key is invalid, or the key would cross a network in
            plain text.
    """

    _waits = BlockingWaits
    _run = staticmethod(run)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; calls under way end with CallCancelledError."""
        return self._run(self._calls.close())

    @lists_options(TranslateOptions)
    def translate(
        self, texts: Sequence[str], *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> list[Translation]:
        """Translate texts, all or none.

        Args:
            texts: Texts in the source language, at most 1024; `translate_stream` takes any number.
            options: Keyword arguments listed in TranslateOptions.

        Returns:
            One translation per text, in the same order.
        """
        return self._run(self._call(core.TRANSLATE_TEXT, requests.translate_request(texts, **options), timeout))

    def translate_one(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> Translation:
        """Translate one text; see `translate`."""
        return self._run(self._translated_one(text, timeout, **options))

    @lists_options(TranslateOptions)
    def translate_progressively(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> Iterator[ProgressiveTranslation]:
        """Translate one text and yield each part of the translation as soon as it is final.

        A part never changes after it was yielded, whatever ends the call. The call starts when the first part is
        requested; closing the iterator early cancels it.

        Args:
            text: Text in the source language, of one or several sentences.
            options: Keyword arguments listed in TranslateOptions.
        """
        return iterated(self._parts(text, timeout, **options))

    @lists_options(TranslateOptions)
    def translate_stream(
        self,
        texts: Iterable[str],
        *,
        ordered: bool = False,
        max_in_flight: int = TEXTS_IN_FLIGHT,
        timeout: float | None = None,
        **options: Unpack[TranslateOptions],
    ) -> Iterator[StreamedTranslation]:
        """Translate any number of texts over one stream, which opens when the first result is requested.

        A text that the server refuses yields a result with `error`; the stream continues. Waiting for the next text
        does not count towards `timeout`.

        Args:
            texts: Texts in the source language, read by another thread. An exception of the iterable is raised here
                after the results of the texts before it.
            ordered: Whether results come in the order of the texts instead of as they finish.
            max_in_flight: Maximum number of texts sent whose results have not been yielded.
            options: Keyword arguments listed in TranslateOptions.

        Raises:
            ValueError: `max_in_flight` is below 1.
        """
        results = self._streamed(texts, timeout, ordered=ordered, max_in_flight=max_in_flight, **options)
        return iterated(results)

    @lists_options(ExplainOptions)
    def explain(
        self,
        text: str,
        *,
        attention_kinds: Sequence[AttentionKind | str] = (AttentionKind.CROSS,),
        attention_layers: Sequence[int] = (),
        attention_heads: bool = False,
        timeout: float | None = None,
        **options: Unpack[ExplainOptions],
    ) -> Explanation:
        """Translate one sentence and say how its translation was found; see docs/explaining.md.

        Args:
            text: Text of one sentence.
            attention_kinds: Attention to return, such as "cross", "encoder" or "decoder", each at most once.
            attention_layers: Layers whose attention is returned, from 0; none: all.
            attention_heads: Whether attention is returned of each head, after the mean of all.
            options: Keyword arguments listed in ExplainOptions.

        Returns:
            The translation that `translate_one` returns for these options, and how it was found.
        """
        request = requests.explanation_request(
            text,
            attention_kinds=attention_kinds,
            attention_layers=attention_layers,
            attention_heads=attention_heads,
            **options,
        )
        return self._run(self._call(core.EXPLAIN_TRANSLATION, request, timeout))

    def detect_languages(self, texts: Sequence[str], *, timeout: float | None = None) -> list[list[DetectedLanguage]]:
        """Detect the languages of texts.

        Args:
            texts: Texts in any language, at most 1024; the first 1000 characters of each are looked at.

        Returns:
            For each text the languages that it may be in, likeliest first; none if nothing tells its language.
        """
        return self._run(self._call(core.DETECT_LANGUAGE, requests.detection_request(texts), timeout))

    def replay(self, capsule: Capsule, *, timeout: float | None = None) -> list[Replay]:
        """Send the requests of a capsule again and compare the answers with the recorded ones.

        Args:
            capsule: Capsule, as `Capsule.read` returns it.

        Returns:
            One comparison for each request.
        """
        return self._run(self._replayed(capsule, timeout))

    def list_models(self, *, timeout: float | None = None) -> list[Model]:
        """List the models that the server offers."""
        return self._run(self._call(core.LIST_MODELS, pb.ListModelsRequest(), timeout))

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
            options: Keyword arguments listed in TranslateOptions.

        Raises:
            DocumentError: The file is over a limit, is not of its format, or needs an argument or a library.
            OSError: The file cannot be read.
            ValueError: The memory is damaged.
        """
        reading = {"suffix": suffix, "encoding": encoding, "columns": columns, "limits": limits}
        others: Any = {"memory": memory, "on_progress": on_progress, **options}
        return self._run(self._document(source, timeout, reading=reading, **others))

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
            options: Keyword arguments listed in TranslateOptions.

        Raises:
            ValueError: The memory is damaged.
        """
        return self._run(self._document_texts(texts, timeout, memory=memory, on_progress=on_progress, **options))

    def list_glossaries(self, *, timeout: float | None = None) -> list[StoredGlossary]:
        """List the glossaries that the server holds."""
        return self._run(self._call(core.LIST_GLOSSARIES, pb.ListGlossariesRequest(), timeout))

    def list_glossary_entries(self, name: str, *, timeout: float | None = None) -> dict[str, tuple[str, ...]]:
        """List the entries of a glossary, for callers who may store one.

        Returns:
            Translations by term.

        Raises:
            GlossaryNotFoundError: The server holds none of that name.
            AccessDeniedError: This caller may not store glossaries.
        """
        return self._run(self._glossary_entries(name, timeout))

    def create_glossary(
        self,
        name: str,
        entries: Glossary,
        *,
        source_language: str,
        target_language: str,
        version: str = "",
        display_name: str = "",
        replace: bool = False,
        timeout: float | None = None,
    ) -> StoredGlossary:
        """Store a glossary on a server that lets this caller; requests may name it from then on.

        Args:
            name: Name for `glossary_name`: lower-case letters, digits, "-", "_" and ".", at most 63.
            entries: Translations by term; one translation, or several alternatives.
            source_language: BCP-47 code of the terms.
            target_language: BCP-47 code of the translations.
            version: Version that its author gives it.
            display_name: Name for people, at most 1024 characters in one line.
            replace: Whether it takes the place of another one of that name.

        Raises:
            InvalidRequestError: It has faults, or there is another one of that name.
            AccessDeniedError: This caller may not store glossaries.
        """
        about = {"version": version, "display_name": display_name, "replace": replace}
        languages = (source_language, target_language)
        return self._run(self._created(name, entries, timeout, languages=languages, **about))

    def delete_glossary(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a glossary of a server that lets this caller.

        Raises:
            GlossaryNotFoundError: The server holds none of that name.
            AccessDeniedError: This caller may not store glossaries.
        """
        return self._run(self._deleted(name, timeout))
