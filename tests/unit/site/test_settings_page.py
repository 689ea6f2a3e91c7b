"""The page of settings, written from the code."""

from __future__ import annotations

from settings_reference import page

from xuanzang.gateway.settings import Settings as GatewaySettings
from xuanzang.server.settings import Settings as ServerSettings


def test_the_page_has_a_row_for_every_setting_with_its_meaning() -> None:
    rows = [line.strip("| ").split(" | ") for line in page().splitlines() if line.startswith("| `--")]
    assert len(rows) == len(ServerSettings.model_fields) + len(GatewaySettings.model_fields)
    assert all(len(row) == 3 and len(row[2]) > 10 for row in rows)


def test_the_page_states_default_and_range() -> None:
    [row] = [line for line in page().splitlines() if line.startswith("| `--max-batch-sentences`")]
    assert row.startswith("| `--max-batch-sentences` | `32`; 1–1024 | Maximum")
