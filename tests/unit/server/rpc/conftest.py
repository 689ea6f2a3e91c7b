"""A real gRPC server on a free port, in front of an engine that the test controls."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from keyed_rpcs import KeysFile
from prometheus_client import CollectorRegistry
from search_options import search_options

from xuanzang.server.access.authentication import Authenticator, KeyRing
from xuanzang.server.access.keys import change_keys
from xuanzang.server.access.metrics import AccessMetrics
from xuanzang.server.access.tls import ReloadedTLS, TLSFiles
from xuanzang.server.engine.calls.record import Call, CallRecord
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import (
    DetectionUnavailableError,
    FieldViolation,
    InvalidInputError,
    ModelNotFoundError,
    OverloadedError,
)
from xuanzang.server.engine.glossaries import GlossaryFolder
from xuanzang.server.engine.types import CallerId, FinishReason, Hypothesis, Route, Runtime, ServedModel
from xuanzang.server.metrics import Metrics
from xuanzang.server.rpc.limits import RpcLimits
from xuanzang.server.rpc.server import RpcServer
from xuanzang.text.language_detection import DetectedLanguage
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

RUNTIME = Runtime(execution_provider="cpu", kernels="avx2", kernels_reason="", onnxruntime_version="1.23.0")
LIMITS = RpcLimits(max_message_bytes=2**20, max_concurrent_rpcs=64, max_stream_texts=4)


class FakeEngine:
    """Translates a text to upper case, once it is no longer held, or raises the error set for it."""

    def __init__(self, model: ServedModel) -> None:
        self.models: tuple[ServedModel, ...] = (model,)
        self.glossaries = GlossaryFolder(Path("none"))
        self.max_content_characters = 100_000
        self.held: dict[str, asyncio.Event] = {}
        self.raised: dict[str, Exception] = {}
        self.running: list[str] = []
        self.cancelled: list[str] = []
        self.asked: list[dict[str, Any]] = []
        """What each call asked for."""
        self.runtime = RUNTIME
        self.needed_seconds = 0.0
        """Time that any request would take; one that has less is refused."""
        self.until_begun: float | None = 0.0
        """Time until a request would be begun; None: hardly anything is to be done."""
        self.detected: list[DetectedLanguage] | None = None
        """Languages that every text may be in; None if nothing can be detected."""
        self._changed = asyncio.Condition()

    @property
    def router(self) -> FakeEngine:
        """What finds the model of a request."""
        return self

    @property
    def live(self) -> FakeEngine:
        """What lists the served models."""
        return self

    def served(self) -> tuple[ServedModel, ...]:
        """Return the served models."""
        return self.models

    def asked_for(self, key: str) -> list[Any]:
        """Return what each call asked for: an argument of `Engine.translate`, or a field of its `Call`."""
        return [asked[key] if key in asked else getattr(asked["call"], key) for asked in self.asked]

    def hold(self, text: str) -> asyncio.Event:
        """Delay the answer to a text until the event is set."""
        return self.held.setdefault(text, asyncio.Event())

    async def until(self, listed: list[str], texts: set[str]) -> None:
        """Wait until a list holds exactly these texts."""
        async with self._changed:
            await self._changed.wait_for(lambda: set(listed) == texts)

    async def route(self, *, model: str, source_language: str, target_language: str, **_: object) -> Route:
        if source_language == "??":
            fault = FieldViolation(field="source_language_code", description="must be a BCP-47 code")
            raise InvalidInputError([fault])
        if model not in {"", "tiny"} or target_language not in {"", "en"}:
            raise ModelNotFoundError(f"no model named {model!r}")
        return Route(model=self.models[0], target_language="en")

    def with_pivots(self, models: Iterable[ServedModel]) -> Iterable[ServedModel]:
        """Return the models, which are no two of a pair."""
        return models

    def require_pair(self, source_language: str, target_language: str) -> None:
        if source_language == "fr":
            fault = FieldViolation(field="target_language_code", description="no model translates fr")
            raise InvalidInputError([fault])

    async def detect_languages(self, texts: Sequence[str], **_: object) -> list[list[DetectedLanguage]]:
        if self.detected is None:
            raise DetectionUnavailableError("languages are not detected here")
        return [self.detected for _ in texts]

    def require_time(self, caller: CallerId, seconds: float) -> None:
        if seconds < self.needed_seconds:
            raise OverloadedError("too busy", retry_after_seconds=self.needed_seconds - seconds)

    def seconds_until_begun(self, caller: CallerId) -> float | None:
        return self.until_begun

    async def translate(self, call: Call, *, record: CallRecord, **asked: Any) -> list[list[Hypothesis]]:
        self.asked.append({"call": call, **asked})
        record.sentences = len(call.texts)
        with record.hold_sentences(len(call.texts)) if record.hold_sentences else nullcontext():
            return [[await self._translate(text)] for text in call.texts]

    async def translate_progressively(self, call: Call, **asked: Any) -> AsyncGenerator[str | list[Hypothesis], None]:
        """Emit the first character at once, and the second when the text is translated."""
        [text] = call.texts
        yield text[:1].upper()
        [hypotheses] = await self.translate(call, **asked)
        yield text[1:2].upper()
        yield hypotheses

    async def _translate(self, text: str) -> Hypothesis:
        await self._move(text, into=self.running)
        try:
            if text in self.held:
                await self.held[text].wait()
        except asyncio.CancelledError:
            await self._move(text, into=self.cancelled)
            raise
        finally:
            self.running.remove(text)
        if text in self.raised:
            raise self.raised[text]
        return Hypothesis(text=text.upper(), score=-1.5, token_count=2, finish_reason=FinishReason.END_OF_SENTENCE)

    async def _move(self, text: str, *, into: list[str]) -> None:
        async with self._changed:
            into.append(text)
            self._changed.notify_all()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Served:
    """A running server, the parts behind it, and a client."""

    rpc: RpcServer
    engine: FakeEngine
    registry: CollectorRegistry
    channel: grpc.aio.Channel
    stub: Any
    """`TranslationServiceAsyncStub`."""
    keys: KeyRing | None
    tls: ReloadedTLS | None

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a series; -1 if it does not exist."""
        value = self.registry.get_sample_value(name, labels)
        return -1.0 if value is None else value

    async def translated(self, text: str, **call: Any) -> str:
        """Translate a text by a call with a timeout, or what else is given."""
        response = await self.stub.TranslateText(pb.TranslateTextRequest(contents=[text]), **call)
        translation: str = response.translations[0].hypotheses[0].text
        return translation

    async def let_expire(self, text: str, call: Callable[[float], Any]) -> None:
        """Make a call that ends with its deadline while the engine has the text; again if the engine never got it.

        Args:
            call: Makes it, with a timeout in seconds.
        """
        self.engine.hold(text)
        for timeout in (0.2, 2.0, 20.0):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(timeout)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            await self.rpc.join()
            if text in self.engine.cancelled:
                return
        raise AssertionError("the engine went on, or never got the text")


