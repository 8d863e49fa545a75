"""Every `--json` output has a schema, and every schema is kept by a real output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.support.cli import Cli

FOLDER = resources.files("penstock.cli") / "schemas"
SCHEMAS = {file.name.removesuffix(".json"): json.loads(file.read_text()) for file in FOLDER.iterdir()}
REGISTRY: Registry[Any] = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values()
)
PARTS = {"job", "job-summary", "event"}
"""What other schemas refer to."""


def keeps(name: str, value: Any) -> None:
    validator = Draft202012Validator(
        SCHEMAS[name], registry=REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    problems = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
    assert not problems, f"{name}: {problems}"


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    cli.stop()


def test_every_output_keeps_its_schema(cli: Cli) -> None:
    kept: set[str] = set()

    def check(name: str, *args: str, code: int = 0) -> Any:
        value = cli(*args, "--json", code=code).json
        keeps(name, value)
        kept.add(name)
        return value

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
    check("jobs-wait", "jobs", "wait", failed, code=1)
    check("jobs-control", "jobs", "retry", failed)
    check("jobs-control", "jobs", "cancel", first)
    check("doctor", "doctor")
    check("migrate", "migrate")
    check("demo", "demo")
    assert cli.start("worker", "--json", "--stop-when-idle", "100ms").wait(30) == 0
    for line in cli.log.splitlines():
        keeps("log-line", json.loads(line))
    kept.add("log-line")
    assert set(SCHEMAS) == kept | PARTS


def test_schemas_are_sound() -> None:
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
