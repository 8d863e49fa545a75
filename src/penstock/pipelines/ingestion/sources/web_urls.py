"""Addresses of pages: one way to write each of them, which of them belong to a site, and which lead nowhere. Pure
functions: nothing is resolved or fetched here."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx2

LONGEST = 2000
"""Characters of an address: longer ones are made by programs that never end."""

MOST_SEGMENTS = 20
MOST_REPEATS = 3
MOST_PARAMETERS = 12
"""What a page's address has at most: folders, times that one folder's name comes in it, parameters."""

MOST_LINKS = 5000
"""Links of one page that are taken."""

PORTS = {"http": 80, "https": 443}

_PATH = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/")
QUERY = _PATH | {"?"}
"""Characters that stand for themselves in the query of an address."""

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PIECE = re.compile(r"%[0-9A-Fa-f]{2}|.", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9\-._~/=&]*\Z")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER = re.compile(r"(?:\d+|0x[0-9a-f]*)\Z")
_BLANKS = re.compile(r"[\t\r\n]")

_TRACKING = frozenset(
    ("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid", "yclid", "igshid", "mc_cid", "mc_eid")
)
_NOT_PAGES = re.compile(
    r"\.(?:7z|avif?|bin|bmp|bz2|css|csv|dmg|docx?|eot|epub|exe|gif|gz|ico|iso|jar|jpe?g|m?js|json|m4[av]|mov|mp[34]|mpeg"
    r"|od[pst]|og[gv]|otf|pdf|png|pptx?|rar|rpm|rss|svg|tar|tgz|tiff?|ttf|wasm|wav|web[mp]|woff2?|xlsx?|xml|xz|zip)\Z",
    re.IGNORECASE,
)


class BadAddress(ValueError):
    """The text is no address of a page; the message says why, as the rest of a sentence about it."""


@dataclass(slots=True, frozen=True)
class Scope:
    """Which pages belong to a run: those of one site, below one path."""

    site: str
    prefix: str = "/"

    def holds(self, url: str) -> bool:
        """For a normalised address."""
        parts = urlsplit(url)
        return _site(parts) == self.site and below(parts.path, self.prefix)


def normalized(text: str) -> str:
    """The one way to write an address: scheme and host in lower case and ASCII, no default port, no dot segments, no
    fragment, percent signs only where they are needed, no parameters that only say where a reader came from. What
    means something to a server (a slash at the end, the order of parameters) stays."""
    text = _BLANKS.sub("", text.strip())
    if len(text) > 2 * LONGEST:
        raise BadAddress(f"is longer than {LONGEST} characters")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadAddress(f"cannot be read as an address ({error})") from None
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        raise BadAddress("does not begin with http:// or https://")
    if "@" in parts.netloc:
        raise BadAddress("carries a name or a password, which is not sent")
    if port == 0:
        raise BadAddress("has the port 0")
    netloc = _host(parts.netloc, parts.hostname or "")
    if port is not None and port != PORTS[scheme]:
        netloc += f":{port}"
    path = without_dots(escaped(parts.path.replace("\\", "/")))
    query = "&".join(each for each in escaped(parts.query, QUERY).split("&") if each and not _tracks(each))
    url = f"{scheme}://{netloc}{path}" + (f"?{query}" if query else "")
    if len(url) > LONGEST:
        raise BadAddress(f"is longer than {LONGEST} characters")
    return url


def joined(base: str, link: str) -> str | None:
    """Where a link on a page leads, normalised; None where that is no page's address."""
    try:
        return normalized(urljoin(base, _BLANKS.sub("", link.strip())))
    except ValueError:
        return None


def escaped(text: str, safe: frozenset[str] = _PATH) -> str:
    """Percent signs only where they are needed, and in upper case. Done twice, it changes nothing more."""
    return text if _PLAIN.match(text) else _PIECE.sub(lambda found: _piece(found[0], safe), text)


