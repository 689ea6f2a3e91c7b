"""Diagnosis of a server that was never reached: a look at each address, without gRPC and without a key.

gRPC names the last of a host's addresses that failed, and of a server with TLS it says "Socket closed".
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from xuanzang.client._calls.targets import endpoints
from xuanzang.client._reliability.first_contact import Finding
from xuanzang.client._values.options import TLSConfig

_SECONDS = 0.5
_MAX_ADDRESSES = 4
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # and empty SETTINGS
_HEAD_BYTES = 9
_SETTINGS = 4
_ALERT = b"\x15\x03"
_ALERTS = ("SSLV3_ALERT_", "TLSV1")
"""Beginnings of OpenSSL's names of alerts, such as TLSV1_UNRECOGNIZED_NAME, with which proxies refuse names."""

_USE_TLS = "speaks TLS, and this client does not: give it tls=TLSConfig(…) (--tls, --tls-ca PEM)"
_NO_TLS = "does not speak TLS, and this client does: leave tls (--tls…) out, or give the address of a server with TLS"
_OTHER_PROTOCOL = "speaks HTTP/1, not gRPC: give the gRPC port of a server, not that of a gateway or of metrics"
_UNTRUSTED = "its authority must be in tls.root_certificates (--tls-ca)"
_OTHER_NAME = "tls.server_name (--tls-server-name) says under which name the certificate is valid"
_WANTS = "wants a client certificate: tls.certificate_chain and tls.private_key (--tls-cert, --tls-key)"
_NO_PEM = "tls.root_certificates (--tls-ca) holds no certificate in PEM"
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")


def examined(target: str, tls: TLSConfig | None, *, uses_proxy: bool) -> Finding | None:
    """Return what keeps a client from a server; None if nothing does, or it cannot be told.

    Args:
        uses_proxy: Whether a proxy that the environment names is used.
    """
    if uses_proxy and any(os.environ.get(name) for name in _PROXIES):
        return None
    try:
        _context(tls or TLSConfig())
    except (ssl.SSLError, ValueError):
        return _mismatch(_NO_PEM)
    causes: list[Finding] = []
    for host, port in endpoints(target) or ():
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            causes.append(Finding(text=f"{host} has no address: {error.strerror}"))
            continue
        except UnicodeError:
            causes.append(Finding(text=f"{host} has no address: it is no name that a host can have"))
            continue
        for address in list(dict.fromkeys((each[0], each[4]) for each in addresses))[:_MAX_ADDRESSES]:
            cause = _cause(*address, host=host, tls=tls)
            if cause is None:
                return None
            name = f"[{address[1][0]}]:{port}" if address[0] is socket.AF_INET6 else f"{address[1][0]}:{port}"
            causes.append(Finding(text=f"{name} {cause.text}", is_final=cause.is_final))
    if not causes:
        return None
    return Finding(text="; ".join(each.text for each in causes), is_final=any(each.is_final for each in causes))


def _cause(family: int, address: tuple[object, ...], *, host: str, tls: TLSConfig | None) -> Finding | None:
    """Return the fault of one address."""
    try:
        if tls is not None:
            return _fault_with_tls(family, address, tls, tls.server_name or host)
        with _connected(family, address) as plain:
            head = _answer(plain)
        if head != b"":
            return _fault_of(head)
        return _mismatch(_USE_TLS) if _speaks_tls(family, address) else Finding(text="closes connections at once")
    except ConnectionRefusedError:
        return Finding(text="refuses connections")
    except TimeoutError:
        return Finding(text="does not answer")
    except OSError as error:
        return Finding(text=f"cannot be reached: {error.strerror or error}")


@contextmanager
def _connected(
    family: int, address: tuple[object, ...], context: ssl.SSLContext | None = None, name: str | None = None
) -> Iterator[socket.socket]:
    """Connect to an address and, given a context, shake hands for TLS."""
    with socket.socket(family, socket.SOCK_STREAM) as plain:
        # It is wrapped before it is connected: Python leaks a connected one whose peer is gone by then.
        wrapped = context.wrap_socket(plain, server_hostname=name, suppress_ragged_eofs=False) if context else plain
        with wrapped:
            wrapped.settimeout(_SECONDS)
            wrapped.connect(address)
            yield wrapped


def _fault_of(head: bytes | None) -> Finding | None:
    """Return the fault of a server by its answer to HTTP/2; None: it did not answer in time."""
    if head is None or (len(head) == _HEAD_BYTES and head[3] == _SETTINGS):
        return None
    return _mismatch(_USE_TLS if head.startswith(_ALERT) else _OTHER_PROTOCOL)


def _mismatch(text: str) -> Finding:
    return Finding(text=text, is_final=True)


def _fault_with_tls(family: int, address: tuple[object, ...], tls: TLSConfig, name: str) -> Finding | None:
    """Return why a server is none for a client with TLS."""
    try:
        with _connected(family, address, _context(tls), name) as encrypted:
            head = _answer(encrypted)
    except ssl.SSLCertVerificationError as error:
        hint = _OTHER_NAME if "mismatch" in error.verify_message else _UNTRUSTED
        return _mismatch(f"shows a certificate that is not trusted: {error.verify_message}; {hint}")
    except ssl.SSLEOFError:
        return Finding(text="closes connections during the TLS handshake")
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
            return None if tls.certificate_chain else _mismatch(_WANTS)
        return _mismatch(f"ends the TLS handshake: {reason}" if reason.startswith(_ALERTS) else _NO_TLS)
    if head != b"":
        return _fault_of(head)
    # gRPC's servers close without a reason where others say that they want a certificate.
    perhaps = "" if tls.certificate_chain else f", perhaps because it {_WANTS}"
    return Finding(text=f"closes the connection after the TLS handshake{perhaps}")


def _context(tls: TLSConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.root_certificates is None:
        # gRPC has its own list of public authorities, and names certificates that they have not signed.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=tls.root_certificates.decode())
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["h2"])
    return context


def _speaks_tls(family: int, address: tuple[object, ...]) -> bool:
    try:
        with _connected(family, address, _context(TLSConfig())):
            return True
    except ssl.SSLError as error:
        return (error.reason or "").startswith(_ALERTS)
    except OSError:
        return False


def _answer(connected: socket.socket) -> bytes | None:
    """Begin to speak HTTP/2, and return the first bytes of the answer; none if the other side closes, None in time."""
    try:
        connected.sendall(_PREFACE)
        head = b""
        while len(head) < _HEAD_BYTES and (received := connected.recv(_HEAD_BYTES)):
            head += received
    except TimeoutError:
        return None
    except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return b""
    return head
