"""What people ask of a run: to start, to try dead pages again, to look at the trees again. The command line and the
service ask through here.

Nobody but the run's own tick changes the ledger, so a wish is written down for it; where no run is alive, the next one
is started.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from penstock.app import Penstock
from penstock.engine.audit import Actor, entry, name_of
from penstock.engine.errors import Conflict, NotFound
from penstock.engine.model import DEFAULT_TENANT, FINAL, Job
from penstock.pipelines.pages.ledger import ledger_id
from penstock.pipelines.pages.model import Run, Task
from penstock.pipelines.pages.prompts.registry import load_prompt
from penstock.pipelines.pages.walk import check_mark, mark, mark_of
from penstock.pipelines.pages.wishes import dead_pages, folder_meant
from penstock.pipelines.pages.workflow import pages
from penstock.store.protocol import Once, Submitted, Write

_LONGEST_KEY = 500

LAST_LOOK = 30.0
"""Seconds that a wish waits for the tick that is running: one that ends the run does so right after it looked."""


def run_key(output_dir: Path) -> str:
    """The key of the runs that write to this folder: at most one of them is alive."""
    written = str(output_dir)
    return written if len(written) <= _LONGEST_KEY and written.isprintable() else ledger_id(output_dir)


async def start(
    app: Penstock,
    run: Run,
    *,
    tenant: str = DEFAULT_TENANT,
    actor: Actor | str | None = None,
    once: Once | None = None,
) -> Submitted:
    """Start a run, or answer with the one that is alive. One that failed goes on from where it was; a configuration
    other than that of the run that is alive is a `Conflict`."""
    ledger = ledger_id(run.paths.output_dir)
    task = Task(run=run, ledger=ledger)

    async def submitted() -> Submitted:
        return await app.submit(
            pages,
            task,
            key=run_key(run.paths.output_dir),
            tenant=tenant,
            again=True,
            budget=run.budget.max_usd,
            actor=actor,
            once=once,
        )

    if once is not None and await app.engine.store.answered(once.scope, once.key):
        return await submitted()
    load_prompt(run.prompt)
    await _open_ledger(app, ledger, run, tenant)
    last = await last_run(app, run.paths.output_dir, tenant=tenant)
    if last is not None and not last.final:
        differing = _differences(Task.model_validate(last.payload).run, run)
        if differing:
            raise Conflict(
                f"run {last.id} is {last.status} with another configuration ({', '.join(differing)} differ) and"
                f" writes to {run.paths.output_dir}: wait for it, or cancel it with `penstock jobs cancel {last.id}`",
                job=last.id,
            )
        # What is answered under an idempotency key is kept with it, this too.
        return Submitted(last.id, False, last.run, last.status) if once is None else await submitted()
    if last is not None and last.status == "failed" and last.payload == task.model_dump(mode="json"):
        going_on = await app.retry(last.id, actor=actor)
        return Submitted(going_on.id, True, going_on.run, going_on.status)
    return await submitted()


async def retry(
    app: Penstock, job: Job, detail: dict[str, Any], *, actor: Actor | str = "somebody", dry_run: bool = False
) -> int:
    """Let dead pages be tried again: `key`, or all of a `state`, `school`, `year`; all where nothing is said. Answers
    how many there are."""
    ledger = Task.model_validate(job.payload).ledger
    where, named = dead_pages(detail)
    ((count,),) = await app.engine.read(
        (
            # A book whose labels are gone has no pages that could be tried.
            f"SELECT COUNT(*) FROM pages_failures WHERE ledger = :ledger AND dead = 1{where} AND EXISTS"
            " (SELECT 1 FROM pages_books b WHERE b.ledger = pages_failures.ledger AND b.book = pages_failures.book)",
            {**named, "ledger": ledger},
        )
    )
    if count and not dry_run:
        await _wish(app, job, ledger, "retry", detail, actor)
    return int(count)


async def rescan(app: Penstock, job: Job, detail: dict[str, Any], *, actor: Actor | str = "somebody") -> None:
    """Let the trees be read again, whatever the folders' times say."""
    await _wish(app, job, Task.model_validate(job.payload).ledger, "rescan", detail, actor)


