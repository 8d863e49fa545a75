"""`penstock documents` as a user runs it: folders and files that are taken in or refused, waited for, interrupted,
tried again, looked at, exported and deleted. The invoices carry their own data, so that no model is asked."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import resource
import shutil
import signal
import socket
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from rich.console import Console

from penstock.cli import documents_found
from penstock.cli.documents_found import find
from penstock.cli.documents_live import LineDocuments, LiveDocuments, Watched
from penstock.cli.documents_states import State
from penstock.cli.documents_views import in_room
from penstock.cli.documents_wait import blank_text
from penstock.cli.fitting import needed, widths_of
from penstock.cli.output import Output
from penstock.pipelines.documents.samples import KINDS, TRUTH, sample
from penstock.pipelines.documents.samples.making import MARK
from tests.support.cli import Cli, Said
from tests.support.schemas import keeps

BROKEN = b"%PDF-1.7\n" + b"nothing that a reader knows\n" * 50


class Office:
    """The command line in a folder with an inbox."""

    def __init__(self, folder: Path) -> None:
        self.cli = Cli(folder)
        del self.cli.environ["PENSTOCK_APP"]
        self.cli.environ["PENSTOCK_LOCAL_GEMINI__USE"] = "always"

    def __call__(self, *args: str, code: int = 0) -> Said:
        return self.cli.inside("documents", *args, code=code)

    def listed(self, *args: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self("list", "--json", *args).json["documents"]
        return found

    def put(self, name: str, content: bytes) -> str:
        path = self.cli.file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return name


def lines(said: Said) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.out.splitlines()]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Said]:
    """An inbox that was added: two invoices, one of them in a folder below, a broken one, and what is none."""
    office = Office(tmp_path_factory.mktemp("office"))
    office.put("inbox/a.pdf", sample(1, kind="facturx")[0])
    office.put("inbox/b-broken.pdf", BROKEN)
    office.put("inbox/below/c.pdf", sample(2, kind="facturx")[0])
    office.put("inbox/notes.txt", b"call the printer")
    office.put("inbox/.hidden.pdf", BROKEN)
    office.put("inbox/.git/d.pdf", BROKEN)
    said = office("add", "inbox", "inbox/a.pdf", "--wait", "--json", code=1)
    return office.cli.folder, said


@pytest.fixture
def office(tmp_path: Path, first: tuple[Path, Said]) -> Iterator[Office]:
    """The same office for each test, as it was after that."""
    folder = tmp_path / "office"
    shutil.copytree(first[0], folder)
    office = Office(folder)
    yield office
    office.cli.stop()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Office]:
    office = Office(tmp_path)
    yield office
    office.cli.stop()


def test_a_folder_is_extracted_and_told_line_by_line_in_its_order(first: tuple[Path, Said]) -> None:
    said = first[1]
    told = lines(said)
    for line in told:
        keeps("documents-ended", line)
    assert [line["filename"] for line in told] == ["a.pdf", "b-broken.pdf", "c.pdf"]
    assert [line["status"] for line in told] == ["completed", "failed", "completed"]
    assert told[0]["error"] is None and told[0]["result"]["document_id"] == told[0]["document_id"]
    assert told[0]["result"]["invoice_data"]["total"] == str(sample(1, kind="facturx")[1].truth.total)
    assert told[1]["result"] is None and told[1]["review_item_id"] is None and "damaged" in told[1]["error"]
    assert "Left out inbox/notes.txt: The file is not a document that is read here" in said.err
    assert "hidden" not in said.err
    assert "✗ 2 of 3 documents read in" in said.err and "1 failed: penstock documents list --status failed" in said.err


def test_what_was_added_together_is_a_batch_with_one_result(office: Office) -> None:
    (job,) = office.cli.inside("jobs", "list", "-w", "documents.batch", "--json").json["jobs"]
    result = office.cli.inside("jobs", "show", job["id"], "--json").json["job"]["result"]
    assert (job["status"], result["completed"], result["failed"]) == ("completed", 2, 1)
    assert result["failures"][0].startswith(office.listed("--status", "failed")[0]["document_id"])
    batch = office.listed()[0]["batch_id"]
    assert len(office.listed("--batch", batch)) == 3 and office.listed("--batch", "nonesuch") == []


def test_lists_and_sheets(office: Office) -> None:
    (failed,) = office.listed("--status", "failed")
    shown = office("list")
    assert [line.split()[0] for line in shown.out.splitlines()[1:]] == [each["document_id"] for each in office.listed()]
    assert "b-broken.pdf" in shown.out and "damaged" in shown.out
    page = office("list", "-n", "2", "--json").json
    assert office.listed("--before", page["next"]) == office.listed()[2:]
    assert "There are no such documents." in office("list", "--tenant", "acme").out
    sheet = office("show", failed["document_id"])
    assert "error" in sheet.out and f"penstock documents retry {failed['document_id']}" in sheet.err
    whole = office("show", office.listed("--status", "completed")[0]["document_id"])
    assert "its own e-invoice" in whole.out and "██████████ 0.99" in whole.out and "ok e-invoice" in whole.out
    assert "there is no document nonesuch" in office("show", "nonesuch", code=2).sentence


def test_the_same_content_is_not_read_twice_and_still_reviewed(office: Office) -> None:
    told = lines(office("add", "inbox/a.pdf", "--wait", "--json"))
    (before,) = [each for each in office.listed() if each["filename"] == "a.pdf" and each["batch_id"]]
    assert told[0]["document_id"] != before["document_id"]
    assert told[0]["review_item_id"] not in (None, before["review_item_id"])
    (job, *_) = office.cli.inside("jobs", "list", "-w", "documents", "--json").json["jobs"]
    assert office.cli.inside("jobs", "show", job["id"], "--json").json["job"]["result"]["cached"] is True


def test_what_is_named_and_wrong_is_refused_before_anything_is_stored(empty: Office) -> None:
    empty.put("good.pdf", BROKEN)
    empty.put("letter.pdf", b"PK\x03\x04 an office document")
    empty.put("empty.pdf", b"")
    os.mkfifo(empty.cli.file("pipe.pdf"))
    wrong = ("letter.pdf", "empty.pdf", "pipe.pdf", "nowhere.pdf")
    told = empty("add", "good.pdf", *wrong, code=2).err.splitlines()
    assert [line.split(": ")[1] for line in told] == list(wrong)
    assert "(this looks like a ZIP archive" in told[0] and told[1].endswith("The file is empty.")
    assert "a device or a pipe" in told[2] and told[3].endswith("There is no such file.")
    empty.cli.environ["PENSTOCK_DOCUMENTS__LARGEST_MB"] = "0.001"
    assert "at most 0.001 MB are taken" in empty("add", "good.pdf", code=2).sentence
    empty.cli.file("nothing").mkdir()
    assert "there is no document in nothing" in empty("add", "nothing", code=2).sentence
    assert not empty.cli.file(".penstock").exists()
    assert "there is no store" in empty("list", code=2).sentence


def test_walking_leaves_alone_what_is_ours_and_what_leads_around(empty: Office) -> None:
    empty.put("inbox/a.pdf", BROKEN)
    empty.put("inbox/state/documents/b.pdf", BROKEN)
    folder = empty.cli.file("inbox")
    (folder / "around").symlink_to(folder)
    (folder / "same.pdf").hardlink_to(folder / "a.pdf")
    found = find([str(folder)], largest=10_000, home=folder / "state")
    assert found.files == [folder / "a.pdf"] and found.wrong == []
    assert [(each.path, each.reason) for each in found.left_out] == [(str(folder / "around"), "a link to a folder")]


def test_without_a_worker_documents_are_kept_and_it_says_who_would_do_the_work(empty: Office) -> None:
    empty.put("a.pdf", BROKEN)
    empty.put("b.pdf", BROKEN + b"another")
    said = empty("add", "a.pdf", "b.pdf")
    ids = said.out.split()
    assert [each["document_id"] for each in empty.listed("--status", "queued")] == ids[::-1]
    assert "No worker is alive: start one with `penstock up`, or add --wait to do the work here." in said.err
    told = empty("add", "a.pdf", "--json", "--as", "anna").json
    keeps("documents-add", told)
    assert (told["batch_id"], told["documents"][0]["path"]) == (None, "a.pdf")
    (entry,) = empty.cli.inside("audit", "--actor", "anna", "--json").json["entries"]
    assert (entry["action"], entry["detail"]) == ("document.add", "1 document")
    assert "memory:// is gone" in empty("add", "a.pdf", "--store", "memory://", code=2).sentence


def test_a_copy_that_fails_leaves_nothing_behind(empty: Office) -> None:
    """As a disk that is full: files may not grow beyond a size that all but the second document keep."""
    empty.put("a.pdf", BROKEN)
    empty.put("b.pdf", BROKEN + bytes(3_000_000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, before[1]))
    try:
        said = empty("add", "a.pdf", "b.pdf", code=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "b.pdf cannot be stored in .penstock: file too large" in said.sentence
    kept = [path for path in empty.cli.file(".penstock/documents").rglob("*") if path.is_file()]
    assert kept == [] and empty.listed() == []


def test_ctrl_c_leaves_the_work_and_says_so(empty: Office) -> None:
    """The model never answers, so that the wait would never end."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        del empty.cli.environ["PENSTOCK_LOCAL_GEMINI__USE"]
        empty.cli.environ |= {
            "PENSTOCK_GEMINI__BASE_URL": f"http://127.0.0.1:{port}",
            "PENSTOCK_GEMINI__API_KEY": "key",
            "PENSTOCK_GRACE": "0.1",
        }
        empty.put("a.pdf", sample(3, layout="letter_left")[0])
        waiting = empty.cli.start("documents", "add", "a.pdf", "--wait")
        connection, _ = silent.accept()
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(30) == 130
        connection.close()
    assert "0 of 1 document ended. The rest is safe, and goes on when a worker runs, `penstock up`;" in empty.cli.log
    (left,) = empty.listed()
    assert left["status"] == "processing" and f"`penstock documents show {left['document_id']}` tells" in empty.cli.log


