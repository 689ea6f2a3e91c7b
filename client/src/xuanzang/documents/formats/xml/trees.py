"""XML as a tree, parsed by lxml without entities, document types, networks or unlimited sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.parsers import expat

from lxml import etree

from xuanzang.documents.document import DocumentError, MalformedError

Element = etree._Element  # noqa: SLF001 - lxml has no public name of its type
Tree = etree._ElementTree  # noqa: SLF001
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_PROLOG_CHUNK = 4096


class _RootReachedError(Exception):
    """Expat has come to the root, before which a document type would stand."""


def parsed(name: str, content: bytes, *, depth: int, with_document_type: bool = False) -> Tree:
    """Parse XML.

    Args:
        name: Name of the file, for messages.
        depth: Limit of elements inside one another.
        with_document_type: True to accept a document type without declarations.

    Raises:
        MalformedError: It is not well formed.
        DocumentError: It has a document type, or is nested too deep.
    """
    try:
        return _parsed(content, depth, with_document_type=with_document_type)
    except DocumentError as error:
        raise type(error)(f"{name}: {error}") from error


def _parsed(content: bytes, depth: int, *, with_document_type: bool) -> Tree:
    _check_prolog(content, with_document_type=with_document_type)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=False)
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise MalformedError(f"not well-formed XML: {error}") from error
    tree = root.getroottree()
    if tree.docinfo.doctype and not with_document_type:
        raise _document_type()
    for level in _depths(root):
        if level > depth:
            raise DocumentError(f"elements are nested more than {depth} deep")
    return tree


def serialized(tree: Tree) -> bytes:
    """Return a tree as XML in its encoding."""
    info = tree.docinfo
    return etree.tostring(tree, encoding=info.encoding or "UTF-8", xml_declaration=True, standalone=info.standalone)


def without_forbidden(text: str) -> str:
    """Return a text without the characters that XML forbids."""
    return _FORBIDDEN.sub("", text)


def _depths(root: Element) -> Iterator[int]:
    """Yield how deep each element is that has others inside."""
    level = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        level += 1 if event == "start" else -1
        if event == "start":
            yield level


def _check_prolog(content: bytes, *, with_document_type: bool) -> None:
    """Refuse a document type, or only its declarations, before any entity is expanded."""
    parser = expat.ParserCreate()

    def begin(_name: str, _system: str | None, _public: str | None, has_declarations: bool) -> None:  # noqa: FBT001 - expat's signature
        if not with_document_type:
            raise _document_type()
        if has_declarations:
            raise DocumentError("its document type (<!DOCTYPE>) has declarations, which are refused: entities")

    def stop(_name: str, _attributes: dict[str, str]) -> None:
        raise _RootReachedError

    parser.StartDoctypeDeclHandler, parser.StartElementHandler = begin, stop
    try:
        for start in range(0, len(content), _PROLOG_CHUNK):
            parser.Parse(content[start : start + _PROLOG_CHUNK], False)
    except _RootReachedError:
        return
    except DocumentError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:
        # Expat's own faults, and encodings that it does not know, or of several bytes a character.
        raise MalformedError(f"not well-formed XML: {error}") from error
    raise MalformedError("not well-formed XML: it has no element")


def _document_type() -> DocumentError:
    return DocumentError("it has a document type (<!DOCTYPE>), which is refused because of its entities")
