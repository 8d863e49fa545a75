"""Pages of one site: those its sitemaps name and those its pages link to, at the site's own pace and within its wishes.

The frontier (the run's list of addresses) belongs to the core: it begins with `seeds`, and takes in what `load` finds.
A page that is unchanged (304) tells no links; that loses nothing where a run that refreshes a knowledge base also puts
the addresses of the documents it has in the frontier."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, field_validator, model_validator

from penstock.engine.errors import InvalidRequest, Permanent, RateLimited, Transient
from penstock.pipelines.ingestion.model import Document, Entry, Format, Known, Loaded, Unchanged
from penstock.pipelines.ingestion.plugins import Tools
from penstock.pipelines.ingestion.sources import web_sitemap
from penstock.pipelines.ingestion.sources.folders import checked_options
from penstock.pipelines.ingestion.sources.html import article
from penstock.pipelines.ingestion.sources.web_addresses import is_allowed, literal, refusal
from penstock.pipelines.ingestion.sources.web_fetch import (
    ANYTHING,
    LARGEST,
    Fetched,
    Fetcher,
    FetchLimits,
    LeadsElsewhere,
    Refused,
    fetcher_for,
)
from penstock.pipelines.ingestion.sources.web_manners import PATIENCE, manners_of
from penstock.pipelines.ingestion.sources.web_robots import Robots, header_says, token_of
from penstock.pipelines.ingestion.sources.web_sitemap import BadSitemap, Sitemap
from penstock.pipelines.ingestion.sources.web_text import decoded, is_text, title_of
from penstock.pipelines.ingestion.sources.web_urls import (
    MOST_LINKS,
    BadAddress,
    Scope,
    alike,
    escaped,
    host_of,
    joined,
    normalized,
    origin_of,
    path_of,
    site_of,
    target_of,
    without_dots,
    worth_visiting,
)

log = logging.getLogger("penstock.ingestion")

DEFAULT_PAGES = 500
MOST_PAGES = 100_000
LONGEST_DELAY = 60.0
SITEMAP_SECONDS = 120.0
"""After which no further sitemap is read: of a site that wants long waits, or is slow, it is few."""

LONGEST_TITLE = 300

HTML = ("text/html", "application/xhtml+xml")
TEXT = ("text/plain", "text/markdown")
REDIRECTS = FetchLimits().redirects


class WebsiteOptions(BaseModel):
    """What a website source may be told. Whether private addresses may be asked is for the configuration to say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    max_pages: Annotated[int, Field(ge=1, le=MOST_PAGES)] = DEFAULT_PAGES
    prefix: str = "/"
    delay: Annotated[float, Field(ge=0, le=LONGEST_DELAY, allow_inf_nan=False)] = 1.0
    sitemap: StrictBool = True

    @field_validator("url")
    @classmethod
    def _an_address(cls, url: str) -> str:
        try:
            return normalized(url)
        except BadAddress as error:
            raise ValueError(f"{url[:200]!r} {error}") from None

    @field_validator("prefix")
    @classmethod
    def _a_path(cls, prefix: str) -> str:
        if not prefix.startswith("/"):
            raise ValueError(f"must be a path of the site, such as /docs/, not {prefix[:200]!r}")
        return without_dots(escaped(prefix))

    @model_validator(mode="after")
    def _starts_inside(self) -> WebsiteOptions:
        if not self.scope.holds(self.url):
            raise ValueError(f"url must be below prefix: {self.url} is not below {self.prefix}")
        return self

    @property
    def scope(self) -> Scope:
        return Scope(site_of(self.url), self.prefix)


def website(options: Mapping[str, Any], tools: Tools) -> Website:
    """The source, as `SourceSpec.options` describe it."""
    told = checked_options("website", WebsiteOptions, options)
    fetcher = fetcher_for(tools)
    address = literal(host_of(told.url))
    if address is not None and not is_allowed(address, allow_private=fetcher.allow_private):
        raise InvalidRequest(f"source website: {refusal(host_of(told.url), address)}")
    return Website(told, tools, fetcher)


