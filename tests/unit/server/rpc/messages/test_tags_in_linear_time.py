from __future__ import annotations

from functools import partial

import pytest
from hostile_texts import superlinear

from xuanzang.server.rpc.messages import requests

without_tags = partial(requests._TAGS.sub, " ")


def test_tags_are_left_out_of_a_text_in_linear_time() -> None:
    assert superlinear(without_tags, 1500, cheap=0.004) == []


@pytest.mark.slow
def test_tags_are_left_out_of_a_long_text_in_linear_time() -> None:
    assert superlinear(without_tags, 25_000, cheap=0.1) == []
