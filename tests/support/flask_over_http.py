"""Flask's test client over HTTP: the conftest.py with which LibreTranslate's own tests run against a gateway."""

from __future__ import annotations

import json as json_module
import os
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import pytest


class Response:
    """The answer of Flask's client, as far as the tests look at it."""

    def __init__(self, status_code: int, data: bytes) -> None:
        self.status_code = status_code
        self.data = data

    @property
    def json(self) -> Any:
        """The body."""
        return json_module.loads(self.data)


class Client:
    """Flask's client."""

    def get(self, path: str) -> Response:
        return self._send("GET", path, None, {})

    def post(self, path: str, *, data: dict[str, str] | None = None, json: Any = None) -> Response:
        if json is not None:
            return self._send("POST", path, json_module.dumps(json).encode(), {"content-type": "application/json"})
        form = urllib.parse.urlencode(data or {}).encode()
        return self._send("POST", path, form, {"content-type": "application/x-www-form-urlencoded"})

    def _send(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Response:
        address = os.environ["GATEWAY_URL"] + path
        request = urllib.request.Request(address, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request) as response:
                return Response(response.status, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Response(error.code, error.read())


@pytest.fixture
def client() -> Client:
    return Client()
