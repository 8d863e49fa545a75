"""`penstock pages` as a user runs it: planned, killed and gone on with, interrupted, watched, retried, refused."""

from __future__ import annotations

import csv
import io
import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import PIPELINES, Cli, Said
from tests.support.gemini import Gemini, running_gemini
from tests.support.pages import SCRIPT, Library, said

A, B = "Alabama/Howard College/1849", "Ohio/Oberlin/1850"


class Shelf:
    """A library, the command line beside it, and a Gemini that answers from a script."""

    def __init__(self, folder: Path, gemini: Gemini, books: Mapping[str, Sequence[int]]) -> None:
        self.cli = Cli(folder)
        self.gemini = gemini
        del self.cli.environ["PENSTOCK_APP"]
        self.cli.environ |= {"PENSTOCK_GEMINI__BASE_URL": gemini.url, "PENSTOCK_GEMINI__API_KEY": "key"}
        self.library = Library(folder, books)
        self.write()

    def write(self, **groups: Mapping[str, Any]) -> None:
        told = self.library.run(**{"batch": {"poll_interval_seconds": 0.1}, **groups})
        self.cli.file("pages.yaml").write_text(yaml.safe_dump(told.model_dump(mode="json")))

    def __call__(self, verb: str, *args: str, code: int = 0) -> Said:
        """In this process, which is quicker."""
        return self.cli.inside("pages", verb, "-c", "pages.yaml", *args, code=code)

    def status(self) -> dict[str, Any]:
        overview: dict[str, Any] = self("status", "--json").json["overview"]
        return overview


@pytest.fixture(scope="module")
def one_gemini() -> Iterator[Gemini]:
    with running_gemini() as gemini:
        yield gemini


@pytest.fixture
def shelf(tmp_path: Path, one_gemini: Gemini) -> Iterator[Shelf]:
    one_gemini.reset()
    one_gemini.script(SCRIPT)
    shelf = Shelf(tmp_path, one_gemini, {A: [1, 2, 3], B: [7]})
    yield shelf
    shelf.cli.stop()


def test_a_plan_and_a_dry_run_store_nothing(shelf: Shelf) -> None:
    told = shelf("plan")
    assert "4 to do" in told.out and "2, the longest has 3 pages" in told.out
    assert "Next: penstock pages run -c pages.yaml" in told.err
    plan = shelf("plan", "--answer-tokens", "100", "--json").json
    assert (plan["rounds"], plan["batches"], plan["output_tokens"]) == (3, 3, 400)
    first = shelf("run", "--dry-run", "--limit", "1")
    assert first.out == "Alabama:Howard College:1849:0001\n"
    assert "2 pages could be sent now" in first.err and "nothing was sent" in first.err
    shelf.write(execution={"dry_run": True})
    assert "(execution.dry_run: true)" in shelf("run").err
    assert not shelf.cli.file(".penstock").exists()
    assert not shelf.library.outputs.exists()


def test_a_run_that_is_killed_goes_on_and_pays_for_nothing_twice(shelf: Shelf) -> None:
    first = shelf.cli.start("pages", "run", "-c", "pages.yaml")
    shelf.cli.until(lambda: shelf.library.output(A, 1).exists(), "the first page")
    first.kill()
    first.wait()
    ended = shelf("run", "--json")
    assert (ended.json["created"], ended.json["overview"]["done"]) == (False, 4)
    assert shelf.library.text(A, 3) == said(A, 3, 2)
    assert "✓ 4 of 4 pages in 2 books are read" in ended.err
    calls = shelf.cli.inside("calls", "list", "--json").json["calls"]
    assert [call["state"] for call in calls] == ["collected"] * 3
    told = shelf("rescan", "--state", "Ohio", "--json")
    assert told.json["state"] == "Ohio" and "the wish is kept" in told.err
    assert shelf.status()["wishes"] == 1
    assert "there was nothing to send" in shelf("run").err
    assert shelf.status()["wishes"] == 0