def test_where_a_worker_is_alive_it_only_watches(office: Office) -> None:
    office.cli.start_worker()
    said = office("add", "inbox/a.pdf", "inbox/b-broken.pdf", "--wait", code=1)
    assert "running the work in this process" not in said.err
    assert "/2 b-broken.pdf failed: " in said.err and "/2 a.pdf completed" in said.err
    assert [line.split()[1] for line in said.out.splitlines()[1:]] == ["completed", "failed"]
    assert "✗ 1 of 2 documents read in" in said.err


def test_what_failed_is_tried_again_and_what_is_done_is_read_again(office: Office) -> None:
    (failed,) = office.listed("--status", "failed")
    done = office.listed("--status", "completed")[0]
    refused = office("retry", done["document_id"], "nonesuch", "--json", code=2)
    keeps("documents-again", refused.json)
    assert [each["id"] for each in refused.json["refused"]] == [done["document_id"], "nonesuch"]
    assert "only what has failed is tried again" in refused.err
    (again,) = lines(office("retry", failed["document_id"], "--wait", "--json", code=1))
    assert (again["document_id"], again["status"]) == (failed["document_id"], "failed")
    told = office("re-extract", done["document_id"], "--json")
    keeps("documents-again", told.json)
    assert "No worker is alive" in told.err
    assert "is still being worked on" in office("re-extract", done["document_id"], code=2).sentence


