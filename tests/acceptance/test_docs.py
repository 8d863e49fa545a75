"""What the documentation shows is true: its Python runs, its commands and links exist, and no export is left out.

The Python blocks of a page are one program, in their order. A block with `title="name.py"` is a program of its own,
kept under that name for the blocks that follow. A block after `<!-- not run: reason -->` is only compiled.

The `console` blocks of a page that stand after `<!-- run -->` are run by one shell, in their order, in a folder with
the page's titled blocks. What is shown under a command is what it writes to stdout, where `…` stands for anything.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import os
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from PIL import Image, ImageDraw, ImageFont

import penstock
import penstock.documents
import penstock.gemini
import penstock.ingestion
from penstock.cli.main import penstock as command_line
from penstock.engine import errors
from penstock.engine.call import ENDED, LIVE, MOVES, STATES
from penstock.engine.model import STATUSES
from penstock.gemini_local.faults import KINDS
from penstock.gemini_local.launch import stop
from penstock.gemini_local.routes import OPERATIONS
from penstock.remote import pool
from penstock.simulation.rules import EDGES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(
    r"^(?:<!-- (?:not run: (?P<reason>[^\n]+?)|(?P<really>run)) -->\n+)?"
    r"(?P<fence>```+)(?P<language>\w+)(?P<rest>[^\n]*)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'title="([^"]+)"')
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
OURS = ("PENSTOCK_", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL")
PATIENCE = 60


@dataclass(frozen=True)
class Block:
    line: int
    text: str
    title: str | None
    runs: bool
    really: bool = False


def blocks_of(page: Path, *languages: str) -> list[Block]:
    text = page.read_text()
    found = []
    for match in _BLOCK.finditer(text):
        if match["language"] in languages:
            title = _TITLE.search(match["rest"])
            line = text.count("\n", 0, match.start("fence")) + 1
            runs, really = match["reason"] is None, match["really"] is not None
            found.append(Block(line, match["text"], title[1] if title else None, runs, really))
    return found


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def program(page: Path, blocks: list[Block]) -> str:
    """The blocks as one source, with the page's own line numbers so that a traceback points into the page."""
    lines: list[str] = []
    for block in blocks:
        lines += [""] * (block.line - len(lines))
        lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


