"""A new version that answers a share of the calls, and copies of others, through the real Envoy."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import envoy
import pytest
from bundle_versions import copy_version
from replica_set import replica_set

from xuanzang.client import TranslationClient

pytestmark = pytest.mark.e2e

CALLS = 300


def test_a_canary_answers_its_share_and_gets_copies_that_no_caller_sees(tmp_path: Path) -> None:
    program = envoy.program()
    if program is None:
        pytest.skip("NOT TESTED: no canary: there is no Envoy: `.ci/peers envoy` installs it")
    bundle = max((envoy.ROOT / "server/models/zh-en").iterdir(), key=lambda folder: int(folder.name))
    live, candidate = bundle.name, str(int(bundle.name) + 1)
    for version in (live, candidate):
        copy_version(bundle, tmp_path / version / "zh-en", int(version))
    with (
        replica_set(tmp_path / live, 1) as servers,
        replica_set(tmp_path / candidate, 1) as candidates,
        envoy.Proxy(program, file="canary.yaml", servers=servers.addresses, candidates=candidates.addresses) as proxy,
        TranslationClient(proxy.address) as client,
    ):
        answers = [client.translate_one("你好。", max_target_length=4) for _ in range(CALLS)]
        asked = {
            name: proxy.value("envoy_cluster_upstream_rq_completed", envoy_cluster_name=name)
            for name in ("servers", "candidates")
        }
    versions = Counter(answer.model_version for answer in answers)
    assert len({answer.text for answer in answers}) == 1
    # Of 300 calls 30 are expected, with a standard deviation of 5.
    assert 0 < versions[candidate] < versions[live]
    # Copies go to the candidates besides, and 15 of them are expected.
    assert asked == {"servers": versions[live], "candidates": pytest.approx(versions[candidate] + 15, abs=14)}
