"""Getting things from the web, over real connections to loopback. Where a test needs a public address, it brings a
resolver that gives one and a route that leads from there to the test's own server."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import ssl
import zlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.errors import InvalidConfiguration, Permanent, RateLimited, Transient
from penstock.pipelines.ingestion.sources.web_addresses import Forbidden
from penstock.pipelines.ingestion.sources.web_fetch import (
    ANYTHING,
    Fetched,
    Fetcher,
    FetchLimits,
    LeadsElsewhere,
    Refused,
    default_user_agent,
    fetcher_for,
)
from tests.support.website import Reply, Site, Speaks, Still, leads_to, tools, wire

HTML = ("text/html",)
PUBLIC = "93.184.216.34"


def fetcher(**options: Any) -> Fetcher:
    return Fetcher(clock=Still(), **{"user_agent": "Penstock/test", "allow_private": True, **options})


def names(**hosts: str | list[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    """A resolver: `_` in a name stands for a dot. A list is given one answer at a time."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        answer = hosts[host.replace(".", "_")]
        return [answer.pop(0) if isinstance(answer, list) else answer]

    return resolve


def got(pages: dict[str, Any], target: str = "/", *, by: Fetcher | None = None, **options: Any) -> Fetched:
    """What comes of one request to a site with these pages."""

    async def main() -> Fetched:
        async with Site(pages) as site:
            return await (by or fetcher()).get(site.url + target, **{"accept": HTML, **options})

    return asyncio.run(main())


def test_a_page_comes_with_its_type_its_charset_and_what_to_ask_with_next_time() -> None:
    headers = {"ETag": '"7"', "Last-Modified": "Wed, 01 Jan 2025 00:00:00 GMT"}
    page = got({"/": Reply("grün".encode("latin-1"), type='Text/HTML; Charset="ISO-8859-1"', headers=headers)})
    assert (page.status, page.body, page.media_type, page.charset) == (200, b"gr\xfcn", "text/html", "iso-8859-1")

    async def again() -> tuple[Fetched, Site]:
        async with Site({"/": [Reply(status=304, type=None), Reply("new")]}) as site:
            return await fetcher().get(site.url, accept=HTML, fingerprint=page.fingerprint), site

    same, site = asyncio.run(again())
    assert same.unchanged and same.body is None
    asked = site.asked[0].headers
    assert (asked["if-none-match"], asked["if-modified-since"]) == ('"7"', "wed, 01 jan 2025 00:00:00 gmt")
    assert asked["user-agent"] == "penstock/test"
    assert not {"cookie", "authorization"} & set(asked)


@pytest.mark.parametrize("fingerprint", [None, "nonsense", "[1]", '{"etag": 5}', '{"etag": "a\\r\\nX: y"}'])
def test_a_fingerprint_that_is_none_asks_for_the_page(fingerprint: str | None) -> None:
    assert got({"/": "hello"}, fingerprint=fingerprint).body == b"hello"
    with pytest.raises(Refused, match="304"):
        got({"/": Reply(status=304)}, fingerprint=fingerprint)


def test_what_has_another_type_is_not_read() -> None:
    assert got({"/": Reply(b"x" * 100, type="application/pdf")}).body is None
    assert got({"/": Reply(b"x", type=None)}).body is None
    assert got({"/": Reply(b"x", type=None)}, accept=ANYTHING).body == b"x"


@pytest.mark.parametrize(
    ("reply", "kind", "wait"),
    [
        (Reply(status=404), Refused, None),
        (Reply(status=410), Refused, None),
        (Reply(status=401), Refused, None),
        (Reply(status=403), Refused, None),
        (Reply(status=300), Refused, None),
        (Reply(status=302), Refused, None),
        (Reply(status=429), RateLimited, None),
        (Reply(status=429, headers={"Retry-After": "7"}), RateLimited, 7.0),
        (Reply(status=429, headers={"Retry-After": "9" * 40}), RateLimited, 3600.0),
        (Reply(status=503, headers={"Retry-After": "Tue, 14 Nov 2023 22:13:50 GMT"}), RateLimited, 30.0),
        (Reply(status=503), Transient, None),
        (Reply(status=503, headers={"Retry-After": "soon"}), Transient, None),
        (Reply(status=500), Transient, None),
        (Reply(status=408), Transient, None),
    ],
)
def test_the_error_says_what_to_do(reply: Reply, kind: type[Exception], wait: float | None) -> None:
    with pytest.raises((Permanent, Transient), match=f"answered {reply.status}") as error:
        got({"/": reply})
    assert type(error.value) is kind
    assert getattr(error.value, "retry_after", None) == wait


