"""The local Gemini in the foreground: its key, its signals, its exit code."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from penstock.engine.errors import Conflict, InvalidConfiguration, PenstockError
from penstock.gemini_local.launch import find
from penstock.gemini_local.server import PortTaken, Running, ServerSettings, check_bind, serve
from penstock.gemini_local.state import FolderTaken

INTERRUPTED = 130


class NotServed(PenstockError):
    """The server ended before it was ready."""


def api_key(file: str | None, variable: str | None) -> str | None:
    """The only key to let in; None: any. Never from the command line itself, which other users can read."""
    if file is not None and variable is not None:
        raise InvalidConfiguration("give one of --api-key-file and --api-key-env, not both")
    if file is None and variable is None:
        return None
    where = file or f"the variable {variable}"
    try:
        key = Path(file).read_text(encoding="utf-8").strip() if file is not None else os.environ.get(variable or "", "")
    except OSError as error:
        raise InvalidConfiguration(f"{file} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise InvalidConfiguration(f"{file} is not UTF-8 text") from error
    if not key.strip():
        raise InvalidConfiguration(f"there is no API key in {where}")
    return key.strip()


def run_server(settings: ServerSettings, greet: Callable[[Running], None]) -> int:
    """Serve until told to stop: 0 after SIGTERM or when idle, 130 after Ctrl-C."""
    signals: list[int] = []
    ready: list[Running] = []

    def on_ready(running: Running) -> None:
        # The server has its own handlers in place by now, and does not tell which signal it obeyed.
        obeyed = signal.getsignal(signal.SIGINT)

        def note(number: int, frame: FrameType | None) -> None:
            signals.append(number)
            if callable(obeyed):
                obeyed(number, frame)

        signal.signal(signal.SIGINT, note)
        ready.append(running)
        greet(running)

    _check_bind(settings)
    try:
        serve(settings, on_ready=on_ready)
    except (FolderTaken, PortTaken) as error:
        other = find(settings.folder)
        if other is None and isinstance(error, PortTaken):
            raise
        where = f" ({other.base_url}, process {other.pid})" if other else ""
        raise Conflict(
            f"a local Gemini works in {settings.folder} already{where}: "
            "`penstock gemini stop` ends it, --home names another place"
        ) from error
    if not ready:
        raise NotServed("the local Gemini ended before it was ready")
    return INTERRUPTED if signals else 0


def _check_bind(settings: ServerSettings) -> None:
    """In this command's own words."""
    try:
        check_bind(settings)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(
            f"{settings.host} can be reached from other machines: if that is meant, say --allow-remote and give a key "
            "with --api-key-file or --api-key-env"
        ) from error
