"""The servers under test, called without retries and hedging: each call is measured as the server answers it."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeAlias, Unpack, cast

import grpc

from xuanzang.client._calls import channel
from xuanzang.client._calls.metadata import checked_key
from xuanzang.client._calls.targets import targets
from xuanzang.client._commands.connection_arguments import Connection
from xuanzang.client._methods import requests
from xuanzang.client._reliability.addresses import Addresses
from xuanzang.loadtest.load import EMPTY
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc
from xuanzang.values.options import TranslateOptions

Call: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[pb.TranslateTextRequest, pb.TranslateTextResponse]"


class Target:
    """Connections to the servers; a call takes the one with the fewest calls in progress, as the SDK's do.

    Create it while the event loop is running.

    Args:
        connection: Address, timeout, name, key and TLS settings.

    Raises:
        ValueError: A setting is invalid, or the key would cross a network in plain text.
    """

    def __init__(
        self, connection: Connection, connections: int, *, names: int = 1, **options: Unpack[TranslateOptions]
    ) -> None:
        self._timeout = channel.positive_timeout(connection.timeout)
        addresses, tls = targets(connection.address), connection.tls
        key = checked_key(
            connection.api_key, addresses, has_tls=tls is not None, allow_insecure_key=connection.allow_insecure_key
        )
        if key and names > 1:
            raise ValueError("--names needs callers without an API key: a key is one caller, whatever its names")
        numbered = [f"{connection.client_id or 'caller'}-{number}" for number in range(names)]
        named = numbered if names > 1 else [connection.client_id]
        self._metadata = [channel.metadata(name, key) for name in named]
        self._template = requests.translate_request([], **options)
        settings = channel.options(
            max_message_bytes=channel.MAX_MESSAGE_BYTES,
            tls=tls,
            uses_proxy=tls is not None or not key,
            is_shared=False,
        )
        opened = [target for target in addresses for _ in range(connections)]
        self._channels = [channel.opener(grpc.aio, tls)(target, options=settings) for target in opened]
        stubs = [translation_pb2_grpc.TranslationServiceStub(channel) for channel in self._channels]
        self._calls = [cast("Call", stub.TranslateText) for stub in stubs]
        # Never told of a failure, so no connection is avoided.
        self._addresses = Addresses(opened, clock=time.monotonic, random=random.random)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for opened in self._channels:
            await opened.close()

    async def translate(self, texts: Sequence[str], name: int = 0) -> str:
        """Send a request under the name with a number, and return the name of its status code, or EMPTY."""
        request = pb.TranslateTextRequest()
        request.CopyFrom(self._template)
        request.contents.extend(texts)
        chosen = self._addresses.begin()
        try:
            answer = await self._calls[chosen](request, timeout=self._timeout, metadata=self._metadata[name])
        except grpc.aio.AioRpcError as error:
            return error.code().name
        finally:
            self._addresses.end(chosen)
        whole = len(answer.translations) == len(texts) and all(
            each.hypotheses and each.hypotheses[0].text.strip() for each in answer.translations
        )
        return grpc.StatusCode.OK.name if whole else EMPTY
