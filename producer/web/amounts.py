"""An amount of money as a person or a program gives it."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

from supportpilot.db.approvals import Approval
from supportpilot.errors import Refused, Unusable

_AMOUNT = re.compile(r"[0-9]{1,10}(\.[0-9]{1,2})?")


def amount_of(text: str) -> Decimal:
    """Return an amount such as 99 or 1,299.50; full-width digits and a ¥ in front are read too.

    Raises:
        Unusable: it is no amount with at most two decimals.
    """
    given = unicodedata.normalize("NFKC", text[:40]).strip().removeprefix("¥").strip()
    if re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]{1,2})?", given):
        given = given.replace(",", "")
    if not _AMOUNT.fullmatch(given):
        raise Unusable("the amount is not a number such as 99.00")
    return Decimal(given)


def check_currency(approval: Approval, given: str | None) -> None:
    """Raise Refused if a currency is named that is not the request's."""
    asked = str((approval.request.get("request") or {}).get("currency") or "CNY")
    if given is not None and given.upper() != asked:
        raise Refused(f"the request is in {asked}; a refund is paid in the currency it was paid in")