class Website:
    """The `uri` of a document is the address under which it was asked for, so that the next run finds what it knows of
    it. A redirect, or a page that names another one as the canonical one, is not followed on the spot: the other
    address is found, and comes in its turn (once)."""

    def __init__(self, options: WebsiteOptions, tools: Tools, fetcher: Fetcher) -> None:
        self._options = options
        self._tools = tools
        self._fetcher = fetcher
        self._scope = options.scope
        self._manners = manners_of(tools.clock)
        self._token = token_of(fetcher.user_agent)
        self._reading_robots = asyncio.Lock()
        self._counted: int | None = None
        self._largest = min(LARGEST, int(tools.settings.ingestion.largest_mb * 1_000_000))
        # To tell circles and mistakes; a restart may forget it. What led to an address by redirects, the first page
        # that called an address canonical, and pages that were wrong about it.
        self._led: dict[str, tuple[str, ...]] = {}
        self._copies: dict[str, str] = {}
        self._mistaken: set[str] = set()

    async def seeds(self) -> list[str]:
        """What the run begins with: the start, and the pages of the site's sitemaps."""
        start = self._options.url
        if not self._options.sitemap:
            return [start]
        until = self._tools.clock.monotonic() + SITEMAP_SECONDS
        robots = await self._robots(start, patience=math.inf)
        named = [url for each in robots.sitemaps if (url := joined(start, each)) and site_of(url) == self._scope.site]
        pages = await web_sitemap.walk(
            named or [origin_of(start) + "/sitemap.xml"],
            lambda url: self._sitemap(url, robots, until, promised=bool(named)),
            most=self._options.max_pages,
        )
        found = list(dict.fromkeys([start, *pages]))[: self._options.max_pages]
        self._counted = len(found) if pages else None
        return found

    async def entries(self, cursor: str | None) -> AsyncIterator[Entry]:
        """The cursor is the number of an address in the frontier."""
        async for number, url in self._tools.frontier.pending(int(cursor or 0)):
            if number > self._options.max_pages:
                return
            yield Entry(uri=url, cursor=str(number))

    async def load(self, entry: Entry, known: Known | None) -> Loaded:
        return await self._loaded(entry, known, PATIENCE)

    async def count(self) -> int | None:
        """What the sitemaps told when `seeds` was asked; only walking tells the rest."""
        return self._counted

    async def close(self) -> None:
        """Nothing is left open between requests."""

    async def _loaded(self, entry: Entry, known: Known | None, patience: float) -> Loaded:
        url = _address(entry.uri)
        if not self._scope.holds(url):
            return Loaded(None)
        robots = await self._robots(url, patience=patience)
        if not robots.allows(url):
            if url == self._options.url:
                raise Permanent(f"{origin_of(url)}/robots.txt does not want {url} to be read")
            return Loaded(None)
        fingerprint = known.fingerprint if known else None
        try:
            page = await self._get(
                url, robots, accept=(*HTML, *TEXT), largest=self._largest, fingerprint=fingerprint, patience=patience
            )
        except LeadsElsewhere as redirect:
            return await self._redirected(url, redirect.target)
        except Refused:
            copy = self._copies.get(url)
            if copy is None or copy in self._mistaken:
                raise
            return await self._instead(copy)
        if page.unchanged:
            return Loaded(Unchanged(entry.uri, fingerprint))
        if page.body is None:
            if url == self._options.url:
                raise Permanent(f"{url} is {page.media_type or 'of no type'}: HTML, plain text and Markdown are read")
            return Loaded(None)
        return self._text(entry, page) if page.media_type in TEXT else await self._html(entry, url, page)

    async def _get(
        self,
        url: str,
        robots: Robots,
        *,
        accept: tuple[str, ...],
        largest: int,
        patience: float,
        fingerprint: str | None = None,
        follow: Callable[[str], bool] = lambda _: False,
    ) -> Fetched:
        async with self._manners.visit(url, self._delay(robots), self._tools.clock, patience=patience):
            return await self._fetcher.get(url, accept=accept, largest=largest, fingerprint=fingerprint, follow=follow)

    async def _robots(self, url: str, *, patience: float) -> Robots:
        delay, clock = self._options.delay, self._tools.clock
        async with self._reading_robots:
            return await self._manners.robots(url, delay, self._fetcher, clock, patience=patience)

    def _delay(self, robots: Robots) -> float:
        return max(self._options.delay, robots.delay or 0.0)

    async def _sitemap(self, url: str, robots: Robots, until: float, *, promised: bool) -> Sitemap | None:
        """What is to be taken of a sitemap; None for one that cannot be had. One that robots.txt names and that may be
        had later is worth waiting for: without it pages would seem to be gone."""
        if self._tools.clock.monotonic() > until:
            log.warning("the sitemap %s is left out: those before it took more than %g s", url, SITEMAP_SECONDS)
            return None
        try:
            told = await self._get(
                url,
                robots,
                accept=ANYTHING,
                largest=web_sitemap.LARGEST,
                follow=lambda target: site_of(target) == self._scope.site,
                patience=math.inf,
            )
            return await asyncio.to_thread(self._taken, url, told.body or b"")
        except Transient as error:
            if not promised:
                log.info("the sitemap %s is left out: %s", url, error)
                return None
            if isinstance(error, RateLimited):
                raise
            raise Transient(f"{error} (a sitemap; `sitemap: false` does without)") from error
        except (Permanent, BadSitemap) as error:
            log.log(logging.WARNING if promised else logging.INFO, "the sitemap %s is left out: %s", url, error)
            return None

    def _taken(self, url: str, body: bytes) -> Sitemap:
        told = web_sitemap.parsed(body)
        pages = self._wanted(url, told.pages, most=self._options.max_pages)
        others = [other for each in told.sitemaps if (other := joined(url, each))]
        return Sitemap(pages, tuple(other for other in others if site_of(other) == self._scope.site))

    def _wanted(self, page: str, links: Iterable[str], *, most: int = MOST_LINKS) -> tuple[str, ...]:
        """Where links lead that belong to the run and that robots.txt does not forbid, as far as that is known yet."""
        kept = (url for url in worth_visiting(page, links, self._scope) if self._may_visit(url))
        return tuple(islice(kept, most))

    def _may_visit(self, url: str) -> bool:
        robots = self._manners.remembered(url, self._fetcher.user_agent, self._tools.clock)
        return robots is None or robots.allows(url)

    async def _redirected(self, url: str, target: str) -> Loaded:
        chain = (*self._led.get(url, ()), url)
        if self._copies.get(url) == target and target not in self._mistaken:
            return await self._instead(target)
        if target in chain:
            raise Permanent(f"{url} leads back to {target}: its redirects go in a circle")
        if len(chain) > REDIRECTS:
            raise Permanent(f"{chain[0]} redirects more than {REDIRECTS} times")
        if not self._scope.holds(target):
            if chain[0] == self._options.url:
                raise Permanent(f"{chain[0]} leads to {target}, which is outside of what was asked for: begin there")
            return Loaded(None)
        self._led[target] = chain
        return Loaded(None, self._wanted(url, [target]))

    async def _html(self, entry: Entry, url: str, page: Fetched) -> Loaded:
        told = await article(await self._tools.pool(), page.body or b"", url=url, charset=page.charset)
        noindex, nofollow = self._said(page)
        found = () if nofollow or told.nofollow else await asyncio.to_thread(self._wanted, url, told.links)
        canonical = self._canonical(url, told.canonical)
        if canonical is not None:
            self._copies.setdefault(canonical, url)
            return Loaded(None, tuple(dict.fromkeys((canonical, *found))))
        if noindex or told.noindex or (found and not told.text.strip()):
            return Loaded(None, found)
        metadata = {"language": told.language, "published": told.published, "author": told.author}
        document = Document(
            uri=entry.uri,
            title=(told.title or title_of(url))[:LONGEST_TITLE],
            text=told.text,
            format="markdown",
            metadata={name: value for name, value in metadata.items() if value},
            fingerprint=page.fingerprint,
        )
        return Loaded(document, found)

    def _text(self, entry: Entry, page: Fetched) -> Loaded:
        text = decoded(page.body or b"", page.charset)
        if self._said(page)[0] or not is_text(text):
            return Loaded(None)
        form: Format = "markdown" if page.media_type == "text/markdown" else "plain"
        title = title_of(page.url, text if form == "markdown" else "")[:LONGEST_TITLE]
        return Loaded(Document(uri=entry.uri, title=title, text=text, format=form, fingerprint=page.fingerprint))

    def _said(self, page: Fetched) -> tuple[bool, bool]:
        return header_says(page.headers.get_list("x-robots-tag"), self._token)

    def _canonical(self, url: str, named: str | None) -> str | None:
        """The other page of the run that this one says it is a copy of. Not believed: that a page is the site's front
        page, which careless templates say of all pages, and what turned out to be no page or a copy itself."""
        canonical = joined(url, named) if named else None
        if canonical is None or alike(canonical, url) or url in self._mistaken or url in self._copies:
            return None
        is_front = target_of(canonical) == "/" and path_of(url) != "/"
        return canonical if not is_front and self._wanted(url, [canonical]) else None

    async def _instead(self, page: str) -> Loaded:
        """The page that named another one as canonical, where that turned out to be none. At once: its turn is over."""
        self._mistaken.add(page)
        try:
            return await self._loaded(Entry(uri=page, cursor=""), None, math.inf)
        except Transient:
            self._mistaken.discard(page)
            raise


def _address(uri: str) -> str:
    try:
        return normalized(uri)
    except BadAddress as error:
        raise Permanent(f"{uri[:200]} {error}") from None
