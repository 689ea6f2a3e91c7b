"""The unary RPCs of the service: which may be sent again, and which to two servers at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from xuanzang.client._reliability.tries import CallTraits
from xuanzang.translation.v1 import translation_pb2 as pb

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """RPC of the service."""

    traits: CallTraits

    def of(self, stub: object) -> Any:
        """Return the method of a stub, blocking or not."""
        return getattr(stub, self.traits.rpc)


def _read(rpc: str) -> Method[Any, Any]:
    return Method(CallTraits(rpc=rpc, is_repeatable=True, may_be_hedged=True))


def _write(rpc: str) -> Method[Any, Any]:
    """Return an RPC whose second execution fails because of the first, such as a deletion."""
    return Method(CallTraits(rpc=rpc, is_repeatable=False, may_be_hedged=False))


TRANSLATE_TEXT: Method[pb.TranslateTextRequest, pb.TranslateTextResponse] = _read("TranslateText")
# Servers explain few translations at a time, and slowly.
EXPLAIN_TRANSLATION: Method[pb.ExplainTranslationRequest, pb.ExplainTranslationResponse] = Method(
    CallTraits(rpc="ExplainTranslation", is_repeatable=True, may_be_hedged=False)
)
DETECT_LANGUAGE: Method[pb.DetectLanguageRequest, pb.DetectLanguageResponse] = _read("DetectLanguage")
LIST_MODELS: Method[pb.ListModelsRequest, pb.ListModelsResponse] = _read("ListModels")
LIST_GLOSSARIES: Method[pb.ListGlossariesRequest, pb.ListGlossariesResponse] = _read("ListGlossaries")
LIST_GLOSSARY_ENTRIES: Method[pb.ListGlossaryEntriesRequest, pb.ListGlossaryEntriesResponse] = _read(
    "ListGlossaryEntries"
)
CREATE_GLOSSARY: Method[pb.CreateGlossaryRequest, pb.CreateGlossaryResponse] = _write("CreateGlossary")
DELETE_GLOSSARY: Method[pb.DeleteGlossaryRequest, pb.DeleteGlossaryResponse] = _write("DeleteGlossary")
