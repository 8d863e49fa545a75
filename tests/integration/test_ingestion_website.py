"""The website source against a real server on loopback: what is visited, in which order and at what pace, and what
becomes of pages that lead elsewhere, say no, or do not end."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TypeVar

import pytest

from penstock.engine.errors import Blocked, InvalidRequest, Permanent, RateLimited, Transient
from penstock.pipelines.ingestion.model import Entry, Known, Loaded, SourceSpec, Unchanged
from penstock.pipelines.ingestion.sources import make_source
from penstock.pipelines.ingestion.sources.web_fetch import Fetcher
from penstock.pipelines.ingestion.sources.website import Website, WebsiteOptions, website
from penstock.remote.pool import ProcessPool
from tests.support.website import Crawled, Reply, Site, Still, crawl, leads_to, tools

T = TypeVar("T")
Pages = Mapping[str, Reply | str | list[Reply]]


def page(text: str, *links: str, head: str = "", title: str = "A page") -> str:
    """As sites write them: links to other pages beside the text."""
    listed = "".join(f'<li><a href="{link}">more</a></li>' for link in links)
    return (
        f'<!DOCTYPE html><html lang="en"><head><title>{title}</title>{head}</head><body><nav><ul>{listed}</ul></nav>'
        f"<main><article><h1>{title}</h1><p>{text} The water of the lake comes down through a pipe of steel, past a "
        "gate that a keeper opens in the morning and closes at night, and it turns the wheel of the mill.</p>"
        "</article></main></body></html>"
    )


class House:
    """One loop and one pool for all tests here: starting a process takes longer than most of them."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.pool = self.runner.run(self._opened())

    async def _opened(self) -> ProcessPool:
        return ProcessPool(workers=1)

    def close(self) -> None:
        self.runner.run(self.pool.close())
        self.runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def crawl(self, pages: Pages, start: str = "/", **options: Any) -> Seen:
        """One run over a site with these pages."""

        async def main() -> Seen:
            async with Site(pages) as site:
                return await self.round(site, start, **options)

        return self.run(main())

    async def round(self, site: Site, start: str = "/", known: Crawled | None = None, **options: Any) -> Seen:
        given = tools(self.pool)
        source = website({"url": site.url + start, "delay": 0, **options}, given)
        crawled = await crawl(source, given.frontier, known.known if known else None)
        return Seen(site, crawled)


class Seen:
    """What came of a run, by paths of the site."""

    def __init__(self, site: Site, crawled: Crawled) -> None:
        self.crawled = crawled
        self.asked = list(site.asked)
        self.paths = [path for path in site.paths if path not in ("/robots.txt", "/sitemap.xml")]
        self.documents = {uri.removeprefix(site.url): each for uri, each in crawled.documents.items()}
        self.loaded = {uri.removeprefix(site.url): each for uri, each in crawled.loaded.items()}
        self.errors = {uri.removeprefix(site.url): each for uri, each in crawled.errors.items()}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    house = House()
    yield house
    house.close()


def test_pages_are_found_by_their_links_each_once_in_the_order_in_which_they_were_found(house: House) -> None:
    seen = house.crawl(
        {
            "/": page("Welcome.", "/b", "/a?utm_source=here", "/a#part", "http://other.example/", "/x.png"),
            "/a": page("This is the first.", "/", "/b", "/c/../d", title="First"),
            "/b": page("This is the second."),
            "/d": page("This is the last.", "/missing"),
        }
    )
    assert seen.paths == ["/", "/b", "/a", "/d", "/missing"]
    assert list(seen.documents) == ["/", "/b", "/a", "/d"]
    first = seen.documents["/a"]
    assert first.title == "First" and "This is the first." in first.text and "more" not in first.text
    assert first.format == "markdown" and first.metadata["language"] == "en"
    assert list(seen.errors) == ["/missing"] and "404" in seen.errors["/missing"]


def test_the_site_is_asked_as_it_wishes(house: House) -> None:
    robots = "User-agent: *\nDisallow: /everything\n\nUser-agent: penstock\nDisallow: /private\nAllow: /private/open"
    seen = house.crawl(
        {
            "/robots.txt": Reply(robots, type="text/plain"),
            "/": page("Welcome.", "/private/a", "/private/open/b", "/everything"),
            "/private/open/b": page("Open."),
            "/everything": page("Not forbidden to us."),
        }
    )
    assert seen.paths == ["/", "/private/open/b", "/everything"]
    assert all(each.headers["user-agent"].startswith("penstock/") for each in seen.asked)


