"""Addresses that two APIs share a beginning of: each refuses in its own form what it does not have."""

from __future__ import annotations

import pytest
from gateways import RunningGateway


@pytest.mark.parametrize(
    ("path", "status", "member"),
    [
        ("/v3/projects/any:batchTranslateText", 501, "error"),
        ("/v2/repository/models/tiny/load", 501, "error"),
        ("/v2/repository/models/tiny/unload", 501, "error"),
        ("/v2/systemsharedmemory/region/r/register", 501, "error"),
        ("/v2/cudasharedmemory/region/r/register", 501, "error"),
        ("/v3/style_rules", 404, "message"),
        ("/v2/write/rephrase", 404, "message"),
    ],
)
async def test_what_is_not_there_is_refused_in_the_form_of_its_api(
    gateway: RunningGateway, path: str, status: int, member: str
) -> None:
    answer = await gateway.post(path, json={})
    assert (answer.status, list(answer.json)) == (status, [member])
