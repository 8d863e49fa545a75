"""Jobs as people see them: a table, a sheet with a timeline, and one line for each change while they wait."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from penstock.cli.fitting import cut, needed, shortened, widths_of
from penstock.cli.output import STATUS_STYLES, Output, harmless, plain_table
from penstock.cli.sheets import show_sheet
from penstock.engine.model import DEFAULT_QUEUE, DEFAULT_TENANT, Event, Job
from penstock.store.protocol import LogLine
from penstock.times import ago, length, local, local_and_ago

LONGEST_KEY = 24
LONGEST_PROGRESS = 40
HISTORY = ("AT", "WHAT", "STEP", "TRY", "TOOK", "STATUS", "BY", "NOTE")

_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{20}")


def given_key(job: Job) -> str:
    """The key somebody gave the job; without one the key is the id of its first run."""
    return "" if _ID.fullmatch(job.key) else job.key


def progress_text(job: Job) -> str:
    """`12/40 pages`, `12`, or nothing."""
    if job.progress is None:
        return ""
    done, total = _figure(job.progress.done), job.progress.total
    return " ".join(filter(None, (done if total is None else f"{done}/{_figure(total)}", job.progress.note)))


def _figure(amount: float) -> str:
    return str(int(amount)) if amount == int(amount) else f"{amount:.1f}"


def counters_text(job: Job) -> str:
    return " ".join(f"{name}={amount}" for name, amount in job.counters.items())


def elapsed(job: Job, now: float) -> str:
    """From its start to its end, or until now."""
    return "" if job.started is None else length((job.finished or now) - job.started)


def status_text(job: Job) -> str:
    return f"{job.status} ({job.halting} asked)" if job.halting else job.status


def why(job: Job) -> str:
    """Why a job failed, rests or waits, in one line."""
    words = why_at_all(job) if job.status in ("failed", "paused", "waiting") else ""
    return " ".join(words.split())


def why_at_all(job: Job) -> str:
    """A paused job's reason is newer than its last error, and somebody's own words."""
    words = (job.reason, job.error) if job.status == "paused" else (job.error, job.reason)
    return words[0] or words[1] or ""


def show_list(out: Output, jobs: Sequence[Job], now: float) -> None:
    """A pipe gets everything but the end of a long progress note, which would pad all lines; a terminal gets what fits,
    and the reason of what failed or rests on a line below it."""
    columns: dict[str, list[str]] = {
        "ID": [job.id for job in jobs],
        "TENANT": [job.tenant for job in jobs],
        "WORKFLOW": [job.workflow for job in jobs],
        "KEY": [given_key(job) for job in jobs],
        "RUN": [str(job.run) for job in jobs],
        "STATUS": [status_text(job) for job in jobs],
        "STEP": [job.step for job in jobs],
        "TRY": [str(job.attempt or "") for job in jobs],
        "PROGRESS": [cut(progress_text(job), LONGEST_PROGRESS) for job in jobs],
        "AGE": [ago(job.created, now) for job in jobs],
        "WHY": [why(job) for job in jobs],
    }
    if all(job.tenant == DEFAULT_TENANT for job in jobs):
        del columns["TENANT"]
    if all(job.run == 1 for job in jobs):
        del columns["RUN"]
    if not out.fancy:
        if not any(columns["WHY"]):
            del columns["WHY"]
        out.result(plain_table(list(columns), list(zip(*columns.values(), strict=True))))
        return
    from penstock.cli.row_table import RowTable

    columns["KEY"] = [shortened(key, LONGEST_KEY) for key in columns["KEY"]]
    reasons = columns.pop("WHY")
    shown = {name: cells for name, cells in columns.items() if name not in ("KEY", "TRY", "PROGRESS") or any(cells)}
    styles = [STATUS_STYLES[job.status] for job in jobs]
    out.console().print(RowTable(shown, reasons, styled="STATUS", styles=styles))


def show_job(out: Output, job: Job, history: Sequence[Event], now: float, *, spent: str | None = None) -> None:
    """Everything about one job. `spent`: the words for what its remote calls have cost."""
    facts = _facts(job, now)
    if spent is not None:
        facts.insert([name for name, _ in facts].index("created"), ("cost", spent))
    style = STATUS_STYLES[job.status]
    show_sheet(out, f"{job.workflow} · {job.id}", facts, border=style, styles={"status": style, "error": "red"})
    if history:
        _show_history(out, history)


def _show_history(out: Output, history: Sequence[Event]) -> None:
    """On a terminal that is too narrow the notes, and who did it, stand below the lines they belong to."""
    if not out.fancy:
        rows = [_event_row(event, local(event.at)) for event in history]
        out.result("")
        out.result(plain_table(HISTORY, rows))
        return
    from penstock.cli.row_table import RowTable

    console = out.console()
    rows = [_event_row(event, f"{local(event.at)[11:19]} +{length(event.at - history[0].at)}") for event in history]
    columns = {name: list(cells) for name, cells in zip(HISTORY, zip(*rows, strict=True), strict=True) if any(cells)}
    columns["NOTE"] = notes = [" ".join(cell.split()) for cell in columns.get("NOTE", [""] * len(rows))]
    below = [""] * len(rows)
    if not any(notes) or needed(widths_of(columns)) > console.width:
        below = columns.pop("NOTE")
    if "BY" in columns and needed(widths_of(columns)) > console.width:
        by = columns.pop("BY")
        below = [": ".join(filter(None, (who and f"by {who}", note))) for who, note in zip(by, below, strict=True)]
    styles = [STATUS_STYLES.get(event.status, "") for event in history]
    console.print()
    console.print(RowTable(columns, below, styled="STATUS", styles=styles, folded=True))


def show_logs(out: Output, lines: Sequence[LogLine]) -> None:
    """What steps said, a line each; the further lines of a text are indented below its first."""
    for line in lines:
        step = f"{line.step}#{line.attempt}" if line.attempt > 1 else line.step
        first, *further = harmless(line.text).splitlines() or [""]
        head = f"{local(line.at)}  {line.level:<7}  {step}  {first}".rstrip()
        out.result("\n".join([head, *(f"    {one}".rstrip() for one in further)]))


def _facts(job: Job, now: float) -> list[tuple[str, str]]:
    facts: list[tuple[str, str | None]] = [
        ("job", job.id),
        ("workflow", job.workflow),
        ("key", given_key(job)),
        ("run", str(job.run) if job.run > 1 else None),
        ("tenant", None if job.tenant == DEFAULT_TENANT else job.tenant),
        ("queue", None if job.queue == DEFAULT_QUEUE else job.queue),
        ("status", status_text(job)),
        ("step", f"{job.step} (try {job.attempt})" if job.attempt > 1 else job.step),
        ("progress", progress_text(job)),
        ("counters", counters_text(job)),
        ("priority", str(job.priority)),
        ("created", local_and_ago(job.created, now)),
        ("started", _when(job.started, now)),
        ("due", _when(job.due, now)),
        ("finished", _when(job.finished, now)),
        ("took", elapsed(job, now) if job.finished else None),
        ("worker", job.worker),
        ("parent", job.parent),
        ("batch", job.batch),
        ("follows batch", job.fan_in),
        ("reason", job.reason),
        ("error", job.error),
        ("payload", json.dumps(job.payload, ensure_ascii=False)),
        ("result", None if job.status != "completed" else json.dumps(job.result, ensure_ascii=False)),
    ]
    return [(name, value) for name, value in facts if value]


def _when(moment: float | None, now: float) -> str | None:
    return None if moment is None else local_and_ago(moment, now)


def _event_row(event: Event, at: str) -> list[str]:
    took = "" if event.took is None else length(event.took)
    return [
        at,
        event.kind,
        event.step,
        str(event.attempt or ""),
        took,
        event.status,
        event.worker or "",
        event.note or "",
    ]
