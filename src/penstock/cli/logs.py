"""Log lines: plain for people, one JSON object a line for programs.

What is written while a step runs, by whomever, names its job, step, attempt, tenant, worker and trace; what is written
for a request names the request.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Collection
from textwrap import indent

from penstock.cli.output import Output, harmless, without_password
from penstock.config.settings import LogSettings
from penstock.engine.tracing import about, trace_id_of
from penstock.times import local, utc

TALKATIVE = ("httpx", "httpx2", "httpcore", "httpcore2", "google_genai", "asyncio")
"""Loggers of libraries that tell of every request they make; what goes wrong there reaches our own lines anyway."""

OF_JOB = ("job", "workflow", "step", "attempt", "tenant")
OF_REQUEST = ("request_id", "method", "route", "status", "duration")
FACTS = (*OF_JOB, "worker", "trace_id", "span_id", *OF_REQUEST)
"""What a line may be about. `duration` is in seconds."""


def facts_of(record: logging.LogRecord) -> dict[str, object]:
    """What the line says itself is stronger than what is known of where it was written."""
    work = about.get()
    told = {**(work() if work is not None else {})}
    own = {name: getattr(record, name) for name in FACTS if hasattr(record, name)}
    if "job" in own and own["job"] != told.get("job"):
        told = {"trace_id": trace_id_of(str(own["job"]))}
    told.update(own)
    return {name: told[name] for name in FACTS if told.get(name) is not None}


class PlainLines(logging.Formatter):
    """Only the first line of what is written begins with a time: a text with ends of lines in it goes on behind a bar,
    where an error came from is indented, and so nobody's text looks like a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        told = facts_of(record)
        facts = " ".join(f"{name}={told[name]}" for name in (*OF_JOB, "request_id") if name in told)
        text = f"{local(record.created)} {record.levelname.lower():<7} {record.getMessage()}"
        if facts:
            text += f" [{facts}]"
        text = harmless(text).replace("\n", "\n    | ")
        if record.exc_info:
            text += f"\n{indent(harmless(self.formatException(record.exc_info)), '    ')}"
        return without_password(text)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {
            "time": utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_password(record.getMessage()),
            "process": record.process,
        }
        told.update(facts_of(record))
        if record.exc_info:
            told["error"] = without_password(self.formatException(record.exc_info))
        return json.dumps(told, ensure_ascii=False, default=str)


class Sentences(logging.Handler):
    """Beside a command's own words: no times, and where an error came from only if that was asked for. How the jobs
    `waited` for fail is told by the command itself."""

    def __init__(self, level: int, waited: Collection[str]) -> None:
        super().__init__(level)
        self._waited = waited

    def emit(self, record: logging.LogRecord) -> None:
        debugging = os.environ.get("PENSTOCK_DEBUG", "0") not in ("", "0")
        if not debugging and _is_failure_of(record, self._waited):
            return
        text = f"{record.levelname.capitalize()}: {harmless(record.getMessage())}"
        if record.exc_info and debugging:
            text += f"\n{logging.Formatter().formatException(record.exc_info)}"
        # Not click's echo, which goes past the stream that a live view has put in the place of stderr.
        sys.stderr.write(f"{without_password(text)}\n")


def _is_failure_of(record: logging.LogRecord, jobs: Collection[str]) -> bool:
    told = record.args if isinstance(record.args, tuple) else ()
    return record.msg.startswith("job %s failed in step") and bool(told) and told[0] in jobs


def log_beside(out: Output, waited: Collection[str]) -> None:
    """For a command that runs jobs itself: warnings to stderr, unless the app has arranged its own logging."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(Sentences(logging.ERROR if out.quiet else logging.WARNING, waited))


def start_logging(settings: LogSettings) -> None:
    """To stderr, for this process and everything in it that logs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.format == "json" else PlainLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    logging.captureWarnings(True)
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.NOTSET if settings.level == "debug" else logging.WARNING)
    if settings.level == "debug":
        # Its debug lines are about itself ("Using selector: …").
        logging.getLogger("asyncio").setLevel(logging.INFO)
