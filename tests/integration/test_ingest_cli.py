"""`penstock ingest` as a user runs it: a folder that is filled into a knowledge base, looked at, asked, planned,
refreshed, paused, cancelled, verified, mended and deleted; and everything that is refused."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pytest
from rich.console import Console

from penstock.cli.ingest_bars import phases
from penstock.cli.ingest_live import LineIngest, LiveIngest, Watched, trouble
from penstock.cli.ingest_options import Given, configuration
from penstock.cli.ingest_search import emphasised, snippet, where
from penstock.cli.ingest_sources import sources_of
from penstock.cli.output import Output
from penstock.engine.errors import InvalidRequest
from penstock.pipelines.ingestion.model import Configuration
from penstock.pipelines.ingestion.samples import Site, make_site
from penstock.pipelines.ingestion.searching import Hit
from penstock.pipelines.ingestion.status import PhaseProgress, Rates, Status
from penstock.pipelines.ingestion.work import PHASES, Counters
from tests.support.cli import Cli, Said
from tests.support.openai import running_openai
from tests.support.schemas import keeps

PAGES = 8
TALK = "WEBVTT\n\n00:01:10.000 --> 00:01:14.000\nThe otter prefers cold porridge.\n"
LAST = "zz-broken.md"


class Desk:
    """The command line in a folder with a site of Markdown, a page of which is no text, and a subtitle file."""

    def __init__(self, folder: Path) -> None:
        self.cli = Cli(folder)
        del self.cli.environ["PENSTOCK_APP"]

    def __call__(self, *args: str, code: int = 0) -> Said:
        return self.cli.inside("ingest", *args, code=code)

    def run(self, kb: str = "docs") -> dict[str, Any]:
        told: dict[str, Any] = self("status", kb, "--json").json
        return told

    def page(self, name: str) -> Path:
        return self.cli.file("site") / name


def settled(folder: Path) -> Site:
    site = make_site(folder / "site", pages=PAGES)
    (folder / "site" / LAST).write_bytes(b"\x00\x01 no text")
    (folder / "talks").mkdir()
    (folder / "talks" / "otter.en.vtt").write_text(TALK)
    return site


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, Said, Site]:
    """One that was filled from the site, and one from the talk. Tests that change something take a copy."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    site = settled(desk.cli.folder)
    said = desk("start", "docs", "--markdown", "site", "--wait", code=1)
    desk("start", "talks", "--subtitles", "talks", "--tenant", "acme", "--wait", "--quiet")
    return desk, said, site


@pytest.fixture
def desk(first: tuple[Desk, Said, Site]) -> Desk:
    """To look at only."""
    return first[0]


@pytest.fixture
def mine(tmp_path: Path, first: tuple[Desk, Said, Site]) -> Iterator[Desk]:
    """A copy of it. Its sources are still those of the first."""
    folder = tmp_path / "desk"
    shutil.copytree(first[0].cli.folder, folder)
    desk = Desk(folder)
    yield desk
    desk.cli.stop()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.cli.stop()


def test_a_folder_is_filled_and_it_says_what_that_came_to(first: tuple[Desk, Said, Site]) -> None:
    desk, said, _ = first
    assert "No worker is alive: running the work in this process." in said.err
    assert "completed · 9/9 documents (100 %)" in said.err
    assert f"documents  {PAGES + 1}: {PAGES} new, 1 failed" in said.out and "errors     1\n" in said.out
    assert f"✗ docs has {PAGES} documents in" in said.err and "1 error: penstock ingest errors docs" in said.err
    assert "Try them again: penstock ingest resume docs --errors --wait" in said.err
    told = desk.run()
    assert (told["status"], told["errors"], told["counters"]["docs_error"]) == ("completed", 1, 1)
    assert [phase["name"] for phase in told["phases"]] == list(PHASES)


