"""The customer's link: whom it lets in, and what it looks like."""

from __future__ import annotations

import pytest

from supportpilot.config import Settings, load_settings
from supportpilot.desk.links import form_seal, opens, page_url, sealed, ticket_in, token_for
from supportpilot.errors import Misconfigured

OLD, NEW = "old-secret-of-the-tests-0123456789", "new-secret-of-the-tests-0123456789"
KEY, OTHER_KEY = "5f0e8a52-0000-4000-8000-000000000001", "5f0e8a52-0000-4000-8000-000000000002"


def settings(**values: object) -> Settings:
    return load_settings(public_url="https://help.example.com/support/", **values)


def test_without_a_secret_there_is_no_link() -> None:
    assert page_url(settings(), "T000001", KEY) is None


def test_a_link_is_the_public_address_and_a_token_of_letters_and_digits() -> None:
    url = page_url(settings(customer_link_secret=OLD), "T000001", KEY)
    assert url is not None
    start, token = url.rsplit("/", 1)
    assert start == "https://help.example.com/support/t"
    assert token.replace("-", "", 1).isalnum()
    assert ticket_in(token) == "T000001"


def test_a_token_opens_its_own_ticket_with_its_own_key_only() -> None:
    token = token_for(OLD, "T000001", KEY)
    assert opens([OLD], token, "T000001", KEY)
    assert not opens([OLD], token, "T000002", KEY)
    assert not opens([OLD], token, "T000001", OTHER_KEY)
    assert not opens([OLD], token, "T000001", None)
    assert not opens([NEW], token, "T000001", KEY)
    assert not opens([], token, "T000001", KEY)
    assert not opens([OLD], "T000002" + token[7:], "T000002", KEY)


def test_while_a_secret_is_replaced_the_old_links_still_open() -> None:
    token = token_for(OLD, "T000001", KEY)
    made = settings(customer_link_secret=f"{NEW} {OLD}")
    assert opens(made.link_secrets(), token, "T000001", KEY)
    assert str(page_url(made, "T000001", KEY)).endswith(token_for(NEW, "T000001", KEY))


@pytest.mark.parametrize("text", ["", "T000001", "T000001-", "T000001-" + "a" * 31, "T000001-" + "A" * 32, "T000001-" + "a" * 32 + "\n",
                                  "../x-" + "a" * 32, "T00٠001-" + "a" * 32])
def test_what_is_no_token_names_no_ticket(text: str) -> None:
    assert ticket_in(text) is None


def test_a_forms_seal_fits_its_own_page_and_key_only() -> None:
    seal = form_seal(OLD, "T000001-x", "key-of-a-form-0001")
    assert sealed([NEW, OLD], "T000001-x", "key-of-a-form-0001", seal)
    assert not sealed([OLD], "T000002-x", "key-of-a-form-0001", seal)
    assert not sealed([OLD], "T000001-x", "key-of-a-form-0002", seal)
    assert not sealed([NEW], "T000001-x", "key-of-a-form-0001", seal)
    assert not sealed([OLD], "T000001-x", "key-of-a-form-0001", "é")


def test_a_seal_is_no_token_and_a_token_no_seal() -> None:
    assert token_for(OLD, "T1", KEY)[3:] != form_seal(OLD, "T1", KEY)


@pytest.mark.parametrize("secret", ["short", "x" * 31, f"{OLD} short", " "])
def test_a_secret_that_is_too_short_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(Misconfigured, match=r"CUSTOMER_LINK_SECRET.*at least 32") as error:
        load_settings(customer_link_secret=secret)
    assert "short" not in str(error.value).split("is not valid")[0]
