"""The table of RPCs: each of the service has a row, and is called as the row says."""

from __future__ import annotations

from xuanzang.client._methods import core as methods
from xuanzang.client._reliability.tries import Method
from xuanzang.translation.v1 import translation_pb2 as pb

_WITH_MANY_MESSAGES = {"StreamTranslateText", "TranslateTextProgressively"}


def test_every_rpc_of_the_service_has_a_row() -> None:
    [service] = pb.DESCRIPTOR.services_by_name.values()
    rows = [each for each in vars(methods).values() if isinstance(each, Method)]
    assert sorted(row.rpc for row in rows) == sorted({rpc.name for rpc in service.methods} - _WITH_MANY_MESSAGES)


def test_what_changes_the_server_is_neither_repeated_nor_hedged() -> None:
    rows = [each for each in vars(methods).values() if isinstance(each, Method)]
    assert {row.rpc for row in rows if not row.is_repeatable} == {"CreateGlossary", "DeleteGlossary"}
    assert all(row.is_repeatable for row in rows if row.may_be_hedged)