def test_a_start_that_robots_txt_forbids_is_an_error_and_is_not_asked_for(house: House) -> None:
    seen = house.crawl({"/robots.txt": "User-agent: *\nDisallow: /", "/": page("Welcome.")})
    assert seen.paths == [] and "robots.txt" in seen.errors["/"]


@pytest.mark.parametrize("status", [404, 403, 410])
def test_without_a_robots_txt_everything_may_be_read(house: House, status: int) -> None:
    assert list(house.crawl({"/robots.txt": Reply(status=status), "/": page("Welcome.")}).documents) == ["/"]


@pytest.mark.parametrize(("status", "kind"), [(500, Transient), (503, Transient), (429, RateLimited)])
def test_while_robots_txt_cannot_be_read_nothing_is(house: House, status: int, kind: type[Exception]) -> None:
    async def main() -> list[str]:
        async with Site({"/robots.txt": Reply(status=status), "/": page("Welcome.")}) as site:
            source = website({"url": site.url, "delay": 0}, tools(house.pool))
            with pytest.raises(kind):
                await source.seeds()
            with pytest.raises(kind):
                await source.load(Entry(site.url + "/", "1"), None)
            return site.paths

    assert house.run(main()) == ["/robots.txt", "/robots.txt"]


def test_pages_say_whether_they_want_to_be_found_and_followed(house: House) -> None:
    seen = house.crawl(
        {
            "/": page("Welcome.", "/hidden", "/quiet", "/header", "/both"),
            "/hidden": page("Not to be found.", "/a", head='<meta name="robots" content="noindex">'),
            "/quiet": page("Not to be followed.", "/no", head='<meta name="robots" content="nofollow">'),
            "/header": Reply(page("Not to be found.", "/b"), headers={"X-Robots-Tag": "noindex"}),
            "/both": Reply(page("Neither.", "/no"), headers={"X-Robots-Tag": "other: all, penstock: none"}),
            "/a": page("Found on a hidden page."),
            "/b": page("Found on another."),
            "/no": page("Never found."),
        }
    )
    assert list(seen.documents) == ["/", "/quiet", "/a", "/b"]


def listed(*urls: str) -> str:
    return "<urlset>" + "".join(f"<url><loc>{url}</loc></url>" for url in urls) + "</urlset>"


def test_sitemaps_come_first_and_only_what_belongs_to_the_run_is_taken_of_them(house: House) -> None:
    async def main() -> Seen:
        async with Site() as site:
            index = f"<sitemapindex><sitemap><loc>{site.url}/maps/1.xml.gz</loc></sitemap></sitemapindex>"
            pages = listed(
                f"{site.url}/docs/b", "http://other.example/docs/x", f"{site.url}/blog", f"{site.url}/docs/no"
            )
            site.pages = {
                "/robots.txt": f"User-agent: *\nDisallow: /docs/no\nSitemap: {site.url}/map.xml\nSitemap: http://other.example/",
                "/map.xml": Reply(index, type="text/xml"),
                "/maps/1.xml.gz": Reply(gzip.compress(pages.encode()), type="application/x-gzip"),
                "/docs/": page("Welcome.", "/docs/c", "/blog"),
                "/docs/b": page("Only in the sitemap."),
                "/docs/c": page("Only linked."),
            }
            given = tools(house.pool)
            source = website({"url": site.url + "/docs/", "prefix": "/docs", "delay": 0}, given)
            assert await source.count() is None
            assert await source.seeds() == [f"{site.url}/docs/", f"{site.url}/docs/b"]
            assert await source.count() == 2
            return Seen(site, await crawl(source, given.frontier))

    seen = house.run(main())
    assert list(seen.documents) == ["/docs/", "/docs/b", "/docs/c"]


LAUGHS = '<!DOCTYPE urlset [<!ENTITY a "aaaa">]>' + listed("http://127.0.0.1/&a;")


@pytest.mark.parametrize("reply", [Reply(LAUGHS), Reply(status=500), Reply("<html></html>"), Reply(b"\x1f\x8bxx")])
def test_a_sitemap_that_nobody_promised_and_that_is_none_is_left_out(house: House, reply: Reply) -> None:
    assert list(house.crawl({"/sitemap.xml": reply, "/": page("Welcome.")}).documents) == ["/"]


