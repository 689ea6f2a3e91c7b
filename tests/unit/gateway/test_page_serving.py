"""How the page is served; no server stands behind the gateway here."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal
from gateways import RunningGateway, running_gateway

from xuanzang.gateway.page_serving import HEADERS, page_files

NOWHERE = "127.0.0.1:9"


@pytest.fixture(scope="module")
def gateway(background: BlockingPortal) -> Iterator[RunningGateway]:
    with background.wrap_async_context_manager(running_gateway(NOWHERE)) as started:
        yield started


def policy(headers: dict[str, str]) -> dict[str, str]:
    directives = [each.strip().partition(" ") for each in headers["content-security-policy"].split(";")]
    return {name: value for name, _, value in directives}


async def test_every_file_has_its_type_and_the_headers_that_keep_others_out(gateway: RunningGateway) -> None:
    types = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    for path, content in page_files():
        answer = await gateway.get(f"/page/{path}")
        assert (answer.status, answer.body) == (200, content)
        assert answer.headers["content-type"].partition(";")[0] == types[path.rpartition(".")[2]]
        assert answer.headers.items() >= HEADERS.items()


async def test_the_policy_allows_scripts_styles_and_calls_of_this_origin_only(gateway: RunningGateway) -> None:
    answer = await gateway.get("/")
    allowed = policy(dict(answer.headers))
    own = {"script-src", "style-src", "img-src", "connect-src"}
    assert {name for name, value in allowed.items() if value == "'self'"} == own
    assert allowed["default-src"] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert allowed["frame-ancestors"] == "'none'"


async def test_a_browser_that_has_a_file_is_told_so(gateway: RunningGateway) -> None:
    tag = (await gateway.get("/page/main.js")).headers["etag"]
    for known in (tag, f'"other", W/{tag}'):
        answer = await gateway.get("/page/main.js", if_none_match=known)
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers["etag"] == tag
    assert (await gateway.get("/page/main.js", if_none_match='"other"')).status == 200


async def test_nothing_but_the_page_is_served(gateway: RunningGateway) -> None:
    for path in ("/page/", "/page/none.js", "/page/../settings.py", "/page/%2e%2e/settings.py"):
        assert (await gateway.get(path)).status == 404


async def test_the_index_is_at_the_root_and_head_is_answered_without_a_body(gateway: RunningGateway) -> None:
    index = dict(page_files())["index.html"]
    assert (await gateway.get("/")).body == index
    request = urllib.request.Request(f"{gateway.url}/", method="HEAD")
    with await asyncio.to_thread(urllib.request.urlopen, request) as answer:
        assert (answer.status, answer.read()) == (200, b"")
        assert int(answer.headers["content-length"]) == len(index)


async def test_the_page_can_be_turned_off() -> None:
    async with running_gateway(NOWHERE, page=False) as gateway:
        assert (await gateway.get("/")).status == 404
        assert (await gateway.get("/page/main.js")).status == 404
        assert (await gateway.get("/livez")).status == 200
