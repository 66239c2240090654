"""When a model call is asked for again, and what its failure is called in the end.

The provider's own repeats are off: two layers of repeats would multiply, and a turn has a deadline.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import openai
import tenacity

from supportpilot.config import Settings
from supportpilot.errors import Permanent, SupportPilotError, Transient, Unavailable

BACKOFF_SECONDS = 0.25
LONGEST_WAIT_SECONDS = 10.0
# No new attempt starts later than this many time-outs after the first one, so a call ends within three of them.
PATIENCE_TIMEOUTS = 2
BUSY_STATUS = frozenset({408, 409, 425, 429})


class ProviderTrouble(Transient):
    """The provider failed in a way that may pass; `model` is the one that was asked."""

    retry_after = 0.0
    model = ""


class ProviderAway(Unavailable):
    """The provider cannot be reached at all."""

    retry_after = 0.0


def persistently(settings: Settings) -> tenacity.Retrying:
    """Return the attempts of one call: bounded in number and time, with jitter, as long as a provider asks at most."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((ProviderTrouble, ProviderAway)),
        stop=tenacity.stop_after_attempt(settings.llm_max_retries + 1)
        | tenacity.stop_after_delay(settings.llm_timeout_seconds * PATIENCE_TIMEOUTS),
        wait=_wait,
        reraise=True,
    )


@contextmanager
def translated(model: str) -> Iterator[None]:
    """Translate the provider's errors raised inside the block.

    Raises:
        Unavailable: it cannot be reached, refuses the key, does not know the model, or the quota is used up: an
            operator has to act, and until then turns wait without using up their attempts.
        Transient: time-out, 429, 5xx, a cut or unreadable answer.
        Permanent: it rejects the request.
    """
    try:
        yield
    except ProviderTrouble as error:
        error.model = model
        raise
    except openai.APIStatusError as error:
        raise _named(_of_status(error, model), model) from error
    except openai.APIConnectionError as error:
        raise _named(_of_connection(error), model) from error
    except (openai.OpenAIError, json.JSONDecodeError) as error:
        raise _named(ProviderTrouble(f"the model provider's answer is unreadable: {_line(error)}"), model) from error


def _named(trouble: SupportPilotError, model: str) -> SupportPilotError:
    if isinstance(trouble, ProviderTrouble):
        trouble.model = model
    return trouble


def _of_status(error: openai.APIStatusError, model: str) -> SupportPilotError:
    status = error.status_code
    if error.code == "insufficient_quota":
        return Unavailable("the model provider says the quota is used up (429): check the account's billing")
    if status in BUSY_STATUS or status >= 500:
        trouble = ProviderTrouble(f"the model provider answers {status}: {_line(error)}")
        trouble.retry_after = _retry_after(error)
        return trouble
    if status in (401, 403):
        return Unavailable(f"the model provider refuses the key ({status}): check OPENAI_API_KEY and OPENAI_BASE_URL")
    if status == 404:
        return Unavailable(f"the model provider does not know {model!r} (404): check LLM_MODEL, LLM_SMALL_MODEL, EMBEDDING_MODEL and OPENAI_BASE_URL")
    # Its text may quote the prompt, and this line goes to logs: the code has to do.
    return Permanent(f"the model provider rejects the request ({status} {error.code or error.type or 'without a code'})")


def _of_connection(error: openai.APIConnectionError) -> SupportPilotError:
    names = {type(cause).__name__ for cause in _causes(error)}
    if names & {"ConnectError", "ConnectTimeout"} or any(isinstance(c, socket.gaierror) for c in _causes(error)):
        return ProviderAway(f"the model provider cannot be reached: {_line(error.__cause__ or error)}")
    if isinstance(error, openai.APITimeoutError):
        return ProviderTrouble("the model provider did not answer in time")
    return ProviderTrouble(f"the model provider's answer was cut: {_line(error.__cause__ or error)}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = getattr(error, "retry_after", 0.0)
    jittered = tenacity.wait_random_exponential(multiplier=BACKOFF_SECONDS, max=LONGEST_WAIT_SECONDS)(state)
    return min(max(jittered, asked), LONGEST_WAIT_SECONDS)


def _retry_after(error: openai.APIStatusError) -> float:
    value = error.response.headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        return 0.0  # a date: the backoff alone decides


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
