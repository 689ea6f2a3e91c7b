"""A check of HF_ENDPOINT, which the hub's library reads when it is imported."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from xuanzang.server.published import HubError


def require_endpoint() -> None:
    """Raise HubError if HF_ENDPOINT is set and no address: importing the hub's library could fail."""
    address = os.environ.get("HF_ENDPOINT", "")
    if address and not _is_address(address):
        raise HubError(f"HF_ENDPOINT must be an address such as https://huggingface.co, is {address!r}")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        return is_complete and not re.search(r"\s", text)
    except ValueError:
        return False
