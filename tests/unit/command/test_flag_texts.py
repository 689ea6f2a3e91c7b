"""Texts of flags: what the docstrings beneath the fields of a model say."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field

from xuanzang.command.settings import field_texts, read_flags


class _Shared(BaseModel):
    port: int = 1
    """Port to listen on.

    Above 1023."""
    silent: bool = False


class _Own(_Shared):
    """Serve something."""

    name: str = Field(default="", description="Name that is shown.")
    """Text that readers of the source see."""
    port: int = 2
    """Another port, 10% off."""


def test_the_docstring_nearest_to_the_model_counts_and_a_description_before_it() -> None:
    assert field_texts(_Own) == {"port": "Another port, 10% off.", "name": "Name that is shown."}
    assert field_texts(_Shared) == {"port": "Port to listen on.\n\nAbove 1023."}


def test_help_shows_the_texts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_flags(_Own, ["--help"], program="xuanzang own")
    shown = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert "--port N Another port, 10% off (default: 2)" in shown
    assert "--name TEXT Name that is shown" in shown
