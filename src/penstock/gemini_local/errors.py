"""Errors as Google's services write them."""

from __future__ import annotations

from typing import Any

OK, CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND = 0, 1, 3, 4, 5
PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 7, 8, 12, 13, 14

RPC = {
    1: (499, "CANCELLED"),
    2: (500, "UNKNOWN"),
    3: (400, "INVALID_ARGUMENT"),
    4: (504, "DEADLINE_EXCEEDED"),
    5: (404, "NOT_FOUND"),
    6: (409, "ALREADY_EXISTS"),
    7: (403, "PERMISSION_DENIED"),
    8: (429, "RESOURCE_EXHAUSTED"),
    9: (400, "FAILED_PRECONDITION"),
    10: (409, "ABORTED"),
    11: (400, "OUT_OF_RANGE"),
    12: (501, "UNIMPLEMENTED"),
    13: (500, "INTERNAL"),
    14: (503, "UNAVAILABLE"),
    15: (500, "DATA_LOSS"),
    16: (401, "UNAUTHENTICATED"),
}
"""google.rpc codes: the HTTP code and the name of each."""

STATUS_OF_HTTP = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED",
    413: "INVALID_ARGUMENT", 416: "OUT_OF_RANGE", 429: "RESOURCE_EXHAUSTED", 499: "CANCELLED", 500: "INTERNAL",
    501: "UNIMPLEMENTED", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip

_type = "type.googleapis.com/google.rpc."


class ApiError(Exception):
    """An answer that is an error. `rpc` is the google.rpc code, for places where there is no HTTP (rows of a batch)."""

    def __init__(self, rpc: int, message: str, *, details: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message)
        self.rpc = rpc if rpc in RPC else INTERNAL
        self.message = message
        self.details = details or []

    @property
    def http(self) -> int:
        return RPC[self.rpc][0]

    def body(self) -> dict[str, Any]:
        return error_body(self.http, self.message, RPC[self.rpc][1], self.details)


def error_body(
    http: int, message: str, status: str | None = None, details: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    error: dict[str, Any] = {"code": http, "message": message, "status": status or STATUS_OF_HTTP.get(http, "UNKNOWN")}
    if details:
        error["details"] = details
    return {"error": error}


def retry_info(seconds: float) -> dict[str, Any]:
    return {"@type": _type + "RetryInfo", "retryDelay": f"{seconds:g}s"}


def quota_failure(metric: str, value: int, model: str | None = None) -> dict[str, Any]:
    violation: dict[str, Any] = {
        "quotaMetric": f"generativelanguage.googleapis.com/{metric}",
        "quotaId": metric,
        "quotaValue": str(value),
    }
    if model is not None:
        violation["quotaDimensions"] = {"location": "global", "model": model}
    return {"@type": _type + "QuotaFailure", "violations": [violation]}


def error_info(reason: str) -> dict[str, Any]:
    return {
        "@type": _type + "ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    }


def bad_request(message: str) -> ApiError:
    return ApiError(INVALID_ARGUMENT, message)


def not_found(message: str) -> ApiError:
    return ApiError(NOT_FOUND, message)


def no_such_file(name: str) -> ApiError:
    bare = name.removeprefix("files/")
    return ApiError(PERMISSION_DENIED, f"You do not have permission to access the File {bare} or it may not exist.")


def exhausted(
    message: str, metric: str, value: int, *, model: str | None = None, retry: float | None = None
) -> ApiError:
    details = [quota_failure(metric, value, model)]
    if retry is not None:
        details.append(retry_info(retry))
    return ApiError(RESOURCE_EXHAUSTED, message, details=details)
