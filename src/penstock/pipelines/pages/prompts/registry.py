"""Prompts by name and version: those that ship with Penstock, and over them those of a user's own folder.

    {registry_dir}/{name}/{version}.jinja          what is asked; `templates.py` says what a template may do
    {registry_dir}/{name}/{version}.schema.json    what is answered, as JSON Schema

A folder of prompts is data: nothing in it is run as Python.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from penstock.engine.errors import InvalidConfiguration, InvalidRequest
from penstock.pipelines.pages.model import PageIdentifier, Prompt
from penstock.pipelines.pages.prompts.catalogue import CataloguePage
from penstock.pipelines.pages.prompts.context import PROVENANCE, ContextCourse, PageContext
from penstock.pipelines.pages.prompts.templates import PromptTemplate
from penstock.pipelines.pages.prompts.transcription import Transcription
from penstock.remote.gemini.requests import response_schema
from penstock.remote.gemini.schema import misfit

BUILT_IN: Mapping[tuple[str, str], type[BaseModel]] = {
    ("course_catalogue", "1"): CataloguePage,
    ("transcription", "1"): Transcription,
}

LARGEST_FILE = 500_000
MOST_PARTS = 5_000
MOST_LISTED = 20

_SHIPPED = Path(__file__).parent
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")

_EXAMPLES = (
    (None, None),
    (PageContext(text="Text.", courses=(ContextCourse(name="Algebra"),)), None),
    (None, "page 3 could not be read"),
)
"""A template is tried with each kind of page, so that a wrong one is known before the first batch."""


@dataclass(slots=True, frozen=True)
class LoadedPrompt:
    """What is asked and what is answered. `sha256` is of both, so that two texts under one version are told apart."""

    name: str
    version: str
    sha256: str
    json_schema: dict[str, Any]
    template: PromptTemplate = field(repr=False)

    def render(self, page: PageIdentifier, context: PageContext | None, *, skipped: str | None = None) -> str:
        """What is asked about this page. `skipped` says why there is no context, where there should be one."""
        # Plain values: a Path or a model in the hands of a template could do more than be printed.
        about = page.model_dump() | {"name": page.spelling, "id_string": page.id_string}
        told = None if context is None else context.model_dump()
        text = self.template.render({"page": about, "context": told, "skipped": skipped})
        if not text:
            raise InvalidConfiguration(f"prompt {self.name!r} version {self.version!r} is empty for {page.id_string}")
        # A folder's name need not be UTF-8; half a character of it would end the whole request.
        return text.encode(errors="replace").decode()

    def validate(self, data: Any) -> str | None:
        """What is wrong with an answer, or None: judged just as the rows of a batch are. `data` is without our own
        key (`split_provenance`)."""
        return misfit(data, self.json_schema)


def load_prompt(settings: Prompt) -> LoadedPrompt:
    name, version, folder = settings.name, settings.version, settings.registry_dir
    if not _NAME.fullmatch(name):
        raise InvalidConfiguration(f"prompt.name: must be letters, digits, '_' and '-' (is {name[:80]!r})")
    if not _VERSION.fullmatch(version):
        raise InvalidConfiguration(f"prompt.version: must be letters, digits, '.', '_' and '-' (is {version[:80]!r})")
    if folder is not None and not folder.is_dir():
        raise InvalidConfiguration(f"prompt.registry_dir: there is no folder {folder}")
    own = None if folder is None else folder / name / f"{version}.jinja"
    own_schema = None if own is None else own.with_name(f"{version}.schema.json")
    if own is not None and own_schema is not None and own.is_file():
        source = _read(own)
        schema = _own_schema(own_schema, name, version)
    elif own_schema is not None and own_schema.exists():
        raise InvalidConfiguration(f"{own_schema} is a schema without a prompt: put {version}.jinja beside it")
    elif (name, version) in BUILT_IN:
        own = own_schema = None
        source = _read(_SHIPPED / name / f"{version}.jinja")
        schema = BUILT_IN[name, version].model_json_schema()
    else:
        where = "" if folder is None else f" in {folder} or among those that ship with Penstock"
        raise InvalidConfiguration(
            f"there is no prompt {name!r} version {version!r}{where}; there are: {', '.join(_there(folder))}"
        )
    _check_schema(schema, str(own_schema) if own_schema is not None else f"the schema of prompt {name!r}")
    template = PromptTemplate(source, str(own) if own is not None else f"prompt {name!r} version {version!r}")
    digest = hashlib.sha256(json.dumps([source, schema]).encode()).hexdigest()
    prompt = LoadedPrompt(name, version, digest, schema, template)
    for context, skipped in _EXAMPLES:
        prompt.render(PageIdentifier(state="Alabama", school="A School", year=1850, page=4), context, skipped=skipped)
    return prompt


def _own_schema(path: Path, name: str, version: str) -> dict[str, Any]:
    """The user's, or that of the shipped prompt of this name: of the same version, else of the newest."""
    if not path.exists():
        shipped = [known for known in BUILT_IN if known[0] == name]
        if not shipped:
            raise InvalidConfiguration(
                f"prompt {name!r} version {version!r} has no schema: put the JSON Schema of its answers in {path}"
            )
        return BUILT_IN[(name, version) if (name, version) in shipped else shipped[-1]].model_json_schema()
    try:
        schema = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise InvalidConfiguration(f"{path} is no JSON: {error}") from error
    if not isinstance(schema, dict):
        raise InvalidConfiguration(f"{path} must be a JSON Schema, an object")
    # Says what kind of file it is, and nothing about the answer.
    return {key: value for key, value in schema.items() if key not in ("$schema", "$id", "$comment")}


