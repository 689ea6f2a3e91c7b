"""Catalogues of programs: what is translated, what stays, and that their own tools read the result."""

from __future__ import annotations

import plistlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polib
import pytest
from document_texts import read, texts, translated
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from translate.storage.xliff import Xliff1File

from xuanzang.documents import Answer, DocumentError, Job
from xuanzang.documents.opening import DocumentFile

HEADER = (
    'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Plural-Forms: nplurals={}; plural={};\\n"\n\n'
)
SAMPLES = {
    ".strings": '/* kept */\n"kept" = "One %@ \\"two\\"\\n";\n// kept\n"b" = "Three";\n',
    ".stringsdict": (
        '<?xml version="1.0" encoding="UTF-8"?>\n<plist version="1.0">\n'
        "<dict>\n\t<key>kept</key>\n\t<dict>\n"
        "\t\t<key>NSStringLocalizedFormatKey</key>\n\t\t<string>%#@kept@ one</string>\n"
        "\t\t<key>kept</key>\n\t\t<dict>\n"
        "\t\t\t<key>NSStringFormatSpecTypeKey</key>\n\t\t\t<string>NSStringPluralRuleType</string>\n"
        "\t\t\t<key>NSStringFormatValueTypeKey</key>\n\t\t\t<string>d</string>\n"
        "\t\t\t<key>one</key>\n\t\t\t<string>%d two</string>\n\t\t\t<key>other</key>\n\t\t\t<string>%d three</string>\n"
        "\t\t</dict>\n\t</dict>\n</dict>\n</plist>\n"
    ),
    ".properties": "# kept\nkept=One {0}\nb : Two \\\n  three\nkept.path=kept/kept.png\n",
    ".resx": (
        '<?xml version="1.0" encoding="utf-8"?>\n<root>\n  <data name="kept" xml:space="preserve">\n'
        "    <value>One two</value>\n    <comment>kept</comment>\n  </data>\n"
        '  <data name="kept" type="System.Kept">\n    <value>kept</value>\n  </data>\n'
        '  <data name="&gt;&gt;kept.Type" xml:space="preserve">\n    <value>kept, kept</value>\n'
        "  </data>\n</root>\n"
    ),
    ".xml": (
        '<?xml version="1.0" encoding="utf-8"?>\n<resources>\n    <!-- kept -->\n'
        '    <string name="kept">Don\\\'t one &amp; <b>two</b></string>\n'
        '    <string name="b" translatable="false">kept</string>\n    <string name="c">@string/kept</string>\n'
        '    <plurals name="d">\n        <item quantity="one">%d three</item>\n'
        '        <item quantity="other">%d four</item>\n    </plurals>\n</resources>\n'
    ),
    ".ts": (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n<TS version="2.1" language="zh_CN">\n<context>\n'
        "    <name>kept</name>\n    <message>\n        <source>One &amp;two</source>\n"
        '        <translation type="unfinished"></translation>\n    </message>\n    <message>\n'
        "        <source>kept</source>\n        <translation>done</translation>\n    </message>\n"
        '    <message numerus="yes">\n        <source>%n three</source>\n        <translation type="unfinished">'
        "<numerusform></numerusform></translation>\n    </message>\n</context>\n</TS>\n"
    ),
    ".yml": (
        "# kept\nen:\n  kept: One %{kept}\n  b:\n    one: \"%{count} two\"\n    other: '%{count} three'\n"
        "  list:\n  - Four\n  flag: true\n  number: 5\n"
    ),
    ".arb": '{"@@locale": "en", "kept": "One {kept}", "@kept": {"description": "kept"}}',
}
EXPECTED = {
    ".strings": ['One %@ "two"', "Three"],
    ".stringsdict": ["{kept} one", "%d two", "%d three"],
    ".properties": ["One {0}", "Two three"],
    ".resx": ["One two"],
    ".xml": ["Don't one &amp; <b>two</b>", "%d three", "%d four"],
    ".ts": ["One two", "%n three"],
    ".yml": ["One %{kept}", "%{count} two", "%{count} three", "Four"],
    ".arb": ["One {kept}"],
}
_MSGFMT = shutil.which("msgfmt")


@pytest.mark.parametrize("suffix", SAMPLES)
def test_the_texts_of_a_catalogue_are_its_messages(suffix: str) -> None:
    assert texts(suffix, SAMPLES[suffix]) == EXPECTED[suffix]


