"""`penstock ingest`: fill knowledge bases from folders, PDFs, sites and videos, look after them, and ask them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.command import Group, Invocation
from penstock.cli.ingest_options import EVERY, given, source_options
from penstock.cli.parameters import WholeNumber

if TYPE_CHECKING:
    from penstock.pipelines.ingestion.searching import Mode

F = TypeVar("F", bound=Callable[..., Any])

WAIT = "Wait until it is done, and do the work here if no worker is alive."


def _tenant(function: F) -> F:
    return click.option("--tenant", "-t", default="default", show_default=True, help="Whose knowledge base it is.")(
        function
    )


def _rebuild(function: F) -> F:
    text = "Fill it anew, as another chunker or embedder needs; what is there is searched until that is done."
    return click.option("--rebuild", is_flag=True, help=text)(function)


def _limit(function: F) -> F:
    return click.option(
        "--limit", "-n", type=WholeNumber(1, 500), default=50, show_default=True, help="At most so many."
    )(function)


@click.group(cls=Group)
def ingest() -> None:
    """Fill knowledge bases, and search them."""


@ingest.command()
@click.argument("kb", metavar="KB")
@source_options
@_rebuild
@click.option(
    "--every",
    type=EVERY,
    metavar="DURATION",
    help="Refresh it by itself: 15m, 6h, 1d (it must divide a day) or 1w; or never again: never.",
)
@click.option("--wait", is_flag=True, help=WAIT)
@_tenant
@click.pass_obj
def start(call: Invocation, kb: str, rebuild: bool, every: float | None, wait: bool, tenant: str) -> int:
    """Fill a knowledge base, or refresh it.

    Without a source it is refreshed from where it was filled before: what has not changed is not read, cut or embedded
    again.

    \b
    Examples:
      penstock ingest start docs --markdown docs --wait
      penstock ingest start help --website https://docs.example.org/ --prefix /en/ --every 1d
      penstock ingest start docs --wait            once more, from what it keeps
    """
    from penstock.cli import ingest_acting
    from penstock.cli.ingest_sources import sources_of

    said = given()
    return ingest_acting.start(call, kb, said, sources_of(said), rebuild=rebuild, every=every, wait=wait, tenant=tenant)


@ingest.command()
@click.argument("kb", metavar="KB")
@source_options
@_rebuild
@_tenant
@click.pass_obj
def plan(call: Invocation, kb: str, rebuild: bool, tenant: str) -> int:
    """Say what filling it would come to, in money and time.

    And in documents, chunks and tokens. Everything is read and cut as a run would do it; of websites a few pages.
    Nothing is paid, and nothing is indexed.
    """
    from penstock.cli import ingest_plan
    from penstock.cli.ingest_sources import sources_of

    said = given()
    return ingest_plan.plan(call, kb, said, sources_of(said), rebuild=rebuild, tenant=tenant)


@ingest.command()
@click.argument("kb", metavar="KB|RUN")
@click.option("--wait", is_flag=True, help="Wait until it rests.")
@_tenant
@click.pass_obj
def pause(call: Invocation, kb: str, wait: bool, tenant: str) -> int:
    """Let a run rest, until it is resumed.

    It stops before the next group of chunks.
    """
    from penstock.cli import ingest_acting

    return ingest_acting.pause(call, kb, wait=wait, tenant=tenant)


@ingest.command()
@click.argument("kb", metavar="KB|RUN")
@click.option("--errors", is_flag=True, help="Try what could not be indexed again, and nothing else.")
@click.option("--wait", is_flag=True, help=WAIT)
@_tenant
@click.pass_obj
def resume(call: Invocation, kb: str, errors: bool, wait: bool, tenant: str) -> int:
    """Go on with a run that rests, failed or was left.

    At the next group of chunks: what is indexed is neither indexed nor counted again.
    """
    from penstock.cli import ingest_acting

    return ingest_acting.resume(call, kb, errors=errors, wait=wait, tenant=tenant)


@ingest.command()
@click.argument("kb", metavar="KB|RUN")
@click.option("--wait", is_flag=True, help=WAIT)
@_tenant
@click.pass_obj
def cancel(call: Invocation, kb: str, wait: bool, tenant: str) -> int:
    """End a run, and take out all it wrote.

    What it had replaced or removed comes back; what other runs wrote stays.
    """
    from penstock.cli import ingest_acting

    return ingest_acting.cancel(call, kb, wait=wait, tenant=tenant)


@ingest.command()
@click.argument("kb", metavar="KB|RUN")
@click.option("--watch", is_flag=True, help="Look on until it has ended or rests.")
@_tenant
@click.pass_obj
def status(call: Invocation, kb: str, watch: bool, tenant: str) -> int:
    """How far a run is: the newest of KB, or RUN."""
    from penstock.cli import ingest_looking

    return ingest_looking.status(call, kb, watch=watch, tenant=tenant)


@ingest.command()
@click.argument("kb", metavar="KB|RUN")
@_limit
@click.option("--before", metavar="ID", help="Go on from the last id of the page before.")
@_tenant
@click.pass_obj
def errors(call: Invocation, kb: str, limit: int, before: str | None, tenant: str) -> None:
    """What could not be loaded or embedded, newest first."""
    from penstock.cli import ingest_looking

    ingest_looking.errors(call, kb, limit=limit, before=before, tenant=tenant)


@ingest.command("list")
@_limit
@click.option("--after", metavar="KB/TENANT", default="", help="Go on from the last one of the page before.")
@click.option("--tenant", "-t", help="Only those of this tenant.")
@click.pass_obj
def list_(call: Invocation, limit: int, after: str, tenant: str | None) -> None:
    """Knowledge bases, by name."""
    from penstock.cli import ingest_looking

    ingest_looking.list_bases(call, limit=limit, after=after, tenant=tenant)


@ingest.command()
@click.argument("kb", metavar="KB")
@_limit
@click.option("--before", metavar="RUN", help="Go on from the last id of the page before.")
@_tenant
@click.pass_obj
def runs(call: Invocation, kb: str, limit: int, before: str | None, tenant: str) -> None:
    """The runs of a knowledge base, newest first."""
    from penstock.cli import ingest_looking

    ingest_looking.list_runs(call, kb, limit=limit, before=before, tenant=tenant)


@ingest.command()
@click.argument("kb", metavar="KB")
@_tenant
@click.pass_obj
def verify(call: Invocation, kb: str, tenant: str) -> int:
    """Compare ledger and index, both ways.

    Safe while a run is at work. The exit code is 1 where something differs.
    """
    from penstock.cli import ingest_looking

    return ingest_looking.verify(call, kb, tenant=tenant)


@ingest.command()
@click.argument("kb", metavar="KB")
@click.option("--wait", is_flag=True, help=WAIT)
@_tenant
@click.pass_obj
def repair(call: Invocation, kb: str, wait: bool, tenant: str) -> int:
    """Make the index say what the ledger says.

    What is missing is embedded again from what is stored, what is too much is removed. Safe while a run is at work.
    """
    from penstock.cli import ingest_acting

    return ingest_acting.repair(call, kb, wait=wait, tenant=tenant)


@ingest.command()
@click.argument("kb", metavar="KB")
@click.argument("question", required=False)
@click.option("--top", type=WholeNumber(1, 100), default=10, show_default=True, help="At most so many hits.")
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "vector", "text"]),
    default="hybrid",
    show_default=True,
    help="By meaning and words, by meaning, or by words.",
)
@click.option(
    "--filter", "wanted", multiple=True, metavar="KEY=VALUE", help="Only documents with this metadata; repeatable."
)
@click.option(
    "--questions", metavar="FILE", help="Questions, a line of JSON each (- for stdin); as many lines are answered."
)
@_tenant
@click.pass_obj
def search(
    call: Invocation,
    kb: str,
    question: str | None,
    top: int,
    mode: Mode,
    wanted: tuple[str, ...],
    questions: str | None,
    tenant: str,
) -> None:
    """Ask a knowledge base: the passages that answer best.

    \b
    Examples:
      penstock ingest search docs "how do I silence an alarm?"
      penstock ingest search docs "opening hours" --top 3 --filter lang=en --filter 'uri=guides/*'
      penstock ingest search docs --questions questions.jsonl > answers.jsonl
    """
    from penstock.cli import ingest_looking
    from penstock.cli.ingest_search import filters

    if (question is None) == (questions is None):
        raise click.UsageError("ask one QUESTION, or those of a file with --questions")
    ingest_looking.search(call, kb, question, questions, top=top, mode=mode, wanted=filters(wanted), tenant=tenant)


@ingest.command()
@click.argument("kb", metavar="KB")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; needed where there is no terminal.")
@click.option("--wait", is_flag=True, help=WAIT)
@_tenant
@click.pass_obj
def delete(call: Invocation, kb: str, yes: bool, wait: bool, tenant: str) -> int:
    """Delete a knowledge base and all that is in it.

    Nobody finds it from then on; its rows are removed shortly after. That it was deleted, by whom and when, is kept.
    """
    from penstock.cli import ingest_acting

    return ingest_acting.delete(call, kb, yes=yes, wait=wait, tenant=tenant)


@ingest.command()
@click.argument("folder")
@click.option("--pages", type=WholeNumber(2, 73), default=24, show_default=True, help="Of the documentation site.")
@click.option("--pdfs", type=WholeNumber(1, 16), default=3, show_default=True, help="How many PDFs.")
@click.option("--seed", type=WholeNumber(0, 2**31), default=7, show_default=True, help="Another one: other facts.")
@click.pass_obj
def samples(call: Invocation, folder: str, pages: int, pdfs: int, seed: int) -> None:
    """Make an invented documentation to try things with.

    FOLDER gets a site of Markdown pages (site), PDFs (pdfs), and questions.jsonl, whose answers stand on one page each.
    """
    from penstock.cli import ingest_plan

    ingest_plan.samples(call, folder, pages=pages, pdfs=pdfs, seed=seed)
