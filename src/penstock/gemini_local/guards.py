"""Who is let in. Pages in a browser are not: neither from elsewhere, nor under a name that was bent to loopback."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping

from penstock.gemini_local.errors import INVALID_ARGUMENT, PERMISSION_DENIED, ApiError, error_info
from penstock.gemini_local.settings import Settings

LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")
ADMIN_HEADER = "x-penstock-admin"

_host = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?")


def is_loopback(host: str) -> bool:
    return host in LOOPBACK or (host.startswith("127.") and re.fullmatch(r"[0-9.]+", host) is not None)


def check_caller(headers: Mapping[str, str], settings: Settings) -> None:
    if "origin" in headers or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise ApiError(PERMISSION_DENIED, "The local Gemini does not answer web pages.")
    parsed = _host.fullmatch(headers.get("host", ""))
    if "*" in settings.hosts:
        return
    if parsed is None or not (is_loopback(parsed[1]) or parsed[1] in settings.hosts):
        raise ApiError(PERMISSION_DENIED, "The local Gemini does not know itself by this host name.")


def check_admin(headers: Mapping[str, str], peer: str, settings: Settings) -> None:
    """From this machine only, and past a proxy or from elsewhere only with the server's key."""
    if headers.get(ADMIN_HEADER) != "1":
        raise ApiError(PERMISSION_DENIED, "The header X-Penstock-Admin: 1 is missing.")
    if is_loopback(peer) and "x-forwarded-for" not in headers:
        return
    if settings.key is None:
        raise ApiError(PERMISSION_DENIED, "The administration answers this machine only.")
    check_key(headers, {}, settings)


def check_key(headers: Mapping[str, str], query: Mapping[str, str], settings: Settings) -> None:
    key = headers.get("x-goog-api-key") or query.get("key") or ""
    if not key:
        raise ApiError(
            PERMISSION_DENIED,
            "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or "
            "other form of API consumer identity to call this API.",
        )
    if settings.key is not None and not hmac.compare_digest(key.encode(), settings.key.encode()):
        raise ApiError(
            INVALID_ARGUMENT,
            "API key not valid. Please pass a valid API key.",
            details=[error_info("API_KEY_INVALID")],
        )


def own_address(headers: Mapping[str, str], scheme: str) -> str:
    """The address under which the caller reached this server, also through a proxy."""
    host = headers.get("x-forwarded-host", "").split(",")[0].strip() or headers.get("host", "")
    scheme = headers.get("x-forwarded-proto", "").split(",")[0].strip().lower() or scheme
    prefix = headers.get("x-forwarded-prefix", "").rstrip("/")
    if _host.fullmatch(host) is None or scheme not in ("http", "https"):
        raise ApiError(INVALID_ARGUMENT, "The request has no usable Host.")
    if prefix and re.fullmatch(r"(/[A-Za-z0-9._-]+)+", prefix) is None:
        prefix = ""
    return f"{scheme}://{host}{prefix}"
