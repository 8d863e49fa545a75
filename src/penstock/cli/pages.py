"""`penstock pages`: read shelves of scanned books through Gemini Batch, page after page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from penstock.cli.command import Group, Invocation
from penstock.cli.parameters import WholeNumber

if TYPE_CHECKING:
    from penstock.app import Penstock
    from penstock.cli.pages_asked import Asked
    from penstock.engine.model import Job

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT = "pages.yaml"

SHOWN_BOOKS, SHOWN_BATCHES = 20, 20
AT_ONCE = 200
"""Rows that are read between two lines of `--csv`: an answer that was kept may be long."""


def _file(function: F) -> F:
    return click.option(
        "-c", "--run-config", "file", metavar="FILE", help=f"The run's configuration; {DEFAULT} unless told."
    )(function)


def _part(function: F) -> F:
    """Which part of a shelf is meant."""
    for name, text in (("year", "Only this year; with --school."), ("school", "Only this school; with --state.")):
        kind = WholeNumber(0, 9999) if name == "year" else None
        function = click.option(f"--{name}", type=kind, metavar=name.upper(), help=text)(function)
    return click.option("--state", metavar="STATE", help="Only this state.")(function)


@click.group(cls=Group)
def pages() -> None:
    """Read scanned books through Gemini Batch."""


@pages.command()
@click.argument("file", required=False, default=DEFAULT)
@click.pass_obj
def init(call: Invocation, file: str) -> None:
    """Write a first configuration.

    FILE (pages.yaml unless told) with every key, its default and what it is for; an existing one is left alone.
    """
    from penstock.engine.errors import StoreReadOnly
    from penstock.pipelines.pages.configuration import example_configuration

    path = Path(file)
    try:
        with path.open("x", encoding="utf-8") as written:
            written.write(example_configuration())
    except FileExistsError:
        call.out.data({"written": [], "kept": [file]})
        call.out.tell(f"{file} exists and was left alone.")
        return
    except OSError as error:
        raise StoreReadOnly(f"{file} cannot be written: {(error.strerror or str(error)).lower()}") from error
    call.out.data({"written": [file], "kept": []})
    call.out.tell(f"Wrote {file}. Name your three folders in it under `paths`, then: penstock pages plan -c {file}")
    call.out.tell("Nothing to read yet? penstock pages samples shelf")


@pages.command()
@click.argument("folder")
@click.option("--books", type=WholeNumber(1, 10_000), default=2, show_default=True, help="How many catalogues.")
@click.option("--pages", "each", type=WholeNumber(1, 5_000), default=6, show_default=True, help="Pages in each.")
@click.option("--seed", type=WholeNumber(0, 2**31), default=1, show_default=True, help="Another one: other pages.")
@click.pass_obj
def samples(call: Invocation, folder: str, books: int, each: int, seed: int) -> None:
    """Make invented catalogues to try things with.

    FOLDER gets labels, images that look like scans of old print, and a pages.yaml that is ready to run.
    """
    import shlex

    from penstock.cli.output import counted
    from penstock.engine.errors import StoreReadOnly
    from penstock.pipelines.pages.samples import make_samples

    try:
        made = make_samples(Path(folder), books=books, pages=each, seed=seed)
    except OSError as error:
        raise StoreReadOnly(f"{folder} cannot be written: {(error.strerror or str(error)).lower()}") from error
    call.out.data(
        {"folder": str(made.folder), "configuration": str(made.configuration), "books": books, "pages": len(made.pages)}
    )
    call.out.tell(f"Made {counted(books, 'catalogue')} with {counted(len(made.pages), 'page')} in {made.folder}.")
    call.out.tell(f"Now try: penstock pages run -c {shlex.quote(str(made.configuration))}")


@pages.command()
@_file
@click.option("--answer-tokens", type=WholeNumber(1, 1_000_000), metavar="N", help="Tokens an answer will have.")
@click.pass_obj
def plan(call: Invocation, file: str | None, answer_tokens: int | None) -> int:
    """Say what a run would be: pages, batches, money, days.

    Walks the folders itself: free, offline, and nothing is stored.
    """
    from penstock.cli import sessions
    from penstock.cli.pages_asked import asked_of
    from penstock.cli.pages_plan import planned
    from penstock.cli.pages_shapes import plan_shape
    from penstock.cli.pages_views import show_plan

    asked = asked_of(call, file)
    run = asked.run

    async def main() -> int:
        made = await planned(asked, answer_tokens=answer_tokens)
        took, local = made.history.batch_seconds, asked.local
        call.out.data(
            {
                "configuration": asked.name,
                "output_dir": str(run.paths.output_dir),
                "local": local,
                **plan_shape(made.survey, made.rounds, made.estimate, batch_seconds=took),
            }
        )
        if made.unread is not None:
            call.out.note(made.unread)
        if made.unmatched is not None:
            call.out.wrong(made.unmatched)
            return 1
        if call.json:
            return 0
        spent = made.history.spent
        show_plan(
            call.out, asked.name, run, made.survey, made.rounds, made.estimate, took=took, spent=spent, local=local
        )
        if made.survey.to_do or made.survey.flying:
            call.out.remark(f"Next: {asked.command('run')}")
        elif made.survey.pages:
            call.out.remark("There is nothing to do.")
        return 0

    return sessions.run(main())


@pages.command()
@_file
@click.option("--once", is_flag=True, help="One pass, for cron: take in what ended, fill the slots, leave.")
@click.option("--no-wait", is_flag=True, help="Start it and leave it to a worker.")
@click.option("--dry-run", is_flag=True, help="Say which pages would be sent first, and send nothing.")
@click.option("--limit", "-n", type=WholeNumber(1, 10_000), default=20, show_default=True, help="With --dry-run.")
@click.pass_obj
def run(call: Invocation, file: str | None, once: bool, no_wait: bool, dry_run: bool, limit: int) -> int:
    """Read the pages, or go on where it stopped.

    Does the work in this process until it is done; where a worker is alive it only watches. Ctrl-C leaves what was
    sent to Gemini running, and the same command goes on with it.
    """
    from penstock.cli import pages_plan, pages_run, sessions
    from penstock.cli.pages_asked import asked_of
    from penstock.engine.errors import InvalidRequest

    if once and no_wait:
        raise click.UsageError("--once and --no-wait exclude each other")
    asked = asked_of(call, file)
    if dry_run or asked.run.execution.dry_run:
        return pages_plan.dry_run(asked, limit, told_by_file=not dry_run)

    async def main() -> int:
        async with sessions.opened(asked.settings, with_app=True) as app:
            if (once or no_wait) and sessions.store_url(app, asked.settings) == "memory://":
                raise InvalidRequest("memory:// is gone with this process: leave out --once and --no-wait")
            if await pages_run.matches_nothing(asked, app):
                return 1
            if once and (code := await pages_run.nothing_to_do(asked, app)) is not None:
                return code
            if lacking := pages_plan.no_local_reader(asked):
                call.out.note(lacking)
            told = await pages_run.start(asked, app)
            if no_wait:
                return await pages_run.left_to_a_worker(asked, app, told.job_id, created=told.created)
            return await (pages_run.once if once else pages_run.run_here)(asked, app, told)

    return sessions.run(main())


@pages.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@_file
@click.pass_obj
def status(call: Invocation, run_id: str | None, file: str | None) -> None:
    """How far a run is.

    By its configuration, or by the id of the run.
    """
    from penstock.cli import sessions
    from penstock.cli.pages_asked import looking
    from penstock.cli.pages_run import way_on
    from penstock.cli.pages_shapes import batch_shape, book_shape, overview_shape
    from penstock.cli.pages_told import left_out, open_books, overview
    from penstock.cli.pages_views import show_status
    from penstock.pipelines.pages import reading
    from penstock.shapes import summary

    async def main() -> None:
        async with looking(call, run_id, file) as (app, asked, job):
            engine = app.engine
            told = await overview(engine, asked.ledger, asked.run)
            ignored = await left_out(engine, asked.ledger)
            batches = await reading.batches(engine, asked.ledger, active=True, limit=SHOWN_BATCHES)
            books = await open_books(engine, asked.ledger, SHOWN_BOOKS)
            call.out.data(
                {
                    "run": summary(job),
                    "output_dir": str(asked.run.paths.output_dir),
                    "overview": overview_shape(told),
                    "batches": [batch_shape(batch) for batch in batches],
                    "books": [book_shape(book) for book in books],
                    "left_out": [{"path": path, "reason": reason} for path, reason in ignored],
                }
            )
            if call.json:
                return
            now = await engine.store.now()
            show_status(call.out, job, asked.run, told, batches, books, ignored, now, local=asked.local)
            if len(books) == SHOWN_BOOKS:
                call.out.remark(f"These are the first {SHOWN_BOOKS} books that are not done.")
            if job.status == "paused":
                call.out.note(way_on(asked, job))
            elif not job.final and (lack := await sessions.lack(app, job.workflow, job.queue)):
                call.out.note(f"{lack}: go on with `{asked.command('run')}`")
            elif told.totals.dead:
                call.out.remark(f"Why pages are dead: {asked.command('failures')}")

    sessions.run(main())


@pages.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@_file
@click.option("--by", type=click.Choice(["type", "state", "school"]), help="Count them in groups.")
@click.option("--csv", "as_csv", is_flag=True, help="Everything that is kept of all of them, as CSV.")
@click.option("--type", "kind", metavar="TYPE", help="Only these, such as schema or truncated.")
@click.option("--state", metavar="STATE", help="Only pages of this state.")
@click.option("--limit", "-n", type=WholeNumber(1, 10_000), default=50, show_default=True, help="At most so many.")
@click.option("--before", type=WholeNumber(1, 2**62), metavar="ID", help="Go on from the last id of the page before.")
@click.pass_obj
def failures(
    call: Invocation,
    run_id: str | None,
    file: str | None,
    by: str | None,
    as_csv: bool,
    kind: str | None,
    state: str | None,
    limit: int,
    before: int | None,
) -> None:
    """Attempts at pages that failed, newest first."""
    from penstock.cli import sessions
    from penstock.cli.pages_asked import looking
    from penstock.cli.pages_shapes import attempt_shape
    from penstock.cli.pages_views import many, show_failures, show_groups
    from penstock.pipelines.pages import reading
    from penstock.pipelines.pages.rules import FailureType

    if as_csv and call.json:
        raise click.UsageError("--csv and --json exclude each other")
    if by is not None and (kind is not None or state is not None or before is not None):
        raise click.UsageError("--by counts all of them: leave out --type, --state and --before")
    known = get_args(FailureType)
    if kind is not None and kind not in known:
        raise click.UsageError(f"--type: there is no type {kind}; there are {', '.join(known)}")

    async def main() -> None:
        async with looking(call, run_id, file) as (app, asked, _):
            if by is not None:
                groups = await reading.failure_groups(app.engine, asked.ledger, by)
                if as_csv:
                    _csv([(by, "attempts", "pages"), *groups])
                    return
                told = [{"group": group, "attempts": attempts, "pages": count} for group, attempts, count in groups]
                call.out.data({"by": by, "groups": told})
                if groups:
                    show_groups(call.out, by, groups)
                else:
                    call.out.tell("No attempt has failed.")
                return
            if as_csv:
                await _all_as_csv(app, asked.ledger, kind, state, before)
                return
            found = await reading.attempts(app.engine, asked.ledger, type=kind, state=state, before=before, limit=limit)
            following = found[-1].id if len(found) == limit else None
            call.out.data({"failures": [attempt_shape(attempt) for attempt in found], "next": following})
            if not found:
                call.out.tell("No attempt has failed." if kind is None and state is None else "There are none.")
                return
            show_failures(call.out, found, await app.engine.store.now())
            if following:
                call.out.note(f"There may be more: --before {following}")
            dead = (await reading.overview(app.engine, asked.ledger)).totals.dead
            if dead:
                call.out.remark(f"{many(dead, 'page')} dead. Try again: {asked.command('retry')}")

    sessions.run(main())


CSV_FIELDS = (
    "id", "key", "book", "number", "batch", "attempt", "counted", "at", "type", "message", "raw", "parsed", "model",
    "prompt", "version", "generation",
)  # fmt: skip


def _csv(rows: list[tuple[Any, ...]]) -> None:
    import csv
    import sys

    csv.writer(sys.stdout, lineterminator="\n").writerows(rows)


async def _all_as_csv(app: Penstock, ledger: str, kind: str | None, state: str | None, before: int | None) -> None:
    """In slices, so that a million of them need no more memory than a few."""
    from penstock.pipelines.pages import reading
    from penstock.times import utc

    _csv([CSV_FIELDS])
    while True:
        found = await reading.attempts(
            app.engine, ledger, type=kind, state=state, before=before, limit=AT_ONCE, whole=True
        )
        rows = [{field: getattr(attempt, field) for field in CSV_FIELDS} | {"at": utc(attempt.at)} for attempt in found]
        _csv([tuple(row.values()) for row in rows])
        if len(found) < AT_ONCE:
            return
        before = found[-1].id


@pages.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@_file
@_part
@click.option("--page", "key", metavar="KEY", help="Only this page, state:school:year:page.")
@click.option("--dry-run", is_flag=True, help="Say how many there are, and change nothing.")
@click.pass_obj
def retry(
    call: Invocation,
    run_id: str | None,
    file: str | None,
    state: str | None,
    school: str | None,
    year: int | None,
    key: str | None,
    dry_run: bool,
) -> int:
    """Let dead pages be tried again.

    All of them, or those of a state, a school, a year, or one page. Their failures are counted from nothing.
    """
    from penstock.cli import sessions
    from penstock.cli.pages_asked import looking
    from penstock.cli.pages_views import many
    from penstock.pipelines.pages import asking

    detail = _detail(state, school, year, key)

    async def main() -> int:
        async with looking(call, run_id, file, acting=True) as (app, asked, job):
            if await _is_nowhere(asked, app, detail):
                return 1
            count = await asking.retry(app, job, detail, dry_run=True)
            if count and not dry_run:
                job = await _awake(asked, app, job)
                await asking.retry(app, job, detail, actor=call.who)
            call.out.data({"pages": count, "dry_run": dry_run, "run": job.id})
            if not count:
                call.out.tell("No such page is dead.")
            elif dry_run:
                call.out.tell(f"{many(count, 'dead page')} would be tried again; nothing was changed.")
            else:
                call.out.tell(f"{many(count, 'dead page')} will be tried again.")
                await _who_grants_it(asked, app, job)
            return 0

    return sessions.run(main())


@pages.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@_file
@_part
@click.pass_obj
def rescan(
    call: Invocation, run_id: str | None, file: str | None, state: str | None, school: str | None, year: int | None
) -> int:
    """Let the folders be read again, whatever their times say.

    A run notices by itself what is added or removed; this is for file systems whose folders do not tell.
    """
    from penstock.cli import sessions
    from penstock.cli.pages_asked import looking
    from penstock.pipelines.pages import asking

    detail = _detail(state, school, year, None)

    async def main() -> int:
        async with looking(call, run_id, file, acting=True) as (app, asked, job):
            if await _is_nowhere(asked, app, detail):
                call.out.remark("  What is new is found by looking at everything, without --state.")
                return 1
            job = await _awake(asked, app, job)
            await asking.rescan(app, job, detail, actor=call.who)
            call.out.data({"run": job.id, "state": state, "school": school, "year": year})
            call.out.tell(f"{'/'.join(str(part) for part in detail.values()) or 'Everything'} will be looked at again.")
            await _who_grants_it(asked, app, job)
            return 0

    return sessions.run(main())


async def _is_nowhere(asked: Asked, app: Penstock, detail: dict[str, Any]) -> bool:
    """Whether no book is meant, which is said: a wish for it would be granted, and nothing would come of it."""
    from penstock.cli.pages_told import not_in_ledger

    wrong = await not_in_ledger(app.engine, asked.ledger, detail)
    if wrong is not None:
        asked.call.out.wrong(wrong)
    return wrong is not None


def _detail(state: str | None, school: str | None, year: int | None, key: str | None) -> dict[str, Any]:
    from penstock.pipelines.pages.model import PageIdentifier

    if key is not None:
        if state is not None or school is not None or year is not None:
            raise click.UsageError("--page names one page: leave out --state, --school and --year")
        try:
            return {"key": PageIdentifier.parse(key).id_string}
        except ValueError as error:
            raise click.UsageError(f"--page: {error}") from error
    if school is not None and state is None:
        raise click.UsageError("--school needs --state: the same school may be in two of them")
    if year is not None and school is None:
        raise click.UsageError("--year needs --state and --school")
    return {name: value for name, value in (("state", state), ("school", school), ("year", year)) if value is not None}


async def _awake(asked: Asked, app: Penstock, job: Job) -> Job:
    """A run that is alive, so that the wish is granted with the configuration as it is now."""
    from penstock.cli import pages_run
    from penstock.pipelines.pages import asking

    newest = await asking.newest_run(app, job)
    if not newest.final:
        return newest
    return await app.job((await pages_run.start(asked, app)).job_id)


async def _who_grants_it(asked: Asked, app: Penstock, job: Job) -> None:
    from penstock.cli import sessions
    from penstock.engine.errors import OverBudget

    if job.status == "paused":
        parked = (job.reason or "").startswith(OverBudget.__name__)
        how = f"how: {asked.command('status')}" if parked else f"`penstock jobs resume {job.id}`"
        asked.call.out.note(f"Run {job.id} is paused: the wish is kept until it goes on, {how}")
    elif lack := await sessions.lack(app, job.workflow, job.queue):
        asked.call.out.note(f"{lack}: the wish is kept. Go on: {asked.command('run')}")
    else:
        asked.call.out.remark(f"How far it is: {asked.command('status')}")