@pytest.fixture
def keys_file(tmp_path: Path) -> KeysFile:
    """A keys file without keys."""
    file = KeysFile(tmp_path / "keys.json")
    change_keys(file.path, lambda old: old)
    return file


@pytest.fixture
def served_model() -> ServedModel:
    return ServedModel(
        name="tiny",
        version=1,
        source_languages=("zh",),
        target_languages=("en",),
        precision="float32",
        manifest_sha256="0" * 64,
        is_default=True,
        default_options=search_options().decoding,
        max_source_length=128,
        max_target_length=256,
    )


@pytest.fixture
def serve(served_model: ServedModel) -> Any:
    """Starts a server, `async with serve(max_concurrent_rpcs=1) as served`, which is open unless `opened=False`."""

    @asynccontextmanager
    async def start(
        *,
        opened: bool = True,
        tls: TLSFiles | None = None,
        address: str = "127.0.0.1:0",
        keys_file: Path | None = None,
        anonymous: bool = True,
        clock: Callable[[], float] = time.monotonic,
        trusted_proxies: str = "",
        **limits: int,
    ) -> AsyncIterator[Served]:
        engine = FakeEngine(served_model)
        registry = CollectorRegistry()
        access_metrics = AccessMetrics(registry)
        keys = None if keys_file is None else KeyRing(keys_file, access_metrics, clock=clock)
        reloaded = None if tls is None else ReloadedTLS(tls, access_metrics)
        rpc = RpcServer(
            cast("Engine", engine),
            address=address,
            authenticator=Authenticator(
                keys, anonymous=anonymous, metrics=access_metrics, trusted_proxies=trusted_proxies
            ),
            tls=reloaded,
            limits=LIMITS.model_copy(update=limits),
            metrics=Metrics(registry),
        )
        await rpc.start()
        if opened:
            await rpc.open(["tiny"])
        async with grpc.aio.insecure_channel(f"127.0.0.1:{rpc.port}") as channel:
            stub = translation_pb2_grpc.TranslationServiceStub(channel)
            try:
                yield Served(
                    rpc=rpc, engine=engine, registry=registry, channel=channel, stub=stub, keys=keys, tls=reloaded
                )
            finally:
                await rpc.stop()

    return start


@pytest.fixture
async def served(serve: Any) -> AsyncIterator[Served]:
    """A server with the limits of the tests."""
    async with serve() as served:
        yield served
