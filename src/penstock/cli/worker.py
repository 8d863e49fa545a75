"""`penstock worker`: run jobs until told to stop."""

from __future__ import annotations

import click

from penstock.cli.command import Command, Invocation
from penstock.cli.parameters import DURATION, WholeNumber


@click.command(cls=Command)
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Serve this queue; may be repeated.")
@click.option("--queues", "listed", metavar="QUEUES", help="Serve these queues, with commas between them.")
@click.option(
    "--concurrency", type=WholeNumber(1), metavar="N", help="Jobs that each process runs at once; Celery: processes."
)
@click.option("--processes", type=WholeNumber(1, 1000), default=1, show_default=True, metavar="N", help="How many.")
@click.option("--grace", metavar="DURATION", help="How long running steps may take to finish when the worker stops.")
@click.option("--stop-when-idle", type=DURATION, metavar="DURATION", help="End after so long without work.")
@click.option(
    "--delivery",
    type=click.Choice(["embedded", "prefect", "celery"]),
    help="Who runs the jobs: a loop of its own, flow runs of Prefect, or the processes of a Celery worker.",
)
@click.option("--beat/--no-beat", default=None, help="Celery: send hints by the clock, too, as every worker does.")
@click.option("--pages", "files", multiple=True, metavar="FILE", help="A run of pages for Prefect to start regularly.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="What is worth a line.")
@click.option("--log-format", type=click.Choice(["plain", "json"]), help="Lines for people, or for programs.")
@click.pass_obj
def worker(
    call: Invocation,
    queues: tuple[str, ...],
    listed: str | None,
    concurrency: int | None,
    processes: int,
    grace: str | None,
    stop_when_idle: float | None,
    delivery: str | None,
    beat: bool | None,
    files: tuple[str, ...],
    log_level: str | None,
    log_format: str | None,
) -> int:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C lets running steps finish within the grace and hands back the rest; a second one ends at once.
    Processes that die are replaced.
    """
    import logging

    from penstock.cli.logs import start_logging
    from penstock.cli.sessions import without_app
    from penstock.cli.supervisor import Supervisor
    from penstock.cli.worker_process import orders

    named = [*queues, *(part.strip() for part in (listed or "").split(",") if part.strip())]
    flags = {
        "queues": named or None,
        "concurrency": concurrency,
        "grace": grace,
        "delivery": delivery,
        "prefect__pages": list(files) or None,
        "log__level": log_level or ("warning" if call.quiet else None),
        "log__format": log_format or ("json" if call.json else None),
    }
    settings = call.settings(**flags)
    if settings.delivery == "celery":
        # There it is the number of processes, as with Celery's own command.
        flags |= {"concurrency": None, "celery__processes": concurrency, "celery__beat": beat}
        settings = call.settings(**flags)
    elif beat is not None:
        raise click.UsageError("--beat and --no-beat are for --delivery celery")
    if files and settings.delivery != "prefect":
        raise click.UsageError(
            "--pages is for --delivery prefect; elsewhere cron starts `penstock pages run -c FILE --once`"
        )
    start_logging(settings.log)
    if settings.app is None:
        logging.getLogger("penstock.worker").info(without_app())
    if settings.delivery == "prefect":
        from penstock.cli.prefect_worker import serve_prefect

        if processes != 1 or stop_when_idle is not None:
            raise click.UsageError(
                "--processes and --stop-when-idle are for the embedded delivery: under Prefect each flow run is a "
                "process that ends by itself, and prefect.runs says how many there are at once"
            )
        return serve_prefect(settings, config=call.config, overrides=call.overrides(flags))
    if settings.delivery == "celery":
        from penstock.cli.celery_worker import serve_celery

        if processes != 1 or stop_when_idle is not None:
            raise click.UsageError(
                "--processes and --stop-when-idle are for the embedded delivery: under Celery --concurrency says how "
                "many processes there are"
            )
        return serve_celery(settings)
    told = orders(call.config, call.overrides(flags), stop_when_idle=stop_when_idle)
    return Supervisor(told, processes=processes, grace=settings.grace).run()
