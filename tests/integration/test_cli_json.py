"""Every `--json` output has a schema, and every schema is kept by a real output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from penstock.engine.call import STATES
from tests.support.cli import Cli
from tests.support.gemini import running_gemini
from tests.support.pages import SCRIPT, Library
from tests.support.receiver import Receiver
from tests.support.schemas import SCHEMAS, keeps
from tests.support.shop import ShopCli, opened_shop
from tests.support.up import Up

PARTS = {
    "job",
    "job-summary",
    "job-log",
    "event",
    "call",
    "call-summary",
    "budget",
    "token",
    "webhook",
    "pages-overview",
    "invoice",
    "extraction",
    "document",
    "review-item",
    "ingest-hit",
}
"""What other schemas refer to."""

OF_JOBS = {
    "init", "migrate", "doctor", "demo", "up", "log-line",
    "jobs-submit", "jobs-control", "jobs-list", "jobs-show", "jobs-logs", "jobs-wait",
}  # fmt: skip
OF_CALLS = {"calls-list", "calls-show", "calls-decide", "costs", "costs-budget-list", "costs-budget-change"}
OF_ACCESS = {"tokens-create", "tokens-list", "tokens-revoke", "audit"}
OF_WEBHOOKS = {"webhooks-list", "webhooks-test"}
OF_PAGES = {
    "pages-init", "pages-samples", "pages-plan", "pages-run", "pages-dry-run", "pages-status", "pages-failures",
    "pages-failure-groups", "pages-retry", "pages-rescan",
}  # fmt: skip
OF_DOCUMENTS = {
    "documents-samples", "documents-add", "documents-ended", "documents-list", "documents-show", "documents-export",
    "documents-again", "documents-delete", "review-list", "review-show", "review-decide", "review-assign",
    "review-audit",
}  # fmt: skip
OF_INGESTION = {
    "ingest-samples", "ingest-plan", "ingest-run", "ingest-status", "ingest-list", "ingest-runs", "ingest-errors",
    "ingest-search", "ingest-answer", "ingest-verify", "ingest-repair", "ingest-cancel", "ingest-delete",
}  # fmt: skip
OF_GEMINI = {"gemini-serve", "gemini-status", "gemini-stop", "gemini-journal", "gemini-faults"}


class Checked:
    """Runs commands with `--json` and remembers which schemas their outputs kept."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        self.kept: set[str] = set()

    def __call__(self, name: str, *args: str, code: int = 0, text: str | None = None) -> Any:
        return self.keeps(name, self.cli(*args, "--json", code=code, text=text).json)

    def keeps(self, name: str, value: Any) -> Any:
        keeps(name, value)
        self.kept.add(name)
        return value


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    cli.stop()


def test_what_is_said_about_jobs(cli: Cli) -> None:
    check = Checked(cli)
    cli.file("flow.py").rename(cli.file("old.py"))
    check("init", "init")
    cli.file("old.py").rename(cli.file("flow.py"))
    check("migrate", "migrate", "--check")
    first = check("jobs-submit", "jobs", "submit", "hello", "--payload", '"a"', "--key", "k", "--after", "1h")["job"][
        "id"
    ]
    failed = check("jobs-submit", "jobs", "submit", "bad", "--payload", "1", "--wait", code=1)["job"]["id"]
    check("jobs-control", "jobs", "pause", first, "nonesuch", code=2)
    check("jobs-control", "jobs", "resume", first)
    check("jobs-list", "jobs", "list")
    check("jobs-show", "jobs", "show", failed)
    check("jobs-logs", "jobs", "logs", failed)
    check("jobs-wait", "jobs", "wait", failed, code=1)
    check("jobs-control", "jobs", "retry", failed)
    check("jobs-control", "jobs", "cancel", first)
    check("doctor", "doctor")
    check("migrate", "migrate")
    check("demo", "demo", "--exit")
    assert cli.start("worker", "--json", "--stop-when-idle", "100ms").wait(30) == 0
    for line in cli.log.splitlines():
        check.keeps("log-line", json.loads(line))
    before = len(cli.log)
    up = Up(cli)
    check.keeps("up", up.facts)
    assert up.get("/api/v1/jobs").status_code == 200
    assert up.stop() == 0
    for line in cli.log[before:].splitlines():
        told = json.loads(line)
        if told != up.facts:
            check.keeps("log-line", told)
    assert check.kept == OF_JOBS


