"""Every way in which a call to Gemini fails, mapped once to the types Penstock acts on.

Three things decide: whether the request may have reached Google, whether trying again can help, and what is at stake.

    NOT_TAKEN   nothing went out, or it was turned away for now: Transient
    MAYBE       it may have been taken: Transient for a question, Ambiguous where there is something to lose
    REFUSED     Google said no, or the request cannot be made: Permanent
    LATER       Google said not now: RateLimited
"""

from __future__ import annotations

import contextlib
import email.utils
import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any, Literal

from penstock.engine.errors import Ambiguous, PenstockError, Permanent, RateLimited, StepError, Transient

Stake = Literal["nothing", "answer", "work"]
"""nothing   a question: it may be asked again
answer    a paid single call: an error that Google told is free, an answer that was lost on the way may not be
work      a create, which is not idempotent: even a 503 may have made a batch
"""


class Fate(Enum):
    NOT_TAKEN = auto()
    MAYBE = auto()
    REFUSED = auto()
    LATER = auto()


STATUSES: dict[int, Fate] = {
    400: Fate.REFUSED,
    401: Fate.REFUSED,
    403: Fate.REFUSED,
    404: Fate.REFUSED,
    405: Fate.REFUSED,
    408: Fate.MAYBE,
    409: Fate.NOT_TAKEN,
    410: Fate.REFUSED,
    412: Fate.REFUSED,
    413: Fate.REFUSED,
    415: Fate.REFUSED,
    416: Fate.REFUSED,
    422: Fate.REFUSED,
    425: Fate.NOT_TAKEN,
    429: Fate.LATER,
    499: Fate.MAYBE,
    501: Fate.REFUSED,
}
"""By HTTP status; what is not named here goes by its hundred, in `_by_hundred`."""

FAMILIES: dict[str, dict[str, Fate]] = {
    "httpx": {  # and httpx2, its fork, which is what we use
        "ConnectError": Fate.NOT_TAKEN,
        "ConnectTimeout": Fate.NOT_TAKEN,
        "PoolTimeout": Fate.NOT_TAKEN,
        "ProxyError": Fate.NOT_TAKEN,
        "UnsupportedProtocol": Fate.REFUSED,
        "InvalidURL": Fate.REFUSED,
        "TooManyRedirects": Fate.REFUSED,
        "ReadTimeout": Fate.MAYBE,
        "WriteTimeout": Fate.MAYBE,
        "ReadError": Fate.MAYBE,
        "WriteError": Fate.MAYBE,
        "CloseError": Fate.MAYBE,
        "RemoteProtocolError": Fate.MAYBE,
        "LocalProtocolError": Fate.MAYBE,
        "DecodingError": Fate.MAYBE,
        "StreamError": Fate.MAYBE,
        "HTTPError": Fate.MAYBE,
    },
    "aiohttp": {  # which the SDK prefers where it is installed; ours is told not to
        "ClientConnectorError": Fate.NOT_TAKEN,
        "ConnectionTimeoutError": Fate.NOT_TAKEN,
        "InvalidURL": Fate.REFUSED,
        "ClientError": Fate.MAYBE,
    },
    "google.auth": {  # for Vertex AI: the token is fetched before anything is sent
        "TransportError": Fate.NOT_TAKEN,
        "GoogleAuthError": Fate.REFUSED,
    },
    "google.genai": {"UnknownApiResponseError": Fate.MAYBE},
    "json": {"JSONDecodeError": Fate.MAYBE},
    "pydantic": {"ValidationError": Fate.MAYBE},
    "builtins": {  # an answer that the SDK could not take apart, or a socket that broke under it
        "KeyError": Fate.MAYBE,
        "UnicodeDecodeError": Fate.MAYBE,
        "TimeoutError": Fate.MAYBE,
        "OSError": Fate.MAYBE,
        "UserWarning": Fate.MAYBE,
    },
}
"""By library and class, or a base of it, nearest first: the libraries need not be installed."""

_DELAY = re.compile(r"(\d+(?:\.\d+)?)s\Z")

_KEY_HINT = "set GEMINI_API_KEY (or GOOGLE_API_KEY, or gemini.api_key in penstock.yaml) to a valid key"


class Refused(Permanent):
    """Google said no. `code` is the HTTP status, for the few who expect one."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


@contextlib.contextmanager
def translated(what: str, *, stake: Stake = "nothing") -> Iterator[None]:
    """Errors inside come out as ours. `what` begins the message: "create the batch"."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise translate(error, what, stake=stake) from error