def test_lists_sheets_and_errors(desk: Desk) -> None:
    sheet = desk("status", "docs")
    assert "status      completed, with 1 error" in sheet.out and f"source      markdown {desk.page('')}" in sheet.out
    assert re.search(r"^load +9 documents", sheet.out, re.M) and "What failed: penstock ingest errors docs" in sheet.err
    run = desk.run()["id"]
    assert desk("status", run, "--json").json == desk.run()
    (listed,) = desk("list", "--tenant", "default", "--json").json["bases"]
    assert (listed["kb_id"], listed["documents"], listed["embedder"]["name"]) == ("docs", PAGES, "local")
    both = desk("list").out.splitlines()
    assert [line.split()[:3] for line in both[1:]] == [["docs", "default", "completed"], ["talks", "acme", "completed"]]
    page = desk("list", "-n", "1", "--json").json
    assert [each["kb_id"] for each in desk("list", "--after", page["next"], "--json").json["bases"]] == ["talks"]
    assert desk("runs", "docs").out.splitlines()[1].split()[:3] == [run, "completed", "9"]
    (error,) = desk("errors", "docs", "--json").json["errors"]
    assert (error["source"], error["chunk"], error["run"]) == (LAST, None, run) and "zero bytes" in error["error"]
    assert LAST in desk("errors", run).out
    assert "talks has no errors." in desk("errors", "talks", "-t", "acme").out


def test_a_question_finds_the_page_that_answers_it(first: tuple[Desk, Said, Site]) -> None:
    desk, _, site = first
    asked = site.questions[0]
    hits = desk("search", "docs", asked.text, "--top", "3", "--json").json
    keeps("ingest-search", hits)
    assert len(hits) == 3 and hits[0]["source"] == asked.page and asked.answer in hits[0]["text"]
    assert hits == sorted(hits, key=lambda hit: -hit["score"])
    shown = desk("search", "docs", asked.text, "--top", "1").out.splitlines()
    assert shown[0] == f"1. {hits[0]['title']}" and shown[1].startswith(f"   {asked.page}#")
    assert asked.answer in shown[2]
    assert desk("search", "docs", asked.text, "--mode", "text", "--json").json[0]["source"] == asked.page
    kept = desk("search", "docs", "controller", "--filter", "uri=start/*", "--mode", "vector", "--json").json
    assert kept and all(hit["source"].startswith("start/") for hit in kept)
    (talk,) = desk("search", "talks", "otter", "-t", "acme").out.split("\n\n")
    assert "subtitles:otter.en.vtt at 1:10" in talk
    assert "fit the filter" in desk("search", "docs", "lamp", "--filter", "tags=nonesuch").out


def test_a_file_of_questions_is_answered_line_by_line(first: tuple[Desk, Said, Site], tmp_path: Path) -> None:
    desk, _, site = first
    file = tmp_path / "questions.jsonl"
    one, two = site.questions[0], site.questions[-1]
    file.write_text(f"{json.dumps({'id': 7, 'question': one.text})}\n\n{json.dumps(two.text)}\n")
    lines = [json.loads(line) for line in desk("search", "docs", "--questions", str(file)).out.splitlines()]
    for line in lines:
        keeps("ingest-answer", line)
    assert [(line.get("id"), line["question"]) for line in lines] == [(7, one.text), (None, two.text)]
    assert [line["hits"][0]["source"] for line in lines] == [one.page, two.page]
    file.write_text('"good"\n{"id": 1}\n')
    assert f"line 2 of {file} has no question" in desk("search", "docs", "--questions", str(file), code=2).sentence
    file.write_text("what is this?\n")
    assert "line 1" in desk("search", "docs", "--questions", str(file), code=2).sentence
    file.write_text("\n")
    assert "there is no question in" in desk("search", "docs", "--questions", str(file), code=2).sentence
    assert "nowhere cannot be read" in desk("search", "docs", "--questions", "nowhere", code=2).sentence


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("status dcos", "there is no knowledge base or run 'dcos'; did you mean docs?"),
        ("search Docs x", "did you mean docs?"),
        ("runs zebra", "there is no knowledge base 'zebra'; there are: docs (`penstock ingest list`)"),
        ("start zebra --wait", "'zebra': to make it, name a source, such as --markdown FOLDER; there are: docs"),
        ("start docs --every 1y", "must be a length of time that divides a day, or a week: a number with m, h, d or w"),
        ("verify talks", "there is one of tenant acme: --tenant acme"),
        ("verify docs -t nobody", "there is one of tenant default: --tenant default"),
        ("pause docs", "is completed: it cannot be paused"),
        ("resume docs", "is completed: it cannot be resumed"),
        ("cancel docs", "is completed: it cannot be cancelled"),
        ("start docs --chunker sentence", "'docs' was filled otherwise (chunker is markdown, not sentence)"),
        ("plan docs --dimension 64", "'docs' was filled otherwise (dimension is 256, not 64)"),
        ("start docs --every 7m", "every must be a part of an hour or a day"),
        ("start docs --every soon", "'soon' must be a length of time"),
        ("search docs", "ask one QUESTION, or those of a file with --questions"),
        ("search docs x --questions y", "ask one QUESTION"),
        ("search docs x --filter lang", "--filter: 'lang' must be a name and a value"),
        ("search docs x --filter a=1 --filter a=2", "--filter: a is named twice"),
        ("search docs x --top 0", "'0' must be a whole number from 1 to 100"),
        ("delete docs", "there is no terminal to ask on: add --yes"),
    ],
)
def test_what_cannot_be_is_one_sentence(desk: Desk, command: str, told: str) -> None:
    assert told in desk(*command.split(), code=2).sentence


