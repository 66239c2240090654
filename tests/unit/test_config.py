"""Settings: secrets by file, values per channel, what `up` wrote, and one clear line when something is wrong."""

from __future__ import annotations

import json
import os

import pytest

from supportpilot.config import get_settings, load_settings, run_values
from supportpilot.errors import Misconfigured
from supportpilot.secret_files import SECRETS


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
    text = {"database_url": "postgresql://file", "redis_url": "redis://file", "broker_url": "amqp://file", "notify_urls": "slack://file",
            "customer_link_secret": "0123456789abcdef0123456789abcdef"}.get(name, "from:file")
    monkeypatch.setenv(f"{name.upper()}_FILE", secret(name, f"{text}\n"))
    assert getattr(load_settings(), name) == text


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


@pytest.mark.parametrize(("name", "value"), [
    ("LEASE_SECONDS", "soon"), ("LEASE_SECONDS", "0"), ("LEASE_SECONDS", "inf"), ("SWEEP_SECONDS", "nan"),
    ("TURN_DEBOUNCE_SECONDS", "-1"), ("CONTEXT_KEEP_LAST", "0"), ("MAX_ATTEMPTS", "1.5"), ("PORT", "65536"),
    ("LOG_LEVEL", "LOUD"), ("LLM_PRICES", "cheap"), ("LLM_PRICES", "[1]"), ("LLM_PRICES", '{"m": ["1"]}'),
    ("APPROVAL_NOTICE", "perhaps"), ("LLM_PRICES", '{"m": ["-1", "1", "1"]}'), ("LLM_PRICES", "[" * 100_000),
    ("LEASE_SECONDS", "1e300"), ("LEASE_SECONDS", "1e-9"), ("SWEEP_SECONDS", "1e-9"), ("APPROVAL_EXPIRES_HOURS", "1e300"),
    ("TURN_DEBOUNCE_MAX_SECONDS", "1e300"), ("WORKER_CONCURRENCY", "1000000"), ("MAX_ATTEMPTS", "9" * 30),
    ("DATABASE_URL", "nonsense"), ("DATABASE_URL", "http://host/db"), ("REDIS_URL", "nonsense"), ("REDIS_URL", "http://host"),
    ("BROKER_URL", "nonsense"), ("BROKER_URL", "://host"), ("OPENAI_BASE_URL", "nonsense"), ("OPENAI_BASE_URL", "ftp://host/v1"),
    ("OPENAI_BASE_URL", "http://"), ("OPENAI_BASE_URL", "http://[::1"), ("OPENAI_BASE_URL", "http://host:port/v1"),
    ("OPENAI_BASE_URL", "http://a host/v1"), ("OPENAI_API_KEY", "kéy"), ("OPENAI_API_KEY", "a\nb"),
    ("REPLY_CALLBACK_URL", "host/callback"), ("REPLY_CALLBACK_URL", "http://host:99999/"), ("PUBLIC_URL", "javascript:alert(1)"),
    ("PUBLIC_URL", "help.example.com"), ("FLOWER_BASIC_AUTH", "admin"), ("FLOWER_BASIC_AUTH", ":x"), ("FLOWER_BASIC_AUTH", "a:b,c:d"),
])
def test_a_malformed_value_is_one_line_that_names_the_variable(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(Misconfigured) as error:
        load_settings()
    assert str(error.value).startswith(f"{name}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "value"), [
    ("DATABASE_URL", "postgresql://postgres@/postgres?host=%2Ftmp%2Fd"), ("DATABASE_URL", "postgres://u:p%20w@a:5432,b:5432/db"),
    ("REDIS_URL", "rediss://:secret@host:6380/0"), ("REDIS_URL", "redis+socket:///run/redis.sock"), ("BROKER_URL", "sqs://"),
    ("BROKER_URL", "sentinel://a:26379;sentinel://b:26379"), ("OPENAI_BASE_URL", "http://[::1]:8100/v1"),
    ("PUBLIC_URL", "https://hilfe.example.com/support"), ("REPLY_CALLBACK_URL", "HTTPS://user:pw@host/x?y=z"),
    ("CONVERSATION_IDLE_MINUTES", "525600"), ("TURN_DEADLINE_SECONDS", "86400"),
])
def test_what_people_really_set_fits(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    assert str(getattr(load_settings(), name.lower())).startswith(value[:12])


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_does_not_fit_is_not_echoed(name):
    with pytest.raises(Misconfigured) as error:
        load_settings(**{name: ["hunter2"]})
    assert str(error.value).startswith(f"{name.upper()}: the value given is not valid")
    assert "hunter2" not in str(error.value)


def test_a_channel_waits_as_its_own_variables_say(monkeypatch):
    monkeypatch.setenv("TURN_DEBOUNCE_SECONDS_GENERIC", "0.5")
    monkeypatch.setenv("TURN_DEBOUNCE_MAX_SECONDS_GENERIC", "3")
    settings = load_settings()
    assert settings.debounce("generic") == (0.5, 3.0)
    assert settings.debounce("terminal") == (2.0, 10.0)


@pytest.mark.parametrize(("given", "waits"), [
    ({}, (20.0, 60.0)),
    ({"TURN_DEBOUNCE_SECONDS": "5"}, (5.0, 60.0)),
    ({"TURN_DEBOUNCE_SECONDS": "5", "TURN_DEBOUNCE_MAX_SECONDS": "15"}, (5.0, 15.0)),
    ({"TURN_DEBOUNCE_SECONDS": "5", "TURN_DEBOUNCE_SECONDS_EMAIL": "40"}, (40.0, 60.0)),
    ({"TURN_DEBOUNCE_SECONDS_EMAIL": "0", "TURN_DEBOUNCE_MAX_SECONDS_EMAIL": "0"}, (0.0, 0.0)),
    ({"TURN_DEBOUNCE_SECONDS": "", "TURN_DEBOUNCE_MAX_SECONDS": ""}, (20.0, 60.0)),
    ({"TURN_DEBOUNCE_SECONDS": "0", "TURN_DEBOUNCE_SECONDS_EMAIL": "40"}, (0.0, 0.0)),
])
def test_mail_waits_longer_until_somebody_says_otherwise(given, waits, monkeypatch):
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert load_settings().debounce("email") == waits
    assert load_settings().debounce("chatwoot")[0] in {2.0, 5.0, 0.0}


def test_the_longest_wait_is_never_below_the_quiet_one():
    assert load_settings(turn_debounce_seconds=30).debounce("generic") == (30.0, 30.0)


def test_a_general_zero_turns_waiting_off_on_every_channel(monkeypatch):
    monkeypatch.setenv("TURN_DEBOUNCE_SECONDS", "0")
    monkeypatch.setenv("TURN_DEBOUNCE_SECONDS_GENERIC", "5")
    assert load_settings().debounce("generic") == (0.0, 0.0)


@pytest.mark.parametrize("value", ["a while", "inf", "nan", "-1", "1e300"])
def test_a_channels_wait_that_is_no_number_is_named(value, monkeypatch):
    monkeypatch.setenv("TURN_DEBOUNCE_SECONDS_GENERIC", value)
    with pytest.raises(Misconfigured, match=f"^TURN_DEBOUNCE_SECONDS_GENERIC: '{value}' is not a number of seconds$"):
        load_settings().debounce("generic")


def test_a_channel_may_have_several_secrets_of_its_own(monkeypatch):
    monkeypatch.setenv("WEBHOOK_SECRET", "general")
    monkeypatch.setenv("WEBHOOK_SECRET_GENERIC", "new  old")
    settings = load_settings()
    assert settings.webhook_secrets("generic") == ["new", "old"]
    assert settings.webhook_secrets("chatwoot") == ["general"]
    monkeypatch.delenv("WEBHOOK_SECRET")
    assert load_settings().webhook_secrets("chatwoot") == []


@pytest.mark.parametrize("content", ["", "not json", "[]", "{}"])
def test_a_damaged_run_file_is_as_good_as_none(content):
    settings = load_settings()
    settings.data_dir.mkdir(parents=True)
    settings.run_file.write_text(content, encoding="utf-8")
    assert run_values(settings) == {}


def test_a_run_file_fills_in_only_what_the_environment_lacks_and_only_settings(monkeypatch):
    monkeypatch.setenv("PORT", "1234")
    settings = load_settings()
    settings.data_dir.mkdir(parents=True)
    found = {"settings": {"port": "8001", "flower_port": "5556", "path": "/evil"}}
    settings.run_file.write_text(json.dumps(found), encoding="utf-8")
    assert (get_settings().port, get_settings().flower_port) == (1234, 5556)
    assert run_values(settings) == {"flower_port": "5556"}


def test_a_price_for_one_model_leaves_the_others(monkeypatch):
    monkeypatch.setenv("LLM_PRICES", '{"gpt-x": ["1.5", "0.5", "6"]}')
    prices = load_settings().llm_prices
    assert [str(p) for p in prices["gpt-x"]] == ["1.5", "0.5", "6"]
    assert "default" in prices


def test_any_broker_goes_before_redis():
    assert load_settings(redis_url="redis://r").broker == "redis://r"
    assert load_settings(redis_url="redis://r", broker_url="amqp://b").broker == "amqp://b"
    assert load_settings().broker is None


def test_the_small_model_of_another_provider_is_its_main_one_unless_it_is_named():
    assert load_settings().llm_small_model == "offline-rules-small"
    assert load_settings(llm_model="gpt-x").llm_small_model is None
    assert load_settings(llm_model="gpt-x", llm_small_model="gpt-x-mini").llm_small_model == "gpt-x-mini"
