"""Where a quote begins, as the clients of China and elsewhere write it: data, no code."""

from __future__ import annotations

import re

# Lines are matched after NBSP became a space, zero-width characters were dropped and full-width colons halved.
# A line that is nothing but a separator with one of these words.
SEPARATOR = re.compile(
    r"^[-_—=*]{2,}\s*(?:原始邮件|原始郵件|原邮件|邮件原件|郵件原件|回复的原邮件|回复邮件原文|原始信息|原始消息|"
    r"original|original message|original mail|original email|reply message)\s*[-_—=*]{2,}$", re.IGNORECASE)
FORWARDED = re.compile(
    r"^[-_—=*]{2,}\s*(?:转发的邮件|转发邮件信息|转发的消息|轉寄的郵件|轉寄郵件|forwarded (?:message|mail)|begin forwarded message)"
    r"\s*:?\s*[-_—=*]{2,}$|^begin forwarded message:$", re.IGNORECASE)

# `在 2026年12月2日 ... 写道:` on one to three lines; a date or an address has to stand in it.
ATTRIBUTION_START = re.compile(r"^(?:在|于|於|on|at|le)\b|^(?:在|于|於)|^\d{4}[-年/.]\s?\d{1,2}|^[\"“]?[^<>\n]{0,60}<[^<>\s]+@", re.IGNORECASE)
ATTRIBUTION_END = re.compile(r"(?:写道|寫道|写到|写信说|来信|wrote|said)\s*:?\s*$", re.IGNORECASE)
ATTRIBUTION_PROOF = re.compile(r"\d{1,2}[:.]\d{2}|\d{4}|\d{1,2}月|@")
ATTRIBUTION_LINES = 3
ATTRIBUTION_CHARS = 300

# An Outlook head: three or more of these within six lines. Each key counts once.
HEAD_LINES, HEAD_KEYS = 6, 3
HEAD: dict[str, re.Pattern[str]] = {
    key: re.compile(rf"^[*|\s]*(?:{names})[*\s]*[:|]", re.IGNORECASE)
    for key, names in {
        "from": "发件人|寄件者|寄件人|from", "sent": "发送时间|发送日期|日期|寄件日期|傳送時間|时间|sent|date",
        "to": "收件人|收件者|to", "cc": "抄送|副本|cc", "subject": "主题|主題|主旨|subject",
    }.items()
}

# Lines that a phone or program adds; dropped from the end of what was written.
SIGNATURE = re.compile(
    r"^(?:发自|發自|来自|來自|发送自|從我的|从我的|傳送自)\s?.{1,40}$|^(?:sent|enviado) from (?:my )?.{1,40}$|^从 .{1,20}版邮件发送$|"
    r"^(?:获取|get|下載|取得) outlook for .{1,20}$|^此邮件由.{1,20}发送$|^sent via .{1,30}$", re.IGNORECASE)
SIGNATURE_MUST = re.compile(r"iphone|ipad|手机|手機|邮箱|郵箱|mail|outlook|android|安卓|ios|小米|华为|huawei|客户端|windows|mac|"
                            r"xiaomi|honor|荣耀|oppo|vivo|samsung|galaxy|phone|tablet|平板|app|网易|qq|foxmail|钉钉", re.IGNORECASE)
DELIMITER = re.compile(r"^-- ?$")
DELIMITED_LINES = 15

# HTML: (XPath, what belongs to the quote). "rest": the element and all that follows it.
_CLASS = "contains(concat(' ', normalize-space(@class), ' '), ' {} ')"
HTML: tuple[tuple[str, str], ...] = (
    ("//*[@id='divRplyFwdMsg']", "rest"),                                  # Outlook on the web
    ("//*[@id='appendonsend']", "rest"),
    ("//*[@id='mail-editor-reference-message-container']", "rest"),        # Outlook, new
    (f"//*[{_CLASS.format('ntes-mailmaster-quote')}]", "element"),         # NetEase Mail Master
    ("//*[@id='isReplyContent']", "rest"),                                 # 163 / 126 on the web
    ("//*[local-name()='includetail']", "element"),                        # QQ
    (f"//*[{_CLASS.format('gmail_quote')}]", "element"),
    (f"//*[{_CLASS.format('gmail_quote_container')}]", "element"),
    (f"//*[{_CLASS.format('yahoo_quoted')}]", "element"),
    (f"//*[{_CLASS.format('protonmail_quote')}]", "element"),
    (f"//*[{_CLASS.format('moz-cite-prefix')}]", "element"),               # Thunderbird
    (f"//*[{_CLASS.format('zmail_extra')}]", "element"),                   # Zoho
    (f"//*[{_CLASS.format('__aliyun_previous_content')}]", "element"),
    ("//blockquote[translate(@type, 'CITE', 'cite') = 'cite']", "element"),
)
