"""Placeholders are found by family, whole, and nothing else is."""

from __future__ import annotations

import pytest
from hostile_texts import superlinear

from xuanzang.text.catalogue import find
from xuanzang.text.markup.document import Block
from xuanzang.text.placeholder_patterns import Role
from xuanzang.text.spans.blanks import blanks
from xuanzang.text.spans.carrying import Carrier, is_no_language
from xuanzang.text.types import PlaceholderFamily as Family

SPANS = {
    Family.PRINTF: (
        "%s %d %1$s %-10s %05.2f %lld %I64d %zu %@ %1$@ %% %1 %n %L1 %{name} %<count>d %(name)s %(count)03d %1!s! "
        "%Y %*d %#@files@ %destination %dpx %s1 %[2]d %[name]s "
        "%1$#@files@ %{count}d %+{x} %1$,d %1$(d %,.2f %08b %%name %E4%BD%A0"
    ),
    Family.BRACES: (
        "{0} {} {name} {user.name} {items[0]} {name!r} {price:,.2f} {date,short} {{x}} {{{x}}} {{>p}} ${x} #{x} "
        "@{x} {$X} {-brand} {w:{n}} {{#if}} {{/if}} {x/} {名字} {a|b} {{x|y:{n:5}}} {\\i1} $[a,1] "
        "{n}|plural(one=a,other=b) %{count}d !{x} &{a.b} ~{x} ^{x} ?{x} $!{x} {%x}"
    ),
    Family.TEMPLATES: "{%if%} {%-x-%} {{v}} <%x%> <%=x%> <?php?> <?=x?> {#c#} [%x%] <#if> #=x#",
    Family.TAGS: "<b> </b> <br/> <0/> <1> <a:b> <color=#ff0000> &amp; &#39; &#x27; [b] [/b] <!--x--> <> <https://a.org|it>",
    Family.VARIABLES: (
        r"$USER$ $name $user->name $a.b %NAME% %%NAME%% :name :smile: @:key @:(a.b) [[x]] __name__ <<x>> "
        r"#name# $t(key) $1 \n \u00a0 \u{201C} \x{a0} [Name] [first_name] [your-email] [gallery] \c[2] \N[1] "
        r"###NAME### @@name@@ ~~x1~~ ==NAME== ||name|| ^NAME^ ~r~ |cff00ff00 $x^2$ $n+1$ $$x$$ \(x^2\) \[x\] "
        r"\frac{a}{b} \begin{cases}a\\b\end{cases} \cite[2]{a} \alpha \gamma_1 \neq "
        r"$A$1 £gold£ !!name!! ??name?? ~name~ \verb|x| !x! "
        r"%name%% |NAME| ?x? !name $!name *name* **name** ==x== ||url|| "
        r"$(name) $((x+1)) @lang('a.b') @(a.B) \033[1m \e[0m ^[[31m"
    ),
    Family.ADDRESSES: (
        "https://example.com/a?b=c&d={id} http://localhost:3000/x www.example.org/a ftp://x.org bob@example.org "
        "mailto:a@b.org example.com example.org/a/b data:image/png;base64,AA=="
    ),
    Family.FILES: (
        r"/etc/hosts ~/a/b.txt ./run.sh C:\Users\bob \\server\share src/main.py README.md a.tar.gz *.txt docs/ "
        "src/**/*.ts **/a"
    ),
    Family.IDENTIFIERS: (
        "550e8400-e29b-41d4-a716-446655440000 d41d8cd98f00b204e9800998ecf8427e a1b2c3d SGVsbG8gV29ybGQhISE= 0xdeadbeef "
        "192.168.0.1 1.2.3 v2 v2.0.1-beta.3 a/b#12 2024-01-31T10:00:00Z 00:00:01,000 +86-138-0000-0000 "
        "#ff8800 00:1A:2B:3C:4D:5E CVE-2024-12345 "
        "application/json text/html image/svg+xml application/vnd.ms-excel Europe/Berlin America/New_York"
    ),
    Family.HANDLES: "@bob @bob_smith #release #42 @小明 #话题#",
    Family.CODE: (
        "=IF(A1>0,F(2)) && &&name || *ngIf `npm` max_size parseDate open() os.path.join() --force std::vector a->b "
        "(a|b)* (?:a|b)+ #,##0.00 #.## dd/MM/yyyy YYYY-MM-DD HH:mm:ss YYYY XXX-XX-XXXX"
    ),
}
PROSE = (
    "The quick brown fox jumped: it was 50% faster, and/or 10 km/h (see p. 3) at 10:30. It costs $5.99, e.g. in "
    "the U.S. 3 * 4 * 5 = 2*3*10, Name* and e-mail* (* required), 10% a year, 50% discount, 5 mm/h, ____ or __ ''90s. "
    "Asia/Pacific, audio/video or text/image, application/letter; "
    "I <3 it; a < b and c > d. Well-known things cost 1,024.50 - a fact! 100% sure?"
    " 价格是50元，时间：10:30。#"
)
ALL = frozenset(Family)