def test_wrong_sources_are_refused_before_there_is_a_store(empty: Desk) -> None:
    for name in ("here", "bare"):
        empty.cli.file(name).mkdir()
    empty.cli.file("here/a.md").write_text("# A\n")
    for args, told in (
        (("--markdown", "bare"), "--markdown: there is no .md, .markdown, .mdx or .txt file in bare or below it"),
        (("--pdf", "here"), "--pdf: there is no .pdf file in here or below it"),
        (("--subtitles", "here"), "--subtitles: there is no .vtt, .srt or .sbv file in here"),
        (("--markdown", "nowhere"), "--markdown: there is no folder or file nowhere"),
        (("--pdf", "here/a.pdf"), "--pdf: there is no folder or file here/a.pdf"),
        (("--markdown", "https://example.org/"), "is an address, not a folder or a file: --website reads sites"),
        (("--website", "example.org"), "'example.org' is no address"),
        (("--youtube", "a film"), "'a film' is neither a video nor a playlist"),
        (("--source", "{"), "--source is not JSON"),
        (("--source", '{"path": "here"}'), "--source must be an object with a type"),
        (("--source", '{"type": "pdf", "paths": ["no.pdf"]}'), "--source: paths: there is no folder or file no.pdf"),
        (("--markdown", "here", "--prefix", "/docs/"), "--prefix is for --website"),
        (("--markdown", "here", "--language", "de"), "--language is for --youtube"),
        (("--markdown", "here", "--store", "memory://"), "memory:// cannot hold a knowledge base"),
    ):
        assert told in empty("start", "docs", *args, code=2).sentence
    assert "a knowledge base's name is" in empty("start", "a b", "--markdown", "here", code=2).sentence
    for command in (("start", "docs"), ("status", "docs"), ("search", "docs", "x"), ("plan", "docs")):
        sentence = empty(*command, code=2).sentence
        assert "there is no knowledge base 'docs', and no store" in sentence
        assert "`penstock ingest start docs --markdown FOLDER`" in sentence
    assert not empty.cli.file(".penstock").exists()


def test_each_thing_that_is_named_is_a_source_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.pdf").touch()
    (tmp_path / "papers").symlink_to(tmp_path)
    said = Given(
        markdown=("./papers",), pdf=("a.pdf", "https://example.org/b.pdf"), website=("https://example.org/",),
        youtube=("https://youtu.be/dQw4w9WgXcQ", "PL1234567890ab"), subtitles=("papers",), prefix="/en/", delay=0.5,
        language=("de", "en"), source=('{"type": "pdf", "paths": ["a.pdf"]}', '{"type": "wiki", "path": "Main/Page"}'),
    )  # fmt: skip
    assert sources_of(said) == [
        {"type": "markdown", "path": f"{tmp_path}/papers"},
        {"type": "pdf", "path": f"{tmp_path}/a.pdf"},
        {"type": "pdf", "urls": ["https://example.org/b.pdf"]},
        {"type": "website", "url": "https://example.org/", "prefix": "/en/", "delay": 0.5},
        {"type": "youtube", "ids": ["dQw4w9WgXcQ"], "languages": ["de", "en"]},
        {"type": "youtube", "playlists": ["PL1234567890ab"], "languages": ["de", "en"]},
        {"type": "youtube", "files": [f"{tmp_path}/papers"]},
        {"type": "pdf", "paths": [f"{tmp_path}/a.pdf"]},
        {"type": "wiki", "path": "Main/Page"},
    ]
    again = "--pdf a.pdf --pdf https://example.org/b.pdf --website https://example.org/"
    assert again in said.words() and "--delay 0.5" in said.words() and "--language de --language en" in said.words()


