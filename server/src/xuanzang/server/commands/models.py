"""The command `xuanzang-server models`: shows and changes the models of a running server."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from xuanzang.admin.v1 import admin_pb2 as pb
from xuanzang.admin.v1 import admin_pb2_grpc
from xuanzang.server.rpc.probe import channel_to
from xuanzang.server.settings import is_loopback

_PROGRAM = "xuanzang-server models"
_ADDRESS = "XUANZANG_ADMIN_ADDRESS"
_KEY = "XUANZANG_API_KEY"
# A bundle is tried for five minutes at the most, then loaded.
_TIMEOUT_SECONDS = 600.0

Answer = pb.Model | pb.Evaluation
Command = Callable[[Any, Namespace], Iterable[Answer]]


def run_models_command(arguments: Sequence[str], *, environment: Mapping[str, str]) -> int:
    """Show or change the models of a running server.

    Args:
        arguments: Command-line arguments after `models`.
        environment: Environment variables, for the address and the API key.

    Returns:
        Exit status: 0; 1 if the server refuses, cannot be reached, after a reload refuses a bundle, or would not let an
        evaluated version go live.

    Raises:
        SystemExit: With status 2, after a line on stderr that says what is wrong with the arguments.
    """
    parser = _parser(environment.get(_ADDRESS, ""))
    options = parser.parse_args(arguments)
    if not options.admin_address:
        parser.error(f"--admin-address ({_ADDRESS}) must be given")
    address = options.admin_address
    address = f"127.0.0.1:{address}" if address.isdecimal() else address
    command: Command = options.command
    try:
        options.call = {"timeout": options.timeout_seconds, "metadata": _metadata(options, address, environment)}
        with channel_to(address, tls_certificate=options.tls_certificate, tls_key=options.tls_key) as channel:
            answers = list(command(admin_pb2_grpc.ModelServiceStub(channel), options))
    except grpc.RpcError as error:
        return _fail(f"{error.code().name}: {error.details()}")
    except OSError as error:
        return _fail(str(error))
    for line in _lines(answers):
        sys.stdout.write(line + "\n")
    return int(any(map(options.is_bad, answers)))


def _metadata(options: Namespace, address: str, environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the metadata with the API key, if there is one.

    Raises:
        OSError: The file of the key cannot be read, or the key would cross the network in plain text.
    """
    file: Path | None = options.api_key_file
    key = file.read_text(encoding="utf-8").strip() if file else environment.get(_KEY, "")
    if not key:
        return ()
    host = address.rpartition(":")[0].strip("[]")
    if options.tls_certificate is None and not is_loopback(host):
        raise OSError(f"the API key is not sent to {host} in plain text: give --tls-certificate and --tls-key")
    return (("authorization", f"Bearer {key}"),)


def _fail(reason: str) -> int:
    sys.stderr.write(f"{_PROGRAM}: error: {reason}\n")
    return 1