@pytest.mark.parametrize("family", SPANS)
def test_each_span_of_a_family_is_found_whole(family: Family) -> None:
    for span in SPANS[family].split():
        # Names after @ and # may go on in Chinese.
        joined = () if span in ("#release", "@小明") else (f"请打开{span}吧。",)
        for text in (span, f"Open {span} now.", f"请打开 {span} 吧。", *joined):
            assert [text[each.start : each.end] for each in find(text, {family})] == [span], text


def test_tags_of_blocks_end_sentences_and_code_is_a_value() -> None:
    text = "<p>One <b>two</b></p><LI class='x'>Three<br/>four</LI><pr>x</pr>Use <code>git pull</code>."
    assert [(text[each.start : each.end], each.role) for each in find(text, {Family.TAGS})] == [
        ("<p>", Role.BREAK),
        ("<b>", Role.OPEN),
        ("</b>", Role.CLOSE),
        ("</p>", Role.BREAK),
        ("<LI class='x'>", Role.BREAK),
        ("<br/>", Role.BREAK),
        ("</LI>", Role.BREAK),
        ("<pr>", Role.OPEN),
        ("</pr>", Role.CLOSE),
        ("<code>git pull</code>", Role.VALUE),
    ]


def test_prose_has_no_placeholders() -> None:
    assert [PROSE[each.start : each.end] for each in find(PROSE, ALL)] == []


def test_fields_without_a_number_are_ordered() -> None:
    text = "%s %1$s %d {} {0} {:>3} %(a)s %% %n %1 %destination %dpx %d percent"
    found = [text[each.start : each.end] for each in find(text, ALL) if each.is_ordered]
    assert found == ["%s", "%d", "{}", "{:>3}", "%dpx", "%d percent"]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Do *not* **ever** do ~~all of~~ this", ["*", "*", "**", "**", "~~", "~~"]),
        ("_Not this_, _that_ and **_all_ of it**", ["_", "_", "_that_", "**", "_all_", "**"]),
        ("''One'' and ==three== ||four||", ["''", "''", "==", "==", "||four||"]),
        ("**重要**：*注*意*！*", ["**", "**", "*", "*", "*", "*"]),
        ("See *{name}* and _{x} of it_", ["*", "{name}", "*", "_", "{x}", "_"]),
        ("At */5 * * * 1-5 or * * *", ["*/5 * * * 1-5", "* * *"]),
        ("%first%%last% %lf%% %d%%", ["%first%", "%last%", "%lf", "%%", "%d", "%%"]),
    ],
)
def test_signs_of_emphasis_are_found_in_pairs_around_their_words(text: str, spans: list[str]) -> None:
    assert [text[each.start : each.end] for each in find(text, ALL)] == spans


