"""Every known way in which a call to Gemini fails, and what Penstock makes of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pydantic
import pytest
from google.auth import exceptions as auth_errors
from google.genai import errors as sdk_errors

from penstock.engine.errors import Ambiguous, Conflict, PenstockError, Permanent, RateLimited, Transient
from penstock.remote.gemini.errors import FAMILIES, STATUSES, Fate, Refused, Stake, refusal, translate, translated

STAKES: tuple[Stake, ...] = ("nothing", "answer", "work")


def sdk_error(code: int, body: Any = None, headers: dict[str, str] | None = None) -> sdk_errors.APIError:
    """As the SDK raises it for an answer of this code."""
    content = json.dumps({"error": {"code": code, "message": "told so"}} if body is None else body)
    response = httpx2.Response(code, headers=headers, content=content, request=httpx2.Request("POST", "http://g"))
    try:
        asyncio.run(sdk_errors.APIError.raise_for_async_response(response))
    except sdk_errors.APIError as error:
        return error
    raise AssertionError(f"{code} is no error to the SDK")


def an_invalid_model() -> Exception:
    try:
        pydantic.TypeAdapter(int).validate_python("x")
    except pydantic.ValidationError as error:
        return error
    raise AssertionError


def like(module: str, name: str, *bases: type[Exception]) -> Exception:
    """An error of a library that need not be installed."""
    made = type(name, bases or (Exception,), {"__module__": module})
    return made("broken")  # type: ignore[no-any-return]


NOT_TAKEN = (Transient, Transient, Transient)
MAYBE = (Transient, Ambiguous, Ambiguous)
REFUSED = (Permanent, Permanent, Permanent)

TRANSPORT: list[tuple[Exception, tuple[type[PenstockError], ...]]] = [
    (httpx2.ConnectError("no route"), NOT_TAKEN),
    (httpx2.ConnectTimeout("slow"), NOT_TAKEN),
    (httpx2.PoolTimeout("full"), NOT_TAKEN),
    (httpx2.ProxyError("403 from the proxy"), NOT_TAKEN),
    (httpx2.UnsupportedProtocol("ftp"), REFUSED),
    (httpx2.InvalidURL("no"), REFUSED),
    (httpx2.TooManyRedirects("round and round"), REFUSED),
    (httpx2.ReadTimeout("slow"), MAYBE),
    (httpx2.WriteTimeout("slow"), MAYBE),
    (httpx2.ReadError("reset"), MAYBE),
    (httpx2.WriteError("pipe"), MAYBE),
    (httpx2.CloseError("closing"), MAYBE),
    (httpx2.RemoteProtocolError("server disconnected"), MAYBE),
    (httpx2.LocalProtocolError("illegal header value b'secret'"), MAYBE),
    (httpx2.DecodingError("gzip"), MAYBE),
    (httpx2.StreamClosed(), MAYBE),
    (like("httpx", "ConnectError"), NOT_TAKEN),
    (like("httpx", "ReadTimeout"), MAYBE),
    (like("aiohttp.client_exceptions", "ClientConnectorError"), NOT_TAKEN),
    (like("aiohttp.client_exceptions", "ConnectionTimeoutError"), NOT_TAKEN),
    (like("aiohttp.client_exceptions", "ServerDisconnectedError", type(like("aiohttp", "ClientError"))), MAYBE),
    (like("somewhere", "ConnectError"), MAYBE),
    (auth_errors.DefaultCredentialsError("none"), REFUSED),
    (auth_errors.RefreshError("revoked"), REFUSED),
    (auth_errors.TransportError("unreachable"), NOT_TAKEN),
    (json.JSONDecodeError("no JSON", "<html>", 0), MAYBE),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), MAYBE),
    (an_invalid_model(), MAYBE),
    (sdk_errors.UnknownApiResponseError("what?"), MAYBE),
    (KeyError("file"), MAYBE),
    (ConnectionResetError("reset"), MAYBE),
    (TimeoutError(), MAYBE),
    (UserWarning("unknown enum value"), MAYBE),
    (ValueError("who knows"), MAYBE),
    (RuntimeError("who knows"), MAYBE),
]


@pytest.mark.parametrize(("error", "expected"), TRANSPORT, ids=lambda value: type(value).__name__)
def test_errors_without_an_answer(error: Exception, expected: tuple[type[PenstockError], ...]) -> None:
    told = tuple(type(translate(error, "create the batch", stake=stake)) for stake in STAKES)
    assert told == expected


def test_every_family_in_the_table_is_tried_here() -> None:
    tried = {cls.__name__ for error, _ in TRANSPORT for cls in type(error).__mro__}
    assert {name for names in FAMILIES.values() for name in names} <= tried


STATUS_MEANS = {
    **dict.fromkeys((400, 401, 403, 404, 405, 410, 412, 413, 415, 416, 418, 422, 501), (Refused, Refused, Refused)),
    **dict.fromkeys((301, 302, 307, 308), (Refused, Refused, Refused)),
    **dict.fromkeys((409, 425), (Transient, Transient, Transient)),
    429: (RateLimited, RateLimited, RateLimited),
    **dict.fromkeys((201, 202, 204, 408, 499, 500, 502, 503, 504, 529), (Transient, Transient, Ambiguous)),
}


@pytest.mark.parametrize(("code", "expected"), STATUS_MEANS.items())
def test_answers_other_than_200(code: int, expected: tuple[type[PenstockError], ...]) -> None:
    assert tuple(type(translate(sdk_error(code), "create", stake=stake)) for stake in STAKES) == expected
    assert tuple(type(refusal(code, {}, {}, "create", stake=stake)) for stake in STAKES) == expected


def test_the_table_of_statuses_is_tried_whole() -> None:
    assert set(STATUSES) <= set(STATUS_MEANS)
    assert {STATUSES[code] for code in STATUSES} == set(Fate)


@pytest.mark.parametrize(
    ("details", "headers", "seconds"),
    [
        ([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "13s"}], {}, 13.0),
        ([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}], {"Retry-After": "9"}, 1.5),
        ([{"@type": "type.googleapis.com/google.rpc.Help", "retryDelay": "99s"}], {"retry-after": "7"}, 7.0),
        ([], {"Retry-After": "Sun, 15 Nov 2026 19:00:30 GMT", "Date": "Sun, 15 Nov 2026 19:00:00 GMT"}, 30.0),
        ([], {"Retry-After": "Sun, 15 Nov 2026 18:00:00 GMT", "Date": "Sun, 15 Nov 2026 19:00:00 GMT"}, 0.0),
        ([], {"Retry-After": "soon"}, None),
        (["text"], {}, None),
        (None, {}, None),
    ],
)
def test_a_rate_limit_says_when(details: Any, headers: dict[str, str], seconds: float | None) -> None:
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down", "details": details}}
    for error in (refusal(429, body, headers, "create"), translate(sdk_error(429, body, headers), "create")):
        assert isinstance(error, RateLimited)
        assert error.retry_after == seconds
        assert "slow down" in str(error)


def test_a_wrong_key_says_which_variable_to_set() -> None:
    body = {
        "error": {
            "code": 400,
            "status": "INVALID_ARGUMENT",
            "message": "API key not valid. Please pass a valid API key.",
            "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
        }
    }
    error = translate(sdk_error(400, body), "create the batch", stake="work")
    assert isinstance(error, Refused)
    assert error.code == 400
    assert "GEMINI_API_KEY" in str(error)
    assert "GEMINI_API_KEY" not in str(translate(sdk_error(400), "create the batch"))


def test_something_that_exists_already_is_not_tried_again() -> None:
    body = {"error": {"code": 409, "status": "ALREADY_EXISTS", "message": "there is one"}}
    assert isinstance(refusal(409, body, {}, "upload"), Refused)


@pytest.mark.parametrize("body", ["<html>bad gateway</html>", None, [], [{"error": {"message": "in a list"}}], 3, {}])
def test_bodies_of_any_kind_are_told(body: Any) -> None:
    assert "502" in str(refusal(502, body, {}, "look"))


def test_our_own_errors_pass_and_nothing_else_does() -> None:
    with pytest.raises(Conflict), translated("create", stake="work"):
        raise Conflict("ours")
    with pytest.raises(Ambiguous) as caught, translated("create the batch", stake="work"):
        raise httpx2.ReadTimeout("slow")
    assert str(caught.value).startswith("create the batch: ReadTimeout")
    assert isinstance(caught.value.__cause__, httpx2.ReadTimeout)
    with pytest.raises(asyncio.CancelledError), translated("create", stake="work"):
        raise asyncio.CancelledError


def test_a_protocol_error_does_not_show_the_key() -> None:
    error = translate(httpx2.LocalProtocolError("Illegal header value b'AIzaSECRET\\n'"), "create")
    assert "SECRET" not in str(error)