def test_what_is_said_is_laid_over_what_is_kept() -> None:
    folder = [{"type": "markdown", "path": "/docs"}]
    kept = Configuration.model_validate(
        {"sources": folder, "chunker": {"name": "fixed", "size": 400, "overlap": 100}, "prune": True,
         "embedder": {"name": "gemini", "model": "m", "dimension": 768, "batch": True}}
    )  # fmt: skip
    assert configuration(Given(), [], kept) is None
    small = configuration(Given(size=100), [], kept)
    assert small is not None and small.prune
    assert (small.chunker.name, small.chunker.size, small.chunker.overlap) == ("fixed", 100, 18)
    other = configuration(Given(embedder="local", prune=False), [], kept)
    assert other is not None and not other.prune
    assert (other.embedder.model, other.embedder.dimension, other.embedder.batch) == (None, None, False)
    model = configuration(Given(model="n"), [], kept)
    assert model is not None and (model.embedder.name, model.embedder.dimension) == ("gemini", None)
    fresh = configuration(Given(size=200), folder, kept)
    assert fresh is not None and fresh.chunker.overlap == 37 and fresh.chunker.model_fields_set == {"size", "overlap"}
    with pytest.raises(InvalidRequest, match=r"chunker: overlap must be at most half of size \(400\), not 500"):
        configuration(Given(overlap=500), folder, None)


def test_a_plan_makes_no_store_and_says_how_to_go_on(empty: Desk) -> None:
    settled(empty.cli.folder)
    said = empty("plan", "docs", "--markdown", "site", "--size", "200")
    assert f"documents  {PAGES + 1} (1 unreadable)" in said.out and "money      nothing" in said.out
    assert "are exact" in said.err and "Next: penstock ingest start docs --markdown site --size 200 --wait" in said.err
    assert not empty.cli.file(".penstock").exists()


def test_a_refresh_reads_what_changed_and_is_held_against_its_plan(mine: Desk) -> None:
    make_site(mine.page(""), pages=PAGES)
    mine("start", "docs", "--markdown", "site", "--prune", "--wait", "--quiet", code=1)
    mine.page(LAST).unlink()
    changed = next(mine.page("start").glob("*.md"))
    changed.write_text(changed.read_text() + "\nThe otter keeps the spare fuse.\n")
    planned = mine("plan", "docs", "--json").json
    assert (planned["documents"], planned["unchanged"], planned["exact"]) == (PAGES, PAGES - 1, True)
    said = mine("start", "docs", "--wait")
    assert (
        f"documents  {PAGES}: {PAGES - 1} unchanged, 1 replaced (as planned)" in said.out and "✓ docs has" in said.err
    )
    assert mine("search", "docs", "who keeps the spare fuse", "--json").json[0]["source"].endswith(changed.name)
    assert mine("errors", mine.run()["id"], "--json").json["errors"] == []
    assert mine.run()["plan"]["chunks"] == mine.run()["counters"]["chunks_seen"]
    assert mine.cli.inside("jobs", "list", "-w", "ingestion.purge", "--status", "queued", "--json").json["jobs"] == []
    rebuilt = mine("start", "docs", "--rebuild", "--size", "64", "--wait", "--json").json["run"]
    assert rebuilt["counters"]["chunks_processed"] > planned["chunks"]
    assert mine("list", "--tenant", "default", "--json").json["bases"][0]["chunker"]["size"] == 64


