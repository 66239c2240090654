"""What `up` prints when it runs: where, and the secrets that nobody else could know."""

from __future__ import annotations

import pytest

from producer.cli.up import greet
from supportpilot.config import load_settings

MADE = {"webhook_secret": "whsec_bWFkZQ==", "flower_basic_auth": "admin:made"}


def test_secrets_that_were_made_here_are_printed(capsys):
    configured = load_settings(port=8000, flower_port=5555)
    greet(configured.model_copy(update=MADE), configured)
    out = capsys.readouterr().out
    assert "WEBHOOK_SECRET=whsec_bWFkZQ==" in out
    assert "login admin:made" in out


@pytest.mark.parametrize("name", list(MADE))
def test_a_secret_that_was_configured_is_not_printed(name, capsys):
    configured = load_settings(port=8000, flower_port=5555, **{name: MADE[name]})
    greet(configured.model_copy(update=MADE), configured)
    out = capsys.readouterr().out
    assert MADE[name] not in out
    assert "as configured" in out
    assert all(value in out for other, value in MADE.items() if other != name)