def without_dots(path: str) -> str:
    """As RFC 3986 says: `.` and `..` are gone."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for place, segment in enumerate(segments, 1):
        if segment not in (".", ".."):
            kept.append(segment)
            continue
        if segment == ".." and kept:
            kept.pop()
        if place == len(segments):
            kept.append("")
    return "/" + "/".join(kept)


def site_of(url: str) -> str:
    """What pages of one site have in common. `www.` and https make no other site; a port of its own does."""
    return _site(urlsplit(url))


def host_of(url: str) -> str:
    """Without the port: what requests are spaced by."""
    return urlsplit(url).hostname or ""


def origin_of(url: str) -> str:
    """Scheme, host and port: what a robots.txt speaks for."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def path_of(url: str) -> str:
    return urlsplit(url).path


def target_of(url: str) -> str:
    """Path and query: what rules of a robots.txt are held against."""
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def below(path: str, prefix: str) -> bool:
    """Whether the path is that folder or in it."""
    folder = prefix.rstrip("/")
    return path == folder or path.startswith(folder + "/")


def alike(one: str, other: str) -> bool:
    """Whether two addresses differ in nothing but https, `www.` and a slash at the end."""
    first, second = urlsplit(one), urlsplit(other)
    return (
        _site(first) == _site(second)
        and first.path.rstrip("/") == second.path.rstrip("/")
        and first.query == second.query
    )


def leads_nowhere(url: str) -> bool:
    """Addresses as programs make them without end: folders in folders, the same ones again, heaps of parameters."""
    parts = urlsplit(url)
    segments = [segment for segment in parts.path.split("/") if segment]
    return (
        len(segments) > MOST_SEGMENTS
        or max(Counter(segments).values(), default=0) > MOST_REPEATS
        or parts.query.count("&") >= MOST_PARAMETERS
    )


def is_file(url: str) -> bool:
    """Whether the name says that it is a picture, an archive or the like: not asked for, since it is no page."""
    return _NOT_PAGES.search(urlsplit(url).path) is not None


def worth_visiting(page: str, links: Iterable[str], scope: Scope) -> Iterator[str]:
    """The links of a page that lead to other pages of the run, each once, in their order."""
    seen: set[str | None] = {None, page}
    for link in links:
        url = joined(page, link)
        if url not in seen:
            seen.add(url)
            if url and scope.holds(url) and not leads_nowhere(url) and not is_file(url):
                yield url


def _host(netloc: str, host: str) -> str:
    if "[" in netloc:
        try:
            return f"[{ipaddress.IPv6Address(host).compressed}]" if "%" not in host else _no_host(host)
        except ValueError:
            return _no_host(host)
    host = host.removesuffix(".")
    try:
        # The client's own IDNA: it is the one that the request is made with.
        host = host if host.isascii() else httpx2.URL(scheme="http", host=host).raw_host.decode("ascii")
    except (httpx2.InvalidURL, UnicodeError):
        return _no_host(host)
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.match(label) for label in labels):
        return _no_host(host)
    if _NUMBER.match(labels[-1]):
        # Resolvers also take 2130706433, 0x7f.1 and 0177.0.0.1: here there is one way to write a number.
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            return _no_host(host)
    return host


def _no_host(host: str) -> str:
    raise BadAddress(f"has no host that can be asked ({host[:100]!r})")


def _site(parts: SplitResult) -> str:
    port = "" if parts.port in (None, PORTS.get(parts.scheme)) else f":{parts.port}"
    return (parts.hostname or "").removeprefix("www.") + port


def _tracks(parameter: str) -> bool:
    name = parameter.partition("=")[0].lower()
    return name.startswith("utm_") or name in _TRACKING


def _piece(piece: str, safe: frozenset[str]) -> str:
    if len(piece) == 3:
        plain = chr(int(piece[1:], 16))
        return plain if plain in _UNRESERVED else piece.upper()
    if piece in safe:
        return piece
    return "".join(f"%{byte:02X}" for byte in piece.encode("utf-8", "replace"))
