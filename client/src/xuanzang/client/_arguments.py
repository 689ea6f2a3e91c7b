"""The arguments of the command line: what may be given, and what it means."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from xuanzang.client._client import TranslationClient
from xuanzang.client._types import SamplingOptions, TLSConfig, TranslateOptions

Command = Callable[[TranslationClient, argparse.Namespace], int]
"""Runs a command and returns the exit code."""

_EXIT_CODES = """\
exit codes:
  0    all texts were translated
  1    the server refused some texts, or the request, or failed; results of the other texts were written
  2    wrong arguments, or a file that cannot be read or written
  3    no server was reached, or it had no time: try again later
  130  interrupted with Ctrl-C
  141  whoever read the output went away
"""


def parser(environment: Mapping[str, str], *, translate: Command, models: Command) -> argparse.ArgumentParser:
    """Make the parser.

    Args:
        environment: May hold XUANZANG_ADDRESS.
        translate: That command.
        models: That command.

    Returns:
        A parser that puts the command that was called for into `command`.
    """
    top = argparse.ArgumentParser(
        prog="xuanzang",
        description="Translates text through a xuanzang server.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"xuanzang {version('xuanzang-client')}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    shared = _shared_options(environment.get("XUANZANG_ADDRESS", "localhost:50051"))
    _add_translate(commands, shared).set_defaults(command=translate)
    listing = commands.add_parser("models", help="list the models that the server offers", parents=[shared])
    listing.add_argument("--json", action="store_true", help="one JSON object per model")
    listing.set_defaults(command=models)
    return top


def open_client(arguments: argparse.Namespace) -> TranslationClient:
    """Open the client that the arguments ask for.

    Raises:
        OSError: A PEM file cannot be read.
        ValueError: An address, the timeout or a name makes no sense.
    """
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
    return TranslationClient(address, tls=tls, timeout=arguments.timeout, client_id=arguments.client_id)


def translate_options(arguments: argparse.Namespace) -> TranslateOptions:
    """Collect the options of a translation.

    Raises:
        ValueError: Arguments that do not go together.
    """
    if arguments.progressive and (arguments.json or arguments.scores):
        raise ValueError("--progressive writes nothing but text: leave out --json and --scores")
    if arguments.partial_on_deadline and not arguments.progressive:
        raise ValueError("--partial-on-deadline needs --progressive: only there each text has a --timeout of its own")
    if arguments.token_details and not arguments.json:
        raise ValueError("--token-details needs --json")
    sampling = SamplingOptions(
        top_k=arguments.top_k, top_p=arguments.top_p, temperature=arguments.temperature, seed=arguments.seed
    )
    return {
        "source_language": arguments.source,
        "target_language": arguments.target,
        "model": arguments.model,
        "beam_size": arguments.beam_size,
        "num_hypotheses": arguments.num_hypotheses,
        "length_penalty": arguments.length_penalty,
        "min_target_length": arguments.min_target_length,
        "max_target_length": arguments.max_target_length,
        "return_scores": arguments.scores or None,
        "coverage_penalty": arguments.coverage_penalty,
        "repetition_penalty": arguments.repetition_penalty,
        "no_repeat_ngram_size": arguments.no_repeat_ngram_size,
        "target_prefix": arguments.target_prefix,
        "suppressed_texts": arguments.suppressed_texts,
        "sampling": sampling if arguments.sample or sampling != SamplingOptions() else None,
        "return_alternatives": arguments.alternatives or None,
        "token_details": arguments.token_details or None,
        "partial_on_deadline": arguments.partial_on_deadline or None,
    }


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
    group.add_argument("--client-id", metavar="NAME", help="who calls, for a server that shares itself out fairly")
    group.add_argument("--tls", action="store_true", help="connect over TLS; implied by the --tls-… options")
    group.add_argument("--tls-ca", type=Path, metavar="PEM", help="who may sign the server's certificate")
    group.add_argument("--tls-cert", type=Path, metavar="PEM", help="our own certificate, if the server asks for one")
    group.add_argument("--tls-key", type=Path, metavar="PEM", help="key of our own certificate")
    group.add_argument("--tls-server-name", metavar="NAME", help="name in the server's certificate, if not the host")
    return shared


def _add_translate(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        "translate",
        help="translate texts, a file or standard input",
        description="Translates each TEXT; without any, each line of a file or of standard input. Results come in the "
        "same order, one line per hypothesis. All text is UTF-8.",
        parents=[shared],
    )
    source = command.add_mutually_exclusive_group()
    source.add_argument("texts", nargs="*", default=[], metavar="TEXT", help="a text to translate")
    source.add_argument("-f", "--file", metavar="FILE", help="translate its lines; - is standard input")
    _add_search(command.add_argument_group("translation"))
    _add_sampling(command.add_argument_group("sampling"))
    _add_output(command.add_argument_group("output"))
    return command


def _add_search(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--source", metavar="CODE", help='language of the texts, such as "zh"')
    group.add_argument("--target", metavar="CODE", help='language to translate into, such as "en"')
    group.add_argument("--model", metavar="NAME", help="model to use, as `xuanzang models` lists it")
    group.add_argument("--beam-size", type=int, metavar="N", help="hypotheses kept at each step; 1 is greedy search")
    group.add_argument("--num-hypotheses", type=int, metavar="N", help="hypotheses to write per text")
    group.add_argument("--length-penalty", type=float, metavar="X", help="exponent on the length that divides scores")
    group.add_argument("--min-target-length", type=int, metavar="N", help="least tokens per sentence")
    group.add_argument("--max-target-length", type=int, metavar="N", help="most tokens per sentence")
    group.add_argument("--coverage-penalty", type=float, metavar="X", help="against leaving out parts of the source")
    group.add_argument("--repetition-penalty", type=float, metavar="X", help="above 1: against tokens that were used")
    group.add_argument("--no-repeat-ngram-size", type=int, metavar="N", help="no N tokens twice in a sentence")
    group.add_argument("--target-prefix", metavar="TEXT", help="begin every hypothesis with it")
    group.add_argument(
        "--suppressed-text", dest="suppressed_texts", action="append", metavar="TEXT", help="never write it; repeatable"
    )
    group.add_argument(
        "--alternatives", action="store_true", help="hypotheses that differ right after the target prefix"
    )
    group.add_argument(
        "--partial-on-deadline",
        action="store_true",
        help="with --progressive: when time runs out, end with what there is",
    )


def _add_sampling(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--sample", action="store_true", help="draw tokens at random; implied by the options below")
    group.add_argument("--top-k", type=int, metavar="N", help="among so many likeliest tokens")
    group.add_argument("--top-p", type=float, metavar="X", help="among the likeliest that reach this probability")
    group.add_argument("--temperature", type=float, metavar="X", help="below 1 for likelier, above 1 for rarer tokens")
    group.add_argument("--seed", type=int, metavar="N", help="draw as the last time with this seed")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-o", "--output", type=Path, metavar="FILE", help="write here instead of to standard output")
    group.add_argument("--scores", action="store_true", help="put the score in nats and a tab before each hypothesis")
    group.add_argument("--json", action="store_true", help="one JSON object per text")
    group.add_argument("--token-details", action="store_true", help="with --json: score and source of every token")
    group.add_argument("--progressive", action="store_true", help="write each part as soon as it is certain")