def test_export(office: Office) -> None:
    said = office.cli("documents", "export", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert [row["filename"] for row in rows] == ["a.pdf", "c.pdf"]
    hint = "--review approved --review corrected for what people have approved"
    assert said.err == f"2 documents: 2 pending; {hint}.\n"
    assert rows[0]["total"] == str(sample(1, kind="facturx")[1].truth.total)
    told = office("export", "--format", "parquet", "-o", "all.parquet", "--json").json
    keeps("documents-export", told)
    table = pq.read_table(office.cli.file("all.parquet"))
    assert table.column("filename").to_pylist() == ["a.pdf", "c.pdf"] and told["documents"] == 2
    assert (told["reviews"]["pending"], told["reviews"]["approved"]) == (2, 0)
    for_excel = office("export", "--format", "csv", "-o", "excel.csv", "--excel", "--review", "pending")
    assert for_excel.err == "2 documents: 2 pending.\n", "who asked for these needs no hint"
    assert (
        office.cli.file("excel.csv").read_bytes()
        == codecs.BOM_UTF8 + said.out.replace("\r\n", "\n").replace("\n", "\r\n").encode()
    )
    office.cli.file("link.csv").symlink_to(office.cli.file("target.csv"))
    office("export", "--format", "csv", "-o", "link.csv", "--review", "approved")
    assert office.cli.file("link.csv").is_symlink()
    assert len(office.cli.file("target.csv").read_text().splitlines()) == 1, "nothing is approved yet"
    office("export", "--format", "csv", "-o", os.devnull)
    assert Path(os.devnull).is_char_device()
    assert [path.name for path in office.cli.folder.glob(".*.part")] == []


def test_delete(office: Office) -> None:
    gone = office.listed("--status", "completed")[0]
    assert "add --yes" in office("delete", gone["document_id"], code=2).sentence
    told = office("delete", gone["document_id"], "nonesuch", "--yes", "--json", "--as", "anna", code=2).json
    keeps("documents-delete", told)
    assert (told["deleted"], told["refused"][0]["id"]) == ([gone["document_id"]], "nonesuch")
    assert len(office.listed()) == 2
    assert list(office.cli.file(".penstock").rglob(f"*{gone['document_id']}*")) == []
    actions = [entry["action"] for entry in office.cli.inside("audit", "--actor", "anna", "--json").json["entries"]]
    assert actions == ["document.delete"]


def test_samples_are_made_once_and_not_mixed(empty: Office) -> None:
    told = empty("samples", "try", "--count", "2", "--kind", "pdf", "--json").json
    keeps("documents-samples", told)
    assert [Path(empty.cli.folder, each["path"]).exists() for each in told["documents"]] == [True, True]
    assert Path(empty.cli.folder, told["truth"]).exists()
    assert "Now try: penstock documents add try --wait" in empty("samples", "try", "--count", "2", "--kind", "pdf").out
    assert "holds other samples" in empty("samples", "try", "--count", "3", code=2).sentence
    assert "Left out" not in empty("add", "try").err
    empty.cli.file(f"try/{MARK}").unlink()
    assert "Left out try/truth.jsonl" in empty("add", "try").err, "somebody else's file of that name"
    assert (documents_found.TRUTH, documents_found.MARK) == (TRUTH, MARK)
    text = " ".join(empty("samples", "--help").out.split())
    assert all(kind in text for kind in KINDS)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("add", "Missing argument 'PATH...'"),
        ("export", "Missing option '--format'"),
        ("export --format parquet", "Parquet is no text: name a file with --output"),
        ("export --format parquet -o x --excel", "--excel is for --format csv"),
        ("export --format csv --json", "the table itself goes to stdout: name a file with --output"),
        ("export --format csv -o .", ". is a folder: name a file in it"),
        ("list --status done", "Invalid value for '--status'"),
        ("samples x --kind letter", "--kind: there is no kind letter; there are pdf, facturx,"),
        ("add inbox --tenant a/b", "tenant"),
    ],
)
def test_wrong_use_is_refused_with_the_way_out(office: Office, command: str, told: str) -> None:
    assert told in office(*command.split(), code=2).sentence


