"""`penstock review` as reviewers use it: one command claims and decides; two who want the same are told so; what is
corrected is locked, exported, and inherited by the same file when it comes again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.documents.samples import sample
from tests.support.cli import Cli, Said
from tests.support.schemas import keeps


class Desk:
    """The command line of reviewers, in a folder with three documents that were extracted."""

    def __init__(self, folder: Path) -> None:
        self.cli = Cli(folder)
        del self.cli.environ["PENSTOCK_APP"]
        self.cli.environ |= {"PENSTOCK_LOCAL_GEMINI__USE": "always", "LOGNAME": "anna"}

    def __call__(self, *args: str, code: int = 0) -> Said:
        return self.cli.inside("review", *args, code=code)

    def queue(self, *args: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self("list", "--json", *args).json["items"]
        return items

    def item(self, filename: str) -> dict[str, Any]:
        every = ("pending", "in_review", "approved", "corrected", "rejected")
        found = self.queue(*(word for status in every for word in ("-s", status)))
        return next(item for item in found if item["filename"] == filename)

    def exported(self, document_id: str) -> dict[str, Any]:
        (path,) = self.cli.file(".penstock/outputs").rglob(f"{document_id}.json")
        told: dict[str, Any] = json.loads(path.read_text())
        return told


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sure ones, and one whose page contradicts its data."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    for name, seed, kind in (("a", 3, "facturx"), ("b", 2, "facturx"), ("c", 1, "facturx_conflict")):
        desk.cli.file(f"{name}.pdf").write_bytes(sample(seed, kind=kind)[0])  # type: ignore[arg-type]
    desk.cli.inside("documents", "add", "a.pdf", "b.pdf", "c.pdf", "--wait")
    return desk.cli.folder


@pytest.fixture
def desk(tmp_path: Path, extracted: Path) -> Desk:
    folder = tmp_path / "desk"
    shutil.copytree(extracted, folder)
    return Desk(folder)


def test_the_queue_by_what_is_urgent(desk: Desk) -> None:
    said = desk("list", "--json")
    keeps("review-list", said.json)
    priorities = [item["priority"] for item in said.json["items"]]
    assert priorities == sorted(priorities, reverse=True) and said.json["depths"]["pending"] == 3
    shown = desk("list", "--limit", "2")
    assert len(shown.out.splitlines()) == 3 and "There may be more: --offset 2" in shown.err
    assert desk.queue("--sort", "oldest")[0]["created"] <= desk.queue("--sort", "newest")[0]["created"]
    assert len(desk.queue("--limit", "2", "--offset", "2")) == 1
    assert "There is nothing to review." in desk("list", "--min-priority", "99.5").out
    assert "There are no such items." in desk("list", "-s", "rejected").out


def test_a_review_shows_why_it_is_doubtful(desk: Desk) -> None:
    item = desk.item("c.pdf")
    told = desk("show", item["document_id"], "--json").json
    keeps("review-show", told)
    assert told["item"]["review_item_id"] == item["review_item_id"], "found by its document as well"
    shown = desk("show", item["review_item_id"])
    assert "finding: The page contradicts its e-invoice" in shown.out and "doubtful" in shown.out
    assert f"penstock review approve {item['review_item_id']}" in shown.err
    assert desk.item("c.pdf")["status"] == "pending", "looking claims nothing"


def test_approving_claims_what_is_free_and_says_who_writes_the_files(desk: Desk) -> None:
    a, b = desk.item("a.pdf"), desk.item("b.pdf")
    said = desk("approve", a["review_item_id"], b["document_id"], "--json")
    keeps("review-decide", said.json)
    assert [(item["status"], item["decided_by"]) for item in said.json["items"]] == [("approved", "anna")] * 2
    assert "No worker is alive: the files (JSON, Parquet) are written anew when one runs, `penstock up`" in said.err
    again = desk("approve", a["review_item_id"], code=2)
    assert "is approved already: reopen it to decide anew" in again.err
    assert f"penstock review claim {a['review_item_id']} --reopen" in again.err
    desk("claim", a["review_item_id"], "--reopen")
    desk("reject", a["review_item_id"], "--reason", "the wrong town")
    assert (desk.item("a.pdf")["status"], desk.item("a.pdf")["reason"]) == ("rejected", "the wrong town")
    told = desk("audit", a["review_item_id"], "--json").json
    keeps("review-audit", told)
    assert [entry["action"] for entry in told["entries"]] == [
        "extracted", "claimed", "approved", "reopened", "rejected",
    ]  # fmt: skip
    assert "the wrong town" in desk("audit", a["document_id"]).out


def test_of_two_reviewers_one_is_told(desk: Desk) -> None:
    item = desk.item("a.pdf")["review_item_id"]
    desk("claim", item)
    refused = desk("approve", item, "--as", "ben", code=2)
    assert f"review item {item} is in review by anna" in refused.err
    assert f"Where anna is away: penstock review release {item}" in refused.err
    assert [each["filename"] for each in desk.queue("--assigned-to", "anna")] == ["a.pdf"]
    desk("release", item, "--as", "ben")
    assert desk("release", item, code=2).err.startswith(f"Error: review item {item} is pending and nobody's")
    assert desk("approve", item, "--as", "ben", "--json").json["items"][0]["decided_by"] == "ben"
    assert "released, was anna's" in desk("audit", item).out
    desk("assign", "--reviewers", "clara", "--limit", "1")
    given = desk.queue("--assigned-to", "clara")[0]["review_item_id"]
    told = desk("audit", given).out.splitlines()
    assert told[-1].endswith("assigned to clara") and "REASON" not in told[0]


def test_a_decision_that_is_refused_changes_nothing(desk: Desk) -> None:
    item = desk.item("a.pdf")["review_item_id"]
    for changes, told in (
        (["vendor="], "vendor: required, and without a value; correct it, or reject the document"),
        (["totl=3"], "there is no field 'totl': the fields are vendor, invoice_number"),
        (["total=twelve"], "total: "),
        (["currency=$"], "currency: "),
    ):
        assert told in desk("correct", item, *changes, code=2).sentence
    told = desk("correct", item, "total=3", "--reason", "x" * 2001, code=2).sentence
    assert "the reason has 2001 characters" in told
    after = desk.item("a.pdf")
    assert (after["status"], after["assigned_to"]) == ("pending", None), "the claim was given back"
    both = desk("approve", "nonesuch", item, "--json", code=2).json
    assert both["refused"][0]["id"] == "nonesuch" and len(both["items"]) == 1


def test_a_correction_is_locked_exported_and_inherited(desk: Desk) -> None:
    item = desk.item("c.pdf")
    document = item["document_id"]
    desk("correct", item["review_item_id"], "total=1.234,56", "invoice_number=X-17", "--reason", "as printed", "--wait")
    written = desk.exported(document)
    assert (written["invoice_data"]["total"], written["invoice_data"]["invoice_number"]) == ("1234.56", "X-17")
    assert (written["review_status"], written["locked_fields"]) == ("corrected", ["invoice_number", "total"])
    shown = desk.cli.inside("documents", "show", document).out
    assert "locked: total = 1234.56, by anna" in shown and "total (locked)" in shown
    assert "difference: total is locked as 1234.56, the newest extraction says" in shown
    again = desk.cli.inside("documents", "add", "c.pdf", "--wait", "--json").json
    assert again["document_id"] != document and again["result"]["invoice_data"]["total"] == "1234.56"
    told = desk("unlock", document, "total", "--wait", "--json").json
    keeps("documents-show", told)
    assert [lock["field"] for lock in told["locks"]] == ["invoice_number"]
    assert desk.exported(again["document_id"])["invoice_data"]["total"] == told["invoice_data"]["total"] != "1234.56"
    assert "is not locked" in desk("unlock", document, "total", code=2).sentence
    said = desk("unlock", item["review_item_id"], "invoice_number").out
    assert f"invoice_number of {document} is what was extracted again: " in said


def test_lines_are_corrected_as_json(desk: Desk) -> None:
    item = desk.item("a.pdf")
    rows = [{"item": "Rope", "quantity": "2", "unit_price": "4.50", "total": "9.00"}]
    desk("correct", item["review_item_id"], f"line_items={json.dumps(rows)}")
    shown = desk.cli.inside("documents", "show", item["document_id"]).out
    assert "Rope  2         4.50        9.00" in shown


def test_what_is_sure_is_approved_together(desk: Desk) -> None:
    told = desk("approve", "--above", "0.9", "--json").json
    keeps("review-decide", told)
    assert sorted(item["filename"] for item in told["items"]) == ["a.pdf", "b.pdf"]
    assert [item["filename"] for item in desk.queue()] == ["c.pdf"], "what contradicts itself waits for a person"
    assert "There is nothing that sure." in desk("approve", "--above", "0.9").out


def test_items_are_shared_out(desk: Desk) -> None:
    assert "name reviewers, or set documents.reviewers" in desk("assign", code=2).sentence
    told = desk("assign", "--reviewers", "ben, clara", "--json").json
    keeps("review-assign", told)
    assert [each["reviewer"] for each in told["assigned"]] == ["ben", "clara", "ben"]
    first = told["assigned"][0]["review_item_id"]
    assert "is assigned to ben" in desk("approve", first, code=2).err
    desk.cli.environ["PENSTOCK_DOCUMENTS__REVIEWERS"] = "ben"
    assert "There is nothing that is nobody's." in desk("assign").out


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("approve", "name items by their IDs, or all that are sure enough with --above"),
        ("approve x --above 0.9", "and not both"),
        ("approve --above 1.5", "Invalid value for '--above'"),
        ("approve --above 0.9 --reason x", "--reason goes with IDs"),
        ("correct x total", "'total' is no correction: write FIELD=VALUE, such as total=12.50"),
        ("correct x total=1 total=2", "total is given twice"),
        ("correct x line_items=[", "line_items is no JSON"),
        ("reject x", "Missing option '--reason'"),
        ("show nonesuch", "there is no review item nonesuch, and no document of that id"),
        ("unlock nonesuch total", "there is no document nonesuch"),
        ("list --status open", "Invalid value for '--status'"),
    ],
)
def test_wrong_use_is_refused_with_the_way_out(desk: Desk, command: str, told: str) -> None:
    assert told in desk(*command.split(), code=2).sentence
