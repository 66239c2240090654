"""How times, spans and money stand on a page."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

from markupsafe import Markup

from producer.web.i18n import Texts

HOUSE = timezone(timedelta(hours=8), "UTC+8")      # the house's days begin in Shanghai, which has no summer time


def moment(value: datetime | str | None) -> Markup:
    """Return a time as `<time>`, in the house's zone and marked so; a text that is no time stays as it is."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return Markup("{}").format(value)
    if value is None:
        return Markup("–")
    local = value.astimezone(HOUSE)
    return Markup('<time datetime="{}">{} <span class="zone">UTC+8</span></time>').format(
        value.isoformat(timespec="seconds"), f"{local:%Y-%m-%d %H:%M}")


def clock_time(value: datetime) -> str:
    """Return a time as plain text, to the minute, marked with its zone."""
    return f"{value.astimezone(HOUSE):%Y-%m-%d %H:%M} UTC+8"


def day(value: date | None) -> str:
    """Return a day."""
    return "–" if value is None else value.isoformat()[:10]


def money(value: Decimal | str | None) -> str:
    """Return an amount in CNY, with two decimals."""
    return "–" if value is None or value == "" else f"¥{Decimal(str(value)):,.2f}"


def span(seconds: float, t: Texts) -> str:
    """Return a length of time in its largest unit."""
    minutes = int(seconds) // 60
    if minutes < 1:
        return t("age.now")
    if minutes < 120:
        return t("age.minutes", n=minutes)
    return t("age.hours", n=minutes // 60) if minutes < 2 * 1440 else t("age.days", n=minutes // 1440)


def took(seconds: float, t: Texts) -> str:
    """Return how long a step took, short ones in milliseconds."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))} ms"
    return f"{seconds:.1f} s" if seconds < 120 else span(seconds, t)


def as_json(value: object) -> str:
    """Return a value as JSON text, to be escaped like any other."""
    return json.dumps(value, ensure_ascii=False, default=str)
