"""Transfer of files over HTTP: within sizes that were announced, continued where it stopped, checked by digests."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast
from urllib.parse import urlsplit

import httpx2
import zstandard
from tqdm import tqdm

from xuanzang.hub.registry import ATTACHMENTS_URL, Addresses, Registry, RegistryFile, parse_registry
from xuanzang.server.published import HubError

_ATTEMPTS = 4
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_TIMEOUT = httpx2.Timeout(30.0)
_CHUNK = 1 << 16
_MAX_REGISTRY_BYTES = 64 << 20
_MAX_FILE_BYTES = 1 << 30
"""Limit where a registry does not say how large a file is."""
_MAX_WINDOW = 1 << 27
"""Bytes of memory that a compressed file may ask for."""
_ZSTD, _GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"

Report = Callable[[str], None]
Result = TypeVar("Result")


class _DamagedError(Exception):
    """A file is not what its registry says; the message says how."""


class _PassingError(Exception):
    """A temporary fault: the same request may succeed later."""


def _require_address(address: str, option: str) -> None:
    """Raise HubError unless an option is an address of HTTP."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not re.search(r"\s", address):
            return
    raise HubError(f"{option} must be an address such as https://example.org/models, is {address[:200]!r}")


def fetch_registry(addresses: Addresses, report: Report, *, seconds: float | None = None) -> Registry:
    """Return the registry at an address; raise HubError if it does not come, or is none.

    Args:
        addresses: Its address.
        report: Called with lines for the user.
        seconds: Limit of a single attempt; None for several attempts.
    """
    address = addresses.records
    _require_address(address, "--records-url")

    def attempt(client: httpx2.Client) -> bytes:
        with _answer(client, address, {}) as answer:
            content = bytearray()
            for chunk in answer.iter_bytes():
                content += chunk
                if len(content) > _MAX_REGISTRY_BYTES:
                    raise HubError(f"{address} answers with more than {_MAX_REGISTRY_BYTES} bytes")
            return bytes(content)

    content = _repeated(address, attempt, report) if seconds is None else _once(address, attempt, seconds)
    return parse_registry(content, address)


def files_address(addresses: Addresses, registry: Registry) -> str:
    """Return the address that a registry's files lie below; raise HubError if it is none."""
    if addresses.attachments:
        _require_address(addresses.attachments, "--attachments-url")
        return addresses.attachments
    if registry.files_address:
        _require_address(registry.files_address, "baseUrl of the registry")
    return registry.files_address or ATTACHMENTS_URL


def fetch_file(file: RegistryFile, address: str, folder: Path, report: Report) -> Path:
    """Transfer a file into a folder, unless it is there, and return its path, decompressed.

    A partial download stays in `NAME.part`, and the next call goes on from there.

    Args:
        file: Its place below the address, and what its registry knows of it.
        address: Address of the files.
        folder: Folder that nothing else writes to.
        report: Called with lines for the user.

    Raises:
        HubError: It does not come, or it is not what the registry says.
        OSError: It cannot be written.
    """
    path, part = folder / file.name, folder / f"{file.name}.part"
    if path.is_file():
        return path
    where = f"{address.rstrip('/')}/{file.location}"

    def attempt(client: httpx2.Client) -> None:
        _continue(client, where, part, file)

    if file.size is None or not part.is_file() or part.stat().st_size != file.size:
        _repeated(where, attempt, report)
    whole = folder / f"{file.name}.whole"
    try:
        _require_digest(part, file.sha256, "as sent")
        _decompress(part, whole, file.content_size)
        _require_digest(whole, file.content_sha256, "decompressed")
    except (_DamagedError, zstandard.ZstdError, zlib.error, gzip.BadGzipFile, EOFError) as error:
        part.unlink()
        whole.unlink(missing_ok=True)
        raise HubError(f"{file.name} came damaged: {error}; it is deleted, so the next run fetches it again") from error
    whole.rename(path)
    part.unlink()
    return path


def _repeated(where: str, attempt: Callable[[httpx2.Client], Result], report: Report) -> Result:
    with _faults_of(where, "; the next run goes on where it stopped"), _client(_TIMEOUT) as client:
        for number in range(1, _ATTEMPTS):
            try:
                return attempt(client)
            except httpx2.UnsupportedProtocol:
                raise
            except (httpx2.TransportError, _PassingError) as error:
                report(f"{where} does not answer ({_reason(error)}); asking again")
            time.sleep(2.0**number / 4)
        return attempt(client)