def test_what_is_said_about_calls_and_money(tmp_path: Path) -> None:
    async def stock() -> Any:
        async with opened_shop(tmp_path) as shop:
            return await shop.every_state()

    check = Checked(ShopCli(tmp_path))
    found = asyncio.run(stock())
    assert set(found) == set(STATES)
    check("costs-budget-change", "costs", "budget", "set", "tenant:acme", "0.2")
    check("costs-budget-change", "costs", "budget", "set", f"job:{found['running'].job}", "$1,000")
    check("costs-budget-list", "costs", "budget", "list")
    check("costs-budget-change", "costs", "budget", "remove", "tenant:acme")
    listed = check("calls-list", "calls", "list")["calls"]
    assert {call["state"] for call in listed} == set(STATES)
    for state in ("collected", "quarantined", "intent"):
        check("calls-show", "calls", "show", found[state].id)
    check("jobs-show", "jobs", "show", found["collected"].job)
    check("costs", "costs", "--by", "tenant", "--by", "day", "--by", "job")
    check("costs", "costs", "--tenant", "nonesuch")
    check("calls-decide", "calls", "discard", found["quarantined"].id, "nonesuch", code=2)
    assert check.kept == OF_CALLS | {"jobs-show"}


def test_what_is_said_about_access(cli: Cli) -> None:
    check = Checked(cli)
    check("tokens-create", "tokens", "create", "ci")
    check("tokens-create", "tokens", "create", "acme", "-s", "operate", "-s", "review", "-t", "acme", "--expires", "1d")
    assert check("tokens-revoke", "tokens", "revoke", "ci")["token"]["state"] == "revoked"
    assert len(check("tokens-list", "tokens", "list")["tokens"]) == 2
    assert len(check("audit", "audit", "--limit", "2")["entries"]) == 2
    assert check.kept == OF_ACCESS


def test_what_is_said_about_webhooks(cli: Cli) -> None:
    check = Checked(cli)
    with Receiver(204, 500) as receiver:
        addresses = {"ops": receiver.url, "old": "http://127.0.0.1:1/"}
        hooks = {name: {"url": url, "secret": "x" * 16} for name, url in addresses.items()}
        cli.file("penstock.yaml").write_text(yaml.safe_dump({"webhooks": hooks}))
        assert len(check("webhooks-list", "webhooks", "list")["webhooks"]) == 2
        assert check("webhooks-test", "webhooks", "test", "ops")["status"] == 204
        assert check("webhooks-test", "webhooks", "test", "ops", code=1)["status"] == 500
        assert check("webhooks-test", "webhooks", "test", "old", code=1)["status"] is None
        for said in (cli("webhooks", "list"), cli("webhooks", "test", "ops"), cli("webhooks", "test", "none", code=2)):
            assert "a-path-nobody-may-see" not in said.out + said.err
    assert {got.headers["Penstock-Event"] for got in receiver.received} == {"webhook.test"}
    assert check.kept == OF_WEBHOOKS


def test_what_is_said_about_the_local_gemini(cli: Cli) -> None:
    check = Checked(cli)
    check("gemini-status", "gemini", "status", code=1)
    server = cli.start("gemini", "serve", "--backend", "script", "--port", "0", "--json")
    cli.until(lambda: "\n" in cli.log and "answers at" in cli.log, "the local Gemini to be ready")
    check.keeps("gemini-serve", json.loads(cli.log.splitlines()[0]))
    check("gemini-status", "gemini", "status")
    check("gemini-faults", "gemini", "faults", "set", "-", text='[{"kind": "row_error", "rate": 0.5, "match": "x"}]')
    check("gemini-journal", "gemini", "journal")
    check("gemini-stop", "gemini", "stop")
    assert server.wait(30) == 0
    assert check.kept == OF_GEMINI


def test_what_is_said_about_pages(cli: Cli) -> None:
    check = Checked(cli)

    def said(name: str, verb: str, *args: str, code: int = 0) -> Any:
        """In this process, which is quicker."""
        return check.keeps(name, cli.inside("pages", verb, *args, "--json", code=code).json)

    said("pages-init", "init", "first.yaml")
    said("pages-samples", "samples", "shelf", "--books", "1", "--pages", "1")
    library = Library(cli.folder, {"Ohio/Oberlin/1850": [1, 2], "Ohio/Kenyon/1850": [3]})
    library.image("Ohio/Kenyon/1850", 3).unlink()
    told = library.run(execution={"batch_size_limit": 1}).model_dump(mode="json")
    cli.file("pages.yaml").write_text(yaml.safe_dump(told))
    with running_gemini() as gemini:
        gemini.script(SCRIPT)
        del cli.environ["PENSTOCK_APP"]
        cli.environ |= {"PENSTOCK_GEMINI__BASE_URL": gemini.url, "PENSTOCK_GEMINI__API_KEY": "key"}
        assert said("pages-plan", "plan")["without_image"] == 1
        assert said("pages-dry-run", "run", "--dry-run")["first"] == [{"key": "Ohio:Oberlin:1850:0001", "waiting": 2}]
        assert said("pages-run", "run", "--once")["did"]["batches_sent"] == 1
        assert len(said("pages-status", "status")["batches"]) == 1
        ended = said("pages-run", "run", code=1)
        assert (ended["overview"]["done"], ended["overview"]["dead"]) == (2, 1)
    assert said("pages-plan", "plan")["assumed"]["measured"]
    (book,) = said("pages-status", "status", ended["run"]["id"])["books"]
    assert book["dead"] == 1
    assert [failure["type"] for failure in said("pages-failures", "failures")["failures"]] == ["image"]
    assert said("pages-failure-groups", "failures", "--by", "state")["groups"][0]["group"] == "Ohio"
    assert said("pages-retry", "retry", "--dry-run")["pages"] == 1
    said("pages-rescan", "rescan", "--state", "Ohio")
    assert check.kept == OF_PAGES


