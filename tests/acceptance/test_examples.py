"""The examples, run as a newcomer runs them: in an empty folder, with nothing configured."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

OURS = ("PENSTOCK_", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL")

EXPECTED = {
    "hello": ["Hello, world!"],
    "retry": [
        "retry     fetch  Transient: the connection was reset",
        "retry     fetch  RateLimited: too many requests",
        "next      fetch",
        "fail      parse  Permanent: a cell is not a number",
        "run 2: completed, the sum is 49",
    ],
    "wait_and_poll": ["sunrise.mp4", "harbour.mp4", "night train.mp4", "all three waited at once"],
    "batch_fan_in": [
        "11 of 12 pages read, 1 failed",
        "The Penstock Reader: 1171 words, 1 page unreadable",
    ],
    "pause_cancel_cleanup": [
        "the first export is paused half way",
        "the second is cancelled, and 0 lines are left of it",
        "60 rows in kept.txt",
        "the file has 60 lines",
    ],
    "gemini_batch": [
        "page-1.png: A penstock is a pipe",
        "page-2.png: that carries water",
        "page-3.png: from the dam",
        "page-4.png: to the turbine.",
        "1056 tokens in, ",
    ],
    "never_paid_twice": [
        "killed: Gemini has the batch, and its answer was never heard",
        "Look before you leap.",
        "Measure twice, cut once.",
        "creates: 1",
    ],
    "budget": [
        "paused: 2 of 4 lines, ",
        "OverBudget: budget tenant:town: ",
        "completed: 4 of 4 lines, ",
    ],
    "documents": [
        "Altenbrucker Werkstatttechnik GmbH: 77.99 EUR, 0.99 sure",
        "Électricité Pérignac SAS: 5811.68 EUR, ",
        "Fenwright Office Supplies LLP: 1742.70 GBP, ",
        "The page contradicts its e-invoice: total is 1742.70 in the data, £302.70 on the page",
        "its file says 302.70, corrected, ['total'] locked",
        "001-rechnung-altenbrucker-2023-01867.pdf: 77.99 EUR, pending",
        "002-facture-electricite-inv-2024-3341.pdf: 5811.68 EUR, pending",
        "003-invoice-fenwright-fa2504696.pdf: 302.70 GBP, corrected",
    ],
    "ingestion": [
        "completed: 12 documents, 27 chunks, sound",
        "How tight do the screws of the mounting rail have to be?",
        "  start/installation.md, Hang it up: ",
        "For how many weeks should a new house run in advisory mode?",
        "  start/first-season.md, Advisory mode: Leave the controller in advisory mode for two weeks.",
        "refreshed: 1 of 12 pages, 1 embedded",
        "How tight do the screws of the mounting rail have to be?",
        "  start/installation.md, Hang it up: ",
        "not_started: Canceled by user",
        "as it was: 12 documents, 27 chunks, sound",
    ],
    "priorities": ["an hour old", "urgent 1", "urgent 2", "normal 1", "normal 2", "normal 3"],
}


def run(name: str, folder: Path) -> list[str]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=folder, env=environ, capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def test_every_example_is_run_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_does_what_it_says(name: str, tmp_path: Path) -> None:
    lines = run(name, tmp_path)
    assert len(lines) == len(EXPECTED[name])
    for line, expected in zip(lines, EXPECTED[name], strict=True):
        assert line.startswith(expected)


def test_an_example_with_keys_finds_its_jobs_again(tmp_path: Path) -> None:
    first = run("wait_and_poll", tmp_path)
    assert run("wait_and_poll", tmp_path) == first


@pytest.mark.parametrize("name", EXPECTED)
def test_examples_use_the_public_api_only(name: str) -> None:
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text())
    assert ast.get_docstring(tree), "it does not say what it shows"
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {module for module in imported if module and module.startswith("penstock")}
    assert {"penstock"} <= ours <= {"penstock", "penstock.documents", "penstock.gemini"}


def test_hello_is_ten_lines() -> None:
    lines = (EXAMPLES / "hello.py").read_text().splitlines()
    assert len([line for line in lines if line and not line.startswith('"""')]) <= 10


@pytest.mark.timeout(300)
def test_the_demo_runs_them_all_and_leaves_nothing(tmp_path: Path) -> None:
    environ = {**os.environ, "DEMO_EXIT": "1", "TMPDIR": str(tmp_path)}
    penstock = Path(sys.executable).with_name("penstock")
    ended = subprocess.run([penstock, "demo"], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=280)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1] == "12 examples, 51 jobs, all as expected."
    assert list(tmp_path.iterdir()) == []