@pytest.mark.parametrize("suffix", [suffix for suffix in SAMPLES if suffix != ".ts"])
def test_a_catalogue_without_translations_keeps_its_bytes(suffix: str) -> None:
    assert translated(suffix, SAMPLES[suffix], str, target_language="zh").decode() == SAMPLES[suffix]
    assert read(suffix, SAMPLES[suffix]).render({}).decode() == SAMPLES[suffix]


@pytest.mark.parametrize("suffix", [suffix for suffix in SAMPLES if suffix != ".ts"])
def test_messages_of_a_catalogue_are_read_back_as_they_were_written(suffix: str) -> None:
    hostile = " \"字'\\ <b> & {x} %d : # \t!"
    written = translated(suffix, SAMPLES[suffix], lambda text: f"{text}{hostile}.")
    expected = [f"{text}{hostile}." for text in EXPECTED[suffix]]
    if suffix == ".properties":
        # A single apostrophe would quote in a message with arguments.
        expected[0] = expected[0].replace("'", "’")
    if suffix == ".xml":
        # A tag without its end would break the elements of the string.
        expected[0] = EXPECTED[suffix][0]
    assert texts(suffix, written) == expected


ANDROID = {
    "Tom &amp; <b>Jerry</b> said": "Tom &amp; <b>Jerry</b> said",
    "He &lt;ran> <i>\\'fast\\'</i>": "He &lt;ran&gt; <i>'fast'</i>",
    "Use &lt;b>bold&lt;/b> here": "Use <b>bold</b> here",
    '<![CDATA[Go <a href="x">home</a> &amp; rest]]>': 'Go <a href="x">home</a> &amp; rest',
    '<xliff:g id="a" example="b">Gmail</xliff:g> is full': "{xliff1} is full",
    '  One\n   two "  three"  ': "One two   three",
    "First\\nsecond \\u00e9 \\@ \\\\ end": "First\nsecond é @ \\ end",
    '"  quoted  "': "quoted",
    "<u>One</u> <!-- kept --> two": "<u>One</u> <!-- kept --> two",
}


def android(*strings: str) -> str:
    """Return a file of strings with their numbers as names."""
    named = "".join(f'<string name="s{number}">{string}</string>' for number, string in enumerate(strings))
    return f'<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">{named}</resources>'


@pytest.mark.parametrize(("source", "asked"), ANDROID.items())
@pytest.mark.parametrize("words", ["Q & A", "a < b", "1 > 0", 'it\'s "so"', "é 字", "back\\slash", "&amp;", "]] >"])
def test_strings_of_android_take_any_words_and_keep_their_tags(source: str, asked: str, words: str) -> None:
    [text] = texts(".xml", android(source))
    assert text == asked
    document = read(".xml", android(source))
    written = document.render({text: f"{words} {text}"})
    before, after = (etree.fromstring(each)[0] for each in (android(source), written))
    assert [each.tag for each in after.iter()] == [each.tag for each in before.iter()]
    assert document.unwritten == ()
    shown = words.replace("<", "&lt;").replace(">", "&gt;") if len(before) and words != "&amp;" else words
    if len(before):
        shown = shown.replace("&", "&amp;").replace("&amp;lt;", "&lt;").replace("&amp;gt;", "&gt;")
        shown = shown.replace("&amp;amp;", "&amp;")
    assert texts(".xml", written) == [f"{shown} {text}"]


@pytest.mark.parametrize("answer", ["Tom <b>Jerry", "Tom</b> <b>Jerry", "Tom <i>Jerry</i>", "<b>Tom</b> <b>Jerry</b>"])
def test_a_string_of_android_whose_tags_break_stays_alone_and_is_reported(answer: str) -> None:
    file = DocumentFile.of(android("Tom <b>Jerry</b>", "Free").encode(), suffix=".xml")
    found = file.rewritten({"Tom <b>Jerry</b>": answer, "Free": "Frei"})
    assert found.content.decode() == android("Tom <b>Jerry</b>", "Frei")
    assert len(found.refusals) == 1