def test_what_is_said_about_documents_and_reviews(cli: Cli) -> None:
    """One e-invoice whose page says otherwise, so that there is everything to tell of it; and a file that fails."""
    check = Checked(cli)

    def said(name: str, *args: str, code: int = 0) -> Any:
        """In this process, which is quicker."""
        return check.keeps(name, cli.inside(*args, "--json", code=code).json)

    del cli.environ["PENSTOCK_APP"]
    cli.environ["PENSTOCK_LOCAL_GEMINI__USE"] = "always"
    made = said("documents-samples", "documents", "samples", "inbox", "--count", "1", "--kind", "facturx_conflict")
    path = made["documents"][0]["path"]
    cli.file("broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    (failed,) = cli.inside("documents", "add", "broken.pdf", "--wait", "--json", code=1).out.splitlines()
    broken = check.keeps("documents-ended", json.loads(failed))["document_id"]
    first = check.keeps("documents-ended", cli.inside("documents", "add", path, "--wait", "--json").json)
    assert first["result"]["findings"]
    document, item = first["document_id"], first["review_item_id"]
    said("review-decide", "review", "correct", item, "total=17")
    said("documents-show", "documents", "show", broken)
    shown = said("documents-show", "documents", "show", document)
    assert shown["locks"] and shown["differences"]
    said("review-show", "review", "show", item)
    assert said("review-audit", "review", "audit", item)["entries"]
    said("documents-show", "review", "unlock", document, "total")
    said("review-decide", "review", "claim", item, "nonesuch", "--reopen", code=2)
    said("review-decide", "review", "release", item)
    assert said("review-assign", "review", "assign", "--reviewers", "ann")["assigned"]
    assert said("review-list", "review", "list")["items"]
    assert said("documents-export", "documents", "export", "--format", "csv", "-o", "all.csv")["documents"] == 1
    said("documents-again", "documents", "retry", broken, document, code=2)
    said("documents-add", "documents", "add", "inbox")
    assert len(said("documents-list", "documents", "list")["documents"]) == 3
    said("documents-delete", "documents", "delete", document, "--yes")
    assert check.kept == OF_DOCUMENTS


def test_what_is_said_about_knowledge_bases(cli: Cli) -> None:
    """A site of which one page is no text, so that there is an error to tell of."""
    check = Checked(cli)

    def said(name: str, *args: str, code: int = 0) -> Any:
        """In this process, which is quicker."""
        return check.keeps(name, cli.inside("ingest", *args, "--json", code=code).json)

    del cli.environ["PENSTOCK_APP"]
    made = said("ingest-samples", "samples", "try", "--pages", "3", "--pdfs", "1")
    assert cli.file(made["questions_file"]).read_text().count("\n") == made["questions"]
    cli.file("try/site/broken.md").write_bytes(b"\x00")
    assert said("ingest-plan", "plan", "docs", "--markdown", "try/site")["unreadable"] == 1
    first = said("ingest-run", "start", "docs", "--markdown", "try/site", "--every", "1d")["run"]
    assert said("ingest-run", "pause", "docs")["run"]["status"] == "paused"
    said("ingest-run", "resume", "docs")
    assert said("ingest-run", "resume", "docs", "--wait", code=1)["run"]["id"] == first["id"]
    said("ingest-plan", "plan", "docs")
    said("ingest-run", "start", "docs", "--wait", code=1)
    assert said("ingest-status", "status", "docs")["plan"]
    assert said("ingest-list", "list")["bases"][0]["schedule"]
    assert len(said("ingest-runs", "runs", "docs")["runs"]) == 2
    assert said("ingest-errors", "errors", "docs")["errors"]
    assert said("ingest-search", "search", "docs", "controller")
    lines = cli.inside("ingest", "search", "docs", "--questions", made["questions_file"]).out.splitlines()
    assert all(check.keeps("ingest-answer", json.loads(line))["id"] for line in lines) and lines
    assert said("ingest-verify", "verify", "docs")["sound"]
    assert said("ingest-repair", "repair", "docs", "--wait")["mended"] == {}
    said("ingest-run", "start", "docs")
    said("ingest-cancel", "cancel", "docs", "--wait")
    assert said("ingest-delete", "delete", "docs", "--yes", "--wait")["status"] == "completed"
    assert check.kept == OF_INGESTION


def test_every_schema_is_kept_by_some_output() -> None:
    every = OF_JOBS | OF_CALLS | OF_ACCESS | OF_WEBHOOKS | OF_PAGES | OF_DOCUMENTS | OF_INGESTION | OF_GEMINI
    assert set(SCHEMAS) == every | PARTS


def test_schemas_are_sound() -> None:
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
