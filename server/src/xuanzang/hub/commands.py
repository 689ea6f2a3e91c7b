"""The commands `xuanzang pull`, `push` and `models available`: models from and for a hub."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from xuanzang.command.files import PathName
from xuanzang.command.parser import CommandParser, fail, say
from xuanzang.hub.endpoint import require_endpoint
from xuanzang.hub.known_models import known_models
from xuanzang.hub.packages import require_client, require_student_import
from xuanzang.hub.pulling import PullRequest, bundle_name, pull
from xuanzang.hub.registry import LICENCE, MODELS_URL, Addresses
from xuanzang.hub.several import pull_every_pair
from xuanzang.server.published import EVERY_PAIR, HubError, default_repository, is_student_name

# Names of branches and tags that cannot be taken for paths out of a folder.
_REVISION = re.compile(r"[A-Za-z0-9][\w.@+/-]{0,254}")
_PULL = f"""\
Brings a published model into the folder that `xuanzang serve` reads: downloads what is needed, imports it, exports it
in int8 with a certificate, and names it after the model. A bundle that somebody has pushed needs neither import nor
export, and no torch; a model of Firefox Translations needs no torch either. What was interrupted goes on when the same
command is given again.

MODEL is a name on the hub, such as Helsinki-NLP/opus-mt-zh-en, a pair of languages of Firefox Translations, such as
firefox:zh-en, or a folder with the files of either; {EVERY_PAIR} stands for all pairs. `xuanzang models available`
lists models that work. Flags of `xuanzang export` may follow after --.
"""
_AVAILABLE = f"""\
Lists published models of families that can be pulled, with what their cards say of them. With {EVERY_PAIR} or, say,
firefox:zh-en it asks a registry of Mozilla's for the models of Firefox Translations; models.json has their scores, as
--records-url {MODELS_URL}
"""


def pull_command(given: Sequence[str]) -> int:
    """Pull a model; return 0, 1 if that is not possible, or 130 if interrupted."""
    program, arguments = "xuanzang pull", given[1:]
    place = arguments.index("--") if "--" in arguments else len(arguments)
    options = _pull_parser(program).parse_args(arguments[:place])
    importing = [f"--{side}-language={code}" for side in ("source", "target") for code in getattr(options, side) or ()]
    try:
        request = PullRequest(
            model=options.model,
            repository=options.repository.absolute(),
            revision=options.revision,
            name=options.name or bundle_name(options.model),
            import_flags=[*importing, *([f"--punctuation={options.punctuation}"] if options.punctuation else [])],
            addresses=Addresses(records=options.records_url, attachments=options.attachments_url),
            export_flags=arguments[place + 1 :],
        )
        if request.model == EVERY_PAIR:
            return _pull_every_pair(request, options)
        folder = pull(request, say)
    except (HubError, OSError) as error:
        return fail(program, str(error), status=1)
    except KeyboardInterrupt:
        return fail(program, "interrupted; the same command goes on", status=130)
    sys.stdout.write(f"{folder}\n")
    return 0


def _pull_every_pair(request: PullRequest, options: argparse.Namespace) -> int:
    """Pull all pairs; return 0, or 1 if some failed."""
    for flag in ("name", "revision", "source", "target", "punctuation"):
        if getattr(options, flag):
            option = f"{flag}-language" if flag in ("source", "target") else flag
            raise HubError(f"--{option} is for one model; {EVERY_PAIR} stands for many")
    found = pull_every_pair(request, say)
    sys.stdout.writelines(f"{folder}\n" for folder in found.bundles)
    return 1 if found.failures else 0


def push_command(given: Sequence[str]) -> int:
    """Publish a bundle; return 0, or 1 if it is not sound or not taken."""
    program = "xuanzang push"
    parser = CommandParser(prog=program, description="Publishes a bundle, for `xuanzang pull` on other machines.")
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder of the bundle, MODEL/VERSION")
    parser.add_argument("model", metavar="NAME", help="name on the hub, such as my-team/zh-en; made if it is not there")
    parser.add_argument("--private", action="store_true", help="make a new repository private")
    options = parser.parse_args(given[1:])
    try:
        require_endpoint()
        require_client()
        from xuanzang.hub.pushing import push  # noqa: PLC0415 - its library takes long to import

        commit = push(options.bundle, options.model, say, private=options.private)
    except HubError as error:
        return fail(program, str(error), status=1)
    sys.stdout.write(f"{options.model} {commit}\n")
    return 0


def available_command(given: Sequence[str]) -> int:
    """List models that are known to work, or those in a registry; return 1 if the registry does not answer."""
    program = "xuanzang models available"
    parser: argparse.ArgumentParser = CommandParser(prog=program, description=_AVAILABLE)
    parser.add_argument(
        "pair", nargs="?", default="", metavar="PAIR", help=f"languages, such as zh-en (default: all), or {EVERY_PAIR}"
    )
    _add_addresses(parser)
    options = parser.parse_args(given[2:])
    try:
        if is_student_name(options.pair):
            addresses = Addresses(records=options.records_url, attachments=options.attachments_url)
            rows = _student_rows(addresses, options.pair)
        else:
            rows = _known_rows(options.pair)
    except HubError as error:
        return fail(program, str(error), status=1)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sys.stdout.writelines("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)
    return 0


def _known_rows(pair: str) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("MODEL", "LANGUAGES", "DOWNLOAD", "BUNDLE", "LICENCE", "QUALITY, BY ITS CARD")]
    for each in known_models(pair):
        sizes = (f"{each.download_bytes / 1e9:.2g} GB", f"{each.bundle_bytes / 1e9:.2g} GB")
        rows.append((each.name, each.languages, *sizes, each.licence, each.quality))
    return rows


def _student_rows(addresses: Addresses, name: str) -> list[tuple[str, ...]]:
    """Return a row for each model that a registry has released, of a pair if the name has one."""
    require_student_import()
    from xuanzang.hub.transfer import fetch_registry  # noqa: PLC0415 - a server has not its libraries

    models = fetch_registry(addresses, say).of_name(name)
    say(f"licence: {LICENCE}")
    rows: list[tuple[str, ...]] = [("MODEL", "ARCHITECTURE", "VERSION", "SIZE", "FLORES-200-PLUS, BY THE REGISTRY")]
    for model in models:
        scores = ", ".join(f"{metric} {value:.4g}" for metric, value in sorted(model.scores.items()))
        size = f"{model.content_size / 1e6:.1f} MB" if model.content_size else "not stated"
        rows.append((model.name, model.architecture, model.version or "-", size, scores or "not stated"))
    return rows


def _pull_parser(program: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = CommandParser(prog=program, description=_PULL)
    parser.add_argument("model", metavar="MODEL", help="name on the hub, or folder of a checkpoint")
    place = default_repository(os.environ)
    parser.add_argument(
        "--repository",
        type=Path,
        default=place,
        metavar="PATH",
        help=f"folder to put the bundle into (default: {place})",
    )
    parser.add_argument(
        "--revision", type=_revision, metavar="NAME", help="branch, tag or commit (default: the main branch)"
    )
    parser.add_argument(
        "--name", type=_name, metavar="NAME", help=f"name of the bundle: {PathName.RULE} (default: that of the model)"
    )
    languages = parser.add_argument_group("languages of a checkpoint")
    for side in ("source", "target"):
        languages.add_argument(
            f"--{side}-language",
            dest=side,
            nargs="+",
            metavar="CODE",
            help="those to offer, where the model does not say them or has more, as for `xuanzang import`",
        )
    _add_addresses(parser)
    languages.add_argument("--punctuation", choices=("as-is", "moses"), help="as for `xuanzang import`")
    return parser


def _add_addresses(parser: argparse.ArgumentParser) -> None:
    default = Addresses.of_environment(os.environ)
    group = parser.add_argument_group("models of Firefox Translations, from Mozilla or a mirror")
    group.add_argument(
        "--records-url",
        default=default.records,
        metavar="URL",
        help=f"registry: records of Remote Settings, or a models.json (default: {default.records})",
    )
    group.add_argument(
        "--attachments-url",
        default=default.attachments,
        metavar="URL",
        help=f"the registry's files lie below (default: {default.attachments or 'what the registry says'})",
    )


def _name(text: str) -> PathName:
    try:
        return PathName(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _revision(text: str) -> str:
    if not _REVISION.fullmatch(text) or ".." in text or "//" in text:
        raise argparse.ArgumentTypeError(f"must be the name of a branch, a tag or a commit, not {text[:80]!r}")
    return text
