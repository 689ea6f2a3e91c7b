"""Messages in the forms that programs have them: gettext, Android, iOS, Qt, Rails, i18next, FormatJS, games, mail.

⟦ and ⟧ enclose a span that must stay; ⟪ and ⟫ one that programs fill in by its place, so that its order must stay, too.
The sentences are our own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SPAN = re.compile("⟦(.*?)⟧|⟪(.*?)⟫", re.DOTALL)


class Form(NamedTuple):
    """A message, and what of it must stay."""

    text: str
    spans: tuple[str, ...]
    """In the order of the text."""
    ordered: tuple[str, ...]
    """Those of them whose order must stay."""

    def fault(self, translation: str) -> str | None:
        """Return what a translation lost, added or moved; None if all spans are in it."""
        for span in set(self.spans):
            others = [other for other in set(self.spans) if span in other and other != span]
            count, wanted = translation, self.text
            for other in sorted(others, key=len, reverse=True):
                count, wanted = count.replace(other, "\0"), wanted.replace(other, "\0")
            if count.count(span) != wanted.count(span):
                return f"{span!r} is there {count.count(span)} times, not {wanted.count(span)}"
        fields = re.compile("|".join(sorted(map(re.escape, set(self.ordered)), key=len, reverse=True)) or r"(?!)")
        if fields.findall(translation) != fields.findall(self.text):
            return f"{self.ordered} are in another order"
        return None


def _forms(lines: str) -> tuple[Form, ...]:
    return tuple(
        Form(
            text=_SPAN.sub(lambda found: found[1] or found[2], line),
            spans=tuple(found[1] or found[2] for found in _SPAN.finditer(line)),
            ordered=tuple(found[2] for found in _SPAN.finditer(line) if found[2]),
        )
        for line in lines.strip().splitlines()
    )


ENGLISH_FORMS = _forms(r"""
⟪%s⟫: cannot open ⟪%s⟫ for reading
⟪%s⟫: invalid option -- '⟪%c⟫'
⟪%s⟫: option '⟪%s⟫' requires an argument
cannot copy ⟪%s⟫ to ⟪%s⟫: ⟪%s⟫
Moved ⟪%d⟫ files from ⟪%s⟫ to ⟪%s⟫.
⟪%s⟫ was sent to ⟪%s⟫ by ⟪%s⟫.
⟪%s⟫ of ⟪%s⟫ files were deleted.
The file ⟪%s⟫ in ⟪%s⟫ has been changed.
Line ⟪%d⟫, column ⟪%d⟫: unexpected character
⟪%lu⟫ bytes (⟪%s⟫) copied, ⟪%s⟫, ⟪%s⟫
failed to preserve ownership for ⟪%s⟫
memory exhausted while reading ⟪%s⟫ at line ⟪%zu⟫
Try '⟪%s⟫ ⟦--help⟧' for more information.
warning: ⟪%s⟫ is deprecated; use ⟪%s⟫ instead
⟪%s⟫ replied to your comment on ⟪%s⟫.
The size of ⟪%s⟫ is ⟪%d⟫ bytes, but ⟪%d⟫ bytes were expected.
Written by ⟪%s⟫, ⟪%s⟫, and ⟪%s⟫.
⟪%d⟫%% of ⟪%d⟫ tests passed.
⟪%.1f⟫ km from ⟪%s⟫
Could not connect to ⟪%s⟫ because ⟪%s⟫ is not running.
⟦%1$s⟧ sent you ⟦%2$d⟧ photos.
Deleted ⟦%1$d⟧ of ⟦%2$d⟧ messages from ⟦%3$s⟧.
⟦%2$s⟧ belongs to ⟦%1$s⟧.
Battery at ⟦%1$d⟧⟦%%⟧, about ⟦%2$s⟧ left
Do you want to allow <b>⟦%1$s⟧</b> to take pictures?
⟦%@⟧ would like to send you notifications.
⟪%@⟫ invited ⟪%@⟫ to the album.
You and ⟪%d⟫ others liked ⟪%@⟫'s photo.
⟦%1$@⟧ shared “⟦%2$@⟧” with you.
⟦%lld⟧ songs added to your library
⟦%#@files@⟧ will be removed.
Copied ⟦%1⟧ of ⟦%2⟧
Copied ⟦%1⟧ of ⟦%2⟧ to ⟦%3⟧.
Could not rename ⟦%1⟧ to ⟦%2⟧: ⟦%3⟧
⟦%n⟧ file(s) selected
Page ⟦%1⟧/⟦%2⟧
The document “⟦%1⟧” has been modified by ⟦%2⟧.
⟦%L1⟧ items were found in ⟦%2⟧ seconds.
&Open ⟦%1⟧...
⟦%{count}⟧ people like this.
⟦%{name}⟧ commented on ⟦%{title}⟧.
must be less than ⟦%{count}⟧ characters
Signed in as ⟦%{email}⟧. <a href="⟦%{url}⟧">Sign out</a>
is too short (minimum is ⟦%{count}⟧ characters)
⟦%<amount>.2f⟧ dollars were paid to ⟦%{payee}⟧.
Hello ⟦{{name}}⟧, you have ⟦{{count}}⟧ new messages.
⟦{{user.name}}⟧ assigned ⟦{{issue.title}}⟧ to you.
Total: ⟦{{amount, currency}}⟧
Please read our <1>terms</1> and <2>privacy policy</2>.
Press <0>Enter</0> to search for ⟦{{query}}⟧.
See ⟦$t(common.help)⟧ for details.
⟦{{- html}}⟧ was added to your cart.
Hello, ⟦{name}⟧! Your last visit was on ⟦{date, date, long}⟧.
Showing ⟦{from}⟧–⟦{to}⟧ of ⟦{total}⟧ results
⟦{user}⟧ gave ⟦{amount, number, ::currency/USD}⟧ to ⟦{charity}⟧.
Read the <link>documentation</link> before you delete <b>⟦{name}⟧</b>.
⟦{0}⟧ has moved ⟦{1}⟧ to ⟦{2}⟧.
Replace ⟦{1}⟧ with ⟦{0}⟧?
The value '⟦{0}⟧' is not valid for ⟦{1}⟧.
⟪{}⟫ was moved to ⟪{}⟫ by ⟪{}⟫.
Added ⟪{}⟫ to ⟪{}⟫.
The ⟪{!r}⟫ argument of ⟪{}⟫ is missing.
⟦{ $userName }⟧ has shared ⟦{ $photoCount }⟧ photos with you.
⟦{ -brand-name }⟧ could not open this page.
Sign in to ⟦{ -brand-name }⟧ on ⟦{ $device }⟧
Last changed on ⟦{ DATETIME($date, month: "long") }⟧
⟦%(user)s⟧ changed ⟦%(field)s⟧ from “⟦%(old)s⟧” to “⟦%(new)s⟧”.
Please enter a correct ⟦%(username)s⟧ and password.
Ensure this value has at most ⟦%(limit_value)d⟧ characters (it has ⟦%(show_value)d⟧).
⟦%(count)s⟧ of ⟦%(total)s⟧ selected
The ⟦%(name)s⟧ “⟦%(obj)s⟧” was deleted successfully.
⟦{% blocktrans %}⟧Hello ⟦{{ user }}⟧, welcome to ⟦{{ site }}⟧.⟦{% endblocktrans %}⟧
Posted by <a href="⟪%s⟫">⟪%s⟫</a> on ⟪%s⟫
⟦%1$s⟧ comments on “⟦%2$s⟧”
You can <a href="⟦%s⟧">edit your profile</a>.
⟦<strong>⟧Error⟦</strong>⟧: the plugin ⟦<code>%s</code>⟧ was not found.
Use ⟦<code>[[x]]</code>⟧ to link to a page.
Put ⟦<code>{name}</code>⟧ where the name should be.
Insert ⟦<code>&lt;b&gt;</code>⟧ before the word.
The shortcode ⟦[gallery]⟧ shows your photos.
⟦{player}⟧ dealt ⟦{damage}⟧ damage to ⟦{target}⟧!
⟦<color=#ff0000>⟧Warning!⟦</color>⟧ You need ⟦{0}⟧ gold.
⟦$PLAYER$⟧ joined the ⟦$TEAM$⟧ team.
Press ⟦[ACTION_JUMP]⟧ to jump over the wall.
⟦%PLAYER%⟧ has found ⟦%ITEM%⟧!
⟦§c⟧You do not have enough money.
⟦&a⟧Welcome back, ⟦%player_name%⟧!
⟦#player#⟧ was killed by ⟦#enemy#⟧.
You received ⟦<item>⟧ from ⟦<npc>⟧.
⟦\c[2]⟧Old man⟦\c[0]⟧: Take this sword.
⟦§Y⟧Manpower⟦§!⟧ is too low to recruit this army.
⟦&6&l⟧Shop ⟦&r&7⟧- click to open
⟦^1⟧Red team ⟦^7⟧wins the match!
⟦%s1⟧ killed ⟦%s2⟧ with ⟦%s3⟧.
Dear ⟦###FIRST_NAME###⟧, please confirm your address ⟦###EMAIL###⟧.
Dear ⟦{ MERGEFIELD Name }⟧, your order has arrived.
The sum ⟦$x^2 + y$⟧ is positive, and ⟦\(a^2 + b^2\)⟧ is not.
The fraction ⟦\frac{a}{b}⟧ is ⟦\textbf{⟧smaller⟦}⟧ than one.
⟦%[1]s⟧ sent ⟦%[2]d⟧ messages.
Copied ⟪%d⟫ of ⟪%d⟫ files.
Page ⟪%d⟫ of ⟪%d⟫
⟪%d⟫ percent of users
Click ⟦&⟧Open to continue.
Hello ⟦@@name@@⟧, thank you for your order.
Dear ⟦<<FirstName>>⟧ ⟦<<LastName>>⟧, your order has been shipped.
Dear ⟦«FirstName»⟧, thank you for your letter of ⟦«Date»⟧.
Hi ⟦*|FNAME|*⟧, your order ⟦*|ORDER_ID|*⟧ is on its way.
Hello ⟦{{contact.first_name}}⟧, click ⟦%%unsubscribe_url%%⟧ to leave the list.
Dear ⟦{!Contact.FirstName}⟧, your case ⟦{!Case.Number}⟧ was closed.
Hello ⟦%%=v(@firstName)=%%⟧, we have missed you.
Hi ⟦[First Name]⟧, we received your payment.
Dear ⟦{{ customer.name | default: "friend" }}⟧, thank you for order ⟦{{ order.name }}⟧.
⟦:count⟧ users were added to ⟦:group⟧.
The ⟦:attribute⟧ must be at least ⟦:min⟧ characters.
The ⟦:attribute⟧ field is required when ⟦:other⟧ is ⟦:value⟧.
⟦@username⟧ mentioned you in ⟦#general⟧.
Message linked: ⟦@:message.hello⟧
⟦@count⟧ items were moved to ⟦%destination⟧ by ⟦@user⟧.
⟦!name⟧ has signed in.
⟦${user}⟧ deleted ⟦${count}⟧ files from ⟦${folder}⟧.
⟦#{user}⟧ deleted the file.
⟦$user⟧ has left ⟦$channel⟧
⟦~a⟧ is not a list
⟪~a⟫ expects ⟪~d⟫ arguments.
Cannot find file ⟦%1!s!⟧ in folder ⟦%2!s!⟧.
Setup will install ⟦[name]⟧ on your computer.
⟦%ProgramFiles%⟧ is not writable.
Click ⟦{{#link}}⟧here⟦{{/link}}⟧ to continue.
⟦<x id="1"/>⟧ sent ⟦<x id="2"/>⟧ to you.
⟦<ph name="USER">⟧Bob⟦</ph>⟧ has signed in.
⟦<xliff:g id="count">%1$d</xliff:g>⟧ items selected
⟦<code>[[x]]</code>⟧ and ⟦<code>{{y}}</code>⟧ are placeholders.
Replace ⟦<code><<Name>></code>⟧ with your name.
⟦<b>⟧⟦<i>⟧Important⟦</i>⟧⟦</b>⟧: read this first.
⟦<b>⟧⟦{count}⟧⟦</b>⟧ ⟦<i>⟧new⟦</i>⟧ messages
⟦<a href="{url}">⟧⟦{title}⟧⟦</a>⟧ was published by ⟦<em>⟧⟦{author}⟧⟦</em>⟧.
⟦<b>⟧Name⟦</b>⟧⟦<i>⟧Age⟦</i>⟧
Download (⟦{size}⟧ MB)
Downloaded ⟪%d⟫MB of ⟪%d⟫MB
⟪%dpx⟫ wide and ⟪%dpx⟫ high
Version ⟦v{version}⟧ is available.
⟪%s⟫'s profile
⟦{name}⟧'s files were deleted.
"⟦{name}⟧" is not a valid name.
(⟦{count}⟧) unread messages
[⟦{time}⟧] ⟦{user}⟧ joined the room
⟦{user}⟧@⟦{host}⟧ could not be reached.
⟦{a}⟧, ⟦{b}⟧ and ⟦{c}⟧ like this.
⟦{count}⟧+ people are watching.
≈⟦{percent}⟧% of users
#⟦{id}⟧: the order was cancelled.
$⟦{price}⟧ per month
From ⟦{start}⟧ to ⟦{end}⟧, the shop is closed.
Dear ⟦<<Title>>⟧ ⟦<<LastName>>⟧: your invoice ⟦<<Number>>⟧ is due.
Please send ⟦<<Amount>>⟧ to ⟦<<Account>>⟧ before ⟦<<Date>>⟧.
Copied ⟦%1⟧ of ⟦%2⟧ files
⟦%1⟧ of ⟦%2⟧
⟦%1⟧ by ⟦%2⟧
Time left: ⟦%1⟧ of ⟦%2⟧ minutes
Move ⟦%1⟧ into ⟦%2⟧ and open ⟦%3⟧?
⟦%3⟧ of ⟦%2⟧ in ⟦%1⟧
⟦{0}⟧ of ⟦{1}⟧
⟦{0}⟧ – ⟦{1}⟧
Type ⟦`{name}`⟧ or ⟦`%s`⟧ in the field.
Run ⟦`git commit -m "msg"`⟧ before you push.
Set ⟦{{ var }}⟧ in ⟦`config.yml`⟧.
The server ⟦https://{host}/⟧ does not answer.
Mail ⟦{email}⟧ or visit ⟦https://example.com/{id}⟧.
Open ⟦/home/%s/.config⟧ and delete the cache.
Today is ⟦%Y-%m-%d⟧.
⟦{{#if admin}}⟧You may delete files.⟦{{/if}}⟧
⟦{% if n %}⟧You have ⟦{{ n }}⟧ files.⟦{% else %}⟧You have no files.⟦{% endif %}⟧
⟦<?php echo $name; ?>⟧ has sent you a message.
Hello ⟦<%= user.name %>⟧, please confirm ⟦<%= user.email %>⟧.
One file was deleted.⟦\n⟧⟪%s⟫ files were kept.
Are you sure?⟦\n\n⟧This will delete ⟦{name}⟧.
""")
"""In English."""
CHINESE_FORMS = _forms(r"""
⟪%s⟫：无法打开 ⟪%s⟫ 进行读取
⟪%s⟫：选项“⟪%s⟫”需要一个参数
无法将 ⟪%s⟫ 复制到 ⟪%s⟫：⟪%s⟫
已将 ⟪%d⟫ 个文件从 ⟪%s⟫ 移动到 ⟪%s⟫。
⟪%s⟫ 将 ⟪%s⟫ 发送给了 ⟪%s⟫。
⟪%2d⟫ 个文件中的 ⟪%d⟫ 个已被删除。
⟪%s⟫ 中的文件 ⟪%s⟫ 已更改。
第 ⟪%d⟫ 行，第 ⟪%d⟫ 列：意外的字符
警告：⟪%s⟫ 已弃用，请改用 ⟪%s⟫
⟪%s⟫ 回复了您对 ⟪%s⟫ 的评论。
由 ⟪%s⟫ 和 ⟪%s⟫ 编写。
由于 ⟪%s⟫ 没有运行，无法连接到 ⟪%s⟫。
读取 ⟪%s⟫ 第 ⟪%zu⟫ 行时内存不足
⟦%1$s⟧ 给您发送了 ⟦%2$d⟧ 张照片。
已从 ⟦%3$s⟧ 中删除 ⟦%2$d⟧ 封邮件中的 ⟦%1$d⟧ 封。
⟦%2$s⟧ 属于 ⟦%1$s⟧。
电量剩余 ⟦%1$d%%⟧，大约还可使用 ⟦%2$s⟧
是否允许 <b>⟦%1$s⟧</b> 拍摄照片？
“⟦%@⟧”想给您发送通知。
⟪%@⟫ 邀请 ⟪%@⟫ 加入相册。
您和另外 ⟪%d⟫ 人赞了 ⟪%@⟫ 的照片。
已将 ⟦%lld⟧ 首歌曲添加到您的资料库
已复制 ⟦%1⟧，共 ⟦%2⟧
无法将 ⟦%1⟧ 重命名为 ⟦%2⟧：⟦%3⟧
已选择 ⟦%n⟧ 个文件
第 ⟦%1⟧ 页，共 ⟦%2⟧ 页
文档“⟦%1⟧”已被 ⟦%2⟧ 修改。
在 ⟦%2⟧ 秒内找到了 ⟦%L1⟧ 个项目。
⟦%{count}⟧ 人觉得很赞。
⟦%{name}⟧ 评论了 ⟦%{title}⟧。
必须少于 ⟦%{count}⟧ 个字符
您已登录为 ⟦%{email}⟧。<a href="⟦%{url}⟧">退出</a>
太短（最少 ⟦%{count}⟧ 个字符）
你好，⟦{{name}}⟧，您有 ⟦{{count}}⟧ 条新消息。
⟦{{user.name}}⟧ 将 ⟦{{issue.title}}⟧ 分配给了您。
总计：⟦{{amount, currency}}⟧
请阅读我们的<1>条款</1>和<2>隐私政策</2>。
按 <0>回车键</0> 搜索 ⟦{{query}}⟧。
有关详细信息，请参阅 ⟦$t(common.help)⟧。
你好，⟦{name}⟧！您上次访问的时间是 ⟦{date, date, long}⟧。
显示第 ⟦{from}⟧ 到 ⟦{to}⟧ 条结果，共 ⟦{total}⟧ 条
⟦{user}⟧ 向 ⟦{charity}⟧ 捐赠了 ⟦{amount, number, ::currency/USD}⟧。
删除 <b>⟦{name}⟧</b> 之前，请阅读<link>文档</link>。
⟦{0}⟧ 已将 ⟦{1}⟧ 移动到 ⟦{2}⟧。
是否将 ⟦{1}⟧ 替换为 ⟦{0}⟧？
值“⟦{0}⟧”对 ⟦{1}⟧ 无效。
⟪{}⟫ 被 ⟪{}⟫ 移动到了 ⟪{}⟫。
已将 ⟪{}⟫ 添加到 ⟪{}⟫。
⟦{ $userName }⟧ 与您分享了 ⟦{ $photoCount }⟧ 张照片。
⟦{ -brand-name }⟧ 无法打开此页面。
在 ⟦{ $device }⟧ 上登录 ⟦{ -brand-name }⟧
⟦%(user)s⟧ 将 ⟦%(field)s⟧ 从“⟦%(old)s⟧”改为“⟦%(new)s⟧”。
请输入正确的 ⟦%(username)s⟧ 和密码。
确保该值最多有 ⟦%(limit_value)d⟧ 个字符（现在有 ⟦%(show_value)d⟧ 个）。
已选择 ⟦%(total)s⟧ 个中的 ⟦%(count)s⟧ 个
已成功删除⟦%(name)s⟧“⟦%(obj)s⟧”。
⟦{% trans %}⟧你好，⟦{{ user }}⟧，欢迎来到 ⟦{{ site }}⟧。⟦{% endtrans %}⟧
由 <a href="⟪%s⟫">⟪%s⟫</a> 发布于 ⟪%s⟫
“⟦%2$s⟧”有 ⟦%1$s⟧ 条评论
您可以<a href="⟦%s⟧">编辑您的个人资料</a>。
⟦<strong>⟧错误⟦</strong>⟧：找不到插件 ⟦<code>%s</code>⟧。
使用 ⟦<code>[[x]]</code>⟧ 链接到页面。
把 ⟦<code>{name}</code>⟧ 放在名字应该在的地方。
短代码 ⟦[gallery]⟧ 会显示您的照片。
⟦{player}⟧ 对 ⟦{target}⟧ 造成了 ⟦{damage}⟧ 点伤害！
⟦<color=#ff0000>⟧警告！⟦</color>⟧您需要 ⟦{0}⟧ 金币。
⟦$PLAYER$⟧ 加入了 ⟦$TEAM$⟧ 队。
按 ⟦[ACTION_JUMP]⟧ 跳过墙壁。
⟦%PLAYER%⟧ 找到了 ⟦%ITEM%⟧！
⟦§c⟧你没有足够的钱。
⟦&a⟧欢迎回来，⟦%player_name%⟧！
⟦§Y⟧人力⟦§!⟧不足，无法招募这支军队。
⟦%s2⟧被⟦%s1⟧杀死了。
⟦###NAME###⟧给您发了一条消息。
尊敬的⟦{ MERGEFIELD Name }⟧，您的订单已到。
分数⟦\frac{a}{b}⟧小于一，和⟦$x^2 + y$⟧是正数。
⟦#player#⟧ 被 ⟦#enemy#⟧ 杀死了。
你从 ⟦<npc>⟧ 那里得到了 ⟦<item>⟧。
尊敬的 ⟦<<FirstName>>⟧，您的订单已发货。
尊敬的 ⟦«FirstName»⟧，感谢您 ⟦«Date»⟧ 的来信。
您好 ⟦*|FNAME|*⟧，您的订单 ⟦*|ORDER_ID|*⟧ 正在运送中。
您好，⟦{{contact.first_name}}⟧，点击 ⟦%%unsubscribe_url%%⟧ 退订。
您好 ⟦[First Name]⟧，我们已收到您的付款。
已将 ⟦:count⟧ 个用户添加到 ⟦:group⟧。
⟦:attribute⟧ 至少为 ⟦:min⟧ 个字符。
当 ⟦:other⟧ 为 ⟦:value⟧ 时，⟦:attribute⟧ 不能为空。
⟦@username⟧ 在 ⟦#general⟧ 中提到了您。
⟦@user⟧ 已将 ⟦@count⟧ 个项目移动到 ⟦%destination⟧。
⟦${user}⟧ 从 ⟦${folder}⟧ 中删除了 ⟦${count}⟧ 个文件。
⟦$user⟧ 离开了 ⟦$channel⟧
找不到文件夹 ⟦%2!s!⟧ 中的文件 ⟦%1!s!⟧。
安装程序将在您的计算机上安装 ⟦[name]⟧。
⟦<x id="1"/>⟧ 向您发送了 ⟦<x id="2"/>⟧。
已选择 ⟦<xliff:g id="count">%1$d</xliff:g>⟧ 项
⟦<code>[[x]]</code>⟧ 和 ⟦<code>{{y}}</code>⟧ 是占位符。
⟦<b>⟧⟦<i>⟧重要⟦</i>⟧⟦</b>⟧：请先阅读此内容。
⟦<b>⟧⟦{count}⟧⟦</b>⟧ 条⟦<i>⟧新⟦</i>⟧消息
⟦<a href="{url}">⟧⟦{title}⟧⟦</a>⟧由⟦<em>⟧⟦{author}⟧⟦</em>⟧发布。
下载（⟦{size}⟧ MB）
宽⟪%dpx⟫，高⟪%dpx⟫
有新版本 ⟦v{version}⟧ 可用。
⟦{name}⟧的文件已被删除。
“⟦{name}⟧”不是有效的名称。
（⟦{count}⟧）条未读消息
【⟦{time}⟧】⟦{user}⟧加入了房间
无法访问⟦{user}⟧@⟦{host}⟧。
⟦{a}⟧、⟦{b}⟧和⟦{c}⟧赞了这个。
已有⟦{count}⟧+人在观看。
#⟦{id}⟧：订单已取消。
每月⟦{price}⟧元
从⟦{start}⟧到⟦{end}⟧，商店关闭。
尊敬的⟦<<LastName>>⟧⟦<<Title>>⟧：您的发票⟦<<Number>>⟧已到期。
请在⟦<<Date>>⟧之前将⟦<<Amount>>⟧汇到⟦<<Account>>⟧。
已复制⟦%1⟧个文件，共⟦%2⟧个
剩余时间：⟦%1⟧分钟
是否将⟦%1⟧移动到⟦%2⟧并打开⟦%3⟧？
共⟦{1}⟧个，第⟦{0}⟧个
在字段中输入⟦`{name}`⟧或⟦`%s`⟧。
推送之前请运行⟦`git commit -m "msg"`⟧。
在⟦`config.yml`⟧中设置⟦{{ var }}⟧。
服务器⟦https://{host}/⟧没有响应。
请发邮件至⟦{email}⟧或访问⟦https://example.com/{id}⟧。
打开⟦/home/%s/.config⟧并删除缓存。
⟦{{#if admin}}⟧您可以删除文件。⟦{{/if}}⟧
⟦{% if n %}⟧您有⟦{{ n }}⟧个文件。⟦{% else %}⟧您没有文件。⟦{% endif %}⟧
⟦<?php echo $name; ?>⟧给您发了一条消息。
你好⟦<%= user.name %>⟧，请确认⟦<%= user.email %>⟧。
一个文件已删除。⟦\n⟧保留了⟪%s⟫个文件。
您确定吗？⟦\n\n⟧这将删除⟦{name}⟧。
⟪%s⟫的个人资料
你被⟦{enemy}⟧打败了，失去了⟦{gold}⟧枚金币。
⟦{hero}⟧获得了⟦{item}⟧×⟦{count}⟧！
""")
"""In Chinese."""
