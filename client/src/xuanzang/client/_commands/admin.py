"""The command `xuanzang admin`: shows and changes the models of a running server."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import grpc

from xuanzang.admin.v1 import admin_pb2 as pb
from xuanzang.admin.v1 import admin_pb2_grpc
from xuanzang.client._calls.channel import metadata, opener
from xuanzang.client._calls.metadata import VARIABLE, checked_key
from xuanzang.client._calls.targets import targets
from xuanzang.client._commands.connection_arguments import add_security, key_in, tls_config
from xuanzang.command.parser import CommandParser, fail

ADDRESS = "XUANZANG_ADMIN_ADDRESS"
# A bundle is tried for five minutes at the most, then loaded.
_TIMEOUT_SECONDS = 600.0
_PROGRAM = "xuanzang admin"
Answer = pb.Model | pb.Evaluation
_BAD_ANSWERS: Mapping[str, Callable[[Any], object]] = {
    "reload": lambda model: model.refusal_reasons,
    "evaluate": lambda evaluation: not evaluation.passed,
}
"""By command, the answers that are reported by the exit status."""


Administration = Callable[[str, Any], Any]
"""Function that calls a method of a running server by its name, with a request."""


def add_connection_options(parser: ArgumentParser, address: str) -> None:
    """Add the options that say which server is administered, and how it is reached."""
    parser.add_argument(
        "--admin-address",
        default=address,
        metavar="HOST:PORT",
        help=f"address that the server has as --admin-address, or a port of 127.0.0.1 ({ADDRESS})",
    )
    add_security(parser)
    parser.add_argument(
        "--timeout-seconds", type=float, default=_TIMEOUT_SECONDS, metavar="SECONDS", help="default: %(default)g"
    )


@contextmanager
def administration(options: Namespace, environment: Mapping[str, str]) -> Iterator[Administration]:
    """Open the connection that the options of `add_connection_options` describe, and close it afterwards.

    Raises:
        OSError: A file cannot be read.
        ValueError: The address or a combination of options is not valid, or the key would cross a network in plain
            text.
    """
    address, tls = _target(options.admin_address), tls_config(options)
    key = checked_key(
        key_in(options.api_key_file) or environment.get(VARIABLE, ""),
        [address],
        has_tls=tls is not None,
        allow_insecure_key=options.allow_insecure_key,
    )
    # A proxy that the environment names would see the data in plain text.
    settings: list[tuple[str, str | int]] = [("grpc.enable_http_proxy", int(tls is not None))]
    if tls and tls.server_name:
        settings.append(("grpc.ssl_target_name_override", tls.server_name))
    with opener(grpc, tls)(address, options=settings) as channel:
        stub, timeout, pairs = admin_pb2_grpc.ModelServiceStub(channel), options.timeout_seconds, metadata(None, key)
        yield lambda rpc, request: getattr(stub, rpc)(request, metadata=pairs, timeout=timeout)


def _target(text: str) -> str:
    """Return the address of a server, whose port must be named."""
    address = f"127.0.0.1:{text}" if text.isdecimal() else text
    try:
        [target] = targets(address)
    except ValueError:
        target = ""
    if target != address:
        raise ValueError(f"--admin-address must be host:port, such as 127.0.0.1:50052 or [::1]:50052, not {address!r}")
    return target


def main(arguments: Sequence[str]) -> int:
    """Run the command; see `run_admin_command`."""
    return run_admin_command(arguments[1:], environment=os.environ)


def run_admin_command(arguments: Sequence[str], *, environment: Mapping[str, str]) -> int:
    """Show or change the models of a running server.

    Returns:
        Exit status: 0; 1 if the server refuses, cannot be reached, after a reload refuses a bundle, or would not let an
        evaluated version go live.

    Raises:
        SystemExit: With status 2, after a line on stderr that names the fault of the arguments.
    """
    parser = _parser(environment.get(ADDRESS, ""))
    options = parser.parse_args(arguments)
    if not options.admin_address:
        parser.error(f"--admin-address ({ADDRESS}) must be given")
    try:
        with administration(options, environment) as server:
            answers = list(_answers(server, options.rpc, options))
    except grpc.RpcError as error:
        is_plain = error.code() is grpc.StatusCode.UNAVAILABLE and tls_config(options) is None
        hint = "; if the server has TLS, give --tls-ca PEM or --tls" if is_plain else ""
        return _fail(f"{error.code().name}: {error.details()}{hint}")
    except ValueError as error:
        parser.error(str(error))
    except OSError as error:
        return _fail(str(error))
    for line in _lines(answers):
        sys.stdout.write(line + "\n")
    return int(any(map(options.is_bad, answers)))


def _fail(reason: str) -> int:
    return fail(_PROGRAM, reason, status=1)


def _parser(address: str) -> ArgumentParser:
    parser: ArgumentParser = CommandParser(
        prog=_PROGRAM, description="Shows and changes a server's models; its API key has the role admin."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, rpc, operands, text in _COMMANDS:
        sub = commands.add_parser(name, help=text, description=text)
        _add_operands(sub, operands)
        add_connection_options(sub, address)
        sub.set_defaults(rpc=rpc, is_bad=_BAD_ANSWERS.get(name, lambda _: False))
    return parser


def _add_operands(parser: ArgumentParser, operands: str) -> None:
    for operand in operands.split():
        if operand == "[--force]":
            text = "go live without being judged, for this reason, which is logged"
            parser.add_argument("--force", dest="force_reason", default="", metavar="REASON", help=text)
        else:
            parser.add_argument("name", metavar=operand)


def _answers(server: Administration, rpc: str, options: Namespace) -> Iterable[Answer]:
    """Call a method with the arguments that its request has fields for, and return the messages of its response."""
    kind = getattr(pb, f"{rpc}Request")
    given = {name: value for name, value in vars(options).items() if name in kind.DESCRIPTOR.fields_by_name}
    if "version" in kind.DESCRIPTOR.fields_by_name:
        given["name"], _, given["version"] = options.name.partition("/")
    response = server(rpc, kind(**given))
    # An evaluation is the reason for the state of the model, and stands before it.
    messages = [each for field, each in reversed(response.ListFields()) if not field.is_repeated]
    return messages or (response.models if hasattr(response, "models") else _answers(server, "ListModels", Namespace()))


_COMMANDS = (
    ("list", "ListModels", "", "show the versions that are loaded or in the folder of the models"),
    ("load", "LoadModel", "NAME[/VERSION]", "load a version from the folder, the highest unless one is given"),
    ("unload", "UnloadModel", "NAME/VERSION", "serve a version no more and free its memory"),
    ("reload", "ReloadModels", "", "load what is new in the folder, unload what is gone"),
    ("pin", "PinModel", "NAME/VERSION", "let a version answer requests that name none"),
    ("unpin", "UnpinModel", "NAME", "let the highest version answer requests that name none"),
    ("evaluate", "EvaluateModel", "NAME/VERSION", "judge a version by its certificate, golden set and agreement"),
    ("promote", "PromoteModel", "NAME/VERSION [--force]", "let a version go live if it is judged good enough"),
    ("rollback", "RollbackModel", "NAME", "let the version go live again that was live before"),
)
"""Command, method, operands, and description."""


def _lines(answers: Iterable[Answer]) -> Iterator[str]:
    for answer in answers:
        yield from _version_lines(answer) if isinstance(answer, pb.Model) else _check_lines(answer)


def _version_lines(model: pb.Model) -> Iterator[str]:
    """Yield a line of columns, followed by the reasons for refusing the version."""
    state = pb.ModelState.Name(model.state).removeprefix("MODEL_STATE_").lower()
    facts = (
        f"{model.name}/{model.version}",
        state,
        ",".join(_marks(model)) or "-",
        model.precision or "-",
        model.manifest_sha256[:12] or "-",
    )
    yield "\t".join(facts)
    yield from (f"  refused: {reason}" for reason in model.refusal_reasons)
    yield from (f"  not to go live: {reason}" for reason in model.promotion_refusals)


def _marks(model: pb.Model) -> Iterator[str]:
    marks = {"default": model.is_default, "pinned": model.is_pinned, "previous": model.is_previous}
    yield from (word for word, holds in marks.items() if holds)


def _check_lines(evaluation: pb.Evaluation) -> Iterator[str]:
    """Yield a line of columns for each measured value, followed by the reasons for refusing a version."""
    for check in evaluation.checks:
        yield f"{check.name}\t{check.measured:.4g}\tbound {check.bound:.4g}\t{'ok' if check.passed else 'missed'}"
    yield from (f"  not to go live: {reason}" for reason in evaluation.reasons)