def test_a_sitemap_that_was_promised_is_waited_for(house: House) -> None:
    async def main() -> None:
        async with Site({"/map.xml": Reply(status=500), "/": page("Welcome.")}) as site:
            site.pages["/robots.txt"] = f"Sitemap: {site.url}/map.xml"
            with pytest.raises(Transient, match="sitemap: false"):
                await website({"url": site.url, "delay": 0}, tools(house.pool)).seeds()
            without = website({"url": site.url, "delay": 0, "sitemap": False}, tools(house.pool))
            assert await without.seeds() == [site.url + "/"]

    house.run(main())


def test_a_run_ends_after_so_many_pages(house: House) -> None:
    """A calendar without end."""

    class Calendar(dict[str, Any]):
        def get(self, target: str, default: Any = None) -> Any:
            day = target.strip("/").partition("/")[2] or "0"
            return page(f"Day {day}.", f"/day/{int(day) + 1}") if day.isdecimal() else default

    async def main() -> Seen:
        async with Site() as site:
            site.pages = Calendar()
            return await house.round(site, max_pages=4)

    assert house.run(main()).paths == ["/", "/day/1", "/day/2", "/day/3"]


def test_a_redirect_is_found_and_comes_in_its_turn(house: House) -> None:
    seen = house.crawl(
        {
            "/": leads_to("/en/", 301),
            "/en/": page("Welcome.", "/old", "/new", "/out", "/loop", "/self"),
            "/old": leads_to("/new"),
            "/new": page("Moved here."),
            "/out": leads_to("http://other.example/"),
            "/loop": leads_to("/loop2"),
            "/loop2": leads_to("/loop"),
            "/self": leads_to("/self?utm_source=x"),
        }
    )
    assert list(seen.documents) == ["/en/", "/new"]
    assert seen.paths.count("/new") == 1
    assert sorted(seen.errors) == ["/loop2", "/self"] and "circle" in seen.errors["/self"]


def test_a_start_that_leads_to_another_site_says_where_to_begin(house: House) -> None:
    seen = house.crawl({"/": leads_to("http://other.example/home")})
    assert "http://other.example/home" in seen.errors["/"]


def test_redirects_without_end_are_given_up(house: House) -> None:
    seen = house.crawl({"/": leads_to("/1")} | {f"/{n}": leads_to(f"/{n + 1}") for n in range(1, 20)})
    assert len(seen.paths) == 6
    assert "more than 5 times" in seen.errors["/5"]


def canonical(url: str) -> str:
    return f'<link rel="canonical" href="{url}">'


def test_a_copy_is_not_indexed_but_the_page_that_it_names(house: House) -> None:
    seen = house.crawl(
        {
            "/": page("Welcome.", "/print?id=1", "/a?sort=up"),
            "/print?id=1": page("The first.", head=canonical("/a")),
            "/a?sort=up": page("The first.", head=canonical("/a")),
            "/a": page("The first.", head=canonical("/a/")),
        }
    )
    assert list(seen.documents) == ["/", "/a"]


@pytest.mark.parametrize(
    ("pages", "documents"),
    [
        ({"/a": page("A.", head=canonical("http://other.example/a"))}, ["/", "/a"]),
        ({"/a": page("A.", head=canonical("/"))}, ["/", "/a"]),
        ({"/a": page("A.", head=canonical("/gone"))}, ["/", "/a"]),
        ({"/a": page("A.", head=canonical("/b")), "/b": leads_to("/a")}, ["/", "/a"]),
        ({"/a": page("A.", head=canonical("/b")), "/b": page("B.", head=canonical("/a"))}, ["/", "/b"]),
    ],
    ids=["another site", "the front page", "a dead page", "a redirect back", "each other"],
)
def test_a_page_that_names_a_wrong_one_is_not_lost(house: House, pages: dict[str, Any], documents: list[str]) -> None:
    seen = house.crawl({"/": page("Welcome.", "/a"), **pages})
    assert list(seen.documents) == documents


