"""Settings of access. Health probes and `--help` read them, so nothing of a server is imported here."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, FilePath

ANYBODY = "*"
"""Value of `glossary_writers` for every caller that is answered."""

_KEY_IDS = re.compile(r"[A-Za-z0-9-]{1,64}(,[A-Za-z0-9-]{1,64})*")


def _checked_writers(text: str) -> str:
    if text not in ("", ANYBODY) and not _KEY_IDS.fullmatch(text):
        raise ValueError("must be ids of API keys with commas between them, or *")
    return text


def _checked_networks(text: str) -> str:
    for part in filter(None, text.split(",")):
        try:
            ipaddress.ip_network(part.strip())
        except ValueError:
            raise ValueError(
                "must be network addresses, such as 10.0.0.7 or 10.0.0.0/24, with commas between"
            ) from None
    return text


class AccessSettings(BaseModel):
    """Settings of who may call."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    keys_file: FilePath | None = None
    """File of API keys, as written by `xuanzang keys add`; read again when it changes."""
    anonymous: bool | None = None
    """Answer callers without an API key; unset: on a loopback --address, or with --tls-client-ca and no --keys-file."""
    admin_anonymous: bool | None = None
    """Answer administrators without an API key; unset: on a loopback --admin-address, or with --tls-client-ca."""
    trusted_proxies: Annotated[str, AfterValidator(_checked_networks)] = ""
    """Network addresses of proxies, such as 10.0.0.7,10.1.0.0/24, whose x-client-id names separate callers; unset:
    none, and a name counts within its network address."""
    glossary_writers: Annotated[str, AfterValidator(_checked_writers)] = ""
    """Callers who may store, delete and read glossaries: ids of API keys, separated by commas, or "*" for all;
    unset: none."""
