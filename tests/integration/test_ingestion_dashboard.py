"""The pages of knowledge bases, asked as a browser asks them: whatever documents say is shown and never obeyed, who may
only read changes nothing, and tenants do not meet."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock import Penstock
from penstock.pipelines.ingestion import control
from penstock.pipelines.ingestion.dashboard.contents import chunks, documents
from penstock.pipelines.ingestion.dashboard.marking import (
    SHOWN,
    Wanted,
    address_of,
    clock,
    marked,
    pages_of,
    passage,
    readable,
    shown,
)
from penstock.pipelines.ingestion.dashboard.needs import needs
from penstock.pipelines.ingestion.dashboard.pipe import beside, pipe
from penstock.pipelines.ingestion.dashboard.places import Paths, kind_of, link_of, plain
from penstock.pipelines.ingestion.model import Configuration, SourceSpec
from penstock.pipelines.ingestion.searching import Hit
from penstock.pipelines.ingestion.section import section
from penstock.pipelines.ingestion.status import PhaseProgress, Rates, Status
from penstock.pipelines.ingestion.work import Counters
from penstock.pipelines.ingestion.workflow import ALL
from penstock.service.access.principal import Principal
from tests.support.api import Api, serving
from tests.support.house import in_a_loop

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
DOCUMENT = f"""---
title: "{HOSTILE}"
author: "{HOSTILE}"
"{HOSTILE}": yes
---
# {HOSTILE}

## \"'><svg onload=alert(3)>

The valve {HOSTILE} is opened by hand. \u202e desrever
"""


class Seen(HTMLParser):
    """What a page would make a browser do."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def is_harmless(text: str) -> None:
    seen = Seen(text)
    assert "img" not in seen.tags and seen.tags.count("script") == 2, "one of them is not ours"
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    places = [value for name, value in seen.attributes if name in ("href", "src", "action", "hx-get", "hx-post")]
    assert places and not [place for place in places if not re.match(r"/|#|https?://", place)]


@asynccontextmanager
async def house(folder: Path, **more: Any) -> AsyncIterator[Api]:
    settings = {"ingestion": {"roots": [str(folder), f"{folder}/of/{{tenant}}"]}}
    async with serving(folder, sections=(section,), more=list(ALL), also=settings, **more) as api:
        yield api