def test_without_a_worker_a_run_is_kept_paused_resumed_and_cancelled(mine: Desk) -> None:
    said = mine("start", "more", "--markdown", "site")
    run = said.out.strip()
    assert "No worker is alive: start one with `penstock up`, or do the work here:" in said.err
    state = (
        f"run {run} of 'more' is running, but no worker is alive; go on with it: `penstock ingest resume more --wait`"
    )
    assert state in mine("start", "more", code=2).sentence
    assert "and no worker is alive" in mine("resume", "more", code=2).sentence
    assert f"Run {run} of more is paused." in mine("pause", "more").out
    assert "is paused; go on with it" in mine("start", "more", code=2).sentence
    assert "it cannot be paused" in mine("pause", run, code=2).sentence
    assert "Go on: penstock ingest resume more --wait" in mine("status", "more").err
    assert "There is nothing in more yet" in mine("search", "more", "x").err
    assert mine("resume", "more").out.strip() == run
    mine("resume", "more", "--wait", "--quiet", code=1)
    assert mine.run("more")["id"] == run and mine.run("more")["status"] == "completed"
    again = mine("start", "more", "--json").json["run"]
    assert "is being canceled: it had indexed nothing" in mine("cancel", "more").out
    finish = (
        "is being canceled; no worker is alive to do it: `penstock up`, or do it here: `penstock ingest cancel more"
    )
    for command in (("start", "more"), ("delete", "more", "--yes")):
        assert finish in mine(*command, code=2).sentence
    gone = mine("cancel", again["id"], "--wait", "--json").json
    assert (gone["run"]["status"], gone["run"]["last_error"]) == ("not_started", "Canceled by user")
    assert "not started" in mine("status", "more").out
    assert "fill it once more: `penstock ingest start more`" in mine("resume", "more", code=2).sentence


def test_errors_are_tried_again_and_nothing_else(mine: Desk) -> None:
    """The sources are the first desk's: this one's run looks there."""
    original = Path(mine("list", "--json").json["bases"][0]["sources"][0]["path"]) / LAST
    content = original.read_bytes()
    try:
        original.write_text("# Mended\n\nThe otter was let in at last.\n")
        said = mine("resume", "docs", "--errors", "--wait")
    finally:
        original.write_bytes(content)
    assert "tries again what could not be indexed" in said.err and "documents  1: 1 new" in said.out
    assert "'docs' has no errors to retry" in mine("resume", "docs", "--errors", code=2).sentence
    assert mine("search", "docs", "otter", "--mode", "text", "--json").json[0]["title"] == "Mended"


def test_what_is_damaged_is_told_in_words_and_mended(mine: Desk) -> None:
    assert "docs is sound" in mine("verify", "docs").out
    database = sqlite3.connect(mine.cli.file(".penstock/penstock.db"))
    (edition,) = database.execute("SELECT edition FROM kb_bases WHERE id = 'docs'").fetchone()
    database.execute(f"DELETE FROM kb{edition}_vectors WHERE chunk <= 2")
    database.execute(f"INSERT INTO kb{edition}_vectors SELECT 999, vector FROM kb{edition}_vectors LIMIT 1")
    database.commit()
    database.close()
    said = mine("verify", "docs", code=1)
    assert re.search(r"^chunks that have no vector in the index +2 +1, 2$", said.out, re.M)
    assert "ledger and index of 'docs' differ" in said.err and "Mend it: penstock ingest repair docs --wait" in said.err
    faults = mine("verify", "docs", "--json", code=1).json["faults"]
    assert [(fault["fault"], fault["count"]) for fault in faults] == [("no_vector", 2), ("stray_vector", 1)]
    assert "or do the work here: `penstock ingest repair docs --wait`" in mine("repair", "docs").err
    mended = mine("repair", "docs", "--wait")
    assert "2 chunks indexed again" in mended.out and "1 stray entry of the index removed" in mended.out
    assert mine("verify", "docs", "--json").json["sound"]
    assert "nothing to mend" in mine("repair", "docs", "--wait").out


def test_a_schedule_is_set_shown_and_ended(mine: Desk) -> None:
    said = mine("start", "docs", "--every", "1w", "--wait", code=1)
    assert "docs is refreshed by itself, next in 7 d." in said.err
    assert mine("list", "--json").json["bases"][0]["schedule"]["next_due"]
    assert "in 7 d" in mine("list").out
    assert "no longer refreshed by itself" in mine("start", "docs", "--every", "never").out
    assert mine("list", "--json").json["bases"][0]["schedule"] is None
    assert len(mine("runs", "docs", "--json").json["runs"]) == 2, "ending a schedule starts nothing"