def test_an_app_with_a_workflow_of_that_name_is_not_mistaken_for_the_pipeline(empty: Office) -> None:
    empty.put("a.pdf", BROKEN)
    empty.cli.file("mine_documents.py").write_text("""
from penstock import Context, Penstock, Workflow

documents = Workflow("documents")

@documents.step
async def count(number: int, ctx: Context) -> int:
    return number

app = Penstock(workflows=[documents])
""")
    said = empty("add", "a.pdf", "--app", "mine_documents:app", code=2)
    assert "the app has a workflow of its own named 'documents'" in said.sentence


def test_the_doctor_wants_neither_an_app_nor_a_migration_for_a_store_that_is_empty(empty: Office) -> None:
    empty.cli.file("empty.db").touch()
    told = empty.cli.inside("doctor", "--store", "sqlite:///empty.db", "--json").json["checks"]
    checks = {check["name"]: check for check in told}
    assert (
        checks["store"]["status"] == "ok" and "its tables are made when it is first used" in checks["store"]["detail"]
    )
    assert checks["app"]["status"] == "ok" and checks["app"]["mend"] is None


def test_what_says_nothing_is_counted_apart() -> None:
    assert [blank_text(0, 22), blank_text(1, 1), blank_text(1, 2), blank_text(3, 22)] == [
        "",
        "; it says nothing that was looked for",
        "; 1 of them says nothing that was looked for",
        "; 3 of them say nothing that was looked for",
    ]


