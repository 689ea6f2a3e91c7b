"""What every command of this room is: flags, and a function."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Command(BaseModel):
    """Flags of a command, and its function."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, extra="forbid")

    def run(self) -> None:
        """Run the command."""
        raise NotImplementedError
