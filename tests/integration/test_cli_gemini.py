"""`penstock gemini`: the local Gemini as somebody runs it by hand, and looks at it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.cli import PENSTOCK, Cli
from tests.support.schemas import keeps

MODEL = "/v1beta/models/gemini-2.5-flash"
HELLO = {"contents": [{"parts": [{"text": "hello"}]}]}
BATCH = {"batch": {"displayName": "mine", "inputConfig": {"requests": {"requests": [{"request": HELLO}]}}}}

ASK = """
from google import genai
client = genai.Client()
print(client.models.generate_content(model="gemini-2.5-flash", contents="hello").text)
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"):
        cli.environ.pop(name, None)
    yield cli
    cli.stop()


def serve(cli: Cli, *options: str) -> tuple[subprocess.Popen[str], str]:
    """A server that can be reached when this returns, and its address."""
    server = cli.start("gemini", "serve", "--backend", "script", "--port", "0", *options)
    cli.until(lambda: "Workers of this home" in cli.log or server.poll() is not None, "the local Gemini to be ready")
    found = re.search(r"answers at (http://\S+)", cli.log)
    assert found, cli.log
    return server, found[1]


def ask(url: str, path: str, body: Any, key: str = "any") -> tuple[int, Any]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.request("POST", path, json.dumps(body), {"x-goog-api-key": key, "content-type": "application/json"})
    answer = connection.getresponse()
    told = answer.status, json.loads(answer.read())
    connection.close()
    return told


def test_a_server_from_its_start_to_its_end(cli: Cli) -> None:
    for ask_for in ("list", "clear"):
        assert "ever started for this home" in cli.inside("gemini", "faults", ask_for, code=2).sentence
    assert "no local Gemini was ever started there" in cli.inside("gemini", "journal", code=2).sentence
    assert cli.inside("gemini", "stop", "--json").json == {"stopped": False}
    server, url = serve(cli, "--pending", "1h")

    assert ask(url, f"{MODEL}:generateContent", HELLO)[0] == 200
    assert ask(url, f"{MODEL}:batchGenerateContent", BATCH)[0] == 200
    status = cli("gemini", "status").out
    for line in (f"url      {url}", f"pid      {server.pid}", "backend  script", "batches  1 pending", "faults   none"):
        assert line in status.splitlines()

    again = cli("gemini", "serve", "--port", "0", code=2).sentence
    assert f"already ({url}, process {server.pid}): `penstock gemini stop` ends it" in again

    assert cli("gemini", "stop").out == "Stopped.\n"
    assert server.wait(30) == 0
    assert cli.inside("gemini", "status", "--json", code=1).json["batches"] == {"PENDING": 1}
    journal = cli.inside("gemini", "journal", "--grep", "^CREATE$", "--json").json
    keeps("gemini-journal", journal)
    assert [(entry["operation"], entry["status"], entry["label"]) for entry in journal["entries"]] == (
        [("create", 200, "mine")]
    )
    lines = cli.inside("gemini", "journal").out.splitlines()
    assert [line.split()[1] for line in lines] == ["OPERATION", "generate", "create"]
    assert cli.inside("gemini", "journal", "-n", "1").out.count("\n") == 2
    assert "is not a regular expression" in cli.inside("gemini", "journal", "--grep", "(", code=2).sentence


def test_googles_own_client_finds_it_as_the_command_says(cli: Cli) -> None:
    serve(cli)
    told = dict(re.findall(r"^  export (\w+)=(\S+)$", cli.log, re.M))
    assert set(told) == {"GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"}
    environ = cli.environ | told
    said = subprocess.run([sys.executable, "-c", ASK], env=environ, capture_output=True, text=True, timeout=60)
    assert said.stdout == "hello\n", said.stderr


def test_faults_are_set_listed_and_cleared(cli: Cli) -> None:
    _, url = serve(cli)
    cli.file("faults.yaml").write_text("faults:\n  - {kind: error, where: generate, code: 429, times: 1}\n")
    assert "for ever" not in cli("gemini", "faults", "set", "faults.yaml").out
    assert [ask(url, f"{MODEL}:generateContent", HELLO)[0] for _ in range(2)] == [429, 200]
    (fault,) = cli.inside("gemini", "faults", "list", "--json").json["faults"]
    assert (fault["kind"], fault["where"], fault["seen"], fault["applied"]) == ("error", ["generate"], 2, 1)
    assert "error" in cli.inside("gemini", "journal", "--grep", "generate").out.splitlines()[1].split()[-1]
    wrong = cli("gemini", "faults", "set", "-", text='[{"kind": "nonesuch"}]', code=2).sentence
    assert "there is no kind of fault 'nonesuch'; there are: block, chunk_without_status," in wrong
    assert "must hold a list of faults" in cli("gemini", "faults", "set", "-", text="5", code=2).sentence
    assert cli.inside("gemini", "status", "--json").json["faults"] == 0
    assert cli.inside("gemini", "faults", "clear").out == "No faults are in force.\n"


def test_faults_can_be_seen_and_cleared_while_no_server_runs(cli: Cli) -> None:
    serve(cli)
    cli("gemini", "faults", "set", "-", text="[{kind: delay}, {kind: fail, times: 0}]")
    assert "faults   1 in force: `penstock gemini faults list`" in cli.inside("gemini", "status").out
    cli("gemini", "stop")
    status = cli.inside("gemini", "status", "--json", code=1).json
    keeps("gemini-status", status)
    assert status["faults"] == 1
    assert "faults: 1 in force" in cli.inside("gemini", "status", code=1).out
    listed = cli.inside("gemini", "faults", "list", "--json").json
    keeps("gemini-faults", listed)
    assert [fault["kind"] for fault in listed["faults"]] == ["delay", "fail"]
    assert "did you mean 'delay'?" in cli("gemini", "faults", "set", "-", text="[{kind: dalay}]", code=2).sentence
    assert cli.inside("gemini", "faults", "clear").out == "No faults are in force.\n"
    assert cli.inside("gemini", "faults", "list", "--json").json == {"faults": []}
    serve(cli)
    assert cli.inside("gemini", "faults", "list", "--json").json == {"faults": []}


