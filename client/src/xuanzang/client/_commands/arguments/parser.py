"""Command line parser, and the client and options that its arguments describe."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.arguments.completion import PrintCompletion
from xuanzang.client._commands.arguments.documents import add_documents
from xuanzang.client._commands.arguments.search import add_search
from xuanzang.client._commands.arguments.terms import add_terms, term_options
from xuanzang.client._commands.explain import add_explain
from xuanzang.client._commands.glossaries import add_glossaries
from xuanzang.client._values.options import SamplingOptions, TLSConfig, TranslateOptions

Command = Callable[[TranslationClient, argparse.Namespace], int]
"""Function that runs a command and returns the exit code."""

_EXIT_CODES = """\
exit codes:
  0    all texts were translated, or all answers of a capsule are identical
  1    an answer of a capsule differs, some texts were refused, or the request, or the server failed; results of the
       other texts were written
  2    wrong arguments, or a file that cannot be read or written
  3    no server could be reached, or it was overloaded or too slow: try again later
  130  interrupted with Ctrl-C
  141  the reader of the output closed it
"""


def parser(
    environment: Mapping[str, str],
    *,
    translate: Command,
    translate_documents: Command,
    models: Command,
    detect: Command,
    explain: Command,
    replay: Command,
    glossaries: Command,
) -> argparse.ArgumentParser:
    """Build the parser.

    Args:
        environment: Environment variables; XUANZANG_ADDRESS is the default address.
        translate: Implementation of `xuanzang translate`.
        translate_documents: Implementation of `xuanzang translate-documents`.
        models: Implementation of `xuanzang models`.
        detect: Implementation of `xuanzang detect`.
        explain: Implementation of `xuanzang explain`.
        replay: Implementation of `xuanzang replay`.
        glossaries: Implementation of `xuanzang glossaries`.

    Returns:
        Parser that stores the implementation of the chosen command in `command`.
    """
    top = argparse.ArgumentParser(
        prog="xuanzang",
        description="Translates text through a xuanzang server.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"xuanzang {version('xuanzang-client')}")
    top.add_argument("--completion", action=PrintCompletion, help="print the script that completes commands in bash")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    shared = server_options(environment.get("XUANZANG_ADDRESS", "localhost:50051"))
    _add_translate(commands, shared).set_defaults(command=translate)
    add_documents(commands, shared).set_defaults(command=translate_documents)
    listing = commands.add_parser("models", help="list the models that the server offers", parents=[shared])
    listing.add_argument("--json", action="store_true", help="write one JSON object per model")
    listing.set_defaults(command=models)
    _add_detect(commands, shared).set_defaults(command=detect)
    add_explain(commands, shared).set_defaults(command=explain)
    add_glossaries(commands, shared).set_defaults(command=glossaries)
    replaying = commands.add_parser(
        "replay",
        help="send the requests of a capsule again and compare the answers",
        description="Sends the requests of a file that `xuanzang translate --capsule` has written, and says whether "
        "the answers are identical, byte for byte, or else where they differ and what was made differently.",
        parents=[shared],
    )
    replaying.add_argument("capsule", type=Path, metavar="CAPSULE", help="file to replay")
    replaying.set_defaults(command=replay)
    return top


class Connection(NamedTuple):
    """Settings of a client, named as its arguments are."""

    address: str | Sequence[str]
    tls: TLSConfig | None
    timeout: float
    client_id: str | None
    api_key: str | None
    allow_insecure_key: bool


def connection(arguments: argparse.Namespace) -> Connection:
    """Return the address, timeout, name, key and TLS settings of the arguments.

    Raises:
        OSError: A PEM file or the file of the API key cannot be read.
        ValueError: The file of the API key is empty.
    """
    addresses = arguments.address.split(",")
    pems = [path and path.read_bytes() for path in (arguments.tls_ca, arguments.tls_cert, arguments.tls_key)]
    tls = None
    if arguments.tls or arguments.tls_server_name or any(pem is not None for pem in pems):
        tls = TLSConfig(
            root_certificates=pems[0],
            certificate_chain=pems[1],
            private_key=pems[2],
            server_name=arguments.tls_server_name,
        )
    return Connection(
        address=addresses if len(addresses) > 1 else arguments.address,
        tls=tls,
        timeout=arguments.timeout,
        client_id=arguments.client_id,
        api_key=arguments.api_key_file and _key_in(arguments.api_key_file),
        allow_insecure_key=arguments.allow_insecure_key,
    )


def open_client(arguments: argparse.Namespace) -> TranslationClient:
    """Open a client with the settings of the arguments.

    Raises:
        OSError: A PEM file or the file of the API key cannot be read.
        ValueError: One of the settings is invalid, or the key would cross a network in plain text.
    """
    return TranslationClient(**connection(arguments)._asdict())


def _key_in(file: Path) -> str:
    key = file.read_text(encoding="utf-8", errors="replace").strip()
    if not key:
        raise ValueError(f"{file} holds no API key")
    return key


def translate_options(arguments: argparse.Namespace) -> TranslateOptions:
    """Return the options of a translation.

    Raises:
        OSError: The glossary cannot be read.
        ValueError: Two arguments contradict each other, one needs another, or a line of the glossary is no entry.
    """
    if arguments.progressive and (arguments.json or arguments.scores):
        raise ValueError("--progressive writes nothing but text: leave out --json and --scores")
    if arguments.partial_on_deadline and not arguments.progressive:
        raise ValueError("--partial-on-deadline needs --progressive: only there each text has a --timeout of its own")
    if arguments.token_details and not arguments.json:
        raise ValueError("--token-details needs --json")
    if arguments.token_details and arguments.content_format in ("html", "xml"):
        raise ValueError("--token-details has no place with tags: leave it out, or --format")
    if arguments.provenance and not arguments.json:
        raise ValueError("--provenance needs --json")
    if arguments.quality and not arguments.json:
        raise ValueError("--quality needs --json")
    if arguments.capsule and arguments.progressive:
        raise ValueError("--capsule keeps whole translations: leave out --progressive")
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
        "return_scores": arguments.scores or bool(arguments.capsule) or None,
        "coverage_penalty": arguments.coverage_penalty,
        "repetition_penalty": arguments.repetition_penalty,
        "no_repeat_ngram_size": arguments.no_repeat_ngram_size,
        "target_prefix": arguments.target_prefix,
        "suppressed_texts": arguments.suppressed_texts,
        "sampling": sampling if arguments.sample or sampling != SamplingOptions() else None,
        "return_alternatives": arguments.alternatives or None,
        "token_details": arguments.token_details or None,
        "partial_on_deadline": arguments.partial_on_deadline or None,
        "refuse_long_sentences": arguments.refuse_long_sentences or None,
        "content_format": arguments.content_format,
        "return_provenance": arguments.provenance or bool(arguments.capsule) or None,
        "return_quality": arguments.quality or None,
        **term_options(arguments),
    }


def server_options(default_address: str) -> argparse.ArgumentParser:
    """Return a parent parser with the options that say which server to call, and how.

    Args:
        default_address: Address without the option.
    """
    shared = argparse.ArgumentParser(add_help=False)
    group = shared.add_argument_group("server")
    group.add_argument(
        "--address",
        default=default_address,
        metavar="HOST:PORT",
        help="server, or several as host:port,host:port (default: $XUANZANG_ADDRESS, else localhost:50051)",
    )
    group.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="maximum wait for an answer, retries included (default: 60)",
    )
    group.add_argument("--client-id", metavar="NAME", help="name of the caller, by which a busy server takes turns")
    # No option takes the key itself: other users of the machine can read the arguments of a process.
    group.add_argument(
        "--api-key-file",
        type=Path,
        metavar="FILE",
        help="file with the API key (default: the key in $XUANZANG_API_KEY)",
    )
    group.add_argument(
        "--allow-insecure-key", action="store_true", help="send the API key to another machine without TLS, too"
    )
    group.add_argument("--tls", action="store_true", help="connect over TLS; implied by the --tls-… options")
    group.add_argument(
        "--tls-ca", type=Path, metavar="PEM", help="authorities trusted to sign the server's certificate"
    )
    group.add_argument("--tls-cert", type=Path, metavar="PEM", help="client certificate, if the server asks for one")
    group.add_argument("--tls-key", type=Path, metavar="PEM", help="private key of the client certificate")
    group.add_argument("--tls-server-name", metavar="NAME", help="name in the server's certificate, if not the host")
    return shared


def _add_detect(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        "detect",
        help="detect the language of texts",
        description="Writes the likeliest language of each TEXT or, if none is given, of each line of a file or of "
        "standard input, a tab, and its probability; `und` and 0 if nothing tells the language.",
        parents=[shared],
    )
    source = command.add_mutually_exclusive_group()
    source.add_argument("texts", nargs="*", default=[], metavar="TEXT", help="a text in any language")
    source.add_argument("-f", "--file", metavar="FILE", help="file with one text per line; - is standard input")
    command.add_argument("--json", action="store_true", help="write one JSON list of all likely languages per text")
    return command


def _add_translate(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        "translate",
        help="translate texts, a file or standard input",
        description="Translates each TEXT or, if none is given, each line of a file or of standard input. Results keep "
        "the order of the texts, one line per hypothesis. All text is UTF-8.",
        parents=[shared],
    )
    source = command.add_mutually_exclusive_group()
    source.add_argument("texts", nargs="*", default=[], metavar="TEXT", help="a text to translate")
    source.add_argument("-f", "--file", metavar="FILE", help="file whose lines to translate; - is standard input")
    command.add_argument(
        "--format",
        dest="content_format",
        choices=("text", "html", "xml"),
        help="how texts are written; a file or standard input with html or xml is one text",
    )
    _add_translation(command.add_argument_group("translation"))
    add_terms(command.add_argument_group("terms"))
    _add_sampling(command.add_argument_group("sampling"))
    _add_output(command.add_argument_group("output"))
    return command


def _add_translation(group: argparse._ArgumentGroup) -> None:
    add_search(group)
    group.add_argument(
        "--alternatives", action="store_true", help="write hypotheses that differ right after the target prefix"
    )
    group.add_argument(
        "--partial-on-deadline",
        action="store_true",
        help="with --progressive: when time runs out, end with the best translation so far",
    )
    group.add_argument(
        "--refuse-long-sentences",
        action="store_true",
        help="refuse sentences over the model's limit that have no comma or white space to cut them at",
    )


def _add_sampling(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--sample", action="store_true", help="draw tokens at random; implied by the options below")
    group.add_argument("--top-k", type=int, metavar="N", help="draw among the N most likely tokens")
    group.add_argument(
        "--top-p", type=float, metavar="X", help="draw among the most likely tokens that together reach probability X"
    )
    group.add_argument(
        "--temperature", type=float, metavar="X", help="below 1: more likely tokens; above 1: rarer tokens"
    )
    group.add_argument("--seed", type=int, metavar="N", help="repeat the draws of an earlier call with the same seed")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="file to write instead of standard output; it is replaced once the results are whole",
    )
    group.add_argument("--scores", action="store_true", help="write the score in nats and a tab before each hypothesis")
    group.add_argument("--json", action="store_true", help="write one JSON object per text")
    group.add_argument(
        "--token-details", action="store_true", help="with --json: write score and source span of every token"
    )
    group.add_argument("--provenance", action="store_true", help="with --json: write how each translation was made")
    group.add_argument("--quality", action="store_true", help="with --json: write how far to trust each hypothesis")
    group.add_argument(
        "--capsule",
        type=Path,
        metavar="FILE",
        help="file to write the requests and their answers to, for `xuanzang replay`; it holds the texts",
    )
    group.add_argument(
        "--progressive", action="store_true", help="write each part of a translation as soon as it is final"
    )
