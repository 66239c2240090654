"""Secrets that come from files, as containers have them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic_settings import PydanticBaseSettingsSource
from typing_extensions import override

from supportpilot.errors import Misconfigured

# Settings that may come from a file named by <NAME>_FILE (container secrets); so may WEBHOOK_SECRET_<CHANNEL>.
SECRETS = ("database_url", "redis_url", "broker_url", "openai_api_key", "webhook_secret", "reply_callback_secret", "flower_basic_auth", "notify_urls", "customer_link_secret",
           "chatwoot_token", "zendesk_token", "freshdesk_token", "intercom_token", "zammad_token",
           "mail_secret", "imap_urls", "smtp_url", "smtp_sent_url")
CHANNEL_SECRETS = "WEBHOOK_SECRET_"
FILE = "_FILE"


class SecretFiles(PydanticBaseSettingsSource):
    """Settings from the files that `<NAME>_FILE` variables name; the variable `<NAME>` itself goes before them."""

    @override
    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        """Return the secret of one field."""
        return (secret_from_file(field_name.upper()) if field_name in SECRETS else None), field_name, False

    @override
    def __call__(self) -> dict[str, Any]:
        """Return what the files hold; every file that is named has to be readable.

        Raises:
            Misconfigured: one is not.
        """
        for name in os.environ:
            if name.startswith(CHANNEL_SECRETS) and name.endswith(FILE):
                secret_from_file(name.removesuffix(FILE))
        found = {name: secret_from_file(name.upper()) for name in SECRETS}
        return {name: value for name, value in found.items() if value}


def secret_from_file(name: str) -> str | None:
    """Return the contents of the file that `<name>_FILE` names, without the line break at the end; None if unset or empty.

    Raises:
        Misconfigured: the file cannot be read.
    """
    path = os.environ.get(name + FILE)
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None
    except OSError as error:
        raise Misconfigured(f"{name}{FILE}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Misconfigured(f"{name}{FILE}: {path} is not a text file") from None
