"""Puts the sources one over the other and says, of a wrong value, which field it is and where it was written."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from penstock.config.settings import Settings, keys
from penstock.config.sources import PREFIX, Told, from_dotenv, from_environment, from_flags, from_vendors, from_yaml
from penstock.engine.errors import InvalidConfiguration

FILE = "penstock.yaml"
NOT_SETTINGS = frozenset({"config", "debug"})
"""Variables of ours that are no settings: where the file is, and whether to show tracebacks."""

KUBERNETES = re.compile(r"(service_host|service_port|port)(_[a-z0-9_]*)?\Z")
"""What Kubernetes tells every container about a service named `penstock`, and looks like a setting of ours."""


SECRET = frozenset(
    {"store", "gemini.api_key", "openai.api_key", "webhooks", "celery.broker_url", "celery.result_backend"}
)
"""Keys whose values no message may show."""


def load(
    path: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    cwd: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The configuration of a working folder. `path` names a file that must exist, `overrides` are flags by key."""
    folder = Path() if cwd is None else Path(cwd)
    environ = os.environ if environ is None else environ
    known = keys()
    groups = frozenset(key.split(".")[0] for key in known if "." in key)
    told: dict[str, Told] = {}
    file = _file(path or environ.get(f"{PREFIX}CONFIG"), folder)
    if file is not None:
        told |= from_yaml(file, groups)
    if (folder / ".env").is_file():
        told |= _ours(from_dotenv(folder / ".env"), known, groups)
    told |= _ours(from_environment(environ), known, groups)
    told |= from_flags(overrides or {})
    told = from_vendors(folder / ".env", environ) | told
    for key, value in told.items():
        if key not in known:
            raise InvalidConfiguration(_unknown(key, value, known, groups))
    return _validated(told, folder if cwd is not None else None)


def _file(path: str | Path | None, folder: Path) -> Path | None:
    if path is None:
        return folder / FILE if (folder / FILE).is_file() else None
    if not Path(folder, path).is_file():
        raise InvalidConfiguration(f"there is no configuration file {path}")
    return Path(folder, path)


def _ours(told: dict[str, Told], known: list[str], groups: frozenset[str]) -> dict[str, Told]:
    """Variables that begin like ours may be another program's (Kubernetes sets PENSTOCK_PORT for a service of that
    name): one that is unknown and resembles no key is left alone."""
    return {
        key: value
        for key, value in told.items()
        if key not in NOT_SETTINGS
        and not KUBERNETES.match(key)
        and (key in known or key in groups or value.sure or _close(key, known))
    }


def _close(key: str, known: list[str]) -> str | None:
    candidates = difflib.get_close_matches(key, known, n=1, cutoff=0.7)
    if not candidates and "." not in key:
        flat = {name.replace(".", "_"): name for name in known}
        candidates = [flat[name] for name in difflib.get_close_matches(key, flat, n=1, cutoff=0.8)]
    return candidates[0] if candidates else None


def _unknown(key: str, told: Told, known: list[str], groups: frozenset[str]) -> str:
    if key in groups:
        inside = ", ".join(name.split(".")[1] for name in known if name.startswith(f"{key}."))
        return f"{key}: must hold keys of its own, {inside} (from {told.source})"
    close = _close(key, known)
    if close is None:
        group = key.split(".")[0]
        near = difflib.get_close_matches(group, groups, n=1, cutoff=0.6)
        close = f"{near[0]}{key[len(group) :]}" if near and near[0] != group else None
    if close is None:
        hint = f"the keys are {', '.join(known)}"
    elif PREFIX in told.source or ".env" in told.source:
        hint = f"did you mean {PREFIX}{close.upper().replace('.', '__')}?"
    else:
        hint = f"did you mean {close}?"
    return f"{key}: there is no such setting; {hint} (from {told.source})"


def _validated(told: dict[str, Told], folder: Path | None) -> Settings:
    tree: dict[str, Any] = {}
    for key, value in told.items():
        *above, name = key.split(".")
        place = tree
        for part in above:
            place = place.setdefault(part, {})
        place[name] = value.value
    if folder is not None:
        tree["home"] = folder / Path(tree.get("home", ".penstock"))
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        raise InvalidConfiguration(_wrong(error, told)) from error
    settings._sources.update({key: value.source for key, value in told.items()})
    return settings


def _wrong(error: ValidationError, told: dict[str, Told]) -> str:
    problem = error.errors(include_url=False, include_context=False)[0]
    parts = [str(part) for part in problem["loc"]]
    key = next((".".join(parts[:n]) for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in told), ".".join(parts))
    within = ".".join(parts[key.count(".") + 1 :])
    message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
    message = message.replace(", unable to parse string as a number", "").replace(
        ", unable to parse string as an integer", ""
    )
    if problem["type"] != "value_error" and key not in SECRET:
        message += f", not {problem['input']!r}"
    source = f" (from {told[key].source})" if key in told else ""
    return f"{key}{f' ({within})' if within else ''}: {message}{source}"
