"""Getting things from the web, with care: only checked addresses are connected to, every redirect is checked like the
first address, and answers are bounded in size and time. What goes wrong is told by the type of the error, so that a
source need not know of statuses."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import httpx2

from penstock.engine.clock import Clock
from penstock.engine.errors import InvalidConfiguration, Permanent, RateLimited, Transient
from penstock.pipelines.ingestion.sources.web_addresses import Resolve, checked, system_resolve
from penstock.pipelines.ingestion.sources.web_urls import PORTS, BadAddress, joined, normalized

if TYPE_CHECKING:
    from penstock.pipelines.ingestion.plugins import Tools

LARGEST = 5_000_000
"""Bytes of an answer, unpacked."""

LONGEST_WAIT = 3600.0
"""Seconds that a site may make us wait, whatever it says."""

MOST_ADDRESSES = 3
"""Of one host that are tried."""

LONGEST_VALIDATOR = 500

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_MAY_PASS = frozenset((408, 421, 425))
_ENCODINGS = frozenset(("", "identity", "gzip", "x-gzip", "deflate"))
_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE)

ANYTHING = ("*/*",)
"""To be accepted: whatever its type."""

Route = Callable[[str, int], tuple[str, int]]
"""Where a checked address and port are really reached."""


class Refused(Permanent):
    """The server will not give it. `status` says why."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class LeadsElsewhere(Permanent):
    """The address leads to `target`, where the caller does not want to go."""

    def __init__(self, message: str, *, target: str) -> None:
        super().__init__(message)
        self.target = target


@dataclass(slots=True, frozen=True, kw_only=True)
class FetchLimits:
    """`seconds` is for all of it: names, redirects and the last byte, however slowly it comes."""

    seconds: float = 30.0
    connect: float = 10.0
    redirects: int = 5


@dataclass(slots=True, frozen=True)
class Fetched:
    """An answer: 2xx, or 304 where there was a fingerprint. `url` is where it came from in the end; `body` is None
    where its type is not one that was asked for."""

    status: int
    url: str
    headers: httpx2.Headers
    body: bytes | None

    @property
    def unchanged(self) -> bool:
        return self.status == 304

    @property
    def media_type(self) -> str:
        return _media_type(self.headers)

    @property
    def charset(self) -> str | None:
        found = _CHARSET.search(self.headers.get("content-type", ""))
        return found[1].lower() if found else None

    @property
    def fingerprint(self) -> str | None:
        """What a later request can ask with whether anything has changed; None where the server gives nothing."""
        told = {"etag": self.headers.get("etag"), "modified": self.headers.get("last-modified")}
        kept = {name: value for name, value in told.items() if value and _is_plain(value)}
        return json.dumps(kept) if kept else None


