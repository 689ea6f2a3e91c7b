"""What all tests share."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Nothing may depend on how fast the machine is, and a failure on one machine must be a failure on all.
settings.register_profile("xuanzang", deadline=None, derandomize=True, database=None)
settings.load_profile("xuanzang")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the developer has exported for a server of their own out of the tests."""
    for name in [name for name in os.environ if name.startswith("XUANZANG_")]:
        monkeypatch.delenv(name)


# --- Bundles: the fixture `tiny_bundle_repository` belongs below. ---