def test_all_strings_of_android_are_translated_but_references_and_untranslatable_ones() -> None:
    content = (
        "<resources><string-array name='a'><item>One</item><item>@string/kept</item></string-array>"
        "<plurals name='p'><item quantity='few'>%d two</item><item quantity='many'>%d three</item></plurals>"
        "<string name='k' translatable='false'>kept</string><string name='r'>?android:attr/kept</string>"
        "<string-array name='b' translatable='false'><item>kept</item></string-array>"
        "<array name='c'><item>kept</item></array><style name='d'><item name='e'>kept</item></style></resources>"
    )
    content = content.replace(
        "</resources>", "<item type='string' name='f'>%d three</item><item name='g'>a</item></resources>"
    )
    assert texts(".xml", content) == ["One", "%d two", "%d three", "%d three"]
    written = translated(".xml", content).decode()
    assert written == content.replace("One", "ONE").replace("%d two", "%D TWO").replace("%d three", "%D THREE")


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".resx", "<root><data name='a'><value>One</value></data><data name='b'><value>Two</value></data></root>"),
        (
            ".ts",
            "<TS><context><name/>{0}One{1}{0}Two{1}</context></TS>".format("<message><source>", "</source></message>"),
        ),
        (".xml", android("One", "Two")),
    ],
)
def test_an_entry_that_cannot_be_written_stays_and_the_others_are_translated(suffix: str, content: str) -> None:
    found = DocumentFile.of(content.encode(), suffix=suffix).rewritten({"One": "E\x01ins", "Two": "Zwei"})
    assert "Zwei" in found.content.decode()
    assert "One" in found.content.decode()
    assert len(found.refusals) == 1


def test_all_forms_of_a_plural_in_rails_are_translated() -> None:
    content = "ru:\n  n:\n    one: One\n    few: Two\n    many: Three\n    other: Four\n"
    assert texts(".yml", content) == ["One", "Two", "Three", "Four"]
    expected = content.replace("ru:", "en:").replace("One", "ONE").replace("Two", "TWO")
    expected = expected.replace("Three", "THREE").replace("Four", "FOUR")
    assert translated(".yml", content, target_language="en").decode() == expected


def test_a_catalogue_that_would_lose_a_part_is_refused() -> None:
    forms = {"NSStringLocalizedFormatKey": "One"}
    widths = {"NSStringVariableWidthRuleType": {"20": "Short"}}
    document = read(".stringsdict", plistlib.dumps({"a": forms, "b": widths}))
    with pytest.raises(DocumentError, match="parts that are no messages, such as widths, and would lose them"):
        document.render({"One": "Eins"})


def test_translations_by_length_of_qt_stay_and_empty_ones_are_reported() -> None:
    message = "<message><source>{}</source><translation type='unfinished'>{}</translation></message>"
    variants = "<lengthvariant>{0}</lengthvariant><lengthvariant>{0}</lengthvariant>"
    messages = (("Done", variants.format("x")), ("Open", variants.format("")), ("Free", ""))
    entries = [message.format(*each) for each in messages]
    source = f"<TS><context><name>a</name>{''.join(entries[:2])}</context>{entries[2]}</TS>"
    document = read(".ts", source)
    assert [unit.text for unit in document.units()] == ["Open", "Free"]
    written = document.render({"Open": "OPEN", "Free": "FREE"}).decode()
    assert re.findall("<source>|<lengthvariant>x<|<lengthvariant|FREE|OPEN", written) == [
        *("<source>", "<lengthvariant>x<", "<lengthvariant>x<", "<source>", "<lengthvariant", "<lengthvariant"),
        *("<source>", "FREE"),
    ]
    assert [unit.text for unit in document.unwritten] == ["Open"]
    assert written.count("<context>") == 1


def test_numbered_variables_of_apple_are_fields_in_braces() -> None:
    source = SAMPLES[".stringsdict"].replace("%#@kept@ one", "%1$#@kept@ one")
    assert texts(".stringsdict", source)[0] == "{kept} one"
    moved = translated(".stringsdict", source, lambda text: {"{kept} one": "ONE {kept}"}.get(text, text))
    assert plistlib.loads(moved)["kept"]["NSStringLocalizedFormatKey"] == "ONE %1$#@kept@"


def test_anchors_aliases_and_all_but_the_strings_of_rails_stay() -> None:
    source = (
        "# note\n---\nen:  # english\n  base: &b\n    a: &x One\n    c: !!str 'two' # note\n  page:\n    <<: *b\n"
        '    d: *x\n    e: [Three, "four", :five]\n    yes: yes\n    f: ~\n    g: |-\n      line\n\n      end\n'
        "    h: >\n      folded\n      line\n\n    ? i\n    :   six\n    j: 2024-01-01\n    k: !ruby/symbol l\n"
    )
    words = ("One", "two", "Three", "four", "line", "end", "six", "folded\n      LINE", "FOLDED LINE")
    expected = source.replace("en:", "zh:")
    for word in words[:-2]:
        expected = expected.replace(f"{word}\n", f"{word.upper()}\n").replace(f"{word}'", f"{word.upper()}'")
        expected = expected.replace(f'"{word}"', f'"{word.upper()}"').replace(f"{word},", f"{word.upper()},")
    expected = expected.replace(*words[-2:])
    assert translated(".yml", source, target_language="zh").decode() == expected