def state(name: str, status: str, **more: Any) -> State:
    told = {"job": "j", "step": "extract", "attempt": 1, "error": None, "reason": None, "due": None, **more}
    return State(name, f"{name}.pdf", status, **told)


def test_a_terminal_shows_how_far_it_is_and_what_is_in_the_way() -> None:
    found = [
        state("a", "completed"),
        state("b", "failed", error="Unreadable: The PDF is locked."),
        state("c", "processing", attempt=2, error="Transient: the connection was reset", due=110.0),
        state("d", "queued"),
    ]
    watched = Watched({each.id: each for each in found}, found[:2], began=40.0)
    view = LiveDocuments(Output(json=False, quiet=False), {}, watched)
    view.show(100.0)
    out = StringIO()
    Console(file=out, width=100, height=30).print(view)
    text = out.getvalue()
    assert "2/4 documents" in text and "1 failed" in text and "1 min" in text
    assert "✗ b.pdf  The PDF is locked." in text and "✓ a.pdf" in text and "d.pdf" not in text
    assert "c.pdf  extract  failed at try 1: the connection was reset; tried again in 10 s" in text


@pytest.mark.parametrize("room", [60, 80, 100, 120, 200])
def test_on_a_narrow_terminal_names_give_way_and_amounts_do_not(room: int) -> None:
    columns = {
        "ID": ["01m7hegrxk360zey2ch1"],
        "FILE": ["001-rechnung-vogelsanger-re-2024-2091.pdf"],
        "VENDOR": ["Vogelsanger & Lindberger & Co."],
        "NUMBER": ["RE-2024-2091"],
        "TOTAL": ["31807.33 CHF"],
        "WHO": [""],
    }
    shown = in_room(columns, room, unless_needed=("NUMBER", "VENDOR"))
    assert needed(widths_of(shown)) <= room
    assert shown["ID"] == columns["ID"] and shown["TOTAL"] == columns["TOTAL"] and "WHO" not in shown
    assert shown["FILE"][0].startswith("001-r") and (room < 200 or "VENDOR" in shown)


def test_a_log_gets_a_line_for_each_document_and_each_trouble_once(capsys: pytest.CaptureFixture[str]) -> None:
    trouble = state("c", "processing", attempt=2, error="Transient: reset")
    watched = Watched({"a": state("a", "completed"), "c": trouble}, [state("a", "completed")])
    view = LineDocuments(Output(json=False, quiet=False), {}, watched)
    view.show(100.0)
    watched.news = []
    view.show(101.0)
    told = [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == ["1/2 a.pdf completed", "c.pdf failed at try 1: reset"]