def test_an_unchanged_site_is_asked_and_not_read_again(house: House) -> None:
    async def main() -> tuple[Seen, Seen, list[str]]:
        tag = {"ETag": '"1"'}
        pages: dict[str, Any] = {
            "/": Reply(page("Welcome.", "/a"), headers=tag),
            "/a": Reply(page("The first.", "/b"), headers={"Last-Modified": "Wed, 01 Jan 2025 00:00:00 GMT"}),
            "/b": page("Changes without saying so."),
        }
        async with Site(pages) as site:
            first = await house.round(site)
            site.asked.clear()
            site.pages |= {"/": Reply(status=304, headers=tag, type=None), "/a": Reply(status=304, type=None)}
            again = await house.round(site, known=first.crawled)
            conditions = [set(each.headers) & {"if-none-match", "if-modified-since"} for each in site.asked[2:]]
            return first, again, [" ".join(each) for each in conditions]

    first, again, conditions = house.run(main())
    assert list(first.documents) == ["/", "/a", "/b"]
    assert again.paths == ["/", "/a", "/b"]
    assert conditions == ["if-none-match", "if-modified-since", ""]
    assert isinstance(again.loaded["/"].document, Unchanged) and isinstance(again.loaded["/a"].document, Unchanged)
    assert again.loaded["/"].document.fingerprint == first.documents["/"].fingerprint
    assert list(again.documents) == ["/b"]
    assert again.documents["/b"].content_hash == first.documents["/b"].content_hash


def test_plain_text_and_markdown_are_pages_and_other_things_are_passed_over(house: House) -> None:
    latin = "# Grüße\n\nFrom a server that is wrong.".encode("latin-1")
    seen = house.crawl(
        {
            "/": page("Welcome.", "/notes.txt", "/read.md", "/feed", "/blob"),
            "/notes.txt": Reply("Just text.", type="text/plain"),
            "/read.md": Reply(latin, type="text/markdown; charset=utf-8"),
            "/feed": Reply("<rss/>", type="application/rss+xml"),
            "/blob": Reply(b"PK\x00\x00", type="text/plain"),
        }
    )
    assert list(seen.documents) == ["/", "/notes.txt", "/read.md"]
    notes, read = seen.documents["/notes.txt"], seen.documents["/read.md"]
    assert (notes.format, notes.title) == ("plain", "notes.txt")
    assert (read.format, read.title) == ("markdown", "Grüße")
    assert seen.errors == {}


def test_a_start_that_is_no_page_is_an_error(house: House) -> None:
    assert "application/pdf" in house.crawl({"/": Reply(b"%PDF", type="application/pdf")}).errors["/"]


def test_what_is_too_large_is_listed_and_the_run_goes_on(house: House) -> None:
    bomb = Reply(gzip.compress(bytes(6_000_000)), headers={"Content-Encoding": "gzip"})
    seen = house.crawl({"/": page("Welcome.", "/bomb", "/a"), "/bomb": bomb, "/a": page("The first.")})
    assert list(seen.documents) == ["/", "/a"]
    assert "larger than the 5 MB" in seen.errors["/bomb"]


def test_the_pace_is_the_site_s_and_all_sources_of_a_process_share_it(house: House) -> None:
    async def main() -> tuple[list[float], list[float]]:
        clock = Still()
        async with Site({"/": page("Welcome.", "/a"), "/a": page("The first.")}) as site:
            given = tools(house.pool, clock=clock)
            await crawl(website({"url": site.url, "delay": 2}, given), given.frontier)
            alone = list(clock.slept)
            clock.slept.clear()
            other = website({"url": site.url, "delay": 3}, tools(house.pool, clock=clock))
            await other.load(Entry(site.url + "/a", "1"), None)
            return alone, clock.slept

    alone, shared = house.run(main())
    assert alone == [2, 2, 2]
    assert shared == [2]


def test_a_longer_delay_of_robots_txt_wins_and_holds_no_worker(house: House) -> None:
    async def main() -> None:
        clock = Still()
        robots = "User-agent: *\nCrawl-delay: 20"
        async with Site({"/robots.txt": robots, "/": page("Welcome."), "/a": page("The first.")}) as site:
            source = website({"url": site.url, "delay": 1}, tools(house.pool, clock=clock))
            await source.seeds()
            assert clock.slept == [1]
            with pytest.raises(Blocked) as error:
                await source.load(Entry(site.url + "/", "1"), None)
            assert error.value.retry_after == 20
            clock.time += 20
            assert (await source.load(Entry(site.url + "/", "1"), None)).document is not None
            assert site.paths == ["/robots.txt", "/sitemap.xml", "/"]

    house.run(main())