def translate(error: Exception, what: str, *, stake: Stake = "nothing") -> PenstockError:
    """The one mapping. What nobody knows may have arrived."""
    if isinstance(error, PenstockError):
        return error
    code = getattr(error, "code", None)
    if isinstance(code, int) and _from(error, "google.genai"):
        response = getattr(error, "response", None)
        headers = getattr(response, "headers", None) or {}
        return refusal(code, getattr(error, "details", None), headers, what, stake=stake)
    fate = _fate(error)
    told = f"{what}: {_told(error)}"
    if fate is Fate.NOT_TAKEN and (address := _address(error)):
        told += f"; nobody answers at {address} (gemini.base_url, or GOOGLE_GEMINI_BASE_URL)"
    return _judged(fate, told, doubted=stake != "nothing")


def _address(error: Exception) -> str | None:
    """Where a request that could not be sent was to go."""
    try:
        url = error.request.url  # type: ignore[attr-defined]
        return f"{url.scheme}://{url.netloc.decode()}"
    except (AttributeError, RuntimeError, UnicodeDecodeError):
        return None


def refusal(status: int, body: Any, headers: Mapping[str, str], what: str, *, stake: Stake = "nothing") -> StepError:
    """What an HTTP answer other than 200 means."""
    error = _error_of(body)
    name = str(error.get("status") or "")
    message = str(error.get("message") or "")[:500].rstrip(". ")
    details = error.get("details")
    reasons = [part for part in details if isinstance(part, dict)] if isinstance(details, list) else []
    said = f"{what}: Gemini answered {status}" + (f" {name}" if name else "") + (f": {message}" if message else "")
    fate = STATUSES.get(status) or _by_hundred(status)
    if fate is Fate.LATER:
        return RateLimited(said, retry_after=_retry_after(reasons, headers))
    if fate is Fate.NOT_TAKEN and name == "ALREADY_EXISTS":
        fate = Fate.REFUSED
    if fate is Fate.REFUSED:
        bad_key = any(part.get("reason") == "API_KEY_INVALID" for part in reasons) or "API key not valid" in message
        if bad_key or status == 401 or (status == 403 and "API key" in message):
            said = f"{said}. Way out: {_KEY_HINT}"
        elif 300 <= status < 400:
            said = f"{said}. Redirects are not followed: check gemini.base_url"
        return Refused(said, code=status)
    return _judged(fate, said, doubted=stake == "work")


def _by_hundred(status: int) -> Fate:
    if 300 <= status < 500:
        return Fate.REFUSED
    return Fate.MAYBE


def _fate(error: Exception) -> Fate:
    for cls in type(error).__mro__:
        for library, fates in FAMILIES.items():
            if cls.__name__ in fates and cls.__module__.startswith(library):
                return fates[cls.__name__]
    return Fate.MAYBE


def _judged(fate: Fate, message: str, *, doubted: bool) -> StepError:
    if fate is Fate.REFUSED:
        return Permanent(message)
    if fate is Fate.MAYBE and doubted:
        return Ambiguous(f"{message} (Gemini may have taken it all the same)")
    return Transient(message)


def _from(error: Exception, package: str) -> bool:
    return any(cls.__module__.startswith(package) for cls in type(error).__mro__)


def _told(error: Exception) -> str:
    """What a person is shown. The text of a protocol error may quote a header, and with it the key."""
    name = type(error).__name__
    if name == "LocalProtocolError":
        return name
    text = str(error).split("\n", 1)[0][:300]
    return f"{name}: {text}" if text else name


def _error_of(body: Any) -> dict[str, Any]:
    """The error object, wherever it is: some answers are a list of one, some have no envelope."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if not isinstance(body, dict):
        return {"message": body if isinstance(body, str) else ""}
    inner = body.get("error", body)
    return inner if isinstance(inner, dict) else {"message": str(inner)}


def _retry_after(details: list[dict[str, Any]], headers: Mapping[str, str]) -> float | None:
    for part in details:
        found = _DELAY.match(str(part.get("retryDelay", "")))
        if found and str(part.get("@type", "")).endswith("RetryInfo"):
            return float(found[1])
    written = next((value for name, value in headers.items() if name.lower() == "retry-after"), "").strip()
    if written.isdigit():
        return float(written)
    return _until(written, headers) if written else None


def _until(moment: str, headers: Mapping[str, str]) -> float | None:
    """A Retry-After that is a date, counted from the server's own Date: our clock may be another."""
    sent = next((value for name, value in headers.items() if name.lower() == "date"), "")
    try:
        wait = email.utils.parsedate_to_datetime(moment) - email.utils.parsedate_to_datetime(sent)
    except (TypeError, ValueError):
        return None
    return max(0.0, wait.total_seconds())
