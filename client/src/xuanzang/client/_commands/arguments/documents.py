"""Arguments of the command `xuanzang documents`."""

from __future__ import annotations

import argparse
from pathlib import Path

from xuanzang.client._commands.arguments.search import add_search
from xuanzang.client._commands.arguments.terms import add_terms, term_options
from xuanzang.client._values.options import TranslateOptions
from xuanzang.client.documents.opening import SUFFIXES

_DESCRIPTION = f"""\
Translates the texts of files ({" ".join(SUFFIXES)}) and leaves everything else in them as it is.
Without -o and -d, the translation of report.docx into en is report.en.docx.

What was translated before the command was interrupted is not asked again by the next one: until a file is
finished, its translations are in a file beside the output, or else in the one of --memory.
"""
_OF_SINGLE_TEXTS = frozenset({"--num-hypotheses", "--min-target-length", "--coverage-penalty", "--target-prefix"})


def add_documents(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> argparse.ArgumentParser:
    """Add the command.

    Args:
        commands: Commands of the program.
        shared: Parser of the arguments that say which server to call.

    Returns:
        Parser of the command.
    """
    command = commands.add_parser(
        "documents",
        help="translate documents: Markdown, HTML, Word, subtitles, tables and others",
        description=_DESCRIPTION,
        parents=[shared],
    )
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="file to translate")
    _add_files(command.add_argument_group("files"))
    translation = command.add_argument_group("translation")
    _add_translation(translation)
    add_terms(translation)
    return command


def document_options(arguments: argparse.Namespace) -> TranslateOptions:
    """Return the options of the translation.

    Args:
        arguments: Arguments of the command.

    Raises:
        OSError: The glossary cannot be read.
        ValueError: A line of it is no entry.
    """
    return {
        "source_language": arguments.source,
        "target_language": arguments.target,
        "model": arguments.model,
        "beam_size": arguments.beam_size,
        "length_penalty": arguments.length_penalty,
        "max_target_length": arguments.max_target_length,
        "repetition_penalty": arguments.repetition_penalty,
        "no_repeat_ngram_size": arguments.no_repeat_ngram_size,
        "suppressed_texts": arguments.suppressed_texts,
        "refuse_long_sentences": arguments.refuse_long_sentences or None,
        "pass_through_unserved": arguments.pass_through_unserved or None,
        **term_options(arguments),
    }


def _add_files(group: argparse._ArgumentGroup) -> None:
    place = group.add_mutually_exclusive_group()
    place.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write, for a single FILE")
    place.add_argument("-d", "--directory", type=Path, metavar="DIR", help="folder to write files of the same names to")
    group.add_argument(
        "--column",
        dest="columns",
        action="append",
        metavar="NAME",
        help="column of a table to translate, or key of JSON values; repeatable",
    )
    group.add_argument("--encoding", metavar="NAME", help="encoding of the files, such as gb18030 (default: declared)")
    group.add_argument(
        "--memory",
        type=Path,
        metavar="FILE",
        help="translation memory: what is in it is not asked again; created with mode 0600",
    )
    group.add_argument(
        "--memory-megabytes",
        type=int,
        default=256,
        metavar="N",
        help="maximum size of the memory; what was not used for longest goes first (default: 256)",
    )


def _add_translation(group: argparse._ArgumentGroup) -> None:
    add_search(group, without=_OF_SINGLE_TEXTS)
    group.add_argument(
        "--refuse-long-sentences",
        action="store_true",
        help="leave sentences over the model's limit as they are that have no comma or white space to cut them at",
    )
    group.add_argument(
        "--pass-through-unserved",
        action="store_true",
        help="without --source: count texts in languages that no model translates as done, not as refused",
    )