def test_redirects_are_followed_by_hand_and_not_for_ever() -> None:
    pages = {"/": leads_to("/a#x", 301), "/a": leads_to("b?utm_source=x", 308), "/b": "here"}
    page = got(pages)
    assert page.body == b"here" and page.url.endswith("/b")
    with pytest.raises(Permanent, match="more than 5 times"):
        got({"/": leads_to("/")})
    with pytest.raises(Permanent, match="no address"):
        got({"/": leads_to("ftp://127.0.0.1/")})
    with pytest.raises(LeadsElsewhere) as error:
        got(pages, follow=lambda target: not target.endswith("/b"))
    assert error.value.target.endswith("/b")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",
        "http://localhost:1/",
        "http://[::1]:1/",
        "http://0.0.0.0:1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "http://2130706433/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://user:secret@127.0.0.1/",
        "file:///etc/passwd",
    ],
)
def test_nothing_private_is_asked_by_default(url: str) -> None:
    with pytest.raises(Permanent):
        asyncio.run(fetcher(allow_private=False).get(url, accept=HTML))


def test_what_is_allowed_is_the_configuration_s_to_say() -> None:
    assert not fetcher_for(tools(allow_private=False)).allow_private
    assert fetcher_for(tools(user_agent="Somebody/1")).user_agent == "Somebody/1"
    assert fetcher_for(tools()).user_agent == default_user_agent()
    with pytest.raises(InvalidConfiguration, match="user_agent"):
        fetcher(user_agent="a\r\nX-Other: b")


def test_a_public_page_that_leads_to_a_private_one_is_followed_to_nowhere() -> None:
    async def main() -> list[str]:
        async with Site() as inside, Site() as site:
            inside.pages["/"] = "secret"
            for target in (f"http://127.0.0.1:{inside.port}/", f"http://inside.example:{inside.port}/"):
                site.pages["/"] = leads_to(target)
                by = fetcher(
                    allow_private=False,
                    resolve=names(site_example=PUBLIC, inside_example="127.0.0.1"),
                    route=lambda _, port: ("127.0.0.1", site.port if port == 80 else port),
                )
                with pytest.raises(Forbidden):
                    await by.get("http://site.example/", accept=HTML)
            assert len(site.asked) == 2
            return inside.paths

    assert asyncio.run(main()) == []


def test_a_name_that_changes_its_mind_is_connected_where_it_was_checked() -> None:
    """The name is resolved once for each request, and the request goes to the address that was checked."""

    async def main() -> None:
        reached: list[str] = []

        def route(address: str, _: int) -> tuple[str, int]:
            reached.append(address)
            return "127.0.0.1", site.port

        async with Site({"/": "hello"}) as site:
            by = fetcher(allow_private=False, resolve=names(site_example=[PUBLIC, "127.0.0.1", PUBLIC]), route=route)
            page = await by.get("http://site.example/", accept=HTML)
            assert page.body == b"hello" and site.asked[0].headers["host"] == "site.example"
            with pytest.raises(Forbidden):
                await by.get("http://site.example/", accept=HTML)
            await by.get("http://site.example:8080/", accept=HTML)
            assert site.asked[1].headers["host"] == "site.example:8080"
        assert reached == [PUBLIC, PUBLIC]

    asyncio.run(main())


def test_the_next_address_of_a_host_is_tried_when_the_first_is_dead() -> None:
    async def main() -> bytes | None:
        async def resolve(host: str, port: int) -> Sequence[str]:
            return ["93.184.216.1", "93.184.216.2"]

        async with Site({"/": "hello"}) as site, Site() as dead:
            gone = dead.port
            await dead.__aexit__()
            by = fetcher(
                allow_private=False,
                resolve=resolve,
                route=lambda address, _: ("127.0.0.1", gone if address.endswith(".1") else site.port),
            )
            return (await by.get("http://site.example/", accept=HTML)).body

    assert asyncio.run(main()) == b"hello"