@pytest.mark.parametrize("style", ["{}", '"{}"', "'{}'", "[{}]", "|-\n    {}", ">\n    {}", ">+\n    {}\n"])
@pytest.mark.parametrize(
    "translation",
    ["x", "no", "a: b", "a #b", "- a", "a, b]", "'a' \"b\"", "a\nb", "a\n\n\nb", "a\n b", "%a", "字：", "\u2028\x7f"],
)
def test_strings_of_rails_in_any_style_are_read_back_as_they_were_written(style: str, translation: str) -> None:
    import yaml

    written = translated(".yml", f"en:\n  a: {style.format('word')}\n  b: other\n", lambda _: translation).decode()
    found = yaml.safe_load(written)["en"]
    [value] = found["a"] if isinstance(found["a"], list) else [found["a"]]
    assert value.rstrip("\n") == found["b"] == translation


def test_catalogues_are_read_by_other_libraries() -> None:
    import yaml

    moved = translated(
        ".stringsdict", SAMPLES[".stringsdict"], lambda text: {"{kept} one": "ONE {kept}"}.get(text, text)
    )
    assert plistlib.loads(moved)["kept"]["NSStringLocalizedFormatKey"] == "ONE %#@kept@"
    found = plistlib.loads(translated(".stringsdict", SAMPLES[".stringsdict"]))
    assert found["kept"]["kept"]["other"] == "%D THREE"
    assert found["kept"]["kept"]["NSStringFormatValueTypeKey"] == "d"
    rails = yaml.safe_load(translated(".yml", SAMPLES[".yml"], target_language="de"))
    assert rails == {
        "de": {
            "kept": "ONE %{KEPT}",
            "b": {"one": "%{COUNT} TWO", "other": "%{COUNT} THREE"},
            "list": ["FOUR"],
            "flag": True,
            "number": 5,
        }
    }
    qt = etree.fromstring(translated(".ts", SAMPLES[".ts"]))
    assert [element.text for element in qt.iter("translation", "numerusform")][:2] == ["ONE &TWO", "done"]
    assert [element.text for element in qt.iter("numerusform")] == ["%N THREE"]
    android = etree.fromstring(translated(".xml", SAMPLES[".xml"], lambda text: text.replace("one", "eins")))
    assert android[1].text == "Don\\'t eins & "
    assert [item.text for item in android.iter("item")] == ["%d three", "%d four"]
    assert (
        '"@@locale": "de", "kept": "ONE {KEPT}"' in translated(".arb", SAMPLES[".arb"], target_language="de").decode()
    )
    assert translated(".properties", "a=One\n", lambda _: "字") == b"a=\\u5B57\n"
    assert translated(".properties", "a=Oné\n", lambda _: "字") == "a=字\n".encode()