def test_one_pass_at_a_time(shelf: Shelf) -> None:
    first = shelf("run", "--once", "--json").json
    assert (first["run"]["status"], first["did"]["batches_sent"], first["overview"]["in_flight"]) == ("waiting", 1, 2)
    status = shelf("status")
    assert (
        "1 active" in status.out and "No worker is alive: go on with `penstock pages run -c pages.yaml`" in status.err
    )
    passes = 0
    while shelf.status()["done"] < 4:
        assert "This pass: " in shelf("run", "--once").err
        passes += 1
        assert passes < 30, "it does not come to an end"
    before = shelf.cli.inside("jobs", "list", "--json").json["jobs"]
    told = shelf("run", "--once", "--json")
    assert "Nothing to do: 4 of 4 pages done" in told.err
    assert told.json["run"]["id"] == before[0]["id"] and set(told.json["did"].values()) == {0}
    assert shelf.cli.inside("jobs", "list", "--json").json["jobs"] == before, "no run was started"
    shelf.library.output(A, 3).unlink()
    assert "1 batch sent" in shelf("run", "--once").err


def test_ctrl_c_leaves_what_was_sent_and_says_how_to_go_on(shelf: Shelf) -> None:
    shelf.gemini.faults([{"kind": "stuck_running"}])
    running = shelf.cli.start("pages", "run", "-c", "pages.yaml")
    shelf.cli.until(lambda: "2 in flight" in shelf.cli.log, "a batch")
    running.send_signal(signal.SIGINT)
    assert running.wait(30) == 130
    assert "1 batch with 2 pages goes on at Gemini and is kept: nothing is paid twice." in shelf.cli.log
    assert "Go on: penstock pages run -c pages.yaml" in shelf.cli.log


def test_where_a_worker_is_alive_it_only_watches(shelf: Shelf) -> None:
    shelf.cli.start_worker()
    assert f"only Penstock's own pipelines are known here ({', '.join(PIPELINES)})" in shelf.cli.log
    ended = shelf("run")
    assert "A worker is alive and does the work: this command only watches" in ended.err
    assert "✓ 4 of 4 pages" in ended.err
    left = shelf("run", "--no-wait", "--json").json
    assert left["created"] is True


def test_dead_pages_are_exit_1_and_are_tried_again_when_somebody_wishes(shelf: Shelf) -> None:
    image = shelf.library.image(A, 2)
    picture = image.read_bytes()
    image.unlink()
    assert "1 without an image, 1 behind a page that cannot be read" in shelf("plan").out
    ended = shelf("run", code=1)
    assert "✗ 2 of 4 pages" in ended.err and "1 page dead, 1 waits behind a dead one." in ended.err
    assert "Try them again: penstock pages retry -c pages.yaml" in ended.err
    key = Library.key(A, 2)
    (row,) = csv.DictReader(io.StringIO(shelf("failures", "--csv").out))
    assert (row["key"], row["type"], row["message"]) == (key, "image", "there is no image of the page")
    assert shelf("failures", "--by", "school", "--csv").out.splitlines()[1] == "Alabama/Howard College,1,1"
    image.write_bytes(picture)
    assert shelf("retry", "--state", "Ohio", "--json").json["pages"] == 0
    assert "1 dead page would be tried again" in shelf("retry", "--state", "Alabama", "--dry-run").out
    told = shelf("retry", "--page", key)
    assert "the wish is kept. Go on: penstock pages run -c pages.yaml" in told.err
    assert "✓ 4 of 4 pages" in shelf("run").err
    assert shelf.library.text(A, 3) == said(A, 3, 2)


def test_a_failed_attempt_is_kept_with_everything(shelf: Shelf) -> None:
    shelf.write(execution={"max_retries": 0}, model={"generation_config": {"temperature": 0.5}})
    shelf.gemini.script([{"key": Library.key(B, 7), "reply": '=1+1, "half a'}, *SCRIPT])
    shelf("run", code=1)
    (row,) = csv.DictReader(io.StringIO(shelf("failures", "--csv").out))
    assert row["type"] == "invalid_json" and row["raw"] == '=1+1, "half a'
    assert (row["prompt"], row["version"], json.loads(row["generation"])) == (
        "transcription",
        "1",
        {"temperature": 0.5},
    )
    told = shelf("failures", "--type", "invalid_json", "--json").json["failures"]
    assert [(each["key"], each["counted"]) for each in told] == [(Library.key(B, 7), True)]
    assert shelf("failures", "--state", "Alabama").out == "There are none.\n"


