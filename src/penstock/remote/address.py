"""Where a paid service is and with which key it is asked, as the settings of every remote check them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import SecretStr

if TYPE_CHECKING:
    import ssl


def checked_key(key: SecretStr | None) -> SecretStr | None:
    """A key with a line break would be refused by the HTTP client in a message that shows it."""
    written = None if key is None else key.get_secret_value().strip()
    if not written:
        return None
    if not written.isascii() or not written.isprintable() or " " in written:
        raise ValueError("must be one word of printable ASCII characters")
    return SecretStr(written)


def checked_url(url: str, *, setting: str, example: str) -> str:
    """`setting` is where the key belongs, which is not in the address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"must be a URL like {example}")
    if "@" in parts.netloc:
        raise ValueError(f"must not hold a name or a password: it is shown; a key goes into {setting}")
    return url.rstrip("/")


def on_loopback(url: str) -> bool:
    """Our own machine: no proxy is asked, and no key is needed."""
    return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")


def no_tls(url: str) -> ssl.SSLContext | None:
    """Reading the certificates of the world takes a while: where none is needed, none is trusted."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.startswith("http:") else None
