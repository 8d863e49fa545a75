"""The JSON Schemas of the command line, and whether an output keeps one."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

FOLDER = resources.files("penstock.cli") / "schemas"
SCHEMAS: dict[str, Any] = {file.name.removesuffix(".json"): json.loads(file.read_text()) for file in FOLDER.iterdir()}
REGISTRY: Registry[Any] = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values()
)


def keeps(name: str, value: Any) -> None:
    validator = Draft202012Validator(
        SCHEMAS[name], registry=REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    problems = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
    assert not problems, f"{name}: {problems}"