def test_a_budget_that_is_spent_pauses_and_a_larger_one_in_the_file_goes_on(shelf: Shelf) -> None:
    shelf.write(budget={"max_usd": 0.0001})
    assert "does not allow the next batch: the run would pause at once" in shelf("plan").err
    ended = shelf("run", code=1)
    assert "costs budget set" not in ended.err
    status = shelf("status").out
    assert "2 waiting to be sent" in status and "in flight" not in status.split("BOOK")[0]
    assert "is paused (OverBudget: " in ended.err
    assert "Raise budget.max_usd in pages.yaml (now 0.0001), then go on: penstock pages run -c pages.yaml" in ended.err
    shelf.write(budget={"max_usd": 50})
    ended = shelf("run")
    assert "is $50.00 now; it goes on." in ended.err and "✓ 4 of 4 pages" in ended.err


def test_a_step_that_fails_and_is_tried_again_is_told(shelf: Shelf) -> None:
    shelf("run")
    mark = shelf.library.outputs / ".penstock-pages"
    ours = mark.read_text()
    mark.unlink()
    shelf.library.add(B, 8)
    told = shelf("run", "--once", code=1)
    wrong = f"Error: paths.output_dir: {shelf.library.outputs} has no mark (.penstock-pages), though 4 pages were done"
    assert wrong in told.err and "; the run is tried again in " in told.err and "nothing was due" not in told.err
    quiet = shelf("run", "--once", "--quiet", code=1)
    assert quiet.err.startswith(wrong) and len(quiet.err.splitlines()) == 1
    status = shelf("status").out
    assert "has no mark" in status and "next try" in status
    running = shelf.cli.start("pages", "run", "-c", "pages.yaml", "--quiet")
    shelf.cli.until(lambda: wrong in shelf.cli.log, "the error")
    running.kill()
    running.wait()
    assert shelf.cli.log.count(wrong) == 1
    mark.write_text("another store's\n")
    assert "belongs to a run of another store" in shelf("run", code=2).sentence
    mark.write_text(ours)


def test_filters_that_match_nothing_and_a_tree_without_pages(shelf: Shelf) -> None:
    shelf.write(filters={"target_states": ["Ohoi"]})
    wrong = f"Error: filters.target_states: no state Ohoi in {shelf.library.labels}; there are Alabama, Ohio; did you"
    for command in (("plan",), ("run",), ("run", "--once"), ("run", "--dry-run")):
        assert shelf(*command, code=1).err.startswith(wrong)
    empty = shelf.cli.file("empty")
    empty.mkdir()
    shelf.write(paths={"label_source_dir": empty})
    assert f"There are no pages in {empty}" in shelf("plan").err
    ended = shelf("run")
    assert f"There are no pages in {empty}" in ended.err and "✓" not in ended.err


def test_what_is_left_out_is_named_and_a_state_that_is_nowhere_is_refused(shelf: Shelf) -> None:
    (shelf.library.labels / B / "cover.json").write_text("{}")
    shelf.library.image(A, 2).unlink()
    shelf("run", code=1)
    told = shelf("status")
    assert f"1 file: {B}/cover.json (no page number" in told.out
    assert shelf("status", "--json").json["left_out"][0]["path"] == f"{B}/cover.json"
    for verb in ("retry", "rescan"):
        refused = shelf(verb, "--state", "Ohoi", code=1).err
        assert refused.startswith("Error: no state Ohoi in the ledger of this output folder; there are Alabama, Ohio;")
        assert "no school Harvard of Ohio" in shelf(verb, "--state", "Ohio", "--school", "Harvard", code=1).err
    (shelf.library.labels / A / "0002.json").unlink()
    shelf("run")
    assert "and 1 dead whose label is gone" in shelf("status").out


