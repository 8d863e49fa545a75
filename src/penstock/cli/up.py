"""`penstock up`: the API, the dashboard and a worker, in one process."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from penstock.cli.command import Command, Invocation
from penstock.cli.parameters import WholeNumber

if TYPE_CHECKING:
    from penstock.cli.output import Output
    from penstock.cli.serving import Facts


@click.command(cls=Command)
@click.option("--host", metavar="ADDRESS", help="Listen here; 127.0.0.1 unless told. Others need tokens.")
@click.option("--port", type=WholeNumber(0, 65535), metavar="N", help="8800 unless told; 0 is any that is free.")
@click.option("--workers", type=WholeNumber(1, 1000), metavar="N", help="Run jobs in N child processes, not here.")
@click.option("--no-worker", is_flag=True, help="Run no jobs: other processes do.")
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Serve this queue; may be repeated.")
@click.option("--concurrency", type=WholeNumber(1), metavar="N", help="Jobs that a worker runs at once.")
@click.option("--grace", metavar="DURATION", help="How long running steps may take to finish when it stops.")
@click.option("--drain-wait", metavar="DURATION", help="How long it answers at least, not ready, before it stops.")
@click.option("--open", "show", is_flag=True, help="Open the dashboard in a browser.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="What is worth a line.")
@click.option("--log-format", type=click.Choice(["plain", "json"]), help="Lines for people, or for programs.")
@click.pass_obj
def up(
    call: Invocation,
    host: str | None,
    port: int | None,
    workers: int | None,
    no_worker: bool,
    queues: tuple[str, ...],
    concurrency: int | None,
    grace: str | None,
    drain_wait: str | None,
    show: bool,
    log_level: str | None,
    log_format: str | None,
) -> int:
    """Serve the API and the dashboard, and run jobs.

    SIGTERM or Ctrl-C lets running steps finish within the grace and hands back the rest; a second one ends at once.
    """
    from penstock.cli.logs import start_logging
    from penstock.cli.serving import Wanted, run
    from penstock.cli.worker_process import orders

    if no_worker and workers is not None:
        raise click.UsageError("--no-worker and --workers exclude each other")
    flags = {
        "service__host": host,
        "service__port": port,
        "service__drain_wait": drain_wait,
        "queues": list(queues) or None,
        "concurrency": concurrency,
        "grace": grace,
        "log__level": log_level or ("warning" if call.quiet else None),
        "log__format": log_format or ("json" if call.json else None),
    }
    settings = call.settings(**flags)
    # Jobs that others are told of are not to be taken by a loop here first.
    no_worker = no_worker or (settings.delivery != "embedded" and workers is None)
    start_logging(settings.log)
    told = orders(call.config, call.overrides(flags), stop_when_idle=None)

    def greet(facts: Facts) -> None:
        call.out.data(facts.told)
        if settings.log.format == "json":
            logging.getLogger("penstock.service").info("ready; %s", "; ".join(map(": ".join, _told(facts).items())))
        else:
            _introduce(call.out, facts)
        if show:
            click.launch(facts.url)

    return run(settings, Wanted(orders=told, processes=workers, nobody=no_worker), greet)


def _told(facts: Facts) -> dict[str, str]:
    needed = "with a token, which `penstock tokens create NAME` makes"
    return {
        "Dashboard": f"{facts.url}/",
        "API": f"{facts.url}/api/v1/, described by {facts.url}/openapi.json",
        **({"Listens": facts.listens} if facts.listens else {}),
        "Store": facts.store,
        "App": facts.app_told,
        "Worker": facts.worker_told,
        "Access": "open to this machine alone, without a token" if facts.open_access else needed,
    }


def _introduce(out: Output, facts: Facts) -> None:
    lines = _told(facts)
    width = max(map(len, lines)) + 1
    out.tell("\n".join(f"{name + ':':<{width}} {text}" for name, text in lines.items()))
    if facts.first_job is not None:
        out.tell(f"Try, in another terminal: {facts.first_job}")
    out.tell("Ctrl-C stops the service.")
