"""Models and glossaries that a server offers: frozen values without gRPC or protobuf types."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGlossary:
    """A glossary that the server holds."""

    name: str
    """Name for `glossary_name`."""
    source_language: str
    """BCP-47 code of the language of its terms."""
    target_language: str
    """BCP-47 code of the language of their translations."""
    version: str
    """Version that its author has written; may be empty."""
    entry_count: int
    """Number of terms."""
    sha256: str
    """SHA-256 of its file."""
    display_name: str = ""
    """Name for people; may be empty."""