def test_a_prompt_that_this_machines_gemini_cannot_answer_is_told_beforehand(shelf: Shelf) -> None:
    folder = shelf.cli.file("prompts") / "minutes"
    folder.mkdir(parents=True)
    (folder / "1.jinja").write_text("Read the page.")
    schema = {"type": "object", "properties": {"chair": {"type": "string"}, "votes": {"type": "integer"}}}
    (folder / "1.schema.json").write_text(json.dumps(schema))
    shelf.write(prompt={"registry_dir": folder.parent, "name": "minutes"})
    assert "would fail" not in shelf("plan").err
    for name in ("PENSTOCK_GEMINI__BASE_URL", "PENSTOCK_GEMINI__API_KEY"):
        del shelf.cli.environ[name]
    shelf.cli.environ["PENSTOCK_LOCAL_GEMINI__USE"] = "always"
    assert "Every page of prompt 'minutes' would fail on this machine's Gemini." in shelf("plan").err


def test_a_wrong_configuration_is_told_line_by_line(shelf: Shelf) -> None:
    shelf.cli.file("bad.yaml").write_text(
        "paths:\n  label_source_dir: nowhere\n  image_source_dir: images\n  output_dir: out\n"
        "execution:\n  max_retrys: 3\n"
    )
    told = shelf.cli.inside("pages", "plan", "-c", "bad.yaml", code=2).err.splitlines()
    assert told[0].startswith("Error: bad.yaml:2: paths.label_source_dir: there is no folder ")
    assert told[1:] == [
        "Error: bad.yaml:6: execution.max_retrys: there is no such key; did you mean execution.max_retries?"
    ]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("plan -c missing.yaml", "missing.yaml: there is no such file"),
        ("status", "no run yet: penstock pages run -c pages.yaml; the store is .penstock in the folder you stand in"),
        ("failures --type shema", "--type: there is no type shema; there are api_error, blocked, truncated,"),
        ("retry --school Oberlin", "--school needs --state"),
        ("retry --state Ohio --year 1850", "--year needs --state and --school"),
        ("retry --page Ohio:7", "--page: 'Ohio:7' is no page: it must read state:school:year:page"),
        ("retry --page a:b:1:2 --state Ohio", "--page names one page"),
        ("run --once --no-wait", "--once and --no-wait exclude each other"),
        ("failures --csv --json", "--csv and --json exclude each other"),
        ("failures --by type --state Ohio", "--by counts all of them"),
        ("status 01abc -c pages.yaml", "not by both"),
        ("run --once --store memory://", "memory:// is gone with this process"),
    ],
)
def test_wrong_use_is_refused_with_the_way_out(shelf: Shelf, command: str, told: str) -> None:
    """`pages.yaml` in the working folder needs no name."""
    assert told in shelf.cli.inside("pages", *command.split(), code=2).sentence


def test_without_a_configuration_one_is_offered(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    assert "`penstock pages init` writes a first one" in cli.inside("pages", "run", code=2).sentence
    told = cli.inside("pages", "run", "--config", "shelf.yaml", code=2).sentence
    assert "(--config names Penstock's own configuration, not the run's)" in told
    assert "Wrote pages.yaml" in cli.inside("pages", "init").out
    assert "pages.yaml exists and was left alone." in cli.inside("pages", "init").out
    assert "paths.label_source_dir: there is no folder" in cli.inside("pages", "plan", code=2).err


def test_an_app_with_a_workflow_of_that_name_is_not_mistaken_for_the_pipeline(shelf: Shelf) -> None:
    shelf.cli.file("mine.py").write_text("""
from penstock import Context, Penstock, Workflow

pages = Workflow("pages")

@pages.step
async def count(number: int, ctx: Context) -> int:
    return number

app = Penstock(workflows=[pages])
""")
    assert "the app has a workflow of its own named 'pages'" in shelf("run", "--app", "mine:app", code=2).sentence
