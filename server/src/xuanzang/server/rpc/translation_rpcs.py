"""The RPCs that translate, of the translation service and of the faces, and those that answer everybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from grpc_reflection.v1alpha import reflection

from xuanzang.server.rpc.faces.face import Face
from xuanzang.server.rpc.health.service import HEALTH_SERVICE, TRANSLATION_SERVICE
from xuanzang.server.rpc.interceptors.base import Rpc, grpc_type
from xuanzang.translation.v1 import translation_pb2

_OPEN_SERVICES = frozenset({HEALTH_SERVICE, reflection.SERVICE_NAME})
# They cost little, or nothing that the queue is asked for.
_UNSCREENED = frozenset(
    {"DetectLanguage", "ListModels", "ListGlossaries", "ListGlossaryEntries", "CreateGlossary", "DeleteGlossary"}
)


class TranslationRpcs:
    """Says of an RPC whether it passes the gate, needs a caller who may call, and is screened."""

    def __init__(self, faces: Sequence[Face] = ()) -> None:
        """Take the translation service and the faces.

        Args:
            faces: Services of other APIs.
        """
        self._services = {TRANSLATION_SERVICE, *(face.service for face in faces)}
        self._checks = {(face.service, method) for face in faces for method in face.checks}
        self.answered: tuple[Rpc, ...] = (*_own_rpcs(), *_face_rpcs(faces))
        """RPCs whose series exist from the start."""
        self.screened: Mapping[str, Rpc] = MappingProxyType(
            {f"/{rpc.grpc_service}/{rpc.grpc_method}": rpc for rpc in (*_own_screened(), *_face_screened(faces))}
        )
        """RPCs that may be refused unread, by path, such as "/service/Method"."""

    def __contains__(self, rpc: Rpc) -> bool:
        """Whether an RPC passes the gate, and is observed."""
        return rpc.grpc_service in self._services and rpc[1:] not in self._checks

    def is_open(self, rpc: Rpc) -> bool:
        """Whether an RPC answers everybody: it says whether the server is well, or what its API is.

        Args:
            rpc: Identity of the RPC.
        """
        return rpc.grpc_service in _OPEN_SERVICES or rpc[1:] in self._checks


def _own_rpcs() -> Iterable[Rpc]:
    for method in translation_pb2.DESCRIPTOR.services_by_name["TranslationService"].methods:
        shape = grpc_type(request_streaming=method.client_streaming, response_streaming=method.server_streaming)
        yield Rpc(shape, TRANSLATION_SERVICE, method.name)


def _own_screened() -> Iterable[Rpc]:
    return (
        rpc for rpc in _own_rpcs() if rpc.grpc_type in ("unary", "server_stream") and rpc.grpc_method not in _UNSCREENED
    )


def _face_rpcs(faces: Iterable[Face]) -> Iterable[Rpc]:
    return (face.rpc(method) for face in faces for method in sorted(face.answered))


def _face_screened(faces: Iterable[Face]) -> Iterable[Rpc]:
    return (face.rpc(method) for face in faces for method in sorted(face.screened))
