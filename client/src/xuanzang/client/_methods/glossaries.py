"""Calls about the glossaries of a server, for the blocking client."""

from __future__ import annotations

from xuanzang.client._calls import methods
from xuanzang.client._calls.blocking import BlockingCalls
from xuanzang.client._calls.connected import ConnectedClient
from xuanzang.client._calls.status import about_glossaries
from xuanzang.client._messages import requests, responses
from xuanzang.client._values.results import StoredGlossary
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.values.options import Glossary


class GlossaryCalls(ConnectedClient[BlockingCalls]):
    """Methods of a blocking client about glossaries."""

    def list_glossaries(self, *, timeout: float | None = None) -> list[StoredGlossary]:
        """List the glossaries that the server holds.

        Raises:
            TranslationError: The server could not be reached in time.
        """
        request = pb.ListGlossariesRequest()
        response = self._open_calls.unary(methods.LIST_GLOSSARIES, request, timeout=self._seconds(timeout))
        return responses.glossaries(response)

    def list_glossary_entries(self, name: str, *, timeout: float | None = None) -> dict[str, tuple[str, ...]]:
        """List the entries of a glossary, for callers who may store one.

        Args:
            timeout: Time limit of the whole call in seconds; None: the client's.

        Returns:
            Translations by term.

        Raises:
            GlossaryNotFoundError: The server holds none of that name.
            AccessDeniedError: This caller may not store glossaries.
            TranslationError: The server stores none, or could not be reached in time.
        """
        request = pb.ListGlossaryEntriesRequest(name=requests.checked_text(name, path="name"))
        with about_glossaries():
            response = self._open_calls.unary(methods.LIST_GLOSSARY_ENTRIES, request, timeout=self._seconds(timeout))
        return self._open_calls.apart(responses.glossary_entries, response)

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
            timeout: Time limit of the whole call in seconds; None: the client's.

        Raises:
            InvalidRequestError: It has faults, or there is another one of that name.
            AccessDeniedError: This caller may not store glossaries.
            TranslationError: The server stores none, or could not be reached in time.
        """
        request = self._open_calls.apart(
            requests.create_glossary,
            name,
            entries,
            languages=(source_language, target_language),
            version=version,
            display_name=display_name,
            replace=replace,
        )
        response = self._open_calls.unary(methods.CREATE_GLOSSARY, request, timeout=self._seconds(timeout))
        return responses.glossary(response.glossary)

    def delete_glossary(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a glossary of a server that lets this caller.

        Args:
            timeout: Time limit of the whole call in seconds; None: the client's.

        Raises:
            GlossaryNotFoundError: The server holds none of that name.
            AccessDeniedError: This caller may not store glossaries.
            TranslationError: The server stores none, or could not be reached in time.
        """
        request = pb.DeleteGlossaryRequest(name=requests.checked_text(name, path="name"))
        with about_glossaries():
            self._open_calls.unary(methods.DELETE_GLOSSARY, request, timeout=self._seconds(timeout))