def test_a_knowledge_base_is_deleted_with_all_that_is_in_it(mine: Desk) -> None:
    told = mine("delete", "docs", "--yes", "--json", "--as", "anna").json
    keeps("ingest-delete", told)
    assert (told["documents"], told["status"]) == (PAGES, "queued")
    assert "there is no knowledge base or run 'docs', and no other" in mine("status", "docs", code=2).sentence
    mine("delete", "talks", "-t", "acme", "--yes", "--wait")
    assert "There are no knowledge bases" in mine("list").out
    database = sqlite3.connect(mine.cli.file(".penstock/penstock.db"))
    assert database.execute("SELECT COUNT(*) FROM kb_chunks").fetchone() == (0,)
    database.close()
    (entry,) = mine.cli.inside("audit", "--actor", "anna", "--json").json["entries"]
    assert entry["action"] == "ingestion.forget"


def test_ctrl_c_leaves_a_run_that_goes_on_and_cancel_takes_out_what_it_wrote(empty: Desk) -> None:
    """The embedder answers for one document, and never for the second."""
    for number, text in enumerate(("The first page.", "The second page."), 1):
        empty.cli.file("site").mkdir(exist_ok=True)
        empty.page(f"{number}.md").write_text(f"# Page {number}\n\n{text}\n")
    with running_openai() as server:
        server.will(200, server.answer({"model": "tiny", "input": ["one chunk"]}))
        server.hang()
        empty.cli.environ |= {
            "PENSTOCK_OPENAI__BASE_URL": server.url, "PENSTOCK_INGESTION__BATCH": "1", "PENSTOCK_GRACE": "0.1",
        }  # fmt: skip
        by = ("--embedder", "openai", "--model", "tiny", "--dimension", "8")
        waiting = empty.cli.start("ingest", "start", "docs", "--markdown", "site", *by, "--wait")
        empty.cli.until(lambda: len(server.asked) == 2, "the second page to be embedded")
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(30) == 130
        log = empty.cli.log
        assert "Interrupted: the step that is running has up to 0.1 s to finish" in log
        assert "1 document done. The rest is safe: it goes on when a worker runs, `penstock up`, or here:" in log
        assert "`penstock ingest resume docs --wait`" in log
        told = empty.run()
        assert (told["status"], told["counters"]["docs_seen"], told["documents_total"]) == ("running", 1, 2)
        gone = empty("cancel", "docs", "--wait")
    assert "what it wrote (1 chunk of 1 document) was taken out" in gone.out
    assert empty("list", "--json").json["bases"][0]["chunks"] == 0


def test_where_a_worker_is_alive_it_only_watches(mine: Desk) -> None:
    mine.cli.start_worker()
    said = mine("start", "more", "--markdown", "site", "--wait", code=1)
    assert "in this process" not in said.err and "✗ more has 8 documents" in said.err
    started = mine("start", "more")
    assert "How far it is: penstock ingest status more --watch" in started.err
    lines = [json.loads(line) for line in mine("status", "more", "--watch", "--json", code=1).out.splitlines()]
    for line in lines:
        keeps("ingest-status", line)
    assert lines[-1]["status"] == "completed" and lines[-1]["id"] == started.out.strip()
    assert mine("delete", "more", "--yes", "--wait", "--json").json["status"] == "completed"