def environment() -> dict[str, str]:
    """As a reader has it: none of our settings, and no key."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OURS)}


def run(source: str, name: str, folder: Path) -> None:
    path = folder / name
    path.write_text(source)
    command = [sys.executable, "-W", "error", name]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, f"{name} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"


WITH_PYTHON = [page for page in PAGES if blocks_of(page, "python", "py")]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty one; a local Gemini that was started in it ends with the test."""
    yield tmp_path
    stop(tmp_path / ".penstock")


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_the_python_on_a_page_runs(page: Path, folder: Path) -> None:
    together: list[Block] = []
    for block in blocks_of(page, "python", "py"):
        if not block.runs:
            compile(block.text, f"{page.name}:{block.line}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        elif block.title is not None:
            run(program(page, [block]), block.title, folder)
        else:
            together.append(block)
    if together:
        run(program(page, together), f"{page.stem.replace('-', '_').lower()}_page.py", folder)


@dataclass(frozen=True)
class Command:
    """A line after `$`, with its continuation after `>`, and what it is said to write."""

    line: int
    text: str
    shown: list[str]


def commands_of(page: Path) -> list[Command]:
    found: list[Command] = []
    for block in blocks_of(page, "console"):
        if block.really:
            for number, line in enumerate(block.text.splitlines(), block.line + 1):
                if line.startswith("$ "):
                    found.append(Command(number, line[2:], []))
                elif line.startswith("> ") and not found[-1].shown:
                    found[-1] = Command(found[-1].line, f"{found[-1].text}\n{line[2:]}", [])
                else:
                    found[-1].shown.append(line)
    return found


def is_shown(said: str, shown: list[str]) -> bool:
    """Spaces count as one, since columns are as wide as what is in them."""
    lines = [re.escape(" ".join(line.split())).replace("…", ".*") for line in shown]
    wanted = "\n".join("(?:.*\n)*?.*" if line == ".*" else line for line in lines)
    return re.fullmatch(wanted, "\n".join(" ".join(line.split()) for line in said.strip().splitlines())) is not None


MARK = "=== done: "
PORT = "8790"


@pytest.mark.timeout(4 * PATIENCE)
@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=name_of)
def test_the_commands_on_a_page_do_what_it_says(page: Path, folder: Path) -> None:
    """With another port than the page's, which may be in use."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    for block in blocks_of(page, "python", "yaml", "json"):
        if block.title is not None:
            (folder / block.title).write_text(block.text)
    commands = commands_of(page)
    runs = [f"{{\n{command.text}\n}}\ncode=$?; echo; echo '{MARK}'$code\n" for command in commands]
    script = "".join(runs).replace(PORT, port)
    (folder / "page.sh").write_text(script)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    errors = folder / "page.stderr"
    with errors.open("w") as stderr:
        done = subprocess.run(
            ["bash", "page.sh"], cwd=folder, env=environment() | {"PATH": path, "COLUMNS": "200"}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, timeout=3 * PATIENCE,
        )  # fmt: skip
    said = re.split(rf"\n{MARK}(\d+)\n", done.stdout.replace(port, PORT))
    for command, output, code in zip(commands, said[::2], said[1::2], strict=False):
        where = f"{name_of(page)} line {command.line}: {command.text!r}"
        assert code == "0", f"{where} ended with {code}\n{output}\n{errors.read_text()}"
        if command.shown:
            shown = "\n".join(command.shown)
            assert is_shown(output, command.shown), f"{where} wrote\n{output}\nand the page shows\n{shown}"
    assert len(said) == 2 * len(commands) + 1, f"the shell ended early\n{done.stdout}\n{errors.read_text()}"


def test_the_readmes_program_goes_on_after_kill_9(tmp_path: Path) -> None:
    (block,) = [block for block in blocks_of(ROOT / "README.md", "python") if block.title == "count.py"]
    (tmp_path / "count.py").write_text(block.text)
    command = [sys.executable, "-u", "count.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert [first.stdout.readline().strip() for _ in range(2)] == ["1", "2"]
        wait_for_payload(tmp_path / ".penstock/penstock.db", "3")
        first.send_signal(signal.SIGKILL)
        assert first.stdout.read() == "", "it was killed while the job waited"
    again = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert again.returncode == 0, again.stderr
    assert again.stdout.split() == ["3", "4", "5", "6", "done"]


def test_the_readmes_gemini_program_reads_a_page(folder: Path) -> None:
    (block,) = [block for block in blocks_of(ROOT / "README.md", "python") if block.title == "read.py"]
    (folder / "read.py").write_text(block.text)
    page = Image.new("L", (900, 200), "white")
    ImageDraw.Draw(page).text((60, 60), "A penstock is a pipe", fill="black", font=ImageFont.load_default(size=48))
    page.save(folder / "scan.png")
    command = [sys.executable, "-W", "error", "read.py", "scan.png"]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "['A penstock is a pipe']\n"


def wait_for_payload(store: Path, payload: str) -> None:
    """Until the outcome is committed: killed a moment earlier, the step would rightly run once more."""
    end = time.monotonic() + PATIENCE
    with sqlite3.connect(store) as connection:
        while connection.execute("SELECT payload FROM jobs").fetchall() != [(payload,)]:
            assert time.monotonic() < end, f"the job never came to payload {payload}"
    connection.close()


def command_of(words: list[str]) -> click.Command:
    """The command that a line calls, or an error that says what is unknown in it."""
    command: click.Command = command_line
    context = click.Context(command)
    options = [word.partition("=")[0] for word in words if word.startswith("-") and word != "-"]
    for word in words:
        if not isinstance(command, click.Group) or word.startswith("-"):
            break
        found = command.get_command(context, word)
        assert found is not None, f"there is no command {word!r}"
        command = found
    known = {name for parameter in command.get_params(click.Context(command)) for name in parameter.opts}
    unknown = [option for option in options if option not in known | {"--help", "-h", "--version"}]
    assert not unknown, f"it has no option {', '.join(unknown)}"
    return command


@pytest.mark.parametrize("page", [p for p in PAGES if blocks_of(p, "sh", "console")], ids=name_of)
def test_the_commands_on_a_page_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for block in blocks_of(page, "sh", "console"):
        shows_output = re.search(r"^\$ ", block.text, re.MULTILINE) is not None
        for number, line in enumerate(block.text.splitlines(), block.line + 1):
            if shows_output and not line.startswith("$ "):
                continue
            words = shlex.split(line.removeprefix("$ "), comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words = words[1:]
            words = list(itertools.takewhile(lambda word: not re.match(r"[|;>&]|\$\(", word), words))
            try:
                if words[:1] == ["penstock"]:
                    command_of(words[1:])
                elif words[:1] == ["make"]:
                    assert f"\n{words[1]}:" in makefile, f"there is no target {words[1]}"
            except AssertionError as error:
                pytest.fail(f"{name_of(page)} line {number}: {line!r}: {error}")


def anchors_of(page: Path) -> set[str]:
    text = _BLOCK.sub("", page.read_text())
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip()) for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(_BLOCK.sub("", page.read_text())):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)} links to {link}, which is not there"
        if anchor and target.suffix == ".md":
            assert anchor in anchors_of(target), f"{name_of(page)} links to {link}: that page has no such heading"


def test_every_page_can_be_reached_from_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    missing = [
        path
        for page in PAGES
        if (path := name_of(page).removeprefix("docs/")) != name_of(page) and path not in navigation
    ]
    assert not missing, f"not in mkdocs.yml: {', '.join(missing)}"


def documented(page: str) -> set[str]:
    """What a reference page has a heading or a table row for."""
    text = (ROOT / "docs/reference" / page).read_text()
    headings = re.findall(r"^#+ `(\w+)", text, re.MULTILINE)
    rows = re.findall(r"^\| `(\w+)", text, re.MULTILINE)
    return {*headings, *rows}


def test_every_export_is_documented_and_nothing_else_is() -> None:
    page = (ROOT / "docs/reference/python.md").read_text()
    known = documented("python.md")
    missing = sorted(set(penstock.__all__) - known)
    assert not missing, f"docs/reference/python.md says nothing of {', '.join(missing)}"
    invented = sorted(set(re.findall(r"^### `(\w+)", page, re.MULTILINE)) - set(penstock.__all__))
    assert not invented, f"docs/reference/python.md describes {', '.join(invented)}, which penstock does not export"


PUBLIC = [penstock.Penstock, penstock.Workflow, penstock.Context]
FOR_THE_ENGINE = "For the engine's use"


@pytest.mark.parametrize("owner", PUBLIC, ids=lambda owner: owner.__name__)
def test_every_public_method_is_documented(owner: type) -> None:
    """All but those whose docstring says that they are for the engine."""
    members = {name: member for name, member in vars(owner).items() if not name.startswith("_")}
    methods = {
        name
        for name, member in members.items()
        if not inspect.ismemberdescriptor(member) and FOR_THE_ENGINE not in (member.__doc__ or "")
    }
    missing = sorted(methods - documented("python.md"))
    assert not missing, f"docs/reference/python.md says nothing of {owner.__name__}.{', '.join(missing)}"


def test_every_error_is_documented() -> None:
    known = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    missing = sorted(known - documented("errors.md"))
    assert not missing, f"docs/reference/errors.md says nothing of {', '.join(missing)}"


def test_the_states_page_shows_every_status_and_every_legal_change() -> None:
    """The table is compared with the edges that the simulator checks after every transaction."""
    text = (ROOT / "docs/reference/states.md").read_text()
    assert set(STATUSES) <= documented("states.md")
    told: dict[str, set[str]] = {status: set() for status in ("", *STATUSES)}
    for row in re.findall(r"^\| (submit|`\w+`) → `(\w+)` \|", text, re.MULTILINE):
        told[row[0].strip("`") if row[0] != "submit" else ""].add(row[1])
    assert told == {status: set(edges) for status, edges in EDGES.items()}


def ticked(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_states_page_shows_every_state_of_a_call_and_every_legal_change() -> None:
    text = (ROOT / "docs/reference/states.md").read_text()
    assert set(STATES) <= documented("states.md")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \| (yes)? ?\| ?(yes)? ?\|$", text, re.MULTILINE)
    assert {row[0] for row in rows if row[2]} == LIVE
    assert {row[0] for row in rows if row[3]} == ENDED
    section = text.partition("### Legal changes of calls")[2].partition("\n## ")[0]
    told = {
        (kind, before, after)
        for kind, befores, after in re.findall(r"^\| `(\w+)` \| ([^|]+) \| `(\w+)` \|", section, re.MULTILINE)
        for before in ticked(befores)
    }
    moves = {(kind, *move) for kind, each in MOVES.items() for move in each.items()}
    assert told == {move for move in moves if move[1] != move[2]}


def test_the_local_geminis_page_shows_every_operation_and_every_fault() -> None:
    text = (ROOT / "docs/reference/local-gemini.md").read_text()
    told = {
        kind: (scope, tuple(ticked(where)), set(ticked(options)))
        for kind, scope, where, options in re.findall(
            r"^\| `(\w+)` \| (request|file|job|row|result) \| ([^|]*) \| ([^|]*) \|", text, re.MULTILINE
        )
    }
    assert told == {name: (kind.scope, kind.where, set(kind.options)) for name, kind in KINDS.items()}
    endpoints = text.partition("## Endpoints")[2].partition("\n## ")[0]
    named = {name for cell in re.findall(r"^\| (`\w+`[^|]*) \|", endpoints, re.MULTILINE) for name in ticked(cell)}
    assert named == OPERATIONS


def test_what_authors_import_from_elsewhere_is_documented() -> None:
    """The helpers for Gemini, for documents and for knowledge bases, and the pool's errors."""
    modules = (penstock.gemini, penstock.documents, penstock.ingestion)
    assert {name for module in modules for name in module.__all__} <= documented("python.md")
    raised = {name for name in pool.__all__ if isinstance(getattr(pool, name), type)}
    raised = {name for name in raised if issubclass(getattr(pool, name), Exception)}
    assert raised <= documented("errors.md")


def test_the_tests_that_the_rules_page_names_exist() -> None:
    text = (ROOT / "docs/explanation/rules.md").read_text()
    sources = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    files = {path.name for path in sources}
    for name in re.findall(r"`(?:tests/\S*/)?(test_\w+(?:\.py)?)`", text):
        found = name in files if name.endswith(".py") else any(f"def {name}(" in source for source in sources.values())
        assert found, f"docs/explanation/rules.md names {name}, which is not there"
