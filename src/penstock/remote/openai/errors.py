"""Every way in which a request to an OpenAI-compatible server fails, mapped once to the types Penstock acts on.

A server that answers with an error has not been paid; an answer that was lost on the way may have been.
"""

from __future__ import annotations

import contextlib
import email.utils
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
from pydantic_core import from_json

from penstock.engine.errors import Ambiguous, Permanent, RateLimited, StepError, Transient

_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_CANNOT_BE_SENT = (httpx2.UnsupportedProtocol, httpx2.InvalidURL)
_FOR_NOW = frozenset({408, 409, 425})


class Refused(Permanent):
    """The server said no. `code` is the HTTP status: by 401, 403 and 404 it refuses not the texts, but who asks, or the
    model that is asked for."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


@contextlib.contextmanager
def translated(base_url: str) -> Iterator[None]:
    """Errors of the HTTP client come out as ours."""
    try:
        yield
    except _NOT_SENT as error:
        raise Transient(f"embed: {_told(error)}; nobody answers at {base_url} (openai.base_url)") from error
    except _CANNOT_BE_SENT as error:
        raise Permanent(f"embed: {_told(error)} (openai.base_url is {base_url})") from error
    except httpx2.HTTPError as error:
        raise Ambiguous(f"embed: {_told(error)} ({base_url} may have taken it all the same)") from error


def refusal(status: int, body: bytes, headers: Mapping[str, str], base_url: str) -> StepError:
    """What an HTTP answer other than 200 means."""
    message = _message(body)
    said = f"embed: {base_url} answered {status}" + (f": {message}" if message else "")
    if status == 429:
        return RateLimited(said, retry_after=_retry_after(headers))
    if status in _FOR_NOW or status >= 500:
        return Transient(said)
    if status in (401, 403):
        said += ". Way out: set OPENAI_API_KEY (or openai.api_key) to a key that is valid there"
    elif status == 404:
        said += ". Way out: check openai.base_url, which ends with /v1 as a rule, and the name of the model"
    elif 300 <= status < 400:
        said += ". Redirects are not followed: check openai.base_url"
    return Refused(said, code=status)


def _message(body: bytes) -> str:
    """What the server said, from the several ways in which such servers say it."""
    try:
        told: Any = from_json(body)
    except ValueError:
        return body[:300].decode(errors="replace").strip()
    error = told.get("error", told) if isinstance(told, Mapping) else told
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("detail") or error
    return str(error)[:500].rstrip(". ")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    written = headers.get("retry-after", "").strip()
    if written.isascii() and written.isdigit():
        return float(written)
    try:
        wait = email.utils.parsedate_to_datetime(written) - email.utils.parsedate_to_datetime(headers.get("date", ""))
    except (TypeError, ValueError):
        return None
    return max(0.0, wait.total_seconds())


def _told(error: Exception) -> str:
    """What a person is shown. The text of a protocol error may quote a header, and with it the key."""
    name = type(error).__name__
    text = "" if isinstance(error, httpx2.LocalProtocolError) else str(error).split("\n", 1)[0][:300]
    return f"{name}: {text}" if text else name