def status(seen: int = 0, total: int | None = 100, word: str = "running", **more: Any) -> Status:
    counters = Counters(docs_seen=seen, chunks_seen=2 * seen, chunks_processed=2 * seen, docs_unchanged=seen // 4)
    told: dict[str, Any] = {
        "id": "01run", "kb_id": "docs", "tenant": "default", "job": "01run", "status": word, "started_at": 1000.0,
        "finished_at": None, "last_error": None, "checkpoint": None, "counters": counters.model_dump(),
        "rates": Rates(docs_per_second=12.5 if seen else None, chunks_per_second=25.0 if seen else None),
        "phases": tuple(
            PhaseProgress(name=name, done=seen if name == "load" else 2 * seen, total=total if name == "load" else None,
                          seconds=0.5 if seen else 0.0, active=name == "embed")
            for name in PHASES
        ),
        "eta_seconds": 4.0 if seen and word == "running" else None, "documents_total": total, "heartbeat_age": 0.2,
        "stalled": False, "errors": 0, "plan": None, "reason": None,
    }  # fmt: skip
    return Status(**{**told, **more})


def test_a_log_gets_a_line_for_each_tenth_and_for_what_changes(capsys: pytest.CaptureFixture[str]) -> None:
    watched = Watched()
    view = LineIngest(Output(json=False, quiet=False), {}, watched)
    steps = [status(0), status(5), status(6), status(15), status(15, errors=1), status(15, stalled=True), status(15)]
    for second, told in enumerate(steps):
        watched.status = told
        view.show(1000.0 + second)
    watched.status = status(16)
    view.show(1007.0)
    view.show(1030.0)
    watched.status = status(100, word="completed")
    view.show(1031.0)
    lines = [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()]
    assert lines[0] == ("5/100 documents (5 %), 10 chunks indexed · 1 unchanged · 12 documents/s · about 4.0 s left")
    assert [line.split()[0] for line in lines] == ["5/100", "15/100", "15/100", "no", "15/100", "16/100", "completed"]
    assert "1 error" in lines[2]


@pytest.mark.parametrize("width", [50, 80, 140])
def test_a_terminal_shows_four_bars_whatever_its_width(width: int) -> None:
    watched = Watched(status(40, errors=2, last_error="a.md: it is\nno text"))
    console = Console(file=StringIO(), width=width, height=20, force_terminal=True, color_system=None)
    view = LiveIngest(Output(json=False, quiet=False), {}, watched)
    view.show(1003.0)
    view.remark("No worker is alive")
    console.print(view)
    shown = str(console.file.getvalue())  # type: ignore[attr-defined]
    lines = [line.rstrip() for line in shown.splitlines()]
    assert all(len(line) <= width for line in lines)
    assert "docs" in lines[0] and "3.0 s" in lines[0] and "about 4.0 s left" in lines[0]
    assert [line.split()[0] for line in lines[1:5]] == ["load", "chunk", "▸", "index"]
    assert "40 of 100 documents" in lines[1] and "━" in lines[1] and "12/s" in lines[1]
    assert "2 errors" in lines[5] and "last error: a.md: it is no text" in lines[6] and "No worker" in lines[7]
    for word in ("paused", "failed", "canceled", "not_started", "completed"):
        watched.status = status(0, None, word)
        console.print(view)


def test_chunks_are_expected_as_the_documents_before_had_them() -> None:
    load, chunk, *_ = phases(status(25))
    assert (load.total, chunk.total, chunk.amount) == (100, 200, "50 chunks")
    assert [phase.total for phase in phases(status(25, None))] == [None] * 4
    assert all(phase.complete and phase.total == phase.done for phase in phases(status(100, word="completed")))
    assert trouble(None) == ""


def test_a_snippet_is_where_most_of_the_words_stand() -> None:
    filler = "Nothing of the kind is written here, and nobody asks. " * 12
    text = f"# Alarms\n\n{filler}An alarm rings.\n\n## Silence\n\nTo silence an alarm, press `mute`. {filler}"
    shown = snippet(text, "How do I silence alarms?")
    assert shown.text.startswith("… To silence an alarm, press `mute`.") and shown.text.endswith("…")
    hit = Hit(0.5, text, "guides/alarms.md", "Alarms", {"headings": ["Alarms"]}, {}, 1, ("copy.md", "b.md"))
    assert where(hit, shown) == "guides/alarms.md#Silence (and in copy.md and 1 more)"
    drawn = emphasised(shown.text, "How do I silence alarms?")
    assert [drawn.plain[span.start : span.end] for span in drawn.spans] == ["silence", "alarm"]
    assert snippet("short", "nothing").text == "short" and snippet(filler, "").text.startswith("Nothing")
    paged = Hit(0.5, "x", "a.pdf", "A", {"page": 3, "pages": [3, 4]}, {}, 1)
    assert where(paged, snippet("x", "x")) == "a.pdf, pages 3 to 4"
    filmed = Hit(0.5, "x", "https://youtu.be/x", "A", {"start_seconds": 3725.4}, {}, 1)
    assert where(filmed, snippet("x", "x")) == "https://youtu.be/x at 1:02:05"


def test_hits_are_harmless_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.cli.ingest_search import show_hits

    monkeypatch.setattr(Output, "fancy", property(lambda self: True))
    monkeypatch.setenv("COLUMNS", "60")
    evil = Hit(0.4, "x \x1b[31m red otter", "a\x1b]0;t\x07.md", "Title \x1b[2J", {"headings": []}, {}, 1)
    show_hits(Output(json=False, quiet=False), "otter", [evil, evil])
    shown = click.unstyle(capsys.readouterr().out)
    assert "\x1b" not in shown and "\x07" not in shown and shown.count("██████████ 0.4000") == 2
