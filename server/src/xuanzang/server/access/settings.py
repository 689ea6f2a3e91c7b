"""Settings of access: the keys file, and callers without a key."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, FilePath


class AccessSettings(BaseModel):
    """Who may call."""

    model_config = ConfigDict(frozen=True)

    keys_file: FilePath | None = Field(
        default=None,
        description="File of API keys, as written by `xuanzang-server keys add`; read again when it changes.",
    )
    anonymous: bool | None = Field(
        default=None,
        description="Answer callers without an API key. Unless set: on for a loopback --address, and with "
        "--tls-client-ca and no --keys-file.",
    )
    admin_anonymous: bool | None = Field(
        default=None,
        description="Answer administrators without an API key. Unless set: on for a loopback --admin-address, and with "
        "--tls-client-ca; otherwise keys of the role admin are needed.",
    )
