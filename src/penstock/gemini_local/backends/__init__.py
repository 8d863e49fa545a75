"""Who answers for the local Gemini. `make_backend` finds one by its name; plugins are entry points in the group
`penstock.backends`: functions that take what stands after the colon (or None) and return a `Backend`."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from pathlib import Path

from penstock.engine.errors import InvalidRequest
from penstock.gemini_local.backend import Backend

__all__ = ["GROUP", "make_backend"]

GROUP = "penstock.backends"


def make_backend(spec: str, *, api_key: str | None = None, model: str | None = None) -> Backend:
    """`local`, `openai:URL` (or `openai:URL#MODEL`), `script`, `script:FILE`, or a plugin's `NAME` or `NAME:REST`.
    `api_key` and `model` are for `openai`; without a key OPENAI_API_KEY counts. Nothing of a backend that is not asked
    for is imported."""
    name, _, rest = spec.partition(":")
    if spec == "local":
        from penstock.gemini_local.backends.local import LocalBackend

        return LocalBackend()
    if name == "openai":
        from penstock.gemini_local.backends.openai import OpenAIBackend

        url, _, named = rest.partition("#")
        if not url:
            raise InvalidRequest("the backend 'openai' needs an address: openai:http://127.0.0.1:8000/v1")
        key = api_key or os.environ.get("OPENAI_API_KEY") or None
        return OpenAIBackend(url, api_key=key, model=model or named or None)
    if name == "script":
        from penstock.gemini_local.backends.script import ScriptBackend

        try:
            return ScriptBackend(Path(rest) if rest else None)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise InvalidRequest(f"the script {rest!r} cannot be followed: {why}") from error
        except ValueError as error:
            raise InvalidRequest(f"the script {rest!r} cannot be followed: {error}") from error
    return _plugin(spec, name, rest or None)


def _plugin(spec: str, name: str, rest: str | None) -> Backend:
    points = {point.name: point for point in entry_points(group=GROUP)}
    point = points.get(name)
    if point is None:
        known = ", ".join(["local", "openai:URL", "script", "script:FILE", *sorted(points)])
        raise InvalidRequest(f"there is no backend {spec!r}; there are: {known}")
    try:
        backend: Backend = point.load()(rest)
    except InvalidRequest:
        raise
    except Exception as error:
        raise InvalidRequest(f"the backend {name!r} could not be made: {type(error).__name__}: {error}") from error
    return backend
