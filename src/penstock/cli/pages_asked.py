"""Which run a command of `penstock pages` is about: its configuration or its id; and how to go on with it."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import click

from penstock.app import Penstock
from penstock.builtin import uses_own_gemini
from penstock.cli import sessions
from penstock.cli.command import Invocation
from penstock.cli.output import without_password
from penstock.cli.pages import DEFAULT
from penstock.cli.schema_state import schema_state
from penstock.config import Settings
from penstock.engine.errors import InvalidConfiguration, NotFound
from penstock.engine.model import Job
from penstock.pipelines.pages import asking
from penstock.pipelines.pages.configuration import load_run
from penstock.pipelines.pages.ledger import ledger_id
from penstock.pipelines.pages.model import Run, Task
from penstock.pipelines.pages.workflow import pages
from penstock.service.beginning import same_flags


@dataclass(slots=True, frozen=True)
class Asked:
    """One call of a command on one run's configuration."""

    call: Invocation
    settings: Settings
    name: str
    """The configuration as it was named."""
    run: Run

    @property
    def ledger(self) -> str:
        return ledger_id(self.run.paths.output_dir)

    @property
    def local(self) -> bool:
        """The Gemini on this machine would read the pages."""
        return uses_own_gemini(self.settings)

    def command(self, verb: str) -> str:
        """Another command on the same run."""
        config = f" --config {shlex.quote(self.call.config)}" if self.call.config else ""
        return f"penstock pages {verb} -c {shlex.quote(self.name)}{config}{same_flags(self.settings)}"

    @property
    def commands(self) -> dict[str, str]:
        return {verb: self.command(verb) for verb in ("run", "status", "failures", "retry")}

    def worker(self) -> str:
        """What starts a worker that would do this work."""
        own = self.settings.delivery == "embedded"
        return f"penstock {'up' if own else f'worker --delivery {self.settings.delivery}'}{same_flags(self.settings)}"


def check_pipeline(app: Penstock) -> None:
    if app.workflows.get(pages.name) is not pages:
        raise InvalidConfiguration(
            f"the app has a workflow of its own named {pages.name!r}, which is the name of Penstock's pipeline: "
            "rename it, or use these commands with another configuration (--config) that does not name the app"
        )


def asked_of(call: Invocation, file: str | None) -> Asked:
    """The run's configuration, or every line of what is wrong with it."""
    name = _named(call, file)
    return Asked(call, call.settings(), name, _loaded(call, name))


def _named(call: Invocation, file: str | None) -> str:
    if file is not None:
        return file
    if Path(DEFAULT).exists():
        return DEFAULT
    also = " (--config names Penstock's own configuration, not the run's)" if call.config else ""
    raise click.UsageError(
        f"no configuration: name it with -c FILE{also}; `penstock pages init` writes a first one, "
        "`penstock pages samples shelf` one with pages to try"
    )


def _loaded(call: Invocation, name: str) -> Run:
    try:
        return load_run(Path(name))
    except InvalidConfiguration as error:
        lines = str(error).splitlines()
        if len(lines) == 1:
            raise
        for line in lines:
            call.out.wrong(line)
        raise click.exceptions.Exit(2) from error


@contextlib.asynccontextmanager
async def looking(
    call: Invocation, run_id: str | None, file: str | None, *, acting: bool = False
) -> AsyncIterator[tuple[Penstock, Asked, Job]]:
    """The store that is there, and in it the run that is meant: by its id, or the newest of its output folder."""
    if run_id is not None and file is not None:
        raise click.UsageError("name the run by its id or by its configuration, not by both")
    asked = None if run_id is not None else asked_of(call, file)
    settings = call.settings() if asked is None else asked.settings
    # An app may bring a store of its own.
    by_app = settings.app is not None and (acting or settings.source("app") == "--app")
    if asked is not None and not by_app and (await schema_state(settings.store)).revision is None:
        raise NotFound(f"no run yet: {asked.command('run')}; {_whereabouts(settings)}")
    async with sessions.opened(settings, with_app=acting, must_exist=True) as app:
        if acting:
            check_pipeline(app)
        if asked is None:
            job = await asking.run_of(app, run_id or "")
            yield app, Asked(call, settings, "FILE", Task.model_validate(job.payload).run), job
            return
        last = await asking.last_run(app, asked.run.paths.output_dir)
        if last is None:
            raise NotFound(
                f"no run yet for {asked.run.paths.output_dir}: {asked.command('run')}; {_whereabouts(settings)}"
            )
        yield app, asked, last


def _whereabouts(settings: Settings) -> str:
    """Where runs are known: who stands in another folder looks into another store."""
    if settings.source("store") is None and settings.source("home") is None:
        return f"the store is {settings.home} in the folder you stand in"
    return f"the store is {without_password(settings.store)}"
