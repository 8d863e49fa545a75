"""What people ask of a knowledge base: to be filled, paused, resumed, cancelled, forgotten, refreshed by a schedule.
The command line, the service and Python ask through here."""

from __future__ import annotations

import re
from typing import Any

from penstock.app import Penstock
from penstock.engine.audit import Actor, entry
from penstock.engine.context import Context
from penstock.engine.errors import Conflict, InvalidRequest, NotFound
from penstock.engine.model import DEFAULT_TENANT, Job, NewJob
from penstock.pipelines.ingestion import bases
from penstock.pipelines.ingestion.bases import Base, Edition, Run
from penstock.pipelines.ingestion.chunking import chunker_of
from penstock.pipelines.ingestion.embedders import make_embedder
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.living import tools_for
from penstock.pipelines.ingestion.model import Configuration, EmbedderSpec
from penstock.pipelines.ingestion.sources import make_source
from penstock.pipelines.ingestion.work import Ask, Begin, Forget, Refresh, Repair
from penstock.pipelines.ingestion.workflow import forget as forgetting
from penstock.pipelines.ingestion.workflow import ingestion, refresh, repair
from penstock.store.protocol import Expect, Once, Submitted

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


def checked_base(name: str) -> str:
    if not _NAME.match(name):
        raise InvalidRequest(
            f"a knowledge base's name is 1 to 100 letters, digits, dots, hyphens and underscores, not {name[:100]!r}"
        )
    return name


async def start(
    app: Penstock,
    base: str,
    config: Configuration | None = None,
    *,
    rebuild: bool = False,
    tenant: str = DEFAULT_TENANT,
    actor: Actor | str | None = None,
    once: Once | None = None,
) -> Submitted:
    """Fill a knowledge base, or refresh it: without `config` from the configuration that it keeps. `Conflict` while a
    run is active, and where chunker or embedder differ from what it is pinned to, unless it is to be rebuilt."""
    repeated = once is not None and await app.engine.store.answered(once.scope, once.key)
    found = await bases.find_base(app.engine, tenant, checked_base(base))
    if config is None:
        if found is None:
            raise NotFound(f"there is no knowledge base {base!r}: name a source to make one")
        config = found.config if rebuild else sources_of(found)
    if found is not None and not repeated:
        await _check_free(app, found)
        if not rebuild:
            config = await pinned(app, found, config)
    if not repeated:
        _check(app, config)
        await index_for(app.engine).prepare()
    ask = Ask(base=base, config=config, rebuild=rebuild and found is not None and found.edition is not None)
    return await _begin(app, found, ask, tenant=tenant, actor=actor, once=once)


def sources_of(base: Base) -> Configuration:
    """What a knowledge base keeps, without a word about chunker and embedder where it is filled already: a rebuild
    that came to nothing has left there what it asked for."""
    kept = base.config
    if base.edition is None:
        return kept
    return Configuration(sources=kept.sources, embedder=EmbedderSpec(batch=kept.embedder.batch), prune=kept.prune)


async def retry_errors(
    app: Penstock, run: Run, *, actor: Actor | str | None = None, once: Once | None = None
) -> Submitted:
    """A run over what an earlier one listed as errors, and nothing else."""
    base = await bases.base_of(app.engine, run.tenant, run.base)
    await _check_free(app, base)
    if not await error_count(app, base.edition):
        raise Conflict(f"{base.id!r} has no errors to retry", job=run.id)
    ask = Ask(base=base.id, config=base.config, errors_only=True)
    return await _begin(app, base, ask, tenant=base.tenant, actor=actor, once=once)


async def _begin(
    app: Penstock, found: Base | None, ask: Ask, *, tenant: str, actor: Actor | str | None, once: Once | None
) -> Submitted:
    engine = app.engine
    now = engine.clock.now()
    job = engine.new_job(ingestion, Begin(ask=ask), tenant=tenant)
    config = ask.config
    plan = found.plan if found is not None and not ask.errors_only and _same(found.plan, config) else None
    rows: list[Any] = [
        bases.new_base(ask.base, tenant=tenant, config=config, run=job.id, now=now)
        if found is None
        else bases.next_run(found, config=config, run=job.id, now=now, planned=plan is not None),
        bases.new_run(job.id, ask.base, tenant=tenant, config=config, plan=plan, now=now),
    ]
    audit = None if actor is None else entry(actor, "ingestion.start", f"kb:{ask.base}", tenant=tenant)
    try:
        (id,) = await engine.write(*rows, jobs=[job], audit=audit, once=once)
    except InvalidRequest as error:
        # Of two who make it at once the second finds its row; of two who start it, the run.
        now_there = await bases.find_base(engine, tenant, ask.base)
        if now_there is None and await _leaving(app, ask.base, tenant):
            raise Conflict(f"{ask.base!r} is being deleted: try again in a moment") from error
        if now_there is None or (found is not None and now_there.run == found.run):
            raise
        await _check_free(app, now_there)
        raise Conflict(f"{ask.base!r} was changed in this moment by somebody else: try again") from error
    return Submitted(id, id == job.id, 1, "queued")


