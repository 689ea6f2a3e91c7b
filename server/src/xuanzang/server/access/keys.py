"""API keys, and the file that holds them."""

from __future__ import annotations

import hmac
import re
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from xuanzang.server.access.errors import KeysFileError
from xuanzang.server.bundles.files import validation_faults
from xuanzang.server.whole_files import locked, remove_abandoned, write_whole

_SALT_BYTES = 32
_SECRET_BYTES = 32
_ID_BYTES = 6
_KEY = re.compile(r"xz_(?P<id>[A-Za-z0-9-]{1,64})_[0-9a-f]+")

Hex256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
Limit = Annotated[int, Field(ge=1, le=10**12)]
ModelName = Annotated[str, Field(pattern=r"^[^\s/]+(/[0-9]+)?$", max_length=256)]


Role = Literal["caller", "admin"]
"""Role of a key: "caller" translates, "admin" administers models. No key has both."""
_MODE = 0o600


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
    requests_per_minute: Limit | None = None
    """Requests that fit into a minute; None for no limit. A text of a stream is a request."""
    characters_per_minute: Limit | None = None
    """Characters of texts that fit into a minute; None for no limit."""
    concurrent_sentences: Limit | None = None
    """Sentences in translation at the same time; None for no limit."""
    models: Annotated[tuple[ModelName, ...], Field(min_length=1)] | None = None
    """Allowed models, as "NAME" or "NAME/VERSION"; None for all."""
    role: Role = "caller"
    """Role of the key: translation, or the administration of models."""
    revoked: bool = False

    def is_of(self, presented: str) -> bool:
        """Return whether a text is the key, found in a time that does not depend on how much of it is right."""
        digest = digest_of(presented, bytes.fromhex(self.salt))
        return hmac.compare_digest(digest, bytes.fromhex(self.hash))


def new_key(name: str, **allowed: object) -> tuple[str, ApiKey]:
    """Make a key and its entry in the keys file, or raise ValidationError; only its holder keeps the key.

    The key's permissions are fields of the entry, such as `requests_per_minute`.
    """
    key_id = secrets.token_hex(_ID_BYTES)
    key = f"xz_{key_id}_{secrets.token_hex(_SECRET_BYTES)}"
    salt = secrets.token_bytes(_SALT_BYTES)
    created = datetime.now(UTC).replace(microsecond=0)
    own = {"id": key_id, "name": name, "salt": salt.hex(), "hash": digest_of(key, salt).hex(), "created": created}
    return key, ApiKey.model_validate(own | allowed)


def id_of(presented: str) -> str:
    """Return the id in a key."""
    match = _KEY.fullmatch(presented)
    return match["id"] if match else ""


def digest_of(key: str, salt: bytes) -> bytes:
    """Return what the keys file holds of a key."""
    return hmac.digest(salt, key.encode(errors="replace"), "sha256")


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    format: Literal[1] = 1
    keys: tuple[ApiKey, ...]


def read_keys(file: Path) -> tuple[ApiKey, ...]:
    """Read the entries of a keys file, or raise KeysFileError, which names the first faults."""
    try:
        content = _Content.model_validate_json(file.read_bytes())
    except OSError as error:
        raise KeysFileError(f"keys file {file}: {error.strerror}") from error
    except ValidationError as error:
        # Without the values, and without the cause, whose text has them.
        raise KeysFileError(f"keys file {file}: {validation_faults(error)}") from None
    [(doubled, count)] = Counter(key.id for key in content.keys).most_common(1) or [("", 0)]
    if count > 1:
        raise KeysFileError(f"keys file {file}: two entries have the id {doubled}")
    return content.keys


def change_keys(file: Path, change: Callable[[tuple[ApiKey, ...]], Sequence[ApiKey]]) -> None:
    """Change the entries of a keys file, or make it; readers never see half of it, and no other change is lost.

    If it is a link, its target is replaced. KeysFileError says that it cannot be read or written.
    """
    target = file.resolve()
    try:
        with locked(target.parent):
            remove_abandoned(target.parent, target.name)
            old = read_keys(target) if target.exists() else ()
            content = _Content(keys=tuple(change(old))).model_dump_json(indent=1) + "\n"
            write_whole(target, content.encode(), mode=_MODE)
    except KeysFileError:
        raise
    except OSError as error:
        raise KeysFileError(f"keys file {file}: {error.strerror}") from error