async def last_run(app: Penstock, output_dir: Path, *, tenant: str = DEFAULT_TENANT) -> Job | None:
    """The newest run that writes to this folder."""
    found = await app.jobs(workflow=pages.name, key=run_key(output_dir), tenant=tenant, limit=1)
    return found[0] if found else None


async def newest_run(app: Penstock, job: Job) -> Job:
    """The newest run on the ledger of this one."""
    found = await app.jobs(workflow=pages.name, key=job.key, tenant=job.tenant, limit=1)
    return found[0] if found else job


async def run_of(app: Penstock, job_id: str, *, tenant: str | None = None) -> Job:
    """A run by its id; `NotFound` for what is none, or another tenant's."""
    job = await app.job(job_id)
    if job.workflow != pages.name or tenant not in (None, job.tenant):
        raise NotFound(f"there is no run {job_id}")
    return job


async def _wish(app: Penstock, job: Job, ledger: str, kind: str, detail: dict[str, Any], actor: Actor | str) -> None:
    folder_meant(detail)
    wish = (
        "INSERT INTO pages_wishes (id, ledger, kind, detail, actor, at)"
        " VALUES (:id, :ledger, :kind, :detail, :actor, :at)",
        {
            "id": app.engine.new_id(),
            "ledger": ledger,
            "kind": kind,
            "detail": to_json(detail).decode(),
            "actor": name_of(actor),
            "at": app.engine.clock.now(),
        },
    )
    about = ", ".join(f"{name} {value}" for name, value in detail.items()) or "everything"
    audit = entry(actor, f"pages.{kind}", f"job:{job.id}", tenant=job.tenant, detail=about)
    await app.engine.ask(Write((wish,)), audit)
    newest = await newest_run(app, job)
    if newest.status == "running":
        # Its tick may have looked for wishes a moment ago, and be about to end the run.
        with contextlib.suppress(TimeoutError):
            newest = await app.wait(newest.id, timeout=LAST_LOOK, until=("queued", "waiting", "paused", "canceling"))
    if newest.final:
        await start(app, Task.model_validate(newest.payload).run, tenant=newest.tenant, actor=actor)


async def _open_ledger(app: Penstock, ledger: str, run: Run, tenant: str) -> None:
    await app.engine.write(
        (
            "INSERT INTO pages_ledgers (id, tenant, output_dir, mark, label_dir, image_dir, job, scope, schema,"
            " on_dead, most_failures, batches, created)"
            " VALUES (:id, :tenant, :output, :mark, :labels, :images, '', '', '', 'block', 0, 0, :now)"
            " ON CONFLICT DO NOTHING",
            {
                "id": ledger,
                "tenant": tenant,
                "output": str(run.paths.output_dir),
                "mark": app.engine.new_id(),
                "labels": str(run.paths.label_source_dir),
                "images": str(run.paths.image_source_dir),
                "now": app.engine.clock.now(),
            },
        )
    )
    ((owner, ours),) = await app.engine.read(("SELECT tenant, mark FROM pages_ledgers WHERE id = :id", {"id": ledger}))
    if owner != tenant:
        raise Conflict(f"paths.output_dir: {run.paths.output_dir} is in use by somebody else")
    await _take_over(app, run.paths.output_dir, ours, tenant)
    await asyncio.to_thread(check_mark, run.paths.output_dir, ours, 0)


async def _take_over(app: Penstock, output_dir: Path, ours: str, tenant: str) -> None:
    """A folder that was moved here carries the mark of another ledger. Where that is one of ours, and no run of it is
    alive, the folder gets the mark of this one."""
    found = await asyncio.to_thread(mark_of, output_dir)
    rows = await app.engine.read(
        (
            "SELECT j.status FROM pages_ledgers l LEFT JOIN jobs j ON j.id = l.job"
            " WHERE l.mark = :found AND l.mark <> :ours AND l.tenant = :tenant",
            {"found": found, "ours": ours, "tenant": tenant},
        )
    )
    if rows and rows[0][0] in (None, *FINAL):
        await asyncio.to_thread(mark, output_dir, ours, anew=True)


def _differences(before: Run, after: Run) -> list[str]:
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return [f"{group}.{name}" for group in old for name in old[group] if old[group][name] != new[group].get(name)]