def test_fields_of_word_and_text_commands_of_tex_are_found_with_their_braces() -> None:
    text = '{ MERGEFIELD Name } { IF { MERGEFIELD A } = "x" "y" "z" } \\textbf{bold words} $5 and $6, $10-$20'
    assert [(text[each.start : each.end], each.role) for each in find(text, {Family.BRACES, Family.VARIABLES})] == [
        ("{ MERGEFIELD Name }", Role.VALUE),
        ('{ IF { MERGEFIELD A } = "x" "y" "z" }', Role.VALUE),
        ("\\textbf{", Role.OPEN),
        ("}", Role.CLOSE),
        ("$5", Role.VALUE),
    ]


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("§YGold§! costs §R50§!", ["§Y", "§!", "§R", "§!"]),
        ("&6&lShop &r&7- open", ["&6&l", "&r&7"]),
        ("&Open (Save &As) R&D Q&A cats & dogs ?a=1&b=2", ["&", "&"]),
        ("^1Red ^7wins 2^3x", ["^1", "^7"]),
    ],
)
def test_colours_and_accelerators_are_points_that_names_and_formulas_have_not(text: str, marks: list[str]) -> None:
    found = find(text, {Family.VARIABLES})
    assert [(text[each.start : each.end], each.role) for each in found] == [(mark, Role.POINT) for mark in marks]


def test_names_of_fields_and_colours_of_games_are_no_words() -> None:
    text = "§cHi [First Name], see §5 of the law. §6Gold [Laughs] [Customer Email] [well-known]"
    assert [text[each.start : each.end] for each in find(text, {Family.VARIABLES})] == [
        *("§c", "[First Name]", "§6", "[Customer Email]")
    ]


def test_blocks_and_line_breaks_end_sentences() -> None:
    text = r"{{#if a}}b{{else}}c{{/if}}\n{% d %}<% e %>"
    found = [text[each.start : each.end] for each in find(text, ALL) if each.role is Role.BREAK]
    assert found == ["{{#if a}}", "{{else}}", "{{/if}}", r"\n", "{% d %}", "<% e %>"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb", [("\t", Role.BREAK)]),
        ("a  b", [("  ", Role.SPACE)]),
        ("a   b", [("   ", Role.BREAK)]),
        ("5\u00a0kg", [("\u00a0", Role.SPACE)]),
        ("a\u3000b", [("\u3000", Role.BREAK)]),
        ("| a | b|c || d |\n", [("|", Role.BREAK)] * 3),
        ("\ufeffa\u200bb\u200e", [("\ufeff", Role.POINT), ("\u200b", Role.POINT), ("\u200e", Role.POINT)]),
        ("I ❤\ufe0f you", [("❤\ufe0f", Role.POINT)]),
        ("\u0915\u094d\u200d\u0937 \u0645\u06cc\u200c\u062e a", []),
        ("A 👩\u200d👧 a ★★ m² H₂O 5µm 二○", [(each, Role.SIGN) for each in ("👩\u200d👧", "★★", "m²", "H₂O", "µm")]),
        ("  a\n  b. c  ", []),
    ],
)
def test_white_space_and_invisible_characters_within_sentences_are_found(
    text: str, expected: list[tuple[str, Role]]
) -> None:
    assert [(text[each.start : each.end], each.role) for each in blanks(text)] == expected


@pytest.mark.parametrize(
    ("text", "read"),
    [
        # A reference within a word is a letter of it.
        ("Don&#39;t, it&rsquo;s Caf&eacute; &amp; bar", ["Don't, it’s Café X1 bar"]),
        ("AT&amp;T &mdash; 2020", ["#1 #2 2020 a"]),
        ("5 &lt; 6", ["5 < 6 a"]),
        ("&lt;b&gt; or &lt;i&gt;", ["#1b#2 or #3i#4"]),
        ("&euro;5 or 5&nbsp;&euro; or 20&deg;C, &pound;3 million", ["#1 or #2 or #3, £3 million"]),
        ("%d percent of 百分之%d", ["#1 of #2 a"]),
        ("%s of %s files, %s of %s", ["#1 files, #2 of #3"]),
        ("第 {0} 页，共 {1} 页", ["第 #1 页"]),
        ("【甲】乙", ["甲", "乙"]),
        ("请按【甲】〖或〔", ["请按甲或"]),
        ("看《甲》", None),
    ],
)
def test_the_model_reads_a_word_for_what_is_for_programs_and_no_unknown_brackets(
    text: str, read: list[str] | None
) -> None:
    # Without letters there is nothing to translate.
    text = text if read is None or not read[0].endswith(" a") else f"{text} a"
    parts = Carrier(ALL, text, lambda _: True, knows="《》".__contains__).parts_of_text(text)
    assert (None if parts is None else [part.text for part in parts if isinstance(part, Block)]) == read