class Fetcher:
    """Asks with GET, without cookies, proxies or passwords, one connection for each request: a connection that was
    made for one host cannot serve another. `resolve` and `route` are the way to the network."""

    def __init__(
        self,
        *,
        clock: Clock,
        user_agent: str,
        allow_private: bool = False,
        limits: FetchLimits | None = None,
        resolve: Resolve = system_resolve,
        route: Route | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        if not user_agent or not _is_plain(user_agent):
            raise InvalidConfiguration(f"ingestion.user_agent must be one short line of ASCII, not {user_agent!r}")
        self.user_agent = user_agent
        self.allow_private = allow_private
        self._clock = clock
        self._limits = limits or FetchLimits()
        self._resolve = resolve
        self._route = route
        self._trust = trust

    async def get(
        self,
        url: str,
        *,
        accept: Collection[str],
        largest: int = LARGEST,
        fingerprint: str | None = None,
        follow: Callable[[str], bool] | None = None,
        cut: bool = False,
    ) -> Fetched:
        """What is there, if its type is one of `accept`. `fingerprint` of an earlier answer: 304 when that still holds.
        `follow` says which redirects are followed (`LeadsElsewhere` for others); `cut`: of what is too large the
        beginning will do.

        `Refused` where the server says no, `RateLimited` and `Transient` where it may say yes later, other `Permanent`
        errors where no asking helps."""
        headers = {
            "User-Agent": self.user_agent,
            "Accept": _preferences(accept),
            "Accept-Encoding": "gzip, deflate",
            "Connection": "close",
            **_conditions(fingerprint),
        }
        here = _address(url)
        try:
            async with asyncio.timeout(self._limits.seconds):
                for _ in range(self._limits.redirects + 1):
                    response = await self._asked(here, headers, accept, largest, cut)
                    if isinstance(response, Fetched):
                        return response
                    if follow is not None and not follow(response):
                        raise LeadsElsewhere(f"{here} leads to {response}", target=response)
                    here = response
        except TimeoutError:
            raise Transient(f"{here} did not answer within {self._limits.seconds:g} s") from None
        raise Permanent(f"{url} redirects more than {self._limits.redirects} times")

    async def _asked(
        self, url: str, headers: Mapping[str, str], accept: Collection[str], largest: int, cut: bool
    ) -> Fetched | str:
        """An answer, or where a redirect leads."""
        try:
            # Its own set of connections: nothing is left open, and nothing is shared.
            async with httpx2.AsyncHTTPTransport(verify=self._trust or _default_trust(), trust_env=False) as line:
                response = await self._sent(line, url, headers)
                try:
                    target = _target(url, response)
                    if target is not None:
                        return target
                    self._judge(url, response, conditional="If-None-Match" in headers or "If-Modified-Since" in headers)
                    wanted = "*/*" in accept or _media_type(response.headers) in accept
                    has_body = wanted and response.status_code != 304
                    body = await _body(url, response, largest, cut) if has_body else None
                    return Fetched(response.status_code, url, response.headers, body)
                finally:
                    await response.aclose()
        except httpx2.DecodingError as error:
            raise Permanent(f"{url} came damaged: {error}") from error
        except httpx2.InvalidURL as error:
            raise Permanent(f"{url} cannot be asked: {error}") from error
        except httpx2.TransportError as error:
            if (trouble := _certificate(error)) is not None:
                raise Permanent(f"{url} cannot be trusted: {trouble}") from error
            raise Transient(f"{url} could not be had: {error or type(error).__name__}") from error

    async def _sent(self, line: httpx2.AsyncHTTPTransport, url: str, headers: Mapping[str, str]) -> httpx2.Response:
        """The request goes to an address that was checked just now; its name is in `Host`, and it is the name that the
        certificate must be for."""
        asked = httpx2.Request("GET", url, headers=dict(headers))
        host = asked.url.raw_host.decode("ascii")
        port = asked.url.port or PORTS[asked.url.scheme]
        addresses = await checked(host, port, resolve=self._resolve, allow_private=self.allow_private)
        seconds = self._limits.seconds
        timeouts = {"connect": self._limits.connect, "read": seconds, "write": seconds, "pool": seconds}
        trouble: httpx2.TransportError | None = None
        for address in addresses[:MOST_ADDRESSES]:
            at, at_port = (address, port) if self._route is None else self._route(address, port)
            pinned = httpx2.Request(
                "GET",
                asked.url.copy_with(host=at, port=at_port),
                headers=asked.headers,
                extensions={"timeout": timeouts, "sni_hostname": host},
            )
            try:
                response = await line.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                trouble = error
                continue
            response.request = asked
            return response
        assert trouble is not None
        raise trouble

    def _judge(self, url: str, response: httpx2.Response, *, conditional: bool) -> None:
        status = response.status_code
        if 200 <= status < 300 or (status == 304 and conditional):
            return
        said = f"{url} answered {status}"
        wait = _retry_after(response.headers, self._clock.now())
        if status == 429 or (status == 503 and wait is not None):
            raise RateLimited(said, retry_after=wait)
        if status >= 500 or status in _MAY_PASS:
            raise Transient(said)
        raise Refused(said, status=status)


def fetcher_for(tools: Tools, *, limits: FetchLimits | None = None) -> Fetcher:
    """As the configuration says: whether private addresses may be asked is not the business of whoever starts a job."""
    told = tools.settings.ingestion
    return Fetcher(
        clock=tools.clock,
        user_agent=told.user_agent or default_user_agent(),
        allow_private=told.allow_private_addresses,
        limits=limits,
    )


def default_user_agent() -> str:
    from penstock import __version__

    return f"Penstock/{__version__} (knowledge base; obeys robots.txt)"


def _address(url: str) -> str:
    try:
        return normalized(url)
    except BadAddress as error:
        raise Permanent(f"{url[:200]} {error}") from None


def _preferences(accept: Collection[str]) -> str:
    """In their order: a server that has a page in several forms is to give the one with the links in it."""
    weighed = [f"{kind};q={max(1.0 - place / 10, 0.2):.1f}" for place, kind in enumerate(accept)]
    return ", ".join(weighed if "*/*" in accept else [*weighed, "*/*;q=0.1"])


def _target(url: str, response: httpx2.Response) -> str | None:
    """Where a redirect leads."""
    if response.status_code not in _REDIRECTS or "location" not in response.headers:
        return None
    location = response.headers["location"]
    target = joined(url, location)
    if target is None:
        raise Permanent(f"{url} leads to {location[:200]!r}, which is no address that can be asked")
    return target


async def _body(url: str, response: httpx2.Response, largest: int, cut: bool) -> bytes:
    """Counted as it is unpacked, piece by piece: what would not fit is never held."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        raise Permanent(f"{url} came packed as {encoding[:40]!r}, which was not asked for")
    too_large = f"{url} is larger than the {largest / 1e6:g} MB that are read"
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > largest and not cut:
        raise Permanent(too_large)
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > largest:
            if not cut:
                raise Permanent(too_large)
            del body[largest:]
            break
    return bytes(body)


@functools.cache
def _default_trust() -> ssl.SSLContext:
    """Made once: reading the certificates takes longer than asking for a page. SSL_CERT_FILE is honoured."""
    return httpx2.create_ssl_context()


def _certificate(error: BaseException | None) -> str | None:
    """What is wrong with a certificate, if that is the cause."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return None


def _conditions(fingerprint: str | None) -> dict[str, str]:
    try:
        told = json.loads(fingerprint) if fingerprint else {}
    except ValueError:
        return {}
    names = {"etag": "If-None-Match", "modified": "If-Modified-Since"}
    found = {header: told.get(name) for name, header in names.items()} if isinstance(told, dict) else {}
    return {header: value for header, value in found.items() if isinstance(value, str) and _is_plain(value)}


def _retry_after(headers: httpx2.Headers, now: float) -> float | None:
    """Seconds, or a date."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_WAIT)
    try:
        return min(max(parsedate_to_datetime(text).timestamp() - now, 0.0), LONGEST_WAIT)
    except (TypeError, ValueError, OverflowError):
        return None


def _media_type(headers: httpx2.Headers) -> str:
    return str(headers.get("content-type", "")).partition(";")[0].strip().lower()


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable() and len(value) <= LONGEST_VALIDATOR
