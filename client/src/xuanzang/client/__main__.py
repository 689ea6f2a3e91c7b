"""The command line: `xuanzang translate` and `xuanzang models`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, TextIO

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands import InputError, Layout, read_lines, translate, write_models
from xuanzang.client._errors import DeadlineExceededError, TranslationError
from xuanzang.client._progress import Progress
from xuanzang.client._types import TLSConfig, TranslateOptions

_EXIT_CODES = """\
exit codes:
  0    all texts were translated
  1    the server refused some texts, or the request, or failed; results of the other texts were written
  2    wrong arguments, or a file that cannot be read or written
  3    no server was reached, or it had no time: try again later
  130  interrupted with Ctrl-C
  141  whoever read the output went away
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments after the program's name; None: those of the process.

    Returns:
        The exit code.
    """
    arguments = _parser(os.environ).parse_args(argv)
    command: Callable[[TranslationClient, argparse.Namespace], int] = arguments.command
    try:
        with _client(arguments) as client:
            return command(client, arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Python flushes stdout once more at its end; give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except TranslationError as error:
        _complain(error.message)
        return 3 if error.retryable or isinstance(error, DeadlineExceededError) else 1
    except (InputError, OSError, ValueError) as error:
        _complain(str(error))
        return 2


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xuanzang",
        description="Translates text through a xuanzang server.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"xuanzang {version('xuanzang-client')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    shared = _shared_options(environment.get("XUANZANG_ADDRESS", "localhost:50051"))
    _add_translate(commands, shared)
    models = commands.add_parser("models", help="list the models that the server offers", parents=[shared])
    models.add_argument("--json", action="store_true", help="one JSON object per model")
    models.set_defaults(command=_models)
    return parser


def _shared_options(default_address: str) -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    group = shared.add_argument_group("server")
    group.add_argument(
        "--address",
        default=default_address,
        metavar="HOST:PORT",
        help="the server, or several as ip:port,ip:port; default: $XUANZANG_ADDRESS, else localhost:50051",
    )
    group.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="longest wait for an answer (60)")
    group.add_argument("--tls", action="store_true", help="connect over TLS; implied by the --tls-… options")
    group.add_argument("--tls-ca", type=Path, metavar="PEM", help="who may sign the server's certificate")
    group.add_argument("--tls-cert", type=Path, metavar="PEM", help="our own certificate, if the server asks for one")
    group.add_argument("--tls-key", type=Path, metavar="PEM", help="key of our own certificate")
    group.add_argument("--tls-server-name", metavar="NAME", help="name in the server's certificate, if not the host")
    return shared


def _add_translate(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = commands.add_parser(
        "translate",
        help="translate texts, a file or standard input",
        description="Translates each TEXT; without any, each line of a file or of standard input. Results come in the "
        "same order, one line per hypothesis. All text is UTF-8.",
        parents=[shared],
    )
    parser.set_defaults(command=_translate)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("texts", nargs="*", default=[], metavar="TEXT", help="a text to translate")
    source.add_argument("-f", "--file", metavar="FILE", help="translate its lines; - is standard input")
    group = parser.add_argument_group("translation")
    group.add_argument("--source", metavar="CODE", help='language of the texts, such as "zh"')
    group.add_argument("--target", metavar="CODE", help='language to translate into, such as "en"')
    group.add_argument("--model", metavar="NAME", help="model to use, as `xuanzang models` lists it")
    group.add_argument("--beam-size", type=int, metavar="N", help="hypotheses kept at each step; 1 is greedy search")
    group.add_argument("--num-hypotheses", type=int, metavar="N", help="hypotheses to write per text")
    group.add_argument("--length-penalty", type=float, metavar="X", help="exponent on the length that divides scores")
    group.add_argument("--min-target-length", type=int, metavar="N", help="least tokens per sentence")
    group.add_argument("--max-target-length", type=int, metavar="N", help="most tokens per sentence")
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--output", type=Path, metavar="FILE", help="write here instead of to standard output")
    group.add_argument("--scores", action="store_true", help="put the score in nats and a tab before each hypothesis")
    group.add_argument("--json", action="store_true", help="one JSON object per text")


def _client(arguments: argparse.Namespace) -> TranslationClient:
    addresses = arguments.address.split(",")
    address = addresses if len(addresses) > 1 else arguments.address
    pems = [path and path.read_bytes() for path in (arguments.tls_ca, arguments.tls_cert, arguments.tls_key)]
    tls = None
    if arguments.tls or arguments.tls_server_name or any(pem is not None for pem in pems):
        tls = TLSConfig(
            root_certificates=pems[0],
            certificate_chain=pems[1],
            private_key=pems[2],
            server_name=arguments.tls_server_name,
        )
    return TranslationClient(address, tls=tls, timeout=arguments.timeout)


def _translate(client: TranslationClient, arguments: argparse.Namespace) -> int:
    options: TranslateOptions = {
        "source_language": arguments.source,
        "target_language": arguments.target,
        "model": arguments.model,
        "beam_size": arguments.beam_size,
        "num_hypotheses": arguments.num_hypotheses,
        "length_penalty": arguments.length_penalty,
        "min_target_length": arguments.min_target_length,
        "max_target_length": arguments.max_target_length,
        "return_scores": arguments.scores or None,
    }
    layout = Layout(json=arguments.json, scores=arguments.scores, by_line=not arguments.texts)
    texts = arguments.texts or read_lines(_input(arguments))
    with _output(arguments.output) as output, _progress(arguments) as advance:
        failures = translate(client, texts, options, layout=layout, output=output, complain=_complain, advance=advance)
    return 1 if failures else 0


def _models(client: TranslationClient, arguments: argparse.Namespace) -> int:
    models = client.list_models()
    with _output(None) as output:
        write_models(models, as_json=arguments.json, output=output)
    return 0


def _from_file(arguments: argparse.Namespace) -> bool:
    return arguments.file not in (None, "-")


def _input(arguments: argparse.Namespace) -> IO[bytes]:
    if _from_file(arguments):
        return Path(arguments.file).open("rb")
    # Not sys.stdin: a thread of gRPC reads it, and Python aborts at exit if that still holds the lock of sys.stdin.
    return open(0, "rb", closefd=False)


def _output(path: Path | None) -> TextIO:
    if path is not None:
        return path.open("w", encoding="utf-8", newline="\n")
    return open(sys.stdout.fileno(), "w", encoding="utf-8", newline="\n", closefd=False)


@contextmanager
def _progress(arguments: argparse.Namespace) -> Iterator[Callable[[], None]]:
    """Draw progress for a file, unless nobody watches or the results run over the same screen."""
    results_on_screen = arguments.output is None and sys.stdout.isatty()
    if not _from_file(arguments) or not sys.stderr.isatty() or results_on_screen:
        yield lambda: None
        return
    with Path(arguments.file).open("rb") as file:
        total = sum(1 for _ in file)
    with closing(Progress(total, sys.stderr)) as progress:
        yield progress.advance


def _complain(message: str) -> None:
    sys.stderr.write(f"xuanzang: {message}\n")


if __name__ == "__main__":
    sys.exit(main())
