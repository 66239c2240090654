"""Nothing of a target's address leaves the process that uses it."""

from __future__ import annotations

import pytest

from supportpilot.notify.child import masked


@pytest.mark.parametrize(("url", "text", "shown"), [
    ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "url: /services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ (x)",
     "url: /services/*** (x)"),
    ("lark://abcdef0123456789", "url: /hook/abcdef0123456789?x=1", "url: /hook/***?x=1"),
    ("mailtos://desk:p%40ss%20w0rd@smtp.example.com?to=li@example.com", "535 'desk' 'p@ss w0rd' at smtp.example.com for li@example.com",
     "535 '***' '***' at *** for ***"),
    ("json://10.0.0.5:8080/x?token=se_cret-1~2", "to 10.0.0.5: refused\n\nsaid se_cret-1~2", "to ***: refused said ***"),
    ("json://[::1", "broken", "broken"),
])
def test_what_is_said_about_a_target_names_no_part_of_its_address(url, text, shown):
    assert masked(text, url) == shown
