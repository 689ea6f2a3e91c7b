"""Suites of other projects against a gateway: docs/lab/suites.md has the counts."""

from __future__ import annotations

import pytest
from peer_suites import (
    KSERVE,
    LIBRETRANSLATE,
    TRITON,
    Count,
    deepl_python,
    kserve,
    libretranslate,
    tritonclient,
    written_table,
)


def require_written(count: Count) -> None:
    assert count.row in written_table(), count.faults


async def test_requests_of_deepls_own_tests_are_answered_as_recorded() -> None:
    require_written(await deepl_python())


@pytest.mark.e2e
async def test_libretranslates_own_tests_of_its_api_pass() -> None:
    if not LIBRETRANSLATE.exists():
        pytest.skip("NOT TESTED: LibreTranslate's own tests: `.ci/peers libretranslate` fetches them")
    count = await libretranslate()
    assert (count.passed, count.failed) == (14, 0), count.faults
    require_written(count)


@pytest.mark.e2e
async def test_the_methods_of_tritons_clients_are_answered() -> None:
    if not TRITON.exists():
        pytest.skip("NOT TESTED: methods of Triton's clients: `.ci/peers triton` installs them")
    for count in await tritonclient():
        require_written(count)


@pytest.mark.e2e
async def test_the_calls_of_kserves_sdk_are_answered() -> None:
    if not KSERVE.exists():
        pytest.skip("NOT TESTED: KServe's SDK: `.ci/peers kserve` installs it")
    for count in await kserve():
        assert (count.passed, count.failed) == (5, 0), count.faults
        require_written(count)
