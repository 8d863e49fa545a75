"""The command that submits a first job: `penstock up` says it when it is ready, the overview while it is empty."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from pydantic import PydanticUserError

from penstock.app import Penstock
from penstock.builtin import installed_workflows
from penstock.config import Settings
from penstock.engine.errors import InvalidRequest

FLAGS = ("app", "store", "home")
"""The options that say which app and store are meant."""

INTERNAL = "penstock."
"""How the names of Penstock's own workflows begin, such as the one that delivers webhooks."""

_SAMPLES = {"string": """'"world"'""", "integer": "1", "number": "1", "boolean": "true", "null": "null"}


def first_job(app: Penstock, settings: Settings, *, flags: bool = True) -> str | None:
    """With a payload where one can be guessed from its type; None where the app has no workflow of its own. `flags`:
    with those that lead to the same app and store, as they were given, so that a password may be in them."""
    installed = {id(each) for each in installed_workflows()}
    theirs = (each for each in app.workflows.values() if id(each) not in installed)
    workflow = next((each for each in theirs if not each.name.startswith(INTERNAL)), None)
    if workflow is None:
        return None
    try:
        kind = workflow.first.adapter.json_schema().get("type", "")
    except (PydanticUserError, InvalidRequest):
        kind = ""
    command = f"penstock jobs submit {workflow.name} --payload {_SAMPLES.get(kind, 'JSON')}"
    return command + same_flags(settings) if flags else command


def same_flags(settings: Settings, *, but: Collection[str] = (), app: str | None = None) -> str:
    """The options that lead another command to the same app and store."""
    told = {"app": app} | {key: str(getattr(settings, key)) for key in FLAGS if settings.source(key) == f"--{key}"}
    return "".join(f" --{key} {shlex.quote(value)}" for key, value in told.items() if value and key not in but)