def _parser(address: str) -> ArgumentParser:
    parser = ArgumentParser(_PROGRAM, description="Show and change the models of a running server.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command, operands, text in _COMMANDS:
        sub = commands.add_parser(name, help=text, description=text)
        _add_operands(sub, operands)
        sub.add_argument(
            "--admin-address",
            default=address,
            metavar="HOST:PORT",
            help=f"address that the server has as --admin-address, or a port of 127.0.0.1 ({_ADDRESS})",
        )
        sub.add_argument("--tls-certificate", type=Path, metavar="PATH", help="PEM file of the server's certificate")
        sub.add_argument("--tls-key", type=Path, metavar="PATH", help="PEM file of its private key")
        sub.add_argument(
            "--api-key-file",
            type=Path,
            metavar="PATH",
            help=f"file with a key of the role admin (or the key in ${_KEY})",
        )
        sub.add_argument(
            "--timeout-seconds", type=float, default=_TIMEOUT_SECONDS, metavar="SECONDS", help="default: %(default)g"
        )
        sub.set_defaults(command=command, is_bad=_BAD_ANSWERS.get(name, lambda _: False))
    return parser


def _add_operands(parser: ArgumentParser, operands: str) -> None:
    for operand in operands.split():
        if operand == "SHARE":
            parser.add_argument("share", metavar=operand, type=float, help="0 to 1; 0 ends it")
        elif operand == "[--force]":
            text = "go live without being judged, for this reason, which is logged"
            parser.add_argument("--force", default="", metavar="REASON", help=text)
        else:
            parser.add_argument("model", metavar=operand)


def _list(stub: Any, options: Namespace) -> Iterable[pb.Model]:
    answer: pb.ListModelsResponse = stub.ListModels(pb.ListModelsRequest(), **options.call)
    return answer.models


def _load(stub: Any, options: Namespace) -> Iterable[pb.Model]:
    name, version = _name_and_version(options)
    return [stub.LoadModel(pb.LoadModelRequest(name=name, version=version), **options.call).model]


def _unload(stub: Any, options: Namespace) -> Iterable[pb.Model]:
    name, version = _name_and_version(options)
    stub.UnloadModel(pb.UnloadModelRequest(name=name, version=version), **options.call)
    return _list(stub, options)


def _reload(stub: Any, options: Namespace) -> Iterable[pb.Model]:
    answer: pb.ReloadModelsResponse = stub.ReloadModels(pb.ReloadModelsRequest(), **options.call)
    return answer.models


def _pin(stub: Any, options: Namespace) -> Iterable[pb.Model]:
    name, version = _name_and_version(options)
    return [stub.PinModel(pb.PinModelRequest(name=name, version=version), **options.call).model]


def _unpin(stub: Any, options: Namespace) -> Iterable[pb.Model]:
    return [stub.UnpinModel(pb.UnpinModelRequest(name=options.model), **options.call).model]


def _evaluate(stub: Any, options: Namespace) -> Iterable[Answer]:
    name, version = _name_and_version(options)
    request = pb.EvaluateModelRequest(name=name, version=version)
    return [stub.EvaluateModel(request, timeout=options.timeout_seconds).evaluation]


def _promote(stub: Any, options: Namespace) -> Iterable[Answer]:
    name, version = _name_and_version(options)
    request = pb.PromoteModelRequest(name=name, version=version, force_reason=options.force)
    answer: pb.PromoteModelResponse = stub.PromoteModel(request, timeout=options.timeout_seconds)
    return [answer.evaluation, answer.model] if answer.HasField("evaluation") else [answer.model]


def _rollback(stub: Any, options: Namespace) -> Iterable[Answer]:
    return [stub.RollbackModel(pb.RollbackModelRequest(name=options.model), timeout=options.timeout_seconds).model]


def _canary(stub: Any, options: Namespace) -> Iterable[Answer]:
    return _share(stub, options, canary_weight=options.share)


def _shadow(stub: Any, options: Namespace) -> Iterable[Answer]:
    return _share(stub, options, shadow_share=options.share)


def _share(stub: Any, options: Namespace, **share: float) -> Iterable[Answer]:
    name, version = _name_and_version(options)
    request = pb.SetModelTrafficRequest(name=name, version=version, **share)
    return [stub.SetModelTraffic(request, timeout=options.timeout_seconds).model]


_BAD_ANSWERS: Mapping[str, Callable[[Any], object]] = {
    "reload": lambda model: model.refusal_reasons,
    "evaluate": lambda evaluation: not evaluation.passed,
}
"""By command, the answers that are reported by the exit status."""

_COMMANDS: tuple[tuple[str, Command, str, str], ...] = (
    ("list", _list, "", "show the versions that are loaded or in the folder of the models"),
    ("load", _load, "NAME[/VERSION]", "load a version from the folder, the highest unless one is given"),
    ("unload", _unload, "NAME/VERSION", "serve a version no more and free its memory"),
    ("reload", _reload, "", "load what is new in the folder, unload what is gone"),
    ("pin", _pin, "NAME/VERSION", "let a version answer requests that name none"),
    ("unpin", _unpin, "NAME", "let the highest version answer requests that name none"),
    ("evaluate", _evaluate, "NAME/VERSION", "judge a version by its certificate, golden set and agreement"),
    ("promote", _promote, "NAME/VERSION [--force]", "let a version go live if it is judged good enough"),
    ("rollback", _rollback, "NAME", "let the version go live again that was live before"),
    ("canary", _canary, "NAME/VERSION SHARE", "let a version answer a share of the requests that name none"),
    ("shadow", _shadow, "NAME/VERSION SHARE", "compare a version with the live one on a share of its requests"),
)


def _name_and_version(options: Namespace) -> tuple[str, str]:
    name, _, version = options.model.partition("/")
    return name, version


def _lines(answers: Iterable[Answer]) -> Iterator[str]:
    for answer in answers:
        yield from _version_lines(answer) if isinstance(answer, pb.Model) else _check_lines(answer)


def _version_lines(model: pb.Model) -> Iterator[str]:
    """Yield a line of columns, followed by the reasons for which the version is refused."""
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
    shares = {"canary": model.canary_weight, "shadow": model.shadow_share}
    yield from (f"{word}={share:g}" for word, share in shares.items() if share)


def _check_lines(evaluation: pb.Evaluation) -> Iterator[str]:
    """Yield a line of columns for each measured value, followed by the reasons for which a version is not let live."""
    for check in evaluation.checks:
        yield f"{check.name}\t{check.measured:.4g}\tbound {check.bound:.4g}\t{'ok' if check.passed else 'missed'}"
    yield from (f"  not to go live: {reason}" for reason in evaluation.reasons)
