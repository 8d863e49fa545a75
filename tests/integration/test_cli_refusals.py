"""Bad input gets one clear sentence and exit code 2, and loses nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.output import without_password
from penstock.store import migrations
from tests.support.cli import PIPELINES, Cli

ROOT = os.getuid() == 0


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    cli.stop()


@pytest.fixture(scope="module")
def with_a_job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cli, str]]:
    """A store with one finished job; no refusal may change it."""
    cli = Cli(tmp_path_factory.mktemp("refusals"))
    cli.file("broken.py").write_text("import nonesuch_package\n")
    cli.file("raises.py").write_text("1 / 0\n")
    job_id = cli.submit("hello", "a", "--key", "k", "--wait")
    before = cli("jobs", "show", job_id, "--json").out
    yield cli, job_id
    assert cli("jobs", "show", job_id, "--json").out == before
    assert len(cli("jobs", "list", "--json").json["jobs"]) == 1
    cli.stop()


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("jobs submit hallo --payload 1", "there is no workflow 'hallo' here; known: {known}"),
        ("jobs submit hello --payload 5", "payload does not fit workflow 'hello': "),
        ("jobs submit hello", "workflow 'hello' needs a payload: --payload '\"text\"'"),
        ("jobs submit hello --payload null", "payload does not fit workflow 'hello': "),
        ("jobs submit hello --payload 1 --store memory://", "memory:// is gone with this process"),
        ("jobs submit hello --payload oops", "--payload is not JSON: expecting value at line 1 column 1"),
        ("jobs submit hello --payload @missing.json", "missing.json cannot be read: no such file or directory"),
        ('jobs submit hello --payload "b" --key k', "which was submitted with another payload"),
        ("jobs pause {job}", "job {job} is completed and cannot be paused"),
        ("jobs retry {job}", "job {job} is completed; only a failed job can be retried"),
        ("jobs show nonesuch", "there is no job nonesuch"),
        ("jobs list --status done", "Invalid value for '--status' / '-s': 'done' is not one of"),
        ("jobs list --limit many", "Invalid value for '--limit' / '-n': 'many' must be a whole number from 1 to 10000"),
        ("jobs list --limit 0", "'0' must be a whole number from 1 to 10000"),
        ("worker --concurrency 0", "'0' must be a whole number, 1 or more"),
        ("jobs lists", "No such command 'lists'"),
        ("jobs submit hello --payload 1 --after soon", "'soon' must be a length of time"),
        ("jobs list --nonesuch", "No such option '--nonesuch'"),
        ("jobs list --store mysql://x", "store: must be a URL like"),
        ("jobs list --config missing.yaml", "there is no configuration file missing.yaml"),
        ("jobs submit hello --app nonesuch:app", "app: there is no module 'nonesuch' here or installed (from --app)"),
        ("jobs submit hello --app flow:ap", "app: 'flow' has no 'ap'; did you mean flow:app? (from --app)"),
        ("jobs submit hello --app flow:not_an_app", "'flow:not_an_app' is not a Penstock but of type int (from --app)"),
        ("jobs submit hello --app broken:app", "app: 'broken' needs 'nonesuch_package', which is not installed"),
        ("jobs submit hello --app raises:app", "app: 'raises' cannot be imported, ZeroDivisionError: division by zero"),
    ],
)
def test_bad_input(with_a_job: tuple[Cli, str], command: str, told: str) -> None:
    cli, job_id = with_a_job
    known = ", ".join(sorted({"bad", "held", "hello", "stuck", *PIPELINES}))
    sentence = cli(*command.format(job=job_id).split(), code=2).sentence
    assert told.format(job=job_id, known=known) in sentence


def test_a_missing_payload_is_described(cli: Cli) -> None:
    cli.file("flow.py").write_text("""
from pydantic import BaseModel
from penstock import Context, Penstock, Workflow

class Part(BaseModel):
    kind: str
    size: int | None = None

class Order(BaseModel):
    name: str
    parts: list[Part]
    fast: bool = False

orders, free = Workflow("orders"), Workflow("free")

@orders.step
async def take(order: Order, ctx: Context) -> None: ...

@free.step
async def go(payload: None, ctx: Context) -> None: ...