def test_a_site_that_wants_to_be_left_alone_is_left_alone_by_all(house: House) -> None:
    async def main() -> None:
        clock = Still()
        busy = [Reply(status=429, headers={"Retry-After": "30"}), Reply(page("Welcome."))]
        async with Site({"/": busy}) as site:
            source = website({"url": site.url, "delay": 0}, tools(house.pool, clock=clock))
            other = website({"url": site.url, "delay": 0}, tools(house.pool, clock=clock))
            for each in (source, other):
                with pytest.raises(RateLimited) as error:
                    await each.load(Entry(site.url + "/", "1"), None)
                assert error.value.retry_after == 30
            assert site.paths == ["/robots.txt", "/"]
            clock.time += 31
            assert (await source.load(Entry(site.url + "/", "1"), None)).document is not None

    house.run(main())


def test_a_run_goes_on_where_it_was(house: House) -> None:
    async def main() -> None:
        async with Site() as site:
            given = tools(house.pool)
            given.frontier.add([f"{site.url}/{n}" for n in range(1, 8)])  # type: ignore[attr-defined]
            source = website({"url": site.url, "max_pages": 5}, given)
            entries = [entry async for entry in source.entries("3")]
            assert entries == [Entry(f"{site.url}/{n}", str(n)) for n in (4, 5)]

    house.run(main())


def test_what_does_not_belong_to_the_run_any_more_is_not_asked_for(house: House) -> None:
    async def main() -> None:
        async with Site({"/": page("Welcome.")}) as site:
            source = website({"url": site.url + "/docs/", "prefix": "/docs/", "delay": 0}, tools(house.pool))
            known = Known(site.url + "/", None, "0")
            assert await source.load(Entry(site.url + "/", "1"), known) == Loaded(None)
            with pytest.raises(Permanent, match="password"):
                await source.load(Entry("http://user:secret@127.0.0.1/", "2"), None)
            assert site.asked == []

    house.run(main())


def test_a_page_that_leads_into_a_private_network_leads_nowhere(house: House) -> None:
    """By its links, by a redirect, and by a name of its own site that suddenly means another machine."""
    answers = ["93.184.216.34"] * 4 + ["127.0.0.1"]

    async def resolve(host: str, port: int) -> list[str]:
        return [answers.pop(0)]

    async def main() -> tuple[Crawled, list[str], list[str]]:
        async with Site({"/": "secret"}) as inside, Site() as site:
            site.pages = {
                "/": page("Welcome.", f"http://127.0.0.1:{inside.port}/", "/away", "/later"),
                "/away": leads_to(f"http://127.0.0.1:{inside.port}/"),
            }
            given = tools(house.pool, allow_private=False)
            fetcher = Fetcher(
                clock=given.clock,
                user_agent="Penstock/test",
                resolve=resolve,
                route=lambda address, port: ("127.0.0.1", site.port if address.startswith("93.") else inside.port),
            )
            source = Website(WebsiteOptions(url="http://site.example/", delay=0), given, fetcher)
            return await crawl(source, given.frontier), site.paths, inside.paths

    crawled, paths, inside = house.run(main())
    assert paths == ["/robots.txt", "/sitemap.xml", "/", "/away"]
    assert inside == []
    assert list(crawled.documents) == ["http://site.example/"]
    assert "127.0.0.1" in crawled.errors["http://site.example/later"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "url"),
        ({"url": "example.com"}, "http://"),
        ({"url": "http://user:secret@site.example/"}, "password"),
        ({"url": "http://127.0.0.1/"}, "allow_private_addresses"),
        ({"url": "http://[::ffff:10.0.0.1]/"}, "allow_private_addresses"),
        ({"url": "http://169.254.169.254/"}, "public internet"),
        ({"url": "http://0x7f000001/"}, "host"),
        ({"url": "http://site.example/", "allow_private": True}, "allow_private"),
        ({"url": "http://site.example/", "max_pages": 0}, "max_pages"),
        ({"url": "http://site.example/", "max_pages": 100_001}, "max_pages"),
        ({"url": "http://site.example/", "delay": -1}, "delay"),
        ({"url": "http://site.example/", "delay": float("nan")}, "delay"),
        ({"url": "http://site.example/", "prefix": "docs"}, "path of the site"),
        ({"url": "http://site.example/", "prefix": "/docs"}, "below"),
    ],
)
def test_wrong_options_are_refused_with_what_is_wrong(options: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidRequest, match=word):
        make_source(SourceSpec.model_validate({"type": "website", **options}), tools(allow_private=False))