@pytest.mark.parametrize(
    ("text", "read", "carried"),
    [
        ("价格是₦1,500.50元。", "价格是#1元。", ["₦1,500.50"]),
        ("价格₪30、US₱5。", "价格#1、#2。", ["₪30", "US₱5"]),
        ("他去𠮷野家。", "他去#1野家。", ["𠮷"]),
        ("Zürich是城市。", "#1是城市。", ["Zürich"]),
        ("他说〝好〞。", "他说好。", ["〝", "〞"]),
        ("二〇二六年。", "二零二六年。", []),
        ("The naïve ü is here", "The naive u is here", []),
        ("The price is ₦5", "The price is #1", ["₦5"]),
        ("All of it is known: 好", None, []),
    ],
)
def test_what_the_vocabulary_lacks_is_carried_or_read_without_its_accent(
    text: str, read: str | None, carried: list[str]
) -> None:
    def is_usable(word: str) -> bool:
        return word.isascii()

    parts = Carrier(ALL, text, is_usable, knows=set("₦₪₱𠮷üï〝〞〇").isdisjoint).parts_of_text(text)
    blocks = [part for part in parts or () if isinstance(part, Block)]
    assert [block.text for block in blocks] == ([] if read is None else [read])
    assert [inline.opening for block in blocks for inline in block.inlines] == carried


@pytest.mark.parametrize(("text", "read"), [("Привет, world", ["#1, world"]), ("Привет, мир!", [])])
def test_words_in_a_script_of_no_language_of_the_model_stay(text: str, read: list[str]) -> None:
    parts = Carrier(ALL, text, lambda _: True, foreign={"CYRILLIC"}).parts_of_text(text)
    assert [part.text for part in parts or () if isinstance(part, Block)] == read


@pytest.mark.parametrize("depth", [1, 101, 500])
def test_brackets_of_any_depth_are_carried(depth: int) -> None:
    text = f"甲{'【' * depth}乙{'】' * depth}"
    parts = Carrier(frozenset(), text, lambda _: True, knows=lambda _: False).parts_of_text(text)
    assert parts is not None
    assert [part.text for part in parts if isinstance(part, Block)] == ["甲乙"]


@pytest.mark.parametrize(
    "text",
    [
        *("1 2 3", "5 5", "1000000000000", "###NAME###", "$x^2 + y$", "①②", "-5°", "%s", "{{#if x}}", "<%= name %>"),
        *("@bob", "$USER$", "100%%", "。"),
    ],
)
def test_texts_without_language_are_known(text: str) -> None:
    assert is_no_language(text)


@pytest.mark.parametrize("text", ["hello", "5 cats", "Hello %s", "一二三", "#今天天气很好", "#42 is done"])
def test_texts_with_words_are_language(text: str) -> None:
    assert not is_no_language(text)


@pytest.mark.parametrize("family", [None, *Family])
def test_no_text_takes_time_quadratic_in_its_length(family: Family | None) -> None:
    families = ALL if family is None else {family}
    assert superlinear(lambda text: find(text, families), 1500, cheap=0.004) == []


def test_no_text_is_carried_in_quadratic_time() -> None:
    def carried(text: str) -> None:
        Carrier(ALL, text, lambda word: True).parts_of_text(text[:1900])

    assert superlinear(carried, 475, cheap=0.006) == []