@pytest.mark.parametrize(
    ("suffix", "content", "message"),
    [
        (".yml", "a: b\nc: d\n", "with a language as the only key at the top"),
        (".yml", "en: [", "no readable YAML"),
        (".xml", "<other/>", "it has no <resources>"),
        (".ts", "const a = 1;", "it has no <TS>"),
        (".resx", "<root", "no readable .resx"),
        (".xml", '<!DOCTYPE a [<!ENTITY b "c">]><resources/>', "entities, which are refused"),
        (".stringsdict", "<plist>", "no readable .stringsdict"),
        (".strings", '"a" = "b"', "line 1: no semicolon ends the value"),
        (".strings", '"a" = {"b" = "c";};', "line 1: here should be a key or a string"),
        (".strings", '"a" = "b\\201";', "NeXTSTEP"),
        (".properties", "\n" * 1000, "more than 999 empty lines in a row"),
    ],
)
def test_what_is_no_catalogue_is_refused(suffix: str, content: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        texts(suffix, content)


def filled(source: str, answers: dict[str, str] | None = None, **settings: Any) -> Any:
    """Return a .po with translations, by default the texts themselves in angle quotes, as polib reads it."""
    document = read(".po", source, **settings)
    found = {unit.text: (answers or {}).get(unit.text, f"«{unit.text}»") for unit in document.units()}
    return polib.pofile(document.render(found).decode())


def test_directives_that_change_places_are_numbered() -> None:
    source = (
        HEADER.format(1, 0) + '#, c-format\nmsgid "%s of %s"\nmsgstr ""\n\n#, c-format\nmsgid "%d in %s"\nmsgstr ""\n'
    )
    assert texts(".po", source) == ["%1$s of %2$s", "%1$d in %2$s"]
    entries = filled(source, {"%1$s of %2$s": "%2$s的%1$s", "%1$d in %2$s": "%1$d 在 %2$s"})
    assert [entry.msgstr for entry in entries] == ["%2$s的%1$s", "%d 在 %s"]


def test_directives_that_cannot_be_numbered_keep_their_order_or_are_refused() -> None:
    source = HEADER.format(1, 0) + '#, python-format\nmsgid "%s of %d"\nmsgstr ""\n\nmsgid "%s off %d"\nmsgstr ""\n'
    found = DocumentFile.of(source.encode(), suffix=".po").texts()
    assert found.ordered == ("%s of %d",)
    job = Job(found)
    for text in found.places:
        job.record(text, Answer(translation="%d %s"))
    assert [refusal.message for refusal in job.finish().summary.refusals] == [
        "the translation changed the order of its placeholders",
        *["the translation lost the placeholder %s off" for _ in ()],
    ]


@pytest.mark.parametrize(("language", "forms"), [("zh", 1), ("de", 2), ("ru", 3), ("ar", 6)])
def test_plural_forms_are_those_of_the_target_language(language: str, forms: int) -> None:
    source = (
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=CHARSET\\n"\n'
        '"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"\n\n'
        '#, c-format\nmsgid "one file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    )
    catalogue = filled(source, target_language=language)
    assert catalogue.metadata["Plural-Forms"].startswith(f"nplurals={forms}; plural=")
    assert catalogue.metadata["Content-Type"] == "text/plain; charset=UTF-8"
    singular = "«one file»" if forms == 2 else "«%d files»"
    assert catalogue[0].msgstr_plural == {0: singular, **dict.fromkeys(range(1, forms), "«%d files»")}


def test_the_header_alone_declares_the_encoding_and_the_forms() -> None:
    header = '# charset=big5\nmsgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    assert texts(".po", header + 'msgid "猫 charset=ascii"\nmsgstr ""\n') == ["猫 charset=ascii"]
    source = HEADER.format(3, "n") + 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n'
    assert filled(source, target_language="zh")[0].msgstr_plural == dict.fromkeys((1, 2), "«b»") | {0: "«a»"}


def test_a_catalogue_without_a_header_gets_one() -> None:
    written = translated(".po", '# kept\nmsgid "a"\nmsgstr ""\n', lambda _: "字").decode()
    assert written.startswith('msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"')
    assert written.endswith('\n\n# kept\nmsgid "a"\nmsgstr "字"\n')


def test_all_spellings_of_entries_are_read() -> None:
    source = (
        HEADER.format(1, 0) + 'msgid "Hello " "world"\nmsgstr ""\n\nmsgid\n"split"\nmsgstr\n""\n\n'
        '#, fuzzy\n#| msgid "old"\nmsgctxt "kept"\nmsgid "new"\nmsgstr "neu"\n\n#~ msgid "obsolete"\n#~ msgstr ""\n'
    )
    assert texts(".po", source) == ["Hello world", "split"]
    assert texts(".po", 'msgid "a"\nmsgstr ""\ndomain "x"\nmsgid "b"\nmsgstr ""\n') == ["a", "b"]


_WORDS = st.lists(
    st.sampled_from(["file", "%s", "%d", "\\n", "%%", "the", '\\"q\\"', "\\t", "é", "%5.2f", "{x}"]),
    min_size=1,
    max_size=6,
).map(" ".join)


@pytest.mark.parametrize(
    ("value", "asked", "translation", "written"),
    [
        ("Don''t stop {0}.", "Don't stop {0}.", "Isn't {0}", "Isn''t {0}"),
        ("不要停止{0}。", "不要停止{0}。", "Don't stop {0}.", "Don’t stop {0}."),
        ("不要停止。", "不要停止。", "Don't stop.", "Don't stop."),
        ("Set '{'{0}'}' now", "Set '{'{0}'}' now", "It's '{'{0}'}'", "It’s '{'{0}'}'"),
    ],
)
def test_apostrophes_quote_nothing_in_messages_of_java(value: str, asked: str, translation: str, written: str) -> None:
    content = f"# é\na={value}\n"
    assert texts(".properties", content) == [asked]
    assert translated(".properties", content, lambda _: translation) == f"# é\na={written}\n".encode()


@pytest.mark.skipif(_MSGFMT is None, reason="gettext is not installed")
@settings(max_examples=200)
@given(
    st.lists(st.tuples(_WORDS, st.booleans(), st.booleans()), min_size=1, max_size=5, unique_by=lambda each: each[0]),
    st.sampled_from(["zh", "en", "ru"]),
    st.booleans(),
)
def test_msgfmt_finds_no_fault_in_what_was_filled(
    entries: list[tuple[str, bool, bool]], language: str, has_header: bool
) -> None:
    """The translations have their words in the opposite order, so directives change places."""
    source = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n' if has_header else ""
    for number, (text, is_flagged, is_plural) in enumerate(entries):
        source += ("#, c-format\n" if is_flagged else "") + f'msgctxt "{number}"\nmsgid "a {text}"\n'
        source += f'msgid_plural "b {text}"\nmsgstr[0] ""\nmsgstr[1] ""\n\n' if is_plural else 'msgstr ""\n\n'
    document = DocumentFile.of(source.encode(), suffix=".po", target_language=language)
    answers = {text: " ".join(reversed(text.split(" "))) for text in document.texts().places}
    written = document.written(answers)
    check = subprocess.run(
        [_MSGFMT or "", "-c", "-o", "/dev/null", "-"], input=written, capture_output=True, check=False
    )
    assert check.returncode == 0, check.stderr.decode() + written.decode()
    assert len(polib.pofile(written.decode())) == len(entries)


XLIFF_2 = (
    '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en">'
    '<file id="f"><unit id="u">{}</unit></file></xliff>'
)


def test_xliff_2_names_its_language_and_changes_states() -> None:
    source = XLIFF_2.format('<segment state="initial"><source>One</source><target>One</target></segment>')
    written = translated(".xlf", source, target_language="zh").decode()
    assert ' srcLang="en" trgLang="zh">' in written
    assert '<segment state="translated"><source>One</source><target>ONE</target></segment>' in written
    with pytest.raises(DocumentError, match="XLIFF 2 needs its target language"):
        texts(".xlf", source)


def test_xliff_targets_stand_where_the_schemas_want_them() -> None:
    unit = (
        '<trans-unit id="1" xml:space="preserve"><source>One\n two</source>'
        '<seg-source><mrk mid="0" mtype="seg">One</mrk>\n<mrk mid="1" mtype="seg"> two</mrk></seg-source>'
        "<note>kept</note></trans-unit>"
    )
    written = translated(".xlf", f'<xliff version="1.2"><file source-language="en">{unit}</file></xliff>').decode()
    root = etree.fromstring(written)
    [found] = root.iter("trans-unit")
    assert [element.tag for element in found] == ["source", "seg-source", "target", "note"]
    target = '<target><mrk mid="0" mtype="seg">ONE</mrk>\n<mrk mid="1" mtype="seg"> TWO</mrk></target>'
    assert target in written


def test_markup_of_xliff_moves_with_its_words_and_untranslated_spans_stay() -> None:
    source = 'Use <mrk translate="no">A b</mrk> and <sm id="1" translate="no"/>C<em startRef="1"/> <pc id="2">now</pc>.'
    content = XLIFF_2.format(f"<segment><source>{source}</source></segment>")
    [text] = texts(".xlf", content, target_language="zh")
    assert text == "Use {xliff1} and {xliff2} <xliff3>now</xliff3>."
    answer = "<xliff3>Jetzt</xliff3> {xliff2} & {xliff1}."
    written = read(".xlf", content, target_language="zh").render({text: answer}).decode()
    assert (
        '<target><pc id="2">Jetzt</pc> <sm id="1" translate="no"/>C<em startRef="1"/> &amp; '
        '<mrk translate="no">A b</mrk>.</target>'
    ) in written


def test_a_translation_without_an_element_of_xliff_is_refused() -> None:
    source = (
        '<xliff version="1.2"><file><trans-unit id="1"><source>a <g id="1">b</g></source></trans-unit></file></xliff>'
    )
    file = DocumentFile.of(source.encode(), suffix=".xlf")
    for translation in ("a b", "</xliff1>a<xliff1>", "a <xliff1>b</xliff1></xliff1>"):
        job = Job(file.texts())
        job.record("a <xliff1>b</xliff1>", Answer(translation=translation))
        assert len(job.finish().summary.refusals) == 1
        with pytest.raises(DocumentError, match=r"the translation (?:lost or doubled a tag|has a tag that ends)"):
            file.written({"a <xliff1>b</xliff1>": translation})


def test_an_icu_message_with_elements_is_one_text() -> None:
    source = '{N, plural, =1 {one file} other {<x id="I"/> files}}'
    content = f'<xliff version="1.2"><file><trans-unit id="1"><source>{source}</source></trans-unit></file></xliff>'
    [text] = texts(".xlf", content)
    assert text == "{N, plural, =1 {one file} other {{xliff1} files}}"
    written = read(".xlf", content).render({text: text.replace("files", "字")}).decode()
    assert '<target>{N, plural, =1 {one file} other {<x id="I"/> 字}}</target>' in written


def test_codes_of_xliff_are_values_or_pairs_or_points() -> None:
    source = (
        'Copied <ph id="1">%1$s</ph> to <bpt id="2">&lt;b&gt;</bpt>the <x id="START_I" ctype="x-i"/>old'
        '<x id="CLOSE_I" ctype="x-i"/> folder<ept id="2">&lt;/b&gt;</ept>.<x id="LINE_BREAK" ctype="lb"/>Done'
    )
    content = f'<xliff version="1.2"><file><trans-unit id="1"><source>{source}</source></trans-unit></file></xliff>'
    [text] = texts(".xlf", content)
    assert text == "Copied {xliff1} to <xliff2>the <xliff3>old</xliff3> folder</xliff2>.<xliff4/>Done"
    assert f"<target>{source}</target>" in read(".xlf", content).render({text: text}).decode()


def test_codes_of_xliff_that_cross_stay_points() -> None:
    source = 'a <bpt id="1">x</bpt>b <bpt id="2">y</bpt>c<ept id="1">z</ept> d<ept id="2">w</ept> e'
    content = f'<xliff version="1.2"><file><trans-unit id="1"><source>{source}</source></trans-unit></file></xliff>'
    assert texts(".xlf", content) == ["a <xliff1>b <xliff2/>c</xliff1> d<xliff3/> e"]


@pytest.mark.parametrize(
    ("source", "asked", "translation", "written"),
    [
        ("&Open", "Open", "打开", "打开(&O)"),
        ("_Open the file...", "Open the file...", "打开文件...", "打开文件(_O)..."),
        ("E_xit", "Exit", "退出", "退出(_X)"),
        ("Find &Next:", "Find Next:", "查找下一个：", "查找下一个(&N)："),
        ("打开(&O)…", "打开…", "Open…", "&Open…"),
        ("AT&T", "AT&T", "AT&T", "AT&T"),
        ("max_size is set", "max_size is set", "max_size 已设置", "max_size 已设置"),
        ("Tom & Jerry", "Tom & Jerry", "汤姆和杰瑞", "汤姆和杰瑞"),
        ("&copy; of it", "&copy; of it", "它的 &copy;", "它的 &copy;"),
    ],
)
@pytest.mark.parametrize("suffix", [".po", ".json"])
def test_accelerators_are_put_where_the_target_has_them(
    suffix: str, source: str, asked: str, translation: str, written: str
) -> None:
    content = f'{{"中": "{source}"}}' if suffix == ".json" else f'msgid "{source}"\nmsgstr ""\n'
    assert texts(suffix, content) == [asked]
    if translation != asked:
        assert f'"{written}"' in read(suffix, content).render({asked: translation}).decode()


def _upper(text: str) -> str:
    return text.upper().replace("XLIFF", "xliff")


_INLINE = st.recursive(
    st.sampled_from(["One", "two &amp; three", "4", '<x id="1"/>', "<!-- c -->", '<ph id="2">&lt;br/></ph>', " "]),
    lambda inner: inner.map('<g id="3">{}</g>'.format) | inner.map('<mrk mtype="protected">{}</mrk>'.format),
    max_leaves=4,
)


@settings(max_examples=200)
@given(st.lists(_INLINE, min_size=1, max_size=5).map(" ".join), st.booleans())
def test_targets_of_xliff_have_the_elements_of_their_sources(source: str, is_preserved: bool) -> None:
    space = ' xml:space="preserve"' if is_preserved else ""
    content = f'<xliff version="1.2"><file><trans-unit{space}><source>{source}</source></trans-unit></file></xliff>'
    written = translated(".xlf", content, _upper)
    [unit] = etree.fromstring(written).iter("trans-unit")
    toolkit: Any = Xliff1File
    [read_back] = toolkit.parsestring(written).units
    assert bool(str(read_back.target or "")) is (len(unit) == 2)
    if len(unit) == 2:
        assert [element.tag for element in unit[1].iter()][1:] == [element.tag for element in unit[0].iter()][1:]
        assert "".join(unit[1].itertext()).upper().split() == "".join(unit[0].itertext()).upper().split()


def test_names_paths_and_codes_are_no_messages() -> None:
    kept = ["common.buttons.save", "MM/DD/YYYY", "en-US", "#ffcc00", "images/icon-home.png", "2024-01-01T00:00:00Z"]
    assert texts(".json", str([*kept, "Save", "and/or", "hello", "My day"]).replace("'", '"')) == [
        *("Save", "and/or", "hello", "My day")
    ]


def test_suffixes_are_known_in_capitals(tmp_path: Path) -> None:
    path = tmp_path / "strings.XML"
    path.write_text(SAMPLES[".xml"])
    assert list(DocumentFile.of(path).texts().places) == EXPECTED[".xml"]


_MESSAGES = st.lists(
    st.lists(
        st.sampled_from(["One", "two!", "%d", "{x}", '"q"', "it's", "<", "&", "é", "\\\\", "a: b", "# c"]),
        min_size=1,
        max_size=5,
    )
    .map(" ".join)
    .filter(lambda text: any(map(str.isalpha, text))),
    min_size=1,
    max_size=4,
)


def _catalogue(suffix: str, messages: list[str]) -> bytes:
    """Return a catalogue of messages, written by other libraries than the one that reads it where there is one."""
    import json

    import yaml

    named = {f"k{number}": text for number, text in enumerate(messages)}
    if suffix == ".yml":
        return str(yaml.safe_dump({"en": named}, allow_unicode=True)).encode()
    if suffix == ".stringsdict":
        return plistlib.dumps({name: {"NSStringLocalizedFormatKey": text} for name, text in named.items()})
    if suffix == ".arb":
        return json.dumps(named).encode()
    if suffix == ".strings":
        lines = (f'"{name}" = {json.dumps(text, ensure_ascii=False)};\n' for name, text in named.items())
        return "".join(lines).encode()
    root = etree.Element({".resx": "root", ".ts": "TS"}[suffix])
    parent = root if suffix == ".resx" else etree.SubElement(root, "context")
    if suffix == ".ts":
        etree.SubElement(parent, "name").text = "a"
    for name, text in named.items():
        element = etree.SubElement(parent, "data" if suffix == ".resx" else "message", name=name)
        etree.SubElement(element, "value" if suffix == ".resx" else "source").text = text
        if suffix == ".ts":
            etree.SubElement(element, "translation", type="unfinished")
    return etree.tostring(root, encoding="utf-8", xml_declaration=True)


@pytest.mark.parametrize("suffix", [".yml", ".stringsdict", ".arb", ".strings", ".resx", ".ts"])
def test_generated_catalogues_give_their_messages_and_take_any(suffix: str) -> None:
    @settings(max_examples=200)
    @given(_MESSAGES, _MESSAGES)
    def check(messages: list[str], answers: list[str]) -> None:
        raw = _catalogue(suffix, messages)
        found = texts(suffix, raw)
        assert set(found) <= set(messages)
        assert len(found) >= len([text for text in set(messages) if " " in text]) or suffix == ".ts"
        chosen = {text: answers[number % len(answers)] for number, text in enumerate(dict.fromkeys(found))}
        written = read(suffix, raw).render(chosen)
        if suffix != ".ts":
            assert texts(suffix, written) == [chosen[text] for text in found]
        else:
            translations = [element.text or "" for element in etree.fromstring(written).iter("translation")]
            assert [text for text in translations if text] == [chosen[text] for text in found]

    check()


def test_strings_of_apple_are_values_in_any_spelling_and_all_else_stays() -> None:
    source = (
        '/* "x" = "no"; */\n"a" = "First line\nsecond line"; b_c = \'It\\\'s\'; // "y" = "no";\n'
        '"d"\n= "One\\ntwo \\"x\\"";\n'
        '"key of its own";\n"e" = "b\\\\"; "f" = "caf\\U00e9 \\ud83d\\ude00"; "g" = other;\n'
    )
    assert texts(".strings", source) == [
        *("First line\nsecond line", "It's", 'One\ntwo "x"', "key of its own", "b\\", "café 😀", "other"),
    ]
    assert translated(".strings", source).decode() == (
        '/* "x" = "no"; */\n"a" = "FIRST LINE\nSECOND LINE"; b_c = \'IT\\\'S\'; // "y" = "no";\n'
        '"d"\n= "ONE\\nTWO \\"X\\"";\n'
        '"key of its own" = "KEY OF ITS OWN";\n"e" = "B\\\\"; "f" = "CAFÉ 😀"; "g" = "OTHER";\n'
    )
    marked = "\ufeff" + source
    assert translated(".strings", marked.encode("utf-16-le")).decode("utf-16")[:20] == source[:20]
