"""XLIFF files with translations are valid by the schemas of OASIS, in versions 1.2 and 2.0.

The schemas are not ours to distribute: XLIFF_SCHEMAS names a folder with `xliff-core-1.2-strict.xsd`,
`xliff-core-2.0.xsd` and `xml.xsd`, as Debian's php-symfony-translation has them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from document_texts import translated
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

_FOLDER = os.environ.get("XLIFF_SCHEMAS", "")
_NAMES = {"1.2": "xliff-core-1.2-strict.xsd", "2.0": "xliff-core-2.0.xsd"}

pytestmark = pytest.mark.skipif(not _FOLDER, reason="XLIFF_SCHEMAS names no folder with the schemas of XLIFF")


class _Local(etree.Resolver):
    """Finds the schema of the attributes of XML in the folder, and nothing on a network."""

    def resolve(self, system_url: str | None, public_id: str | None, context: Any) -> Any:
        is_known = system_url is not None and "xml.xsd" in system_url
        return self.resolve_filename(str(Path(_FOLDER, "xml.xsd")), context) if is_known else None


def _schema(version: str) -> etree.XMLSchema:
    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(_Local())
    return etree.XMLSchema(etree.parse(str(Path(_FOLDER, _NAMES[version])), parser))


_CONTENT_1 = (
    "word",
    "&lt;b&gt;word",
    "<![CDATA[<b>word</b>]]>",
    '<g id="{}">word</g>',
    '<x id="{}"/>',
    '<bpt id="{0}" rid="{0}">a</bpt>word<ept id="{0}" rid="{0}">b</ept>',
    '<ph id="{}">%s</ph>',
    '<mrk mtype="protected">word</mrk>',
)
_CONTENT_2 = (
    "word",
    '<pc id="n{}">word</pc>',
    '<ph id="n{}" disp="%s"/>',
    '<sc id="n{0}"/>word<ec startRef="n{0}"/>',
    '<mrk id="n{}" translate="no">word</mrk>',
    '<sm id="n{0}" translate="no"/>word<em startRef="n{0}"/>',
    '<cp hex="001a"/>',
)
_BEHIND_1 = (
    "",
    "<target/>",
    '<seg-source><mrk mid="0" mtype="seg">word</mrk></seg-source>',
    '<seg-source><mrk mid="0" mtype="seg">word</mrk></seg-source><target state="new"/>',
    '<target state="needs-translation" xml:lang="zh">word</target>',
    "<note>word</note><alt-trans><target>word</target></alt-trans>",
    '<context-group purpose="location"><context context-type="sourcefile">a</context></context-group>',
)


def _content(kinds: tuple[str, ...]) -> st.SearchStrategy[str]:
    parts = st.lists(st.sampled_from(kinds), min_size=1, max_size=5)
    return parts.map(lambda found: " ".join(part.format(number) for number, part in enumerate(found)))


_SPACE = st.sampled_from(("", ' xml:space="preserve"'))
_UNIT_1 = st.builds(
    "<trans-unit id='{{}}'{}><source>{}</source>{}</trans-unit>".format,
    _SPACE,
    _content(_CONTENT_1),
    st.sampled_from(_BEHIND_1),
)
_UNIT_2 = st.builds(
    "<unit id='u{{}}'{}>{}<segment{}><source{}>{}</source>{}</segment>{}</unit>".format,
    _SPACE,
    st.sampled_from(("", "<notes><note>word</note></notes>")),
    st.sampled_from(("", ' state="initial"', ' state="initial" subState="a:b"')),
    _SPACE,
    _content(_CONTENT_2),
    st.sampled_from(("", "<target/>")),
    st.sampled_from(("", "<ignorable><source> </source></ignorable>")),
)


def _check(version: str, head: str, units: list[str], tail: str) -> None:
    numbered = "".join(unit.format(number) for number, unit in enumerate(units))
    source = f'<xliff version="{version}" xmlns="urn:oasis:names:tc:xliff:document:{version}" {head}{numbered}{tail}'
    schema = _schema(version)
    schema.assertValid(etree.fromstring(source))
    written = translated(".xlf", source, lambda text: text.replace("word", "字"), target_language="zh")
    schema.assertValid(etree.fromstring(written))


@settings(max_examples=200, deadline=None)
@given(st.lists(_UNIT_1, min_size=1, max_size=3), st.sampled_from(("", ' target-language="zh"')))
def test_version_1_2_is_valid_by_its_schema(units: list[str], language: str) -> None:
    head = f'><file source-language="en"{language} datatype="plaintext" original="a"><body>'
    _check("1.2", head, units, "</body></file></xliff>")


@settings(max_examples=200, deadline=None)
@given(st.lists(_UNIT_2, min_size=1, max_size=3), st.sampled_from(("", ' trgLang="zh"')))
def test_version_2_is_valid_by_its_schema(units: list[str], language: str) -> None:
    _check("2.0", f'srcLang="en"{language}><file id="f">', units, "</file></xliff>")
