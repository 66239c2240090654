"""Every knob with its unit, default and meaning. Read once, at a door; inside, settings are passed on."""

from __future__ import annotations

import json
import math
import os
import re
from decimal import Decimal
from email.utils import parseaddr
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import platformdirs
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import override

from supportpilot.errors import Misconfigured
from supportpilot.secret_files import CHANNEL_SECRETS, FILE, SECRETS, SecretFiles, secret_from_file

# CNY per million tokens: input, cached input, output. A model that is not listed costs `default`.
DEFAULT_PRICES: dict[str, tuple[str, str, str]] = {
    "default": ("2.00", "0.50", "8.00"),
    "offline-rules": ("2.00", "0.50", "8.00"),
    "offline-rules-small": ("0.30", "0.10", "0.60"),
}

# People write mails slower than lines of a chat; what an operator sets goes before these.
CHANNEL_DEFAULTS = {("turn_debounce_seconds", "email"): "20", ("turn_debounce_max_seconds", "email"): "60"}

# Above its limit a number is a slip of the pen that a socket, a thread or an interval of Postgres cannot hold.
Positive = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Period = Annotated[float, Field(ge=0.1, le=1e6, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Price = Annotated[Decimal, Field(ge=0)]
WEB = ("http", "https")
_TARGET = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
LINK_SECRET_BYTES = 32
_LIMIT = re.compile(r"[1-9][0-9]{0,5}/[1-9][0-9]{0,5}")
SCHEMES = {"database_url": ("postgresql", "postgres"), "redis_url": ("redis", "rediss", "sentinel", "redis+socket"),
           "broker_url": ()}        # whatever Celery has a transport for


def _default_data_dir() -> Path:
    return Path(platformdirs.user_data_dir("supportpilot", appauthor=False))


class Settings(BaseSettings):
    """All settings; each is the environment variable of the same name in capitals."""

    model_config = SettingsConfigDict(extra="ignore", case_sensitive=False, env_ignore_empty=True)

    database_url: str | None = Field(None, description="Postgres URL; unset: DATA_DIR/run.json, else an embedded server by `up`")
    redis_url: str | None = Field(None, description="Redis URL of the Celery broker; unset: as DATABASE_URL")
    broker_url: str | None = Field(None, description="any other Celery broker URL, e.g. amqp://; goes before REDIS_URL")
    data_dir: Path = Field(default_factory=_default_data_dir, description="embedded servers' data and run.json")

    openai_api_key: str | None = Field(None, description="key of the model provider; unset with OPENAI_BASE_URL: the offline rule model")
    openai_base_url: str | None = Field(None, description="URL of an OpenAI-compatible provider, ending in /v1")
    llm_model: str = Field("offline-rules", description="main model, writes the drafts")
    llm_small_model: str | None = Field(None, description="cheap model for triage, review, summaries, profiles; unset: LLM_MODEL, or offline-rules-small beside offline-rules")
    embedding_model: str | None = Field(None, description="embedding model for the second retrieval leg; unset: lexical only")
    embedding_min_similarity: Annotated[float, Field(ge=-1, le=1)] = Field(0.3, description="cosine similarity below which a piece of an article is no hit of the second leg; depends on EMBEDDING_MODEL")
    llm_timeout_seconds: Positive = Field(30.0, description="seconds one model call may take")
    llm_max_retries: Annotated[int, Field(ge=0, le=10)] = Field(2, description="repeats of a model call on 429, 5xx, time-out or a cut stream")
    llm_prices: Annotated[dict[str, tuple[Price, Price, Price]], NoDecode] = Field(
        default_factory=lambda: {k: (Decimal(a), Decimal(b), Decimal(c)) for k, (a, b, c) in DEFAULT_PRICES.items()},
        description='JSON: {"model": [input, cached input, output]} in CNY per million tokens; "default" for all others',
    )

    context_budget_tokens: Count = Field(1200, description="tokens of summary, facts and open entries that a ticket may have before its early part is folded")
    context_keep_last: Count = Field(4, description="entries always kept word for word")
    context_entry_max_tokens: Count = Field(600, description="estimated tokens of one entry shown to the model; the middle of a longer one is left out of the view")
    turn_deadline_seconds: Positive = Field(120.0, description="seconds a turn may run before its lease is not renewed any more")
    max_revisions: Annotated[int, Field(ge=0, le=100)] = Field(2, description="times a draft goes back to the writer before a human gets the ticket")
    max_attempts: Count = Field(5, description="attempts of a turn before it is given up (dead letter)")
    max_crashes: Count = Field(10, description="hard kills of a turn before it is given up")
    ticket_cost_cap_cny: Positive = Field(5.0, description="CNY one ticket may cost before a human gets it")
    handoff_after_unsolved: Count = Field(2, description="times an answer did not help before a human gets the ticket")

    lease_seconds: Period = Field(45.0, description="seconds until the lease of a killed worker expires")
    drain_seconds: Period = Field(8.0, description="seconds between SIGTERM and the moment when turns that have not reached their next node are handed back over their head")
    sweep_seconds: Period = Field(5.0, description="seconds between two sweeps for work that nobody holds")
    approval_expires_hours: Positive = Field(72.0, description="hours until an undecided approval becomes a handoff")
    approval_two_person_cny: NotNegative = Field(5000.0, description="CNY above which a refund needs the approval of two different people; 0: always two")
    approval_notice: bool = Field(default=True, description="tell the customer once that a colleague is checking the refund")
    resolve_after_hours: Positive = Field(24.0, description="quiet hours after which an answered ticket is resolved and part of the customer's history")
    profile_debounce_seconds: NotNegative = Field(5.0, description="seconds to wait for more changes before a customer's profile is made anew")
    erased_ids_days: Positive = Field(365.0, description="days for which keyed hashes of erased messages' ids are kept, so that a sender's retry or a mailbox read again brings none back")
    turn_debounce_seconds: NotNegative = Field(2.0, description="quiet seconds to wait for the customer's next line; for e-mail 20 while this is unset; 0 turns waiting off everywhere")
    turn_debounce_max_seconds: NotNegative = Field(10.0, description="longest wait from the first line, in seconds; for e-mail 60 while this is unset")
    conversation_idle_minutes: Positive = Field(30.0, description="minutes of silence after which a message without an id opens a new ticket")

    retention_days: NotNegative = Field(90.0, description="quiet days of a resolved ticket after which only its last snapshot is kept; as long are replays, settled quarantine, closed notifications and the bytes of mails that were read; 0: for ever")
    retention_forget_days: NotNegative = Field(730.0, description="quiet days of a resolved ticket after which its conversation's last snapshot and its summaries go too, and the words and files of its mails; as long is held quarantine; 0: for ever")
    retention_llm_calls_days: NotNegative = Field(0.0, description="days that the records of model calls are kept, of open tickets always; what is deleted is missing in `costs`; 0: for ever")

    webhook_secret: str | None = Field(None, description="secret of signed webhooks (whsec_...), several separated by spaces; per channel WEBHOOK_SECRET_<CHANNEL>")
    reply_callback_url: str | None = Field(None, description="where replies of the generic channel are posted; unset: kept and counted as accepted")
    reply_callback_secret: str | None = Field(None, description="secret that signs the callbacks (whsec_...)")
    reply_timeout_seconds: Positive = Field(10.0, description="seconds one delivery of a reply may take")
    delivery_rate: Annotated[int, Field(ge=0, le=10**6)] = Field(0, description="replies that may leave a channel in a minute, over all workers; more of them wait; 0: no limit")
    chatwoot_url: str | None = Field(None, description="address of Chatwoot; with CHATWOOT_TOKEN: replies go out by its API")
    chatwoot_token: str | None = Field(None, description="access token of the Chatwoot user that we answer as")
    chatwoot_user_id: str | None = Field(None, description="id of that user: what it writes is our own")
    chatwoot_account_id: Annotated[int, Field(ge=1)] | None = Field(None, description="Chatwoot account that is asked for messages whose hook was lost; unset: it is not asked")
    chatwoot_reconcile_seconds: Period = Field(300.0, description="seconds between two such questions")
    zendesk_url: str | None = Field(None, description="address of Zendesk, https://<subdomain>.zendesk.com")
    zendesk_token: str | None = Field(None, description="<e-mail>/token:<API token>, or an OAuth access token")
    zendesk_user_id: str | None = Field(None, description="id of the Zendesk user that we answer as")
    freshdesk_url: str | None = Field(None, description="address of Freshdesk, https://<domain>.freshdesk.com")
    freshdesk_token: str | None = Field(None, description="API key of the Freshdesk agent that we answer as")
    freshdesk_user_id: str | None = Field(None, description="id of that agent")
    intercom_url: str = Field("https://api.intercom.io", description="address of Intercom's API in your region")
    intercom_token: str | None = Field(None, description="access token of the Intercom app")
    intercom_user_id: str | None = Field(None, description="id of the Intercom admin that we answer as")
    zammad_url: str | None = Field(None, description="address of Zammad")
    zammad_token: str | None = Field(None, description="access token of the Zammad agent that we answer as")
    zammad_user_id: str | None = Field(None, description="id of that agent")
    trusted_addresses: str = Field("zendesk freshdesk intercom zammad", description="channels, separated by spaces, whose word for the sender's address is believed without proof (a Chatwoot visitor can type any); elsewhere an unproven address opens a ticket without the customer's data")
    ticket_rate_limits: str = Field("10/10 15/30 25/60 50/180 100/600", description="answers/minutes per ticket and per recipient, separated by spaces; past one of them the ticket goes to a human; empty or off: no limit")
    notify_urls: str | None = Field(None, description="whom to tell of refunds to approve and of tickets for a human: addresses of apprise (feishu://, dingtalk://, wecombot://, slack://, mailtos://, ...), separated by spaces or lines; unset: nobody")
    notify_language: Literal["zh", "en"] = Field("zh", description="language of these notifications, zh or en")
    notify_timeout_seconds: Positive = Field(10.0, description="seconds one notification may take at all targets together, side by side")
    public_url: str = Field("http://127.0.0.1:8000", description="where customers reach this server; start of citation links")
    customer_link_secret: str | None = Field(None, description="makes the links to customers' own pages: at least 32 random characters; several separated by spaces: the first makes links, all of them open; unset: no links, no pages")
    customer_link_days: Positive = Field(180.0, description="days after a ticket's last message for which the customer's link opens it")
    session_hours: Positive = Field(12.0, description="hours that a login of the staff lasts")
    max_body_bytes: Count = Field(262_144, description="largest webhook request in bytes")
    max_message_chars: Count = Field(20_000, description="longest customer message in characters; longer ones go to quarantine")
    mail_addresses: str = Field("", description="our own addresses, separated by spaces; the first is the one customers write to. Mail from them is our own and ignored")
    mail_secret: str | None = Field(None, description="secret that signs reply addresses, body markers and our Message-IDs; unset: none is believed and no mail is sent")
    mail_authserv_id: str | None = Field(None, description="name by which our own mail server signs Authentication-Results; unset: no sender is vouched for, so mail opens tickets without account and history")
    mail_trust_senders: bool = Field(default=False, description="believe the sender of every mail without Authentication-Results: closed networks and trials only")
    mail_max_bytes: Count = Field(26_214_400, description="largest mail in bytes; of a larger one only the head is kept, in quarantine, or its sender gets it back")
    mail_max_attachments: Annotated[int, Field(ge=0, le=1000)] = Field(20, description="files of one mail that are stored; more are listed only")
    mail_max_attachment_bytes: Count = Field(10_485_760, description="largest file of a mail that is stored, in bytes; a larger one is listed only")
    imap_urls: str | None = Field(None, description="mailboxes to read, separated by spaces: imaps://user:password@host:993/INBOX (imap:// for STARTTLS; user and password percent-encoded)")
    imap_poll_seconds: Period = Field(60.0, description="seconds between two looks into each mailbox")
    imap_timeout_seconds: Positive = Field(30.0, description="seconds the IMAP server may take for one answer")
    imap_first_days: NotNegative = Field(2.0, description="days that a mail may be old when a mailbox is read for the first time; older ones are left alone")
    smtp_url: str | None = Field(None, description="server that takes our mails: smtps://user:password@host:465, or smtp://host:587 for STARTTLS (?starttls=off without TLS); unset: replies to mails are kept and counted as accepted")
    smtp_timeout_seconds: Positive = Field(60.0, description="seconds the mail server may take for one step, and for the text with its answer")
    smtp_sent_url: str | None = Field(None, description="folder where the mail server keeps what it sent, written as IMAP_URLS: asked before a mail that nobody answered for is sent again")
    mail_from: str | None = Field(None, description="sender of our mails, as in Name <support@example.com>; unset: the one of MAIL_ADDRESSES that the customer wrote to")
    mail_plus_addresses: bool = Field(default=True, description="let answers come to support+<token>@...; false where the mailbox takes no such addresses")
    flower_basic_auth: str | None = Field(None, description="user:password of Flower; unset: `up` makes one and prints it")
    host: str = Field("127.0.0.1", description="address the web server and Flower listen on")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8000, description="port of the web server; taken: the next free one")
    flower_port: Annotated[int, Field(ge=0, le=65535)] = Field(5555, description="port of Flower; taken: the next free one")
    worker_concurrency: Annotated[int, Field(ge=1, le=1000)] = Field(16, description="turns one worker process runs side by side")
    log_level: str = Field("INFO", description="DEBUG, INFO, WARNING or ERROR")

    @classmethod
    @override
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource, dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return where values come from, the first that has one wins: arguments, environment, secret files."""
        return init_settings, env_settings, SecretFiles(settings_cls)

    @field_validator("llm_prices", mode="before")
    @classmethod
    def _prices(cls, value: Any) -> Any:  # noqa: ANN401 -- pydantic hands over whatever the environment holds
        if not isinstance(value, str):
            return value
        try:
            given = json.loads(value)
        except RecursionError:
            given = None
        if not isinstance(given, dict):
            raise ValueError('must be a JSON object {"model": [input, cached, output]}')  # noqa: TRY004 -- pydantic turns only this one into its own
        return {**DEFAULT_PRICES, **given}

    @field_validator("database_url", "redis_url", "broker_url", "openai_base_url", "reply_callback_url", "public_url",
                     "chatwoot_url", "zendesk_url", "freshdesk_url", "intercom_url", "zammad_url")
    @classmethod
    def _address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        schemes = SCHEMES.get(info.field_name or "", WEB)
        scheme, found, _ = value.partition("://")
        fits = scheme.lower() in schemes if schemes else bool(scheme)
        if not (found and fits and value.isprintable() and (schemes is not WEB or _is_web(value))):
            raise ValueError(f"must be an address such as {(schemes or ('amqp',))[0]}://host:port/...")
        return value

    @field_validator("chatwoot_url", "zendesk_url", "freshdesk_url", "intercom_url", "zammad_url")
    @classmethod
    def _helpdesk_address(cls, value: str | None) -> str | None:
        """Paths are put behind it, a token goes with it: nothing but scheme, host, port and folder."""
        if value is not None and any(mark in value for mark in "@?#\\"):
            raise ValueError("must be an address without login, query or fragment")
        return value

    @field_validator("ticket_rate_limits")
    @classmethod
    def _limits(cls, value: str) -> str:
        if not all(_LIMIT.fullmatch(part) for part in value.split()) and value.strip() != "off":
            raise ValueError("must be answers/minutes separated by spaces, such as 10/10 25/60, or off")
        return value

    @field_validator("notify_urls")
    @classmethod
    def _targets(cls, value: str | None) -> str | None:
        for number, part in enumerate((value or "").split(), 1):
            if not (_TARGET.fullmatch(part) and part.isprintable()):
                raise ValueError(f"number {number} must be an address of apprise such as slack://...")
        return value

    @field_validator("openai_api_key", "chatwoot_token", "zendesk_token", "freshdesk_token", "intercom_token", "zammad_token")
    @classmethod
    def _key(cls, value: str | None) -> str | None:
        if value is not None and not (value.isascii() and value.isprintable()):
            raise ValueError("must be printable ASCII: it travels in a header")
        return value

    @field_validator("flower_basic_auth")
    @classmethod
    def _login(cls, value: str | None) -> str | None:
        user, _, password = (value or "").partition(":")
        if value and not (user and password and "," not in value):
            raise ValueError("must be user:password, without a comma")
        return value

    @field_validator("customer_link_secret")
    @classmethod
    def _link_secret(cls, value: str | None) -> str | None:
        if value is not None and any(len(secret.encode()) < LINK_SECRET_BYTES for secret in value.split() or [""]):
            raise ValueError(f"must be at least {LINK_SECRET_BYTES} random characters (`openssl rand -hex 32`)")
        return value

    @model_validator(mode="after")
    def _small_model(self) -> Self:
        """A default that names the offline model's small one would be asked of every other provider too."""
        if self.llm_small_model is None and self.llm_model == "offline-rules":
            self.llm_small_model = "offline-rules-small"
        return self

    @field_validator("log_level")
    @classmethod
    def _level(cls, value: str) -> str:
        if value.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
            raise ValueError("must be DEBUG, INFO, WARNING or ERROR")
        return value.upper()

    @property
    def broker(self) -> str | None:
        """The Celery broker's URL, or None if none is configured."""
        return self.broker_url or self.redis_url

    def helpdesk_api(self, channel: str) -> tuple[str, str]:
        """Return (address, token) of a helpdesk's API.

        Raises:
            Misconfigured: one of them is not set.
        """
        url, token = getattr(self, f"{channel}_url"), getattr(self, f"{channel}_token")
        if not (url and token):
            raise Misconfigured(f"set {channel.upper()}_URL and {channel.upper()}_TOKEN: without them no reply goes out")
        return str(url), str(token)

    def notify_targets(self) -> list[str]:
        """Return the addresses of NOTIFY_URLS, each once."""
        return list(dict.fromkeys((self.notify_urls or "").split()))

    def rate_limits(self) -> list[tuple[int, float]]:
        """Return (answers, seconds) of each rate limit."""
        if os.environ.get("TICKET_RATE_LIMITS") == "":      # pydantic was told to take an empty one for unset
            return []
        pairs = (part.split("/") for part in self.ticket_rate_limits.split() if part != "off")
        return [(int(count), float(minutes) * 60) for count, minutes in pairs]

    @property
    def own_addresses(self) -> frozenset[str]:
        """Our mail addresses, in lower case."""
        return frozenset(f"{self.mail_addresses} {parseaddr(self.mail_from or '')[1]}".lower().split())

    def rate_of(self, channel: str) -> int:
        """Return how many replies may leave a channel in a minute; 0: no limit.

        Raises:
            Misconfigured: the channel's own value is not a number.
        """
        value = self.channel_value("DELIVERY_RATE", channel) or "0"
        if not (value.isascii() and value.isdigit() and int(value) <= 10**6):
            raise Misconfigured(f"DELIVERY_RATE_{channel.upper()}: {value!r} is not a number of replies in a minute")
        return int(value)

    @property
    def run_file(self) -> Path:
        """Where `up` writes what listens where."""
        return self.data_dir / "run.json"

    def channel_value(self, name: str, channel: str) -> str | None:
        """Return the channel's own value of a setting (`NAME_CHANNEL` in the environment), else the general one.

        A default that is the channel's own goes before the general default, not before a general value that was set.
        """
        variable = f"{name}_{channel}".upper()
        own = os.environ.get(variable) or (secret_from_file(variable) if variable.startswith(CHANNEL_SECRETS) else None)
        if own:
            return own
        if name.lower() not in self.model_fields_set and (name.lower(), channel) in CHANNEL_DEFAULTS:
            return CHANNEL_DEFAULTS[name.lower(), channel]
        general = getattr(self, name.lower())
        return None if general is None else str(general)

    def webhook_secrets(self, channel: str) -> list[str]:
        """Return the secrets that may sign for a channel; several while one is being replaced."""
        return (self.channel_value("WEBHOOK_SECRET", channel) or "").split()

    def link_secrets(self) -> list[str]:
        """Return the secrets of customers' links, the one that makes them first; [] where pages are off."""
        return (self.customer_link_secret or "").split()

    def debounce(self, channel: str) -> tuple[float, float]:
        """Return (quiet seconds, longest seconds) to wait on a channel; (0, 0) if waiting is off.

        Raises:
            Misconfigured: the channel's own value is not a number.
        """
        if self.turn_debounce_seconds == 0:
            return 0.0, 0.0
        names = ("TURN_DEBOUNCE_SECONDS", "TURN_DEBOUNCE_MAX_SECONDS")
        values = [self._seconds(name, channel) for name in names]
        return values[0], max(values)

    def _seconds(self, name: str, channel: str) -> float:
        value = self.channel_value(name, channel)
        try:
            seconds = float(value or 0)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds <= 1e6:     # neither is nan
            raise Misconfigured(f"{name}_{channel.upper()}: {value!r} is not a number of seconds")
        return seconds


def _is_web(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return bool(parts.hostname) and " " not in address and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def load_settings(**overrides: object) -> Settings:
    """Build the settings from the environment; `overrides` go first.

    Raises:
        Misconfigured: a value is malformed; the text names the variable.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type] # names are checked by pydantic
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]).upper() if first["loc"] else "settings"
        shown = repr(first.get("input"))[:60] if name.lower() not in SECRETS else "the value given"
        raise Misconfigured(f"{name}: {shown} is not valid: {first['msg']}") from None


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """Return the process' settings; `run.json` fills in what the environment leaves open (environment first)."""
    settings = load_settings()
    return load_settings(**run_values(settings))


def run_values(settings: Settings) -> dict[str, str]:
    """Return the settings that `DATA_DIR/run.json` supplies and the environment does not; {} if nothing runs."""
    try:
        found = json.loads(settings.run_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    values = found.get("settings", {}) if isinstance(found, dict) else {}
    return {k: v for k, v in values.items() if k in Settings.model_fields and not _is_set(k.upper())}


def _is_set(name: str) -> bool:
    return bool(os.environ.get(name) or os.environ.get(name + FILE))
