"""`penstock jobs`: the whole way of a job from the command line, on every store a user may have."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import __version__
from tests.support.cli import PENSTOCK, Cli


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    cli.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cli]:
    store = request.getfixturevalue("postgres_url") if request.param == "postgresql" else None
    cli = Cli(tmp_path, store)
    yield cli
    cli.stop()


def test_a_job_from_submit_to_its_history(any_store: Cli) -> None:
    cli = any_store
    said = cli("jobs", "submit", "hello", "--payload", '"world"', "--key", "k", "--priority", "70")
    assert "No worker is alive: start one with `penstock up --app flow:app`" in said.err
    job_id = said.out.rstrip("\n")
    assert said.err.startswith(f"Submitted {job_id} (hello)\n")

    waited = cli("jobs", "wait", job_id)
    assert waited.out == '"Hello, world!"\n'
    assert "running the work in this process" in waited.err

    listed = cli("jobs", "list", "--status", "completed").out.splitlines()
    assert listed[0].split() == ["ID", "WORKFLOW", "KEY", "STATUS", "STEP", "TRY", "PROGRESS", "AGE"]
    assert listed[1].split()[:4] == [job_id, "hello", "k", "completed"]

    shown = cli("jobs", "show", job_id).out
    assert "names=1" in shown
    assert "priority  70" in shown
    assert '"Hello, world!"' in shown
    assert "greet" in shown.splitlines()[-1]

    assert cli("doctor", "--json").json["ok"]
    assert "is up to date" in cli("migrate").out


def test_pause_resume_cancel_and_retry(cli: Cli) -> None:
    first, second, failed = cli.submit("hello", "a"), cli.submit("hello", "b"), cli.submit("bad", 1)
    said = cli("jobs", "pause", first, second, "--reason", "lunch", "--as", "ann")
    assert said.out.count("pause → paused") == 2
    assert cli.job(first)["reason"] == "lunch"
    history = cli("jobs", "show", first, "--json").json["history"]
    assert [(event["kind"], event["by"], event["note"]) for event in history] == [("pause", "ann", "lunch")]

    assert "resume → queued" in cli("jobs", "resume", first).out
    assert "cancel → canceled" in cli("jobs", "cancel", second).out

    cli("jobs", "wait", first, failed, code=1)
    retried = cli("jobs", "retry", failed, "--json").json["jobs"][0]
    assert (retried["run"], retried["status"], retried["key"]) == (2, "queued", failed)


def test_what_is_refused_for_one_job_is_done_for_the_others(cli: Cli) -> None:
    first = cli.submit("hello", "a")
    said = cli("jobs", "pause", "nonesuch", first, "--json", code=2)
    assert [job["id"] for job in said.json["jobs"]] == [first]
    assert said.json["refused"] == [{"id": "nonesuch", "error": "there is no job nonesuch"}]


def test_the_same_key_is_the_same_job(cli: Cli) -> None:
    job_id = cli.submit("hello", "a", "--key", "k")
    said = cli("jobs", "submit", "hello", "--payload", '"a"', "--key", "k", "--json")
    assert said.json["created"] is False
    assert said.json["job"]["id"] == job_id


def test_a_key_whose_last_run_failed_says_how_to_start_the_next(cli: Cli) -> None:
    job_id = cli("jobs", "submit", "bad", "--payload", "1", "--key", "k", "--wait", "--json", code=1).json["job"]["id"]
    hint = f"start it again with --again, or `penstock jobs retry {job_id}`"
    assert hint in cli("jobs", "submit", "bad", "--payload", "1", "--key", "k").err
    assert hint in cli("jobs", "submit", "bad", "--payload", "1", "--key", "k", "--wait", code=1).err
    assert hint not in cli("jobs", "submit", "bad", "--payload", "1", "--key", "k", "--again").err


def test_a_job_with_a_budget(cli: Cli) -> None:
    job_id = cli.submit("hello", "a", "--key", "k", "--budget", "$0.50")
    (budget,) = cli("costs", "budget", "list", "--json").json["budgets"]
    assert (budget["scope"], budget["budget_microdollars"]) == (f"job:{job_id}", 500_000)
    said = cli("jobs", "submit", "hello", "--payload", '"a"', "--key", "k", "--budget", "9")
    assert f"Its budget is as it was; set it: `penstock costs budget set job:{job_id} DOLLARS`" in said.err
    assert cli("costs", "budget", "list", "--json").json["budgets"] == [budget]
    said = cli("jobs", "submit", "hello", "--payload", '"b"', "--budget", "-1", code=2)
    assert "'-1' must be 0 or more dollars" in said.sentence


def test_a_paused_job_tells_its_reason_before_its_last_error(cli: Cli) -> None:
    source = cli.file("flow.py").read_text()
    cli.file("flow.py").write_text(source.replace("base=0.01", "base=3600"))
    job_id = cli.submit("bad", 1)
    assert cli.start("worker", "--stop-when-idle", "100ms").wait(30) == 0
    assert cli.job(job_id)["error"] == "ValueError: it cannot be done"
    cli("jobs", "pause", job_id, "--reason", "lunch")
    assert cli("jobs", "list").out.splitlines()[1].endswith(" lunch")


def test_payloads_from_a_file_and_from_stdin(cli: Cli) -> None:
    cli.file("payload.json").write_text('"file"')
    assert cli("jobs", "submit", "hello", "--payload", "@payload.json", "--wait").out == '"Hello, file!"\n'
    assert cli("jobs", "submit", "hello", "--payload", "-", "--wait", text='"stdin"').out == '"Hello, stdin!"\n'


def test_lists_are_paged_and_filtered(cli: Cli) -> None:
    ids = [cli.submit("hello", name, "--tenant", tenant) for name, tenant in (("a", "x"), ("b", "y"), ("c", "x"))]
    page = cli("jobs", "list", "--limit", "2", "--json").json
    assert [job["id"] for job in page["jobs"]] == [ids[2], ids[1]]
    rest = cli("jobs", "list", "--limit", "2", "--before", page["next"], "--json").json
    assert ([job["id"] for job in rest["jobs"]], rest["next"]) == ([ids[0]], None)
    assert [job["id"] for job in cli("jobs", "list", "--tenant", "y", "--json").json["jobs"]] == [ids[1]]


def test_global_options_stand_before_or_after_the_command(cli: Cli) -> None:
    cli.submit("hello", "a", "--store", "sqlite:///one.db")
    before = cli("--store", "sqlite:///one.db", "--json", "jobs", "list")
    after = cli("jobs", "list", "--json", "--store", "sqlite:///one.db")
    assert before.json == after.json
    assert len(before.json["jobs"]) == 1
    between = cli("jobs", "--store", "sqlite:///one.db", "list", "--quiet")
    assert len(between.out.splitlines()) == 2


def test_with_json_nothing_but_json_goes_to_stdout(cli: Cli) -> None:
    said = cli("jobs", "submit", "hello", "--payload", '"a"', "--wait", "--json")
    assert said.json["job"]["result"] == "Hello, a!"
    assert "completed" in said.err


def test_the_store_in_the_apps_own_code_is_used_unless_one_is_configured(cli: Cli) -> None:
    source = cli.file("flow.py").read_text()
    cli.file("flow.py").write_text(source.replace("Penstock(", "Penstock(store='sqlite:///own.db', "))
    cli.submit("hello", "a")
    assert cli.file("own.db").exists()
    assert len(cli("jobs", "list", "--app", "flow:app", "--json").json["jobs"]) == 1
    cli.submit("hello", "a", "--store", "sqlite:///other.db")
    assert len(cli("jobs", "list", "--store", "sqlite:///other.db", "--json").json["jobs"]) == 1


def test_a_question_makes_no_store(cli: Cli) -> None:
    for question in (["jobs", "list"], ["jobs", "show", "x"], ["jobs", "pause", "x"], ["jobs", "wait", "x"]):
        assert "there is no store sqlite:///.penstock/penstock.db yet" in cli(*question, code=2).sentence
    assert cli("doctor").code == 0
    cli("migrate", "--check")
    assert not cli.file(".penstock").exists()


def test_a_question_makes_no_tables(postgres_url: str, tmp_path: Path) -> None:
    cli = Cli(tmp_path, postgres_url)
    for _ in range(2):
        for question in (["jobs", "list"], ["jobs", "list", "--app", "flow:app"], ["jobs", "cancel", "x"]):
            assert "there is no store postgresql://" in cli(*question, code=2).sentence
    assert cli("migrate", "--check", "--json").json["from"] is None


def test_an_empty_file_is_no_store_yet(cli: Cli) -> None:
    cli.file("empty.db").touch()
    assert "there is no store" in cli("jobs", "list", "--store", "sqlite:///empty.db", code=2).sentence
    assert cli.file("empty.db").stat().st_size == 0


def test_the_list_tells_why_and_which_run(cli: Cli) -> None:
    failed = cli("jobs", "submit", "bad", "--payload", "1", "--wait", "--json", code=1).json["job"]["id"]
    cli("jobs", "retry", failed)
    paused = cli.submit("hello", "a")
    cli("jobs", "pause", paused, "--reason", "lunch\nbreak")
    heading, *rows = (line.split() for line in cli("jobs", "list").out.splitlines())
    assert heading == ["ID", "WORKFLOW", "KEY", "RUN", "STATUS", "STEP", "TRY", "PROGRESS", "AGE", "WHY"]
    assert rows[0][-2:] == ["lunch", "break"]
    assert rows[1][1:4] == ["bad", "2", "queued"]
    assert rows[2][-5:] == ["ValueError:", "it", "cannot", "be", "done"]


def test_nothing_that_somebody_wrote_into_a_job_steers_the_terminal(cli: Cli) -> None:
    job = cli("jobs", "submit", "held", "--payload", '"x"').out.strip()
    cli("jobs", "pause", job, "--reason", "see \x1b[2Jhere")
    for command in (("jobs", "show", job), ("jobs", "list")):
        said = cli(*command).out
        assert "\x1b" not in said and r"see \x1b[2Jhere" in said


def test_a_table_on_a_terminal_shows_harmful_characters_as_their_numbers() -> None:
    from io import StringIO

    from rich.console import Console

    from penstock.cli.row_table import RowTable

    seen = StringIO()
    table = RowTable({"ID": ["a\x1b[2J"]}, ["why\x1b[2J"], styled="ID", styles=["red"], details=["so\x9b2J"])
    Console(file=seen, force_terminal=True, width=80).print(table)
    assert "\x1b[2J" not in seen.getvalue() and "\x9b" not in seen.getvalue()
    assert seen.getvalue().count(r"\x1b[2J") == 2


def test_logs_say_what_steps_said_and_where_they_failed(cli: Cli) -> None:
    well = cli("jobs", "submit", "hello", "--payload", '"world"', "--wait", "--json").json["job"]["id"]
    (line,) = cli("jobs", "logs", well).out.splitlines()
    assert line.split()[1:] == ["info", "greet", "greeting", "world"]

    failed = cli("jobs", "submit", "bad", "--payload", "1", "--wait", "--json", code=1).json["job"]["id"]
    for command in ("logs", "show"):
        first, code, error = cli("jobs", command, failed).out.splitlines()[-3:]
        assert "error" in first
        assert f'fall#2  File "{cli.file("flow.py")}", line ' in first
        assert code == '        raise ValueError("it cannot be done")'
        assert error == "    ValueError: it cannot be done"
    told = cli("jobs", "logs", failed, "--limit", "1", "--json").json["logs"]
    assert [(line["level"], line["attempt"]) for line in told] == [("error", 2)]
    assert cli("jobs", "show", failed, "--json").json["logs"][-1:] == told

    waiting = cli.submit("hello", "b", "--after", "1h")
    assert cli("jobs", "logs", waiting).out == f"Job {waiting} has logged nothing.\n"
    assert cli("jobs", "logs", "nonesuch", code=2).sentence == "there is no job nonesuch"


def test_a_long_progress_note_does_not_stretch_the_list(cli: Cli) -> None:
    flow = cli.file("flow.py")
    flow.write_text(flow.read_text().replace('1, 1, "names"', "1, 1, name * 200"))
    cli("jobs", "submit", "hello", "--payload", '"x"', "--wait")
    cli.submit("hello", "y")
    heading, _, done = cli("jobs", "list").out.splitlines()
    assert len(heading) < 150
    assert f"1/1 {'x' * 35}… " in done


def test_limits_of_the_configuration_reach_the_store(cli: Cli) -> None:
    cli.file("penstock.yaml").write_text("limits:\n  workflow:hello: 3\n")
    cli.submit("hello", "a")
    with sqlite3.connect(cli.file(".penstock/penstock.db")) as database:
        assert database.execute("SELECT * FROM limits").fetchall() == [("workflow:hello", 3)]
    database.close()


def test_init_makes_a_folder_that_works_and_overwrites_nothing(cli: Cli) -> None:
    cli.file("flow.py").unlink()
    assert cli("init", "--json").json == {"written": ["penstock.yaml", "flow.py"], "kept": []}
    assert cli("jobs", "submit", "hello", "--payload", '"you"', "--wait").out == '"Hello, you!"\n'
    cli.file("flow.py").write_text("# mine")
    assert cli("init", "--json").json == {"written": [], "kept": ["penstock.yaml", "flow.py"]}
    assert cli.file("flow.py").read_text() == "# mine"


def test_init_says_what_can_be_done_next_each_time(cli: Cli) -> None:
    cli.file("flow.py").unlink()
    for _ in range(2):
        said = cli("init").out
        assert "penstock jobs submit hello" in said
        assert "penstock up" in said
    cli.file("flow.py").write_text("# mine")
    said = cli("init").out
    assert "hello" not in said
    assert "penstock up" in said


def test_help_imports_nothing_heavy_and_names_every_command(cli: Cli) -> None:
    program = (
        "import sys; from penstock.cli.main import run; code = run(['--help']);"
        "heavy = ('rich', 'yaml', 'sqlalchemy', 'alembic', 'asyncpg', 'google.genai', 'starlette', 'uvicorn', 'numpy');"
        "print([name for name in heavy if name in sys.modules], code)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "[] 0"
    for command in ("init", "jobs", "calls", "costs", "worker", "gemini", "doctor", "migrate", "demo"):
        assert f"\n  {command} " in said.stdout


def test_version(cli: Cli) -> None:
    assert cli("--version").out == f"penstock {__version__}\n"


def test_a_reader_who_leaves_is_no_error(cli: Cli) -> None:
    job_id = cli("jobs", "submit", "hello", "--payload", "-", "--quiet", text=json.dumps("x" * 200_000)).out.strip()
    shown = subprocess.run(
        f"{json.dumps(str(PENSTOCK))} jobs show {job_id} --json | head -c 10",
        shell=True, cwd=cli.folder, env=cli.environ, capture_output=True, text=True,
    )  # fmt: skip
    assert (shown.stdout, shown.stderr) == ('{"job": {"', "")
