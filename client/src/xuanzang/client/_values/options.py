"""Options of clients and translations: frozen values without gRPC or protobuf types."""

from __future__ import annotations

import ast
import enum
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., object])


class ProtectedPattern(enum.Enum):
    """Kind of text that is not translated; its name in lower case, such as "url", will do as well."""

    UNSPECIFIED = 0
    """None, or one unknown to this version."""
    URL = 1
    """Addresses of pages."""
    EMAIL = 2
    """Addresses of mail."""
    CODE = 3
    """Text between backticks, and names such as max_size, parseDate, open() and --force."""
    PLACEHOLDER = 4
    """Placeholders such as {name}, ${name}, %s and %(name)s."""
    NUMBER = 5
    """Numbers in digits."""
    TAG = 6
    """Tags and entities of markup."""


def lists_options(kind: Any) -> Callable[[Method], Method]:
    """Return a decorator that puts options with their meanings into the docstring of a method, where help() shows them.

    Args:
        kind: Type of the options; the docstring names it.
    """

    def listing(method: Method) -> Method:
        if method.__doc__:
            named = f"Keyword arguments listed in {kind.__name__}."
            method.__doc__ = method.__doc__.replace(named, _listed(kind) or named)
        return method

    return listing


@cache
def _listed(kind: Any) -> str:
    """Return lines of the options of a type and their descriptions; nothing if its source is unavailable."""
    try:
        # The whole module's, as looking for the class takes longer.
        tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    except OSError:
        return ""
    classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
    bases = [ast.unparse(base) for base in classes[kind.__name__].bases]
    lines = ["Keyword arguments; those left out or None have the default of the server:"]
    for option, meaning in (
        each for name in (*bases, kind.__name__) if name in classes for each in pairwise(classes[name].body)
    ):
        if isinstance(option, ast.AnnAssign) and isinstance(meaning, ast.Expr):
            text = " ".join(str(ast.literal_eval(meaning.value)).split())
            lines.append(f"{ast.unparse(option.target)} ({ast.unparse(option.annotation)}): {text}")
    return f"\n{' ' * 16}".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TLSConfig:
    """TLS settings; certificates and keys are PEM bytes. `TLSConfig()` trusts the public certificate authorities."""

    root_certificates: bytes | None = None
    """Authorities trusted to sign the server's certificate; None: the public ones."""
    certificate_chain: bytes | None = None
    """Client certificate for servers that ask for one; needs `private_key`."""
    private_key: bytes | None = None
    """Private key of the client certificate; needs `certificate_chain`."""
    server_name: str | None = None
    """Name in the server's certificate, if it differs from the address."""

    def __post_init__(self) -> None:
        if (self.certificate_chain is None) != (self.private_key is None):
            raise ValueError("certificate_chain and private_key go together: give both or neither")