app = Penstock(workflows=[orders, free])
""")
    parts = '[{"kind": "text", "size": integer or null (optional)}, …]'
    shape = f'{{"name": "text", "parts": {parts}, "fast": boolean (optional)}}'
    told = cli("jobs", "submit", "orders", code=2).sentence
    assert told == f"workflow 'orders' needs a payload: --payload '{shape}'"
    cli("jobs", "submit", "free", "--wait")


def test_without_an_app_only_the_pipelines_are_known(cli: Cli) -> None:
    job_id = cli.submit("hello", "you")
    del cli.environ["PENSTOCK_APP"]
    told = f"no app is named, so only Penstock's own pipelines are known here ({', '.join(PIPELINES)})"
    for command in (("jobs", "submit", "hello"), ("jobs", "wait", job_id)):
        assert f"there is no workflow 'hello' here: {told}" in cli(*command, code=2).sentence
    cli.start_worker()
    assert f"{told}: name it with --app" in cli.log
    assert cli.job(job_id)["status"] == "queued"


def test_debug_shows_where_an_error_came_from(cli: Cli) -> None:
    cli.environ["PENSTOCK_DEBUG"] = "1"
    assert "Traceback" in cli("jobs", "submit", "hallo", code=2).err


def test_a_database_from_a_newer_penstock_is_left_alone(cli: Cli) -> None:
    job_id = cli.submit("hello", "a")
    path = cli.file(".penstock/penstock.db")
    database = sqlite3.connect(path)
    database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    before = path.read_bytes()

    told = "was made by a newer Penstock (schema 9999, this one knows up to"
    for command in (
        ["jobs", "list"],
        ["jobs", "submit", "hello", "--payload", '"b"'],
        ["migrate"],
        ["migrate", "--check"],
    ):
        assert told in cli(*command, code=2).sentence
    assert told in str(cli("doctor", "--json", code=1).json)
    cli.start("worker").wait(30)
    assert told in cli.log
    assert path.read_bytes() == before

    database = sqlite3.connect(path)
    database.execute("UPDATE alembic_version SET version_num = ?", (migrations.HEAD,))
    database.commit()
    database.close()
    assert cli.job(job_id)["status"] == "queued"


def test_a_file_that_is_no_database(cli: Cli) -> None:
    cli.file("notes.txt").write_text("these are my notes, and not a database at all\n" * 50)
    for command in (["jobs", "list"], ["migrate"], ["jobs", "submit", "hello", "--payload", '"a"']):
        sentence = cli(*command, "--store", "sqlite:///notes.txt", code=2).sentence
        assert "sqlite:///notes.txt is not a SQLite database" in sentence
    assert cli.file("notes.txt").read_text().startswith("these are my notes")


def test_a_home_below_a_file(cli: Cli) -> None:
    cli.file("taken").write_text("")
    sentence = cli("jobs", "submit", "hello", "--payload", '"a"', "--home", "taken/home", code=2).sentence
    assert "taken" in sentence
    assert cli("doctor", "--home", "taken/home", "--json", code=1).json["ok"] is False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc, where nobody can make a folder")
def test_a_home_where_no_folder_can_be_made(cli: Cli) -> None:
    for command in (("up", "--port", "0"), ("jobs", "submit", "hello", "--payload", '"a"')):
        said = cli(*command, "--home", "/proc/nope", code=2)
        assert "/proc/nope): choose a place that can be written (--home, --store)" in said.sentence


@pytest.mark.skipif(not (ROOT and shutil.which("setpriv")), reason="needs root and setpriv, to become another user")
def test_a_folder_that_this_user_cannot_write(cli: Cli) -> None:
    job_id = cli.submit("hello", "a")
    for folder in (cli.folder, *cli.folder.parents):
        if not folder.stat().st_mode & 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)
    home = cli.file(".penstock")
    cli.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    said = cli("jobs", "submit", "hello", "--payload", '"b"', code=2, as_user=65534)
    assert "cannot be written" in said.sentence
    assert "cannot be written" in str(cli("doctor", "--json", code=1, as_user=65534).json)
    fresh = cli("jobs", "submit", "hello", "--payload", '"b"', "--home", "fresh", code=2, as_user=65534)
    assert "permission denied" in fresh.sentence
    assert sorted(path.name for path in home.iterdir() if "outputs" not in path.name) == ["penstock.db"]
    assert [job["id"] for job in cli("jobs", "list", "--json").json["jobs"]] == [job_id]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, of 4 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(not ROOT, reason="needs root, to mount a small disk")
def test_a_full_disk_loses_nothing(cli: Cli, small_disk: Path) -> None:
    cli.environ["PENSTOCK_HOME"] = str(small_disk)
    kept = [cli.submit("hello", "first")]
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)

    said = cli("jobs", "submit", "hello", "--payload", '"too much"', code=2)
    assert "full" in said.sentence or "no space left" in said.sentence

    filler.unlink()
    kept.append(cli.submit("hello", "second"))
    assert [job["id"] for job in cli("jobs", "list", "--json").json["jobs"]] == kept[::-1]
    cli("jobs", "wait", *kept)
    database = sqlite3.connect(small_disk / "penstock.db")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:p@ssw0rd@db/prod", "postgresql://me:***@db/prod"),
        ("postgresql://me:p%40ss/w0rd@db/prod: no", "postgresql://me:***@db/prod: no"),
        ("postgresql://me@corp:pass@word@db", "postgresql://me@corp:***@db"),
        ("see postgresql://me:a@b@db/x and redis://:c@d@e/1", "see postgresql://me:***@db/x and redis://:***@e/1"),
        ("postgresql://db/prod?password=p@ss)w'ord&x=1", "postgresql://db/prod?password=***&x=1"),
        ("postgresql://db/prod?x=1&password=secret", "postgresql://db/prod?x=1&password=***"),
        ("postgresql://me@db:5432/prod, mail ann@example.org", "postgresql://me@db:5432/prod, mail ann@example.org"),
    ],
)
def test_passwords_are_hidden_however_they_are_written(text: str, shown: str) -> None:
    assert without_password(text) == shown


def test_a_read_only_disk(cli: Cli, small_disk: Path) -> None:
    cli.environ["PENSTOCK_HOME"] = str(small_disk)
    cli("migrate")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for command in (["migrate"], ["jobs", "list"], ["jobs", "submit", "hello", "--payload", '"a"']):
        assert "cannot be" in cli(*command, code=2).sentence
    assert "make the folder writable" in cli("migrate", code=2).sentence


def test_no_password_is_ever_printed(cli: Cli) -> None:
    cli.environ["PENSTOCK_STORE"] = "postgresql://ann:open-sesame@127.0.0.1:9/work?connect_timeout=1"
    said = cli("jobs", "list", code=1)
    assert "127.0.0.1" in said.sentence
    doctor = cli("doctor", "--json", code=1)
    cli.environ["PENSTOCK_DEBUG"] = "1"
    for text in (said.err, doctor.out, doctor.err):
        assert "open-sesame" not in text
