"""API keys: what a caller presents, and what the server keeps of it.

A key is `xz_ID_SECRET`. The id is public: it stands in the keys file, in metrics and in logs. The secret has 256 random
bits and is shown once, when the key is made; the file holds a salt of the key's own and the HMAC-SHA256 of the key
under that salt.

A slow hash such as scrypt protects passwords, of which a thief of the file can guess the likely ones. Nobody can guess
256 random bits, however fast the hash is, and a slow one would cost every request tens of milliseconds of a core and
give those who send wrong keys a lever against all others. The salt keeps equal keys of two files from being recognised.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

_SALT_BYTES = 32
_SECRET_BYTES = 32
_ID_BYTES = 6
_KEY = re.compile(r"xz_(?P<id>[A-Za-z0-9-]{1,64})_[0-9a-f]+")

Hex256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
Limit = Annotated[int, Field(ge=1, le=10**12)]
ModelName = Annotated[str, Field(pattern=r"^[^\s/]+(/[0-9]+)?$", max_length=256)]


Role = Literal["caller", "admin"]
"""What a key is for: "caller" translates, "admin" administers models. None is for both."""


class ApiKey(BaseModel):
    """An entry of the keys file."""

    # Built when it is used first: most of the time that importing this takes.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]
    """Public name of the key, a part of it."""
    name: Annotated[str, Field(min_length=1, max_length=128)]
    """Holder of the key, in the operator's words."""
    salt: Hex256
    """Key of the HMAC, hexadecimal."""
    hash: Hex256
    """HMAC-SHA256 of the key, hexadecimal."""
    created: AwareDatetime
    """Time at which the key was made."""
    requests_per_minute: Limit | None = None
    """Requests that fit into a minute; None for no limit. A text of a stream is a request."""
    characters_per_minute: Limit | None = None
    """Characters of texts that fit into a minute; None for no limit."""
    concurrent_sentences: Limit | None = None
    """Sentences in translation at the same time; None for no limit."""
    models: Annotated[tuple[ModelName, ...], Field(min_length=1)] | None = None
    """Allowed models, as "NAME" or "NAME/VERSION"; None for all."""
    role: Role = "caller"
    """What the key is for: translation, or the administration of models."""
    revoked: bool = False
    """Whether the key is refused."""


def new_key(
    name: str,
    *,
    requests_per_minute: int | None = None,
    characters_per_minute: int | None = None,
    concurrent_sentences: int | None = None,
    models: Sequence[str] | None = None,
    role: Role = "caller",
) -> tuple[str, ApiKey]:
    """Make a key.

    Args:
        name: Holder of the key.
        requests_per_minute: Limit, or None.
        characters_per_minute: Limit, or None.
        concurrent_sentences: Limit, or None.
        models: Allowed models, or None for all.
        role: What the key is for.

    Returns:
        The key, which only its holder keeps, and its entry in the keys file.

    Raises:
        ValidationError: A value is out of range.
    """
    key_id = secrets.token_hex(_ID_BYTES)
    key = f"xz_{key_id}_{secrets.token_hex(_SECRET_BYTES)}"
    salt = secrets.token_bytes(_SALT_BYTES)
    entry = ApiKey(
        id=key_id,
        name=name,
        salt=salt.hex(),
        hash=digest_of(key, salt).hex(),
        created=datetime.now(UTC).replace(microsecond=0),
        requests_per_minute=requests_per_minute,
        characters_per_minute=characters_per_minute,
        concurrent_sentences=concurrent_sentences,
        models=None if models is None else tuple(models),
        role=role,
    )
    return key, entry


def id_of(presented: str) -> str:
    """Return the id in a key.

    Args:
        presented: What a caller presents as its key.

    Returns:
        The id; empty if the text does not have the form of a key.
    """
    match = _KEY.fullmatch(presented)
    return match["id"] if match else ""


def digest_of(key: str, salt: bytes) -> bytes:
    """Return what the keys file holds of a key.

    Args:
        key: The key.
        salt: Salt of its entry.
    """
    return hmac.digest(salt, key.encode(errors="replace"), "sha256")


class StoredHash(NamedTuple):
    """What the server keeps of a key, to recognise it by."""

    salt: bytes
    digest: bytes

    @classmethod
    def of(cls, entry: ApiKey) -> Self:
        """Take the salt and the hash of an entry.

        Args:
            entry: Entry of the keys file.
        """
        return cls(bytes.fromhex(entry.salt), bytes.fromhex(entry.hash))

    def is_of(self, presented: str) -> bool:
        """Whether a text is the key, found in a time that does not depend on how much of it is right.

        Args:
            presented: What a caller presents as its key.
        """
        return hmac.compare_digest(digest_of(presented, self.salt), self.digest)
