"""The commands that look at knowledge bases and change nothing."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.app import Penstock
from penstock.cli import sessions
from penstock.cli.command import Invocation
from penstock.cli.ingest_asked import Asked, asked_of, base_meant, how_to_make, lack_for, looking, run_meant
from penstock.cli.ingest_live import working
from penstock.cli.ingest_shapes import base_shape, hit_shape, run_shape, verified_shape
from penstock.cli.ingest_told import RunTold, bases_told, run_told
from penstock.cli.ingest_views import show_bases, show_errors, show_runs, show_status, show_verified
from penstock.cli.ingest_wait import watched_to_the_end, way_on
from penstock.engine.identity import checked_name
from penstock.engine.model import DEFAULT_TENANT
from penstock.pipelines.ingestion import bases, reading, searching, verifying
from penstock.pipelines.ingestion.answers import error_line
from penstock.pipelines.ingestion.bases import Base
from penstock.pipelines.ingestion.control import newest_job
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.searching import Mode


def status(call: Invocation, kb: str, *, watch: bool, tenant: str) -> int:
    asked = asked_of(call, tenant)

    async def main() -> int:
        async with looking(asked, kb) as app:
            run = await run_meant(app, asked, kb)
            if watch:
                return await watched_to_the_end(asked, app, run)
            told = await run_told(app, run)
            call.out.data(run_shape(told))
            if not call.json:
                show_status(call.out, told, await app.engine.store.now())
                await _what_to_do(app, asked, told)
            return 0

    return sessions.run(main())


async def _what_to_do(app: Penstock, asked: Asked, told: RunTold) -> None:
    out, status, base = asked.call.out, told.status, told.run.base
    if status.status == "paused":
        out.note(way_on(asked, base, status.reason))
    elif status.status == "failed":
        out.note(f"Go on where it was: {asked.command(f'resume {base} --wait')}")
    elif status.status in ("running", "canceled"):
        verb = "resume" if status.status == "running" else "cancel"
        if lack := await lack_for(app, await newest_job(app, told.run.id)):
            go_on = asked.command(f"{verb} {base} --wait")
            out.note(f"{lack}: start one with `{asked.worker()}`, or do the work here: `{go_on}`")
    elif status.errors:
        out.remark(f"What failed: {asked.command(f'errors {base}')}")


def errors(call: Invocation, kb: str, *, limit: int, before: str | None, tenant: str) -> None:
    asked = asked_of(call, tenant)

    async def main() -> None:
        async with looking(asked, kb) as app:
            run = await run_meant(app, asked, kb)
            only = None if kb == run.base else run.id
            found = await reading.errors(app.engine, run.tenant, run.base, run=only, before=before, limit=limit)
            following = found[-1].id if len(found) == limit else None
            call.out.data({"errors": [error_line(row) for row in found], "next": following})
            if not found:
                call.out.tell(f"{run.base} has no errors.")
            elif not call.json:
                show_errors(call.out, found, await app.engine.store.now())
            if following:
                call.out.note(f"There may be more: --before {following}")
            elif found:
                call.out.remark(f"Try them again: {asked.command(f'resume {run.base} --errors --wait')}")

    sessions.run(main())


def list_bases(call: Invocation, *, limit: int, after: str, tenant: str | None) -> None:
    if tenant is not None:
        checked_name("tenant", tenant)
    asked = Asked(call, call.settings(), tenant or DEFAULT_TENANT)

    async def main() -> None:
        async with looking(asked) as app:
            found = await bases_told(app, tenant, after=_place(after, tenant), limit=limit)
            following = f"{found[-1].line.id}/{found[-1].line.tenant}" if len(found) == limit else None
            call.out.data({"bases": [base_shape(told) for told in found], "next": following})
            if not found:
                call.out.tell(f"There are no knowledge bases: {how_to_make(asked)}")
            elif not call.json:
                show_bases(call.out, found, await app.engine.store.now())
            if following:
                call.out.note(f"There may be more: --after {following}")

    sessions.run(main())


def _place(after: str, tenant: str | None) -> tuple[str, str] | None:
    """`docs/acme`: two tenants may have one of the same name. A tenant need not be said where it is asked for."""
    if not after:
        return None
    name, _, whose = after.partition("/")
    return name, whose or tenant or DEFAULT_TENANT


def list_runs(call: Invocation, kb: str, *, limit: int, before: str | None, tenant: str) -> None:
    asked = asked_of(call, tenant)

    async def main() -> None:
        async with looking(asked, kb) as app:
            base = await base_meant(app, asked, kb)
            rows = await bases.runs(app.engine, tenant, base.id, before=before, limit=limit)
            found = [await run_told(app, run) for run in rows]
            following = found[-1].run.id if len(found) == limit else None
            call.out.data({"runs": [run_shape(told) for told in found], "next": following})
            if not found:
                call.out.tell(f"{kb} has no such runs.")
            elif not call.json:
                show_runs(call.out, found, await app.engine.store.now())
            if following:
                call.out.note(f"There may be more: --before {following}")

    sessions.run(main())


def verify(call: Invocation, kb: str, *, tenant: str) -> int:
    asked = asked_of(call, tenant)

    async def main() -> int:
        async with looking(asked, kb) as app:
            base = await base_meant(app, asked, kb)
            found = verifying.Verified()
            if base.edition is not None:
                with working(call.out, "comparing ledger and index"):
                    found = await verifying.verify(app.engine, index_for(app.engine), base.edition)
            call.out.data(verified_shape(kb, found))
            if not call.json:
                show_verified(call.out, kb, found)
            if not found.sound:
                call.out.remark(f"Mend it: {asked.command(f'repair {kb} --wait')}")
            return 0 if found.sound else 1

    return sessions.run(main())


def search(
    call: Invocation,
    kb: str,
    question: str | None,
    questions: str | None,
    *,
    top: int,
    mode: Mode,
    wanted: Mapping[str, str],
    tenant: str,
) -> None:
    from penstock.cli.ingest_search import answer_all, read_questions, show_hits

    asked = asked_of(call, tenant)
    many = [] if questions is None else read_questions(questions)

    async def main() -> None:
        async with looking(asked, kb) as app:
            base = await base_meant(app, asked, kb)
            if question is None:
                await answer_all(app, kb, many, tenant=tenant, top=top, mode=mode, filter=wanted)
                return
            hits = await searching.search(app.engine, kb, question, tenant=tenant, top=top, mode=mode, filter=wanted)
            call.out.data([hit_shape(hit) for hit in hits])
            if hits and not call.json:
                show_hits(call.out, question, hits)
            await _how_full(app, asked, base, found=bool(hits), filtered=bool(wanted))

    sessions.run(main())


async def _how_full(app: Penstock, asked: Asked, base: Base, *, found: bool, filtered: bool) -> None:
    """What explains an answer that is thin, or none."""
    out = asked.call.out
    edition = None if base.edition is None else await bases.edition_of(app.engine, base.edition)
    watch = asked.command(f"status {base.id}")
    if edition is None or not edition.chunks:
        out.note(f"There is nothing in {base.id} yet: {watch}")
    elif edition.opened_by is not None:
        out.note(f"{base.id} is not filled to the end: {watch}")
    elif not found:
        out.tell("Nothing was found" + (" in documents that fit the filter." if filtered else "."))