async def _leaving(app: Penstock, base: str, tenant: str) -> bool:
    named = {"tenant": tenant, "base": base}
    return bool(await app.engine.read(("SELECT 1 FROM kb_bases WHERE tenant = :tenant AND id = :base", named)))


def _same(plan: dict[str, Any] | None, config: Configuration) -> bool:
    """Whether a plan was made for this configuration."""
    return plan is not None and plan.get("config") == config.model_dump(mode="json")


def _check(app: Penstock, config: Configuration) -> None:
    """What a run would stumble over at once."""
    settings = app.engine.settings
    chunker_of(config.chunker)
    make_embedder(config.embedder, settings)
    for number, spec in enumerate(config.sources):
        make_source(spec, tools_for(app.engine, "", number))


async def _check_free(app: Penstock, base: Base) -> None:
    job = None if base.run is None else await newest_job(app, base.run, base.tenant)
    if job is not None and not job.final:
        from penstock.pipelines.ingestion.status import word

        raise Conflict(
            f"run {base.run} of {base.id!r} is {word(None, job.status)}: wait for it, or `penstock ingest cancel"
            f" {base.id}`",
            job=base.run,
        )


async def pinned(app: Penstock, base: Base, config: Configuration) -> Configuration:
    """The configuration with what the edition is pinned to; `Conflict` where it says otherwise."""
    edition = None if base.edition is None else await bases.edition_of(app.engine, base.edition)
    if edition is None:
        return config
    wrong = [
        f"{name} is {have}, not {asked}"
        for name, have, asked in _differences(edition, config)
        if have != asked
    ]  # fmt: skip
    if wrong:
        raise Conflict(
            f"{base.id!r} was filled otherwise ({'; '.join(wrong)}): leave that out, or rebuild it (rebuild: true,"
            " --rebuild)",
            job=base.run,
        )
    return edition.pinning(config, base.config)


def _differences(edition: Edition, config: Configuration) -> list[tuple[str, Any, Any]]:
    have, asked = edition.embedder, config.embedder
    said_chunker = config.chunker.model_fields_set
    found: list[tuple[str, Any, Any]] = []
    found += [("embedder", have.name, asked.name)] if "name" in asked.model_fields_set else []
    found += [("model", have.model, asked.model)] if asked.model is not None else []
    found += [("dimension", have.dimension, asked.dimension)] if asked.dimension is not None else []
    for name in ("name", "size", "overlap"):
        if name in said_chunker:
            label = "chunker" if name == "name" else f"chunk {name}"
            found.append((label, getattr(edition.chunker, name), getattr(config.chunker, name)))
    return found


async def newest_job(app: Penstock, run: str, tenant: str | None = None) -> Job | None:
    """The job that works on a run, or did last; None where retention has forgotten it."""
    found = await app.jobs(tenant=tenant, workflow=ingestion.name, key=run, limit=1)
    return found[0] if found else None


async def run_meant(app: Penstock, name: str, *, tenant: str | None = None) -> Run:
    """A run by its id, by that of its job, or by the knowledge base that it fills: then the newest."""
    run = await bases.find_run(app.engine, name, tenant=tenant)
    if run is None:
        base = await bases.find_base(app.engine, tenant or DEFAULT_TENANT, name)
        run = None if base is None or base.run is None else await bases.find_run(app.engine, base.run)
    if run is None:
        raise NotFound(f"there is no ingestion {name!r}, and no knowledge base of that name")
    return run


async def _job_of(app: Penstock, run: Run) -> Job:
    job = await newest_job(app, run.id, run.tenant)
    if job is None:
        raise Conflict(f"run {run.id} of {run.base!r} is over: start another", job=run.id)
    return job


async def pause(app: Penstock, run: Run, *, actor: Actor | str | None = None) -> Job:
    """Takes effect before the next group of chunks; holds across restarts."""
    job = await _job_of(app, run)
    if job.final or job.status in ("paused", "canceling"):
        raise _wrong(run, job, "paused")
    return await app.pause(job.id, actor=actor)


async def resume(app: Penstock, run: Run, *, actor: Actor | str | None = None) -> Job:
    """A paused run goes on; one that failed goes on from where it was."""
    job = await _job_of(app, run)
    if job.status == "failed":
        await _check_newest(app, run)
        return await app.retry(job.id, actor=actor)
    if job.status != "paused" and job.halting != "pause":
        raise _wrong(run, job, "resumed")
    return await app.resume(job.id, actor=actor)


async def cancel(app: Penstock, run: Run, *, actor: Actor | str | None = None) -> Job:
    """Stop, and take out what the run wrote: also what one that failed has left."""
    job = await _job_of(app, run)
    if job.status == "failed":
        await _check_newest(app, run)
        job = await app.retry(job.id)
    elif job.final or job.status == "canceling":
        raise _wrong(run, job, "cancelled")
    return await app.cancel(job.id, actor=actor)


