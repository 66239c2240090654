"""Settings: secrets by file, and one clear line when something is wrong."""

from __future__ import annotations

import json
import os

import pytest

from supportpilot.config import SECRETS, get_settings, load_settings, run_values
from supportpilot.errors import Misconfigured


@pytest.fixture
def secret(tmp_path):
    """Write a secret file and return its path."""
    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)
    return write


@pytest.mark.parametrize("name", SECRETS)
def test_every_secret_can_come_from_a_file(name, secret, monkeypatch):
    monkeypatch.setenv(f"{name.upper()}_FILE", secret(name, "from the file\n"))
    assert getattr(load_settings(), name) == "from the file"


def test_the_variable_itself_goes_before_its_file(secret, monkeypatch):
    monkeypatch.setenv("DATABASE_URL_FILE", secret("url", "postgresql://file"))
    monkeypatch.setenv("DATABASE_URL", "postgresql://variable")
    assert load_settings().database_url == "postgresql://variable"


def test_an_empty_file_counts_as_unset_like_an_empty_variable(secret, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY_FILE", secret("key", "\n"))
    monkeypatch.setenv("REDIS_URL_FILE", "")
    settings = load_settings()
    assert settings.openai_api_key is None
    assert settings.redis_url is None


@pytest.mark.parametrize("name", ["DATABASE_URL", "WEBHOOK_SECRET", "WEBHOOK_SECRET_ZENDESK"])
def test_a_missing_file_is_one_line_that_names_the_variable(name, tmp_path, monkeypatch):
    monkeypatch.setenv(f"{name}_FILE", str(tmp_path / "absent"))
    with pytest.raises(Misconfigured) as error:
        load_settings()
    assert str(error.value) == f"{name}_FILE: cannot read {tmp_path / 'absent'}: No such file or directory"


def test_a_file_that_is_no_text_is_named_and_not_shown(tmp_path, monkeypatch):
    (tmp_path / "key").write_bytes(b"\xff\xfesecret")
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(Misconfigured, match=r"^OPENAI_API_KEY_FILE: .*is not a text file$"):
        load_settings()


def test_a_channels_own_secret_can_come_from_a_file(secret, monkeypatch):
    monkeypatch.setenv("WEBHOOK_SECRET", "general")
    monkeypatch.setenv("WEBHOOK_SECRET_ZENDESK_FILE", secret("zendesk", "new old\n"))
    settings = load_settings()
    assert settings.webhook_secrets("zendesk") == ["new", "old"]
    assert settings.webhook_secrets("generic") == ["general"]


def test_a_running_up_does_not_replace_what_a_file_says(secret, monkeypatch):
    monkeypatch.setenv("DATABASE_URL_FILE", secret("url", "postgresql://file"))
    settings = load_settings()
    settings.data_dir.mkdir(parents=True)
    found = {"settings": {"database_url": "postgresql://run", "redis_url": "redis://run"}}
    settings.run_file.write_text(json.dumps(found), encoding="utf-8")
    assert run_values(settings) == {"redis_url": "redis://run"}
    assert get_settings().database_url == "postgresql://file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_one_line(secret, monkeypatch):
    path = secret("key", "x")
    os.chmod(path, 0)
    monkeypatch.setenv("OPENAI_API_KEY_FILE", path)
    with pytest.raises(Misconfigured, match=r"^OPENAI_API_KEY_FILE: cannot read .*Permission denied$"):
        load_settings()
