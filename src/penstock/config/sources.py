"""Reads each place a setting can come from into one shape: dotted key → value, and the words for where it stood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.engine.errors import InvalidConfiguration

PREFIX = "PENSTOCK_"
_FLAGS = {
    "queues": "queue",
    "log.format": "log-format",
    "log.level": "log-level",
    "service.host": "host",
    "service.port": "port",
    "service.drain_wait": "drain-wait",
    "prefect.pages": "pages",
}


@dataclass(slots=True, frozen=True)
class Told:
    """One setting as a source tells it. `sure` is False where the name may well be somebody else's."""

    value: Any
    source: str
    sure: bool = True


def from_yaml(path: Path, groups: frozenset[str]) -> dict[str, Told]:
    """A YAML file, with the line of every key. Only `groups` are looked into; another mapping is one value."""
    import yaml

    try:
        document = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"{path} cannot be read: {error}") from error
    except yaml.MarkedYAMLError as error:
        where = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidConfiguration(f"{path}{where} is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise InvalidConfiguration(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    told: dict[str, Told] = {}
    if document is None or _is_empty(document):
        return told
    if not isinstance(document, yaml.MappingNode):
        raise InvalidConfiguration(f"{path} must hold keys with values, such as `home: .penstock`")
    _collect(document, "", path.name if path.parent == Path() else str(path), groups, told)
    return told


def _is_empty(node: Any) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


def _collect(mapping: Any, prefix: str, name: str, groups: frozenset[str], told: dict[str, Told]) -> None:
    import yaml

    maker = yaml.SafeLoader("")
    for key_node, node in mapping.value:
        source = f"{name} line {key_node.start_mark.line + 1}"
        key = f"{prefix}{key_node.value}" if isinstance(key_node.value, str) else f"{prefix}{key_node.tag}"
        if key in groups and isinstance(node, yaml.MappingNode):
            _collect(node, f"{key}.", name, groups, told)
            continue
        if key in groups and _is_empty(node):
            continue
        if key in told:
            raise InvalidConfiguration(f"{key}: is written twice ({told[key].source} and {source})")
        try:
            told[key] = Told(maker.construct_object(node, deep=True), source)
        except yaml.YAMLError as error:
            raise InvalidConfiguration(f"{key}: {' '.join(str(error).split())} (from {source})") from error


def from_dotenv(path: Path) -> dict[str, Told]:
    """The variables of a `.env` file that are ours."""
    from dotenv import dotenv_values
    from dotenv.parser import parse_stream

    try:
        with path.open(encoding="utf-8") as stream:
            lines = {binding.key: binding.original.line for binding in parse_stream(stream) if binding.key}
        values = dotenv_values(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"{path} cannot be read: {error}") from error
    told = {}
    for name, value in values.items():
        if name.startswith(PREFIX) and value is not None:
            told[_dotted(name)] = Told(value, f"{path.name} line {lines.get(name, 1)}", sure="__" in name)
    return told


def from_environment(environ: Mapping[str, str]) -> dict[str, Told]:
    return {
        _dotted(name): Told(value, f"the environment, {name}", sure="__" in name)
        for name, value in environ.items()
        if name.startswith(PREFIX) and len(name) > len(PREFIX)
    }


def from_vendors(dotenv: Path, environ: Mapping[str, str]) -> dict[str, Told]:
    """What Google's and OpenAI's own clients read: their keys and addresses, from the environment or else from
    `.env`."""
    from penstock.remote.gemini import settings as google
    from penstock.remote.openai import settings as openai

    variables = {
        "gemini.api_key": google.KEY_VARIABLES,
        "gemini.base_url": (google.BASE_URL_VARIABLE,),
        "openai.api_key": openai.KEY_VARIABLES,
        "openai.base_url": (openai.BASE_URL_VARIABLE,),
    }
    written: dict[str, str | None] = {}
    if dotenv.is_file():
        from dotenv import dotenv_values

        written = dotenv_values(dotenv)
    told = {}
    for key, names in variables.items():
        for values, source in ((written, f"{dotenv.name}, "), (environ, "the environment, ")):
            for name in reversed(names):
                if (values.get(name) or "").strip():
                    told[key] = Told(values[name], f"{source}{name}")
    return told


def from_flags(overrides: Mapping[str, Any]) -> dict[str, Told]:
    """What the command line gave; None is what it did not give."""
    return {key: Told(value, f"--{_FLAGS.get(key, key)}") for key, value in overrides.items() if value is not None}


def _dotted(variable: str) -> str:
    return variable.removeprefix(PREFIX).lower().replace("__", ".")