async def _check_newest(app: Penstock, run: Run) -> None:
    base = await bases.base_of(app.engine, run.tenant, run.base)
    if base.run != run.id:
        raise Conflict(f"run {run.id} is not the newest of {run.base!r}: that is {base.run}", job=base.run)


def _wrong(run: Run, job: Job, wish: str) -> Conflict:
    from penstock.pipelines.ingestion.status import word_of

    return Conflict(f"run {run.id} of {run.base!r} is {word_of(run, job)}: it cannot be {wish}", job=run.id)


async def error_count(app: Penstock, edition: int | None) -> int:
    if edition is None:
        return 0
    ((count,),) = await app.engine.read(
        ("SELECT COUNT(*) FROM kb_errors WHERE edition = :edition", {"edition": edition})
    )
    return int(count)


async def forget(app: Penstock, base: str, *, tenant: str = DEFAULT_TENANT, actor: Actor | str | None = None) -> str:
    """Delete a knowledge base with everything in it: it is gone for all who ask from now on, its rows shortly after.
    Answers the id of the job that removes them."""
    found = await bases.base_of(app.engine, tenant, base)
    await _check_free(app, found)
    job = app.engine.new_job(forgetting, Forget(base=base), tenant=tenant)
    leaving = Expect(
        (
            "UPDATE kb_bases SET leaving = :job WHERE tenant = :tenant AND id = :id AND leaving IS NULL"
            f" AND {'run IS NULL' if found.run is None else 'run = :run'}",
            {"job": job.id, "tenant": tenant, "id": base} | ({} if found.run is None else {"run": found.run}),
        ),
        f"{base!r} was started or deleted in this moment by somebody else",
    )
    audit = entry(actor or "somebody", "ingestion.forget", f"kb:{base}", tenant=tenant)
    (id,) = await app.engine.write(leaving, jobs=[job], audit=audit)
    schedule = schedule_name(base)
    if any(each.name == schedule for each in await app.schedules(tenant=tenant)):
        await app.engine.remove_schedule(schedule, tenant=tenant)
    return id


async def start_repair(
    app: Penstock, base: str, *, tenant: str = DEFAULT_TENANT, actor: Actor | str | None = None
) -> Submitted:
    """Let the index be mended where it differs from the ledger."""
    await bases.base_of(app.engine, tenant, base)
    return await app.submit(repair, Repair(base=base), key=base, tenant=tenant, again=True, actor=actor)


def schedule_name(base: str) -> str:
    return f"ingestion:{base}"


def cron_of(seconds: float, now: float) -> str:
    """`--every 1d` as a cron expression that first fires so long after now, about."""
    minutes = round(seconds / 60) if 60 <= seconds <= 10_080 * 60 else 0
    minute, hour, day = int(now // 60) % 60, int(now // 3600) % 24, (int(now // 86_400) + 4) % 7
    if abs(minutes * 60 - seconds) < 1:
        if 1 <= minutes < 60 and 60 % minutes == 0:
            return f"*/{minutes} * * * *"
        if minutes % 60 == 0 and 24 % (minutes // 60 or 25) == 0 and minutes < 1440:
            hours = minutes // 60
            return f"{minute} {'*' if hours == 1 else f'*/{hours}'} * * *"
        if minutes == 1440:
            return f"{minute} {hour} * * *"
        if minutes == 10_080:
            return f"{minute} {hour} * * {day}"
    raise InvalidRequest("every must be a part of an hour or a day, a day or a week: 15m, 1h, 6h, 1d, 1w")


async def refresh_every(
    app: Penstock, base: str, seconds: float, *, tenant: str = DEFAULT_TENANT, actor: Actor | str | None = None
) -> str:
    """Refresh a knowledge base by a schedule; answers its cron expression."""
    await bases.base_of(app.engine, tenant, base)
    cron = cron_of(seconds, app.engine.clock.now())
    job: NewJob = app.engine.new_job(refresh, Refresh(base=base), tenant=tenant)
    await app.engine.set_schedule(schedule_name(base), cron, job, actor=actor)
    return cron


async def start_again(what: Refresh, ctx: Context) -> dict[str, Any]:
    """The step of a schedule: a run from the kept configuration, unless one is under way."""
    engine, tenant = ctx.engine, ctx.job.tenant
    base = await bases.find_base(engine, tenant, what.base)
    if base is None:
        return {"skipped": "the knowledge base is gone"}
    if base.run is not None:
        rows = await ctx.read(
            (
                "SELECT status FROM jobs WHERE tenant = :tenant AND workflow = 'ingestion' AND \"key\" = :run"
                " ORDER BY run DESC LIMIT 1",
                {"tenant": tenant, "run": base.run},
            )
        )
        if rows and rows[0][0] not in ("completed", "failed", "canceled"):
            return {"skipped": f"run {base.run} is {rows[0][0]}"}
    id = ctx.spawn(ingestion, Begin(ask=Ask(base=base.id, config=base.config)))
    now = ctx.now()
    ctx.write(bases.next_run(base, config=base.config, run=id, now=now))
    ctx.write(bases.new_run(id, base.id, tenant=tenant, config=base.config, plan=None, now=now))
    return {"run": id}