def _check_schema(schema: dict[str, Any], where: str) -> None:
    if str(schema.get("type", "")).lower() != "object" or not isinstance(schema.get("properties"), dict):
        raise InvalidConfiguration(f"{where}: a page's answer must be an object with properties")
    if PROVENANCE in schema["properties"]:
        raise InvalidConfiguration(f"{where}: the field {PROVENANCE} is kept for what Penstock writes: rename it")
    try:
        if _parts(schema, schema, {}) > MOST_PARTS:
            raise InvalidRequest("is too large, with what it refers to written out")
        told = response_schema(schema)
        if told == schema:
            _check_geminis_own(schema)
    except InvalidRequest as error:
        cause = error.__cause__
        reason = _first_lines(cause) if isinstance(cause, ValidationError) else str(error)
        raise InvalidConfiguration(f"{where}: {reason}") from error
    except ValidationError as error:
        raise InvalidConfiguration(f"{where}: {_first_lines(error)}") from error
    except (TypeError, AttributeError, KeyError, RecursionError) as error:
        raise InvalidConfiguration(f"{where}: is no schema that Gemini can be told ({error})") from error


def _check_geminis_own(schema: dict[str, Any]) -> None:
    """What is written in Gemini's own words is passed on as it is, so nobody else has looked at it."""
    from google.genai import types

    types.Schema.model_validate(schema)


def _parts(schema: Any, root: Mapping[str, Any], sizes: dict[str, int]) -> int:
    """How many parts the schema has with its references written out, which may be very many more than it shows."""
    if isinstance(schema, list):
        return sum(_parts(item, root, sizes) for item in schema)
    if not isinstance(schema, dict):
        return 1
    size = 1 + sum(_parts(item, root, sizes) for key, item in schema.items() if key not in ("$defs", "enum"))
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference not in sizes:
            sizes[reference] = 0  # one that holds itself is refused elsewhere, by name
            kind, _, name = reference.rpartition("/")
            target = root.get("$defs", {}).get(name) if kind == "#/$defs" else None
            if target is None:
                raise InvalidRequest(f"{reference!r} leads nowhere: a $ref must read #/$defs/NAME")
            sizes[reference] = _parts(target, root, sizes)
        size += sizes[reference]
    return size


def _first_lines(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    told = "; ".join(
        f"{'.'.join(str(part) for part in problem['loc'])}: "
        + ("Gemini knows no such keyword" if problem["type"] == "extra_forbidden" else problem["msg"])
        for problem in problems[:5]
    )
    return f"cannot be told to Gemini: {told}"


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise InvalidConfiguration(f"{path} is larger than {LARGEST_FILE // 1000} kB")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise InvalidConfiguration(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidConfiguration(f"{path} must be UTF-8 text: {error}") from error


def _there(folder: Path | None) -> list[str]:
    """The prompts there are, as messages name them."""
    found = {f"{name} {version}" for name, version in BUILT_IN}
    if folder is not None:
        found |= {f"{file.parent.name} {file.stem}" for file in folder.glob("*/*.jinja")}
    named = sorted(found)
    return named if len(named) <= MOST_LISTED else [*named[:MOST_LISTED], f"and {len(named) - MOST_LISTED} more"]
