"""Kinds of placeholders, and sentences to put them into."""

from __future__ import annotations

import re

KINDS = tuple(
    r"""
%s
%d
%1$s
%2$d
%-10s
%05d
%.2f
%lld
%ld
%u
%x
%c
%@
%1$@
%%
%1
%2
%n
%L1
%I64d
%zu
%{name}
%<count>d
%(name)s
%(count)d
%1!s!
%Y-%m-%d
%H:%M
%d%%
%s/%s
{0}
{1}
{}
{name}
{user.name}
{items[0]}
{name!r}
{name:%Y-%m}
{0:N2}
{price:,.2f}
{:>10}
{{x}}
{{ user.name }}
{{{x}}}
{{> header}}
{{x | upper}}
${x}
${user.name}
#{x}
@{x}
{$X}
{ $userName }
{-brand-name}
{$ x }
{count, number}
{date, date, short}
{x/}
<%= name %>
<?= $name ?>
{{ 'key' | t }}
<b>x</b>
<br/>
<br>
<0/>
<1>x</1>
<img src="a.png" alt="x > y">
<strong>x</strong>
&amp;
&nbsp;
&lt;
&#39;
&quot;
&copy;
&#x27;
$USER$
$name
$user->name
%NAME%
%username%
:name
:count
@:key
@:(common.key)
[[x]]
[[Page|link]]
__name__
$t(key)
$1
#name#
<<name>>
:smile:
https://example.com/a?b=c&d=e
http://localhost:3000/x
www.example.org/path
ftp://ftp.example.org/pub
example.com
bob@example.org
mailto:bob@example.org
/etc/hosts
~/Documents/a.txt
./run.sh
C:\Users\bob\a.txt
\\server\share\dir
src/main.py
README.md
report.docx
archive.tar.gz
*.txt
550e8400-e29b-41d4-a716-446655440000
d41d8cd98f00b204e9800998ecf8427e
a1b2c3d4e5f6
SGVsbG8gV29ybGQhISE=
0x7ffdeadbeef
192.168.0.1
1.2.3
v2.0.1-beta.3
#ff8800
00:1A:2B:3C:4D:5E
#release
@bob_smith
#42
`x = 1`
`npm install`
max_size
parseDate
open()
os.path.join()
--force
std::vector
""".strip().splitlines()
)
"""Placeholders of 129 kinds."""
ENGLISH = (
    "You have {} new messages.",
    "Hello {}, welcome back!",
    "The file {} could not be opened.",
    "Please click {} to continue.",
    "Error in {}: the value is too large.",
    "Delete {}?",
    "Are you sure you want to remove {} from the list?",
    "Your password was changed by {}.",
    "Open {} and press the button.",
    "The price is {}.",
    "{} has invited you to the group.",
    "Last updated {}",
    "We could not find {} on this computer.",
    "See {} for more information.",
    "If you see {}, restart the program.",
    "Copied {} to the clipboard.",
    "{} is not valid.",
    "Choose {} from the menu.",
    "Thanks to {} for the help.",
    "This will replace {} with a new version.",
    "Cannot connect to {}.",
    "Enter {} below.",
    "The meeting with {} starts at noon.",
    "Downloading {}...",
    "{} ago",
    "by {}",
    "Send a message to {}",
    "Welcome to {}! We are happy to see you.",
    "Do not close the window while {} is running.",
    "There was a problem with {}, please try again later.",
    "Only {} can change this setting.",
    "To learn more, read {}.",
    "Your order {} has been shipped and will arrive soon.",
    "Loading {} …",
    "New comment from {}: thank you",
    "The name {} is already taken.",
    "{} days left",
    "No results for {}.",
    "You are logged in as {}.",
    "Because of {}, the train was late.",
)
"""Sentences with a place for one."""
CHINESE = (
    "您有 {} 条新消息。",
    "你好，{}，欢迎回来！",
    "无法打开文件 {}。",
    "请点击 {} 继续。",
    "{} 出错：值太大。",
    "删除 {}？",
    "您确定要从列表中删除 {} 吗？",
    "您的密码已被 {} 更改。",
    "打开 {} 并按下按钮。",
    "价格是 {}。",
    "{} 邀请您加入群组。",
    "最后更新：{}",
    "在这台电脑上找不到 {}。",
    "更多信息请参阅 {}。",
    "如果看到 {}，请重新启动程序。",
    "已将 {} 复制到剪贴板。",
    "{} 无效。",
    "从菜单中选择 {}。",
    "感谢 {} 的帮助。",
    "这将用新版本替换 {}。",
    "无法连接到 {}。",
    "请在下面输入 {}。",
    "与 {} 的会议中午开始。",
    "正在下载 {}……",
    "{} 前",
    "由 {} 提供",
    "给 {} 发消息",
    "欢迎来到 {}！很高兴见到您。",
    "{} 运行时请不要关闭窗口。",
    "{} 出现问题，请稍后再试。",
    "只有 {} 可以更改此设置。",
    "要了解更多，请阅读 {}。",
    "您的订单 {} 已发货，很快就会送达。",
    "正在加载 {}…",
    "来自 {} 的新评论：谢谢",
    "名称 {} 已被占用。",
    "还剩 {} 天",
    "没有找到 {} 的结果。",
    "您以 {} 的身份登录。",
    "由于 {}，火车晚点了。",
)
"""Sentences with a place for one."""
_PAIR = re.compile(r"(<[^>]*>|\[b\])(x)(</[^>]*>|\[/b\])")


def is_kept(kind: str, text: str, translation: str) -> bool:
    """Return whether a translation has a placeholder as often as its text; of a pair of tags each tag."""
    pair = _PAIR.fullmatch(kind)
    parts = (pair[1], pair[3]) if pair else (kind,)
    return all(translation.count(part) == text.count(part) for part in parts)