def certificate(folder: Path, name: str) -> Path:
    """A certificate for a name, and its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(began)
        .not_valid_after(began + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "both.pem"
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return file


def test_a_certificate_must_be_for_the_name_and_not_for_the_address(tmp_path: Path) -> None:
    file = certificate(tmp_path, "site.example")
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(file)
    told: list[str | None] = []
    served.sni_callback = lambda _, name, __: told.append(name)
    trust = ssl.create_default_context(cafile=str(file))

    async def main() -> None:
        async with Site({"/": "hello"}, tls=served) as site:
            by = fetcher(
                allow_private=False,
                resolve=names(site_example=PUBLIC, other_example=PUBLIC),
                route=lambda address, port: ("127.0.0.1", site.port),
                trust=trust,
            )
            assert (await by.get("https://site.example/", accept=HTML)).body == b"hello"
            with pytest.raises(Permanent, match="cannot be trusted"):
                await by.get("https://other.example/", accept=HTML)
            assert [each.headers["host"] for each in site.asked] == ["site.example"]

    asyncio.run(main())
    assert told == ["site.example", "other.example"]


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert got({"/": "hello"}).body == b"hello"


def packed(text: bytes) -> Reply:
    return Reply(gzip.compress(text), headers={"Content-Encoding": "gzip"})


def test_what_is_packed_is_counted_unpacked() -> None:
    assert got({"/": packed(b"hello" * 100)}).body == b"hello" * 100
    assert got({"/": Reply(zlib.compress(b"hello"), headers={"Content-Encoding": "deflate"})}).body == b"hello"
    bomb = packed(bytes(20_000_000))
    assert len(bomb.body) < 50_000
    with pytest.raises(Permanent, match=r"larger than the 0\.1 MB"):
        got({"/": bomb}, largest=100_000)
    assert got({"/": bomb}, largest=1000, cut=True).body == bytes(1000)


@pytest.mark.parametrize(
    ("encoding", "word"),
    [("br", "br"), ("gzip, gzip", "gzip, gzip"), ("gzip", "damaged")],
)
def test_what_cannot_be_unpacked_is_refused(encoding: str, word: str) -> None:
    with pytest.raises(Permanent, match=word):
        got({"/": Reply(b"\x1f\x8bnonsense nonsense", headers={"Content-Encoding": encoding})})


def test_what_says_that_it_is_too_large_is_not_read() -> None:
    with pytest.raises(Permanent, match="larger"):
        got({"/": Reply(b"x" * 2000)}, largest=1000)
    assert got({"/": Reply(b"x" * 1000)}, largest=1000).body == b"x" * 1000


def endless(first: bytes, again: bytes) -> Speaks:
    """Writes on until nobody listens any more."""

    async def speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while not writer.is_closing():
            writer.write(again)
            await writer.drain()

    return speaks


def stuck(first: bytes) -> Speaks:
    """Says that much, and then nothing until the other side gives up."""

    async def speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await reader.read()

    return speaks


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


@pytest.mark.parametrize(
    ("speaks", "kind", "word"),
    [
        (endless(HEAD + b"\r\n", b"x" * 10_000), Permanent, "larger"),
        (endless(HEAD, b"X-Header: " + b"x" * 1000 + b"\r\n"), Transient, "could not be had"),
        (endless(HEAD, b"x" * 1000), Transient, "could not be had"),
        (stuck(b""), Transient, "within"),
        (stuck(HEAD), Transient, "within"),
        (stuck(HEAD + b"Content-Length: 100\r\n\r\nhel"), Transient, "within"),
        (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), Transient, "within|could not"),
    ],
    ids=["body", "headers", "one header", "silent", "half a head", "half a body", "continue"],
)
def test_a_server_that_never_ends_is_left(speaks: Speaks, kind: type[Exception], word: str) -> None:
    with pytest.raises(kind, match=word):
        got({"/": Reply(speaks=speaks)}, by=fetcher(limits=FetchLimits(seconds=0.3)), largest=100_000)


async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hangs up."""


async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(wire(Reply("hello"))[:-2])


@pytest.mark.parametrize("speaks", [nonsense, silence, broken])
def test_a_server_that_breaks_off_may_be_asked_again(speaks: Speaks) -> None:
    with pytest.raises(Transient, match="could not be had"):
        got({"/": Reply(speaks=speaks)})


def test_a_server_that_is_not_there() -> None:
    async def main() -> None:
        async with Site() as site:
            pass
        await fetcher().get(site.url, accept=HTML)

    with pytest.raises(Transient, match="could not be had"):
        asyncio.run(main())