def test_a_narrow_terminal_keeps_what_matters(cli: Cli) -> None:
    _, url = serve(cli)
    cli("gemini", "faults", "set", "-", text="[{kind: row_error, match: '^penstock-.*-long', message: it is a pity}]")
    batch = {"batch": {**BATCH["batch"], "displayName": "penstock-01k0a0b0c0d0e0f0-long"}}
    assert ask(url, f"{MODEL}:batchGenerateContent", batch)[0] == 200
    cli.environ["COLUMNS"] = "80"
    journal = on_a_terminal(cli, "gemini", "journal").splitlines()
    assert [len(line) <= 80 for line in journal] == [True] * len(journal)
    assert journal[0].split() == ["At", "Operation", "Status", "Path", "Label", "Fault"]
    assert re.fullmatch(r"\d\d:\d\d:\d\d +create +200 +POST.*….* +penst.*….*long +row_error *", journal[2])
    faults = on_a_terminal(cli, "gemini", "faults", "list").splitlines()
    assert faults[0].split() == ["Kind", "Where", "Times", "Match", "Options", "Seen", "Done"]
    assert re.fullmatch(r"row_error +create +for ever .*….* 1 +1 *", faults[2])


def on_a_terminal(cli: Cli, *args: str) -> str:
    """What somebody at a terminal sees, without its colours."""
    ours, theirs = os.openpty()
    environ = cli.environ | {"TERM": "xterm"}
    process = subprocess.Popen([PENSTOCK, *args], cwd=cli.folder, env=environ, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    while True:
        try:
            said += os.read(ours, 65_536)
        except OSError:  # what Linux raises when the last one at the other end has left
            break
    os.close(ours)
    assert process.wait(30) == 0, said
    return re.sub(r"\x1b\[[0-9;]*m", "", said.decode())


def test_ctrl_c_ends_it_with_130_and_only_its_key_is_let_in(cli: Cli) -> None:
    cli.environ["MY_KEY"] = "s3cret"
    server, url = serve(cli, "--api-key-env", "MY_KEY")
    assert "Workers of this home need both, too" in cli.log
    assert ask(url, f"{MODEL}:generateContent", HELLO, key="other")[0] == 400
    assert ask(url, f"{MODEL}:generateContent", HELLO, key="s3cret")[0] == 200
    server.send_signal(signal.SIGINT)
    assert server.wait(30) == 130
    assert "s3cret" not in cli.log


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--host 0.0.0.0", "0.0.0.0 can be reached from other machines: if that is meant, say --allow-remote"),
        ("--backend oracle", "there is no backend 'oracle'; there are: local, openai:URL, script"),
        ("--backend script:nonesuch.yaml", "the script 'nonesuch.yaml' cannot be followed: no such file or directory"),
        ("--backend script:bad.yaml", "the script 'bad.yaml' cannot be followed: it is neither JSON nor YAML: "),
        ("--api-key-env NONESUCH", "there is no API key in the variable NONESUCH"),
        ("--api-key-file nonesuch", "nonesuch cannot be read: no such file or directory"),
    ],
)
def test_what_cannot_be_served_is_refused(cli: Cli, options: str, told: str) -> None:
    cli.file("bad.yaml").write_text("rules: [")
    assert told in cli.inside("gemini", "serve", "--port", "0", *options.split(), code=2).sentence
    assert not cli.file(".penstock").exists()


def test_a_port_in_use_is_told_with_the_way_out(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        said = cli.inside("gemini", "serve", "--backend", "script", "--port", port, code=2).sentence
    assert f"cannot listen on 127.0.0.1:{port}: another program listens there" in said
    assert "--port 0 takes any that is free" in said
    assert not cli.file(".penstock").exists()
    _, url = serve(cli)
    mine = str(urlsplit(url).port)
    said = cli.inside("gemini", "serve", "--backend", "script", "--port", mine, code=2).sentence
    assert f"already ({url}, process" in said


def test_a_folder_that_cannot_be_written_is_told(cli: Cli) -> None:
    cli.file(".penstock").touch()
    said = cli.inside("gemini", "serve", "--backend", "script", "--port", "0", code=2).sentence
    assert "gemini cannot be written: " in said


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to become another user")
def test_a_user_without_the_right_to_write_is_told(cli: Cli) -> None:
    for folder in (cli.folder, *cli.folder.parents):
        if not folder.stat().st_mode & 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)
    cli.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    said = cli("gemini", "serve", "--backend", "script", "--port", "0", code=2, as_user=65534).sentence
    assert "gemini cannot be written: permission denied" in said


def test_the_doctor_says_which_gemini_is_used_and_no_key(cli: Cli) -> None:
    def found() -> tuple[str, str]:
        said = cli("doctor", "--json")
        assert "s3cret" not in said.out + said.err
        checks = {check["name"]: check for check in said.json["checks"]}
        assert checks["prices"]["detail"].startswith("read on 20")
        return checks["gemini"]["status"], checks["gemini"]["detail"]

    assert found() == ("ok", "no key is set; the local Gemini is used (backend local)")
    cli.environ["GEMINI_API_KEY"] = "s3cret"
    status, detail = found()
    assert (status, detail.startswith("a key from the environment, GEMINI_API_KEY, for https://")) == ("ok", True)