@asynccontextmanager
async def tab(api: Api, *scopes: str, tenant: str | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    async with api.client(Accept="text/html") as client:
        secret = await api.secret(f"{tenant}-{scopes[0]}", *scopes, tenant=tenant)
        assert (await client.post("/ui/login", data={"token": secret})).status_code == 303
        yield client


async def sent(client: httpx2.AsyncClient, path: str, **fields: str) -> httpx2.Response:
    found = re.search(r'name="csrf" value="([^"]+)"', (await client.get("/ui/costs")).text)
    return await client.post(path, data={"csrf": found[1] if found else "", **fields})


def configured(folder: Path) -> Configuration:
    return Configuration.model_validate({"sources": [{"type": "markdown", "path": str(folder)}]})


async def filled(api: Api, name: str, folder: Path, *, tenant: str = "default") -> str:
    told = await control.start(api.penstock, name, configured(folder), tenant=tenant)
    await api.run(told.job_id)
    return told.job_id


def written(folder: Path, texts: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


@in_a_loop
async def test_whatever_a_document_says_is_shown_and_never_obeyed(tmp_path: Path) -> None:
    folder = written(tmp_path / "docs", {'"><img src=x onerror=alert(4)>.md': DOCUMENT, "plain.md": "# Plain\n\nvalve"})
    (folder / "<script>alert(5)<script>.md").write_bytes(b"\x00\x01\x02 no text" * 40)
    async with house(tmp_path) as api, api.client(Accept="text/html") as client:
        await filled(api, "kb", folder)
        base = "/ui/knowledge/bases/kb"
        pages = [
            "/ui/knowledge",
            base,
            f"{base}/documents",
            f"{base}/document?n=1",
            f"{base}/document?n=2",
            f"{base}/errors",
            f"{base}/runs",
            f"{base}/search?q=valve",
            f"{base}/search?q={HOSTILE}&mode=text",
            f"{base}/documents?prefix=%22%3E%3Cimg",
            f"{base}/search?q=%22%3E%3Cscript%3E&mode=%22%3E%3Cscript%3E",
        ]
        texts = {path: (await client.get(path)).text for path in pages}
        for text in texts.values():
            is_harmless(text)
        hits = texts[f"{base}/search?q=valve"]
        assert "&lt;img src=x onerror=alert(2)&gt;" in hits and "<mark>valve</mark>" in hits
        assert "\u202e" not in hits, "what turns the text around is written as its number"


@in_a_loop
async def test_who_may_read_sees_everything_and_changes_nothing(tmp_path: Path) -> None:
    folder = written(tmp_path / "docs", {"a.md": "# A\n\nWater flows downhill."})
    async with house(tmp_path, open_access=False) as api, tab(api, "read") as reader:
        run = await filled(api, "kb", folder)
        base = "/ui/knowledge/bases/kb"
        for path in (base, f"{base}/runs/{run}", f"{base}/search?q=water", f"{base}/errors", "/ui/knowledge"):
            answer = await reader.get(path)
            assert answer.status_code == 200 and f'action="{base}/' not in answer.text.replace(f"{base}/search", "")
        assert (await reader.get("/ui/knowledge/new")).status_code == 403
        assert (await sent(reader, "/ui/knowledge/new", name="mine", type="markdown", place="docs")).status_code == 403
        for action in ("pause", "resume", "cancel", "refresh", "retry-errors", "verify", "repair", "delete"):
            assert (await sent(reader, f"{base}/{action}", confirmed="yes")).status_code == 403, action
        assert len(await api.penstock.jobs(workflow="ingestion")) == 1
        async with tab(api, "operate") as operator:
            assert (await operator.post(f"{base}/delete", data={"confirmed": "yes"})).status_code == 403, "no secret"
            assert "agree: 1 document" in await _said(operator, await sent(operator, f"{base}/verify"))
            assert "cannot be paused" in await _said(operator, await sent(operator, f"{base}/pause"))
            assert (await sent(operator, f"{base}/explode")).status_code == 404
            assert "Delete this knowledge base?" in (await sent(operator, f"{base}/delete")).text
            answer = await sent(operator, f"{base}/delete", confirmed="yes")
            assert answer.headers["location"] == "/ui/knowledge"
            assert (await operator.get(base)).status_code == 404
            open_page = await operator.get(base, headers={"HX-Request": "true", "Penstock-Refresh": "true"})
            assert (open_page.status_code, open_page.headers["HX-Redirect"]) == (204, "/ui/knowledge")


async def _said(client: httpx2.AsyncClient, answer: httpx2.Response) -> str:
    assert answer.status_code == 303
    return (await client.get(answer.headers["location"])).text


@in_a_loop
async def test_tenants_do_not_meet(tmp_path: Path) -> None:
    ours = written(tmp_path / "docs", {"a.md": "# Ours\n\nThe secret of the house."})
    written(tmp_path / "of" / "bolt" / "docs", {"b.md": "# Theirs\n\nBolts and nuts."})
    async with house(tmp_path, open_access=False) as api, tab(api, "operate", tenant="bolt") as bolt:
        run = await filled(api, "kb", ours)
        base = "/ui/knowledge/bases/kb"
        for path in (base, f"{base}/search?q=secret", f"{base}/documents", f"{base}/runs/{run}", f"{base}/errors"):
            assert (await bolt.get(path)).status_code == 404
        assert (await bolt.get(f"{base}?tenant=default")).status_code == 403
        assert (await sent(bolt, f"{base}/delete", confirmed="yes")).status_code == 404
        assert "kb" not in re.findall(r'row-title clamp">([^<]*)', (await bolt.get("/ui/knowledge")).text)
        form = {"type": "markdown", "action": "start"}
        outside = await sent(bolt, "/ui/knowledge/new", name="kb", place=str(ours), **form)
        assert outside.status_code == 422 and "ingestion.roots" in outside.text
        other = await sent(bolt, "/ui/knowledge/new", name="kb", place="docs", tenant="default", **form)
        assert other.status_code == 403
        mine = await sent(bolt, "/ui/knowledge/new", name="kb", place="docs", **form)
        assert (mine.status_code, mine.headers["location"]) == (303, base)
        (job,) = await api.penstock.jobs(tenant="bolt", workflow="ingestion")
        await api.run(job.id)
        found = (await bolt.get(f"{base}/search?q=secret+bolts")).text
        assert "Bolts and nuts" in re.sub("</?mark>", "", found) and "secret of the house" not in found
        assert (await bolt.get(f"{base}/runs/{run}")).status_code == 404
        async with tab(api, "admin") as everybody:
            text = (await everybody.get("/ui/knowledge")).text
            assert {"/ui/knowledge/bases/kb", "/ui/knowledge/bases/kb?tenant=bolt"} <= set(
                re.findall(r'row-link" href="([^"]*)', text)
            )
            theirs = (await everybody.get(f"{base}/documents?tenant=bolt")).text
            assert "b.md" in theirs and "a.md" not in theirs


@in_a_loop
async def test_what_is_wrong_with_the_form_is_said_beside_its_field(tmp_path: Path) -> None:
    written(tmp_path / "docs", {"a.md": "# A\n\nWater."})
    async with house(tmp_path) as api, api.client(Accept="text/html") as client:
        good = {"name": "kb", "type": "markdown", "place": "docs", "action": "start"}
        for change, field, words in (
            ({"name": "a b"}, "name", "letters, digits"),
            ({"place": ""}, "place", "say where"),
            ({"place": "nonesuch"}, "place", "cannot be read"),
            ({"place": "../.."}, "place", "ingestion.roots"),
            ({"size": "many"}, "size", "whole number"),
            ({"size": "9"}, "size", "greater"),
            ({"size": "100", "overlap": "90"}, "chunker", "half"),
            ({"type": "website", "place": "ftp://x/"}, "place", "https://"),
            ({"type": "youtube", "place": "what?"}, "place", "neither a video nor a playlist"),
            ({"type": "magic"}, "type", "markdown, pdf"),
            ({"embedder": "local", "batch": "yes"}, "embedder", "no batches"),
        ):
            answer = await sent(client, "/ui/knowledge/new", **{**good, **change})
            told = dict(re.findall(r'class="wrong" id="(\w+)-wrong">([^<]*)', answer.text))
            assert (answer.status_code, list(told)) == (422, [field]) and words in told[field], told
        assert await api.penstock.jobs(workflow="ingestion") == []
        planned = await sent(client, "/ui/knowledge/new", **good | {"action": "plan"})
        assert "The plan" in planned.text and 'value="kb"' in planned.text
        assert 'id="plan"' in planned.text and 'formaction="/ui/knowledge/new#plan"' in planned.text
        first = await sent(client, "/ui/knowledge/new", **good, form="ab", every="1d")
        twice = await sent(client, "/ui/knowledge/new", **good, form="ab", every="1d")
        assert first.status_code == twice.status_code == 303
        again = await sent(client, "/ui/knowledge/new", **good, form="cd")
        assert again.status_code == 409 and "is running" in again.text
        (job,) = await api.penstock.jobs(workflow="ingestion")
        assert [each.name for each in await api.penstock.schedules()] == ["ingestion:kb"]
        assert link_of(job) == "/ui/knowledge/bases/kb"


@in_a_loop
async def test_what_needs_a_person_is_said(tmp_path: Path) -> None:
    broken = written(tmp_path / "empty", {})
    some = written(tmp_path / "some", {"a.md": "# A\n\nWater."})
    (some / "b.md").write_bytes(b"\x00\x01\x02 no text" * 40)
    async with house(tmp_path) as api:
        engine = api.penstock.engine
        assert await needs(engine, None) == []
        await filled(api, "nothing", broken)
        await filled(api, "some", some, tenant="acme")
        failed, errors = await needs(engine, None)
        assert (failed.title, failed.path) == ("The ingestion of nothing failed", "/ui/knowledge/bases/nothing")
        assert failed.grave and failed.dead_letters == 1 and not errors.grave
        assert (errors.title, errors.path) == ("1 error in some", "/ui/knowledge/bases/some/errors?tenant=acme")
        assert [each.title for each in await needs(engine, "acme")] == ["1 error in some"]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/knowledge.db"
    url: str = request.getfixturevalue("pgvector_url")
    return url


@in_a_loop
async def test_many_begin_at_once(store: str, tmp_path: Path) -> None:
    """Each finds an edition of its own, however many look for one in the same moment."""
    config = configured(written(tmp_path / "docs", {"a.md": "# A\n\nWater."}))
    async with Penstock(workflows=ALL, store=store) as app:
        jobs = [(await control.start(app, f"kb{number}", config)).job_id for number in range(8)]
        async with app.worker():
            ended = [await app.wait(job, timeout=30.0) for job in jobs]
        assert {job.status for job in ended} == {"completed"}, [job.error for job in ended]
        assert len(await app.engine.read("SELECT number FROM kb_editions")) == 8


@in_a_loop
async def test_documents_are_listed_by_address_and_found_by_how_they_begin(store: str, tmp_path: Path) -> None:
    texts = {f"{name}.md": f"# The {name}\n\nWater.\n\n## More of {name}\n\nStill water." for name in ("b", "c", "Ab")}
    config = configured(written(tmp_path / "docs", texts))
    async with Penstock(workflows=ALL, store=store) as app:
        async with app.worker():
            await app.wait((await control.start(app, "kb", config)).job_id, timeout=30.0)
        engine = app.engine
        ((edition,),) = await engine.read("SELECT number FROM kb_editions")
        found = await documents(engine, edition)
        assert [one.uri for one in found] == ["Ab.md", "b.md", "c.md"]
        assert [one.uri for one in await documents(engine, edition, prefix="aB")] == ["Ab.md"]
        assert [one.uri for one in await documents(engine, edition, prefix="THE c")] == ["c.md"]
        assert await documents(engine, edition, prefix="%") == []
        first = found[0]
        assert [one.uri for one in await documents(engine, edition, source=first.source, after=first.uri)] == [
            "b.md",
            "c.md",
        ]
        pieces = await chunks(engine, edition, first, 0)
        assert len(pieces) == first.chunks and pieces[0].text.startswith("# The Ab")
        assert await chunks(engine, edition, first, first.chunks) == []
        assert await needs(engine, None) == []


def test_the_words_of_the_question_are_marked_and_nothing_is_lost() -> None:
    words = Wanted('How does the café "open the VALVE"?')
    text = "Valves & cafés: open_the <b>valve</b>, reopen nothing; cafe\u0301!"
    pieces = marked(text, words)
    assert "".join(piece for piece, _ in pieces) == text
    assert [piece for piece, hit in pieces if hit] == ["Valves", "cafés", "open", "the", "valve", "cafe\u0301"]
    assert marked("anything", Wanted("the of")) and marked("", words) == []


def test_the_passage_is_where_the_words_are() -> None:
    text = "lorem ipsum dolor " * 300 + "the valve is opened by hand " + "sit amet " * 300
    start, end = passage(text, Wanted("open the valve by hand"))
    assert "valve is opened by hand" in text[start:end] and end - start <= SHOWN
    assert passage("short", Wanted("valve")) == (0, 5)
    assert readable("# T\n\n**Bold** [a](b.md)\n```console\n$ x `y`\n```\n- one\n") == "Bold a $ x y · one"


@pytest.mark.parametrize(
    ("uri", "seconds", "address"),
    [
        ("https://a.example/x?y=1#z", None, "https://a.example/x?y=1#z"),
        ("https://www.youtube.com/watch?v=abc&t=3", 65.4, "https://www.youtube.com/watch?v=abc&t=65s"),
        ("https://a.example/", 65.4, "https://a.example/"),
        ("javascript:alert(1)", None, ""),
        ("JavaScript:alert(1)//https://a.example", None, ""),
        ("data:text/html,<script>", None, ""),
        ("file:///etc/passwd", None, ""),
        ("https://user:secret@a.example/", None, ""),
        ("https://a.example\\@b.example/", None, ""),
        ("https:///nothing", None, ""),
        ("https://[nonsense", None, ""),
        ("https://a.example/\nx", None, ""),
        ("docs/a.md", None, ""),
    ],
)
def test_only_addresses_of_the_web_become_links(uri: str, seconds: float | None, address: str) -> None:
    assert address_of(uri, seconds) == address


def test_sources_and_errors_are_named_as_people_would() -> None:
    told = [SourceSpec.model_validate({"type": "youtube", **more}) for more in ({"files": ["a"]}, {"ids": ["b"]})]
    assert [kind_of(each) for each in told] == ["Subtitles", "YouTube"]
    assert plain("Permanent: a.pdf: it is locked") == "a.pdf: it is locked"
    assert plain("a.pdf: it is locked") == "a.pdf: it is locked"


def test_a_hit_says_where_it_stands() -> None:
    hit = Hit(0.5, "The valve.", "https://youtu.be/abc", "A film", {"start_seconds": 3725, "page": 3}, {}, 1)
    (film,) = shown([hit], "valve")
    assert (film.at, film.page, film.address) == ("1:02:05", "3", "https://youtu.be/abc?t=3725s")
    paper = replace(hit, position={"pages": [3, 5], "headings": ["A film", "Part"], "start_seconds": "x"}, score=0.25)
    second = shown([hit, paper], "valve")[1]
    assert (second.page, second.headings, second.at, second.full) == ("3 to 5", ("Part",), "", "50%")
    assert shown([replace(hit, score=0.0)], "valve")[0].full == "0%"
    assert clock(59) == "0:59" and pages_of({}) == ""


def status(word: str, docs: int, total: int | None, chunks: tuple[int, int, int], **more: Any) -> Status:
    seen, done, indexed = chunks
    phases = tuple(
        PhaseProgress(name=name, done=amount, total=of, seconds=seconds, active=False)
        for name, amount, of, seconds in (
            ("load", docs, total, 1.0),
            ("chunk", seen, None, 1.0),
            ("embed", done, seen, 6.0),
            ("index", indexed, seen, 2.0),
        )
    )
    counters = Counters(docs_seen=docs, chunks_seen=seen, chunks_processed=indexed).model_dump()
    return Status(
        id="r", kb_id="kb", tenant="default", job="j", status=word, started_at=0.0, finished_at=None, last_error=None,
        checkpoint=None, counters=counters, rates=Rates(docs_per_second=None, chunks_per_second=None), phases=phases,
        eta_seconds=None, documents_total=total, heartbeat_age=None, stalled=False, errors=0, reason=None,
        **{"plan": None, **more},
    )  # fmt: skip


def test_the_water_stands_lower_from_piece_to_piece() -> None:
    drawn = pipe(status("running", 50, 100, (400, 300, 200)))
    assert [piece.full for piece in drawn.pieces] == ["50%", "50%", "37.5%", "25%"]
    assert [round(piece.share, 1) for piece in drawn.pieces] == [0.1, 0.1, 0.6, 0.2] and drawn.done == 0.5
    unknown = pipe(status("running", 50, None, (400, 300, 0)))
    assert [piece.flows for piece in unknown.pieces] == [True, True, True, False] and unknown.done is None
    whole = pipe(status("completed", 100, 100, (400, 390, 390)))
    assert {piece.full for piece in whole.pieces} == {"100%"} and whole.done == 1.0
    nothing = pipe(status("not_started", 0, None, (0, 0, 0)))
    assert {(piece.full, piece.flows) for piece in nothing.pieces} == {("0%", False)}


def test_the_plan_stands_beside_what_it_came_to() -> None:
    told = status("completed", 10, 10, (40, 40, 40))
    rows = beside({"documents": 12, "chunks": 41, "cost": 1500, "seconds": 3.2, "tokens": None}, told, cost=1200)
    assert [(row.name, row.planned, row.real) for row in rows] == [
        ("Documents", "12", "10"),
        ("Chunks", "41", "40"),
        ("Cost", "$0.0015", "$0.0012"),
        ("Time", "3.2 s", "10 s"),
    ]


def test_the_tenant_is_in_the_address_where_it_must_be() -> None:
    everybody = Principal("a", frozenset({"read"}), None, "token")
    bound = Principal("b", frozenset({"read"}), "acme", "token")
    assert Paths("kb", "default", everybody)("search", q="a b") == "/ui/knowledge/bases/kb/search?q=a+b"
    assert Paths("kb", "acme", everybody)("runs") == "/ui/knowledge/bases/kb/runs?tenant=acme"
    assert Paths("kb", "acme", bound)("runs") == "/ui/knowledge/bases/kb/runs"