def _once(where: str, attempt: Callable[[httpx2.Client], Result], seconds: float) -> Result:
    """Make one attempt within some seconds, the look-up of the address included, which has no limit of its own."""
    outcome: Future[Result] = Future()

    def work() -> None:
        try:
            with _client(httpx2.Timeout(seconds)) as client:
                outcome.set_result(attempt(client))
        except Exception as error:  # noqa: BLE001 - the caller raises it
            outcome.set_exception(error)

    threading.Thread(target=work, name="attempt", daemon=True).start()
    with _faults_of(where):
        try:
            return outcome.result(seconds)
        except TimeoutError as error:
            raise _PassingError(f"no whole answer within {seconds:g} seconds") from error


def _client(timeout: httpx2.Timeout) -> httpx2.Client:
    return httpx2.Client(timeout=timeout, follow_redirects=False)


@contextlib.contextmanager
def _faults_of(where: str, advice: str = "") -> Iterator[None]:
    """Raise HubError for a request that failed; `advice` follows the reason of a fault that may pass."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, _PassingError) as error:
        may_pass = isinstance(error, (httpx2.TransportError, _PassingError))
        raise HubError(f"{where} did not come: {_reason(error)}{advice if may_pass else ''}") from error


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


@contextlib.contextmanager
def _answer(client: httpx2.Client, where: str, headers: dict[str, str]) -> Iterator[httpx2.Response]:
    with client.stream("GET", where, headers=headers) as answer:
        if answer.status_code in _TRANSIENT:
            raise _PassingError(f"HTTP status {answer.status_code}")
        if answer.is_redirect and (elsewhere := answer.headers.get("Location", "")[:500]):
            raise HubError(f"{where} leads to {elsewhere}: give that address")
        if answer.status_code not in (200, 206, 416):
            raise HubError(f"{where} did not come: HTTP status {answer.status_code}")
        yield answer


def _continue(client: httpx2.Client, where: str, part: Path, file: RegistryFile) -> None:
    """Receive the rest of a file into `part`, all of it if the server does not send parts."""
    present = part.stat().st_size if part.is_file() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={present}-"} if present else {})
    with _answer(client, where, headers) as answer:
        if answer.status_code == 416:
            # The file is whole, or another one than before; its digest tells, if it has one.
            if (file.sha256 or file.content_sha256) and answer.headers.get("Content-Range") == f"bytes */{present}":
                return
            part.unlink()
            raise _PassingError("the file on the server is shorter than the part that is here")
        if answer.status_code == 206 and not answer.headers.get("Content-Range", "").startswith(f"bytes {present}-"):
            raise HubError(f"{where} sends another part of the file than it was asked for")
        present = present if answer.status_code == 206 else 0
        limit = file.size or _MAX_FILE_BYTES
        announced = answer.headers.get("Content-Length", "")
        total = present + int(announced) if announced.isdecimal() else file.size
        with part.open("ab" if present else "wb") as output, _bar(file.name, total, present) as bar:
            for chunk in answer.iter_raw():
                present += len(chunk)
                if present > limit:
                    output.close()
                    part.unlink()
                    raise HubError(f"{where} sends more than the {limit} bytes that {file.name} may have")
                output.write(chunk)
                bar.update(len(chunk))
    if present < (file.size or 0):
        raise _PassingError(f"{present} of {file.size} bytes came")


def _bar(name: str, total: int | None, present: int) -> tqdm[Any]:
    return tqdm(total=total, initial=present, desc=name, unit="B", unit_scale=True, leave=False, disable=None)


def _require_digest(path: Path, wanted: str | None, form: str) -> None:
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if digest != (wanted or digest):
        raise _DamagedError(f"its SHA-256, {form}, is {digest}, the registry says {wanted}")


def _decompress(compressed: Path, whole: Path, size: int | None) -> None:
    """Write the content of a file, of as many bytes as the registry says, if it says that."""
    limit = size or _MAX_FILE_BYTES
    count = 0
    with _decompressing(compressed) as source, whole.open("wb") as output:
        while count <= limit and (chunk := source.read(_CHUNK)):
            count += len(chunk)
            output.write(chunk)
    if count > limit or count != (size or count):
        wanted = f"{size}" if size else f"at most {limit}"
        raise _DamagedError(f"it has {count}{' or more' * (count > limit)} bytes, decompressed, not {wanted}")


@contextlib.contextmanager
def _decompressing(path: Path) -> Iterator[BinaryIO]:
    """Yield the content of a file, by what its first bytes say it is; memory is bounded whatever it holds."""
    with path.open("rb") as source:
        head = source.read(4)
        source.seek(0)
        if head == _ZSTD:
            reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(
                source, read_across_frames=True
            )
            yield cast("BinaryIO", reader)
        elif head[:2] == _GZIP:
            yield cast("BinaryIO", gzip.GzipFile(fileobj=source))
        else:
            yield source
