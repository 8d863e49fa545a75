"""Knowledge bases as people see them: how a run stands and what it came to, lists, a plan, what could not be indexed,
and whether ledger and index say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from penstock.app import Penstock
from penstock.cli.fitting import fitted, needed, shortened, widths_of
from penstock.cli.ingest_asked import Asked
from penstock.cli.ingest_bars import drawn, lines
from penstock.cli.ingest_live import left_text, plain, status_words
from penstock.cli.ingest_told import BaseTold, RunTold, sources_text
from penstock.cli.output import STATUS_STYLES, Output, counted, harmless, plain_table
from penstock.cli.sheets import show_sheet
from penstock.engine.budget import dollars
from penstock.engine.model import DEFAULT_TENANT
from penstock.pipelines.ingestion import bases
from penstock.pipelines.ingestion.planning import Plan
from penstock.pipelines.ingestion.reading import ErrorLine
from penstock.pipelines.ingestion.verifying import FAULTS, Verified
from penstock.times import ago, length, local_and_ago

STYLES = {**STATUS_STYLES, "not_started": "bright_black", "canceled": "yellow"}
PHASES = ("PHASE", "DONE", "RATE", "TIME")
SHORTEST = {"SOURCES": 16, "KB": 12}
NUMBERS = frozenset(("DOCUMENTS", "CHUNKS", "KNOWN", "ERRORS", "TOOK"))

Facts = list[tuple[str, str]]


def show_status(out: Output, told: RunTold, now: float) -> None:
    status = told.status
    facts: Facts = [("run", status.id), ("status", _status_line(told))]
    if status.tenant != DEFAULT_TENANT:
        facts.append(("tenant", status.tenant))
    if status.reason and status.status == "paused":
        facts.append(("why", status.reason))
    if status.last_error:
        facts.append(("last error", " ".join(plain(status.last_error).split())))
    facts += [("source", text) for text in sources_text(told.run.config.sources)]
    facts += [*_counted(told), ("began", local_and_ago(status.started_at, now))]
    if status.finished_at is not None:
        facts.append(("ended", local_and_ago(status.finished_at, now)))
    if left := left_text(status):
        facts.append(("left", left.removesuffix(" left")))
    if status.heartbeat_age is not None:
        facts.append(("heartbeat", f"{length(status.heartbeat_age)} ago"))
    style = STYLES.get(status.status, "bright_black")
    styles = {"status": style, "last error": "yellow", "documents": "bold", "chunks": "bold"}
    show_sheet(out, f"Knowledge base · {harmless(status.kb_id)}", facts, border=style, styles=styles)
    if status.status != "not_started":
        out.result("")
        show_phases(out, told)


def _status_line(told: RunTold) -> str:
    status = told.status
    words = status_words(status)
    if status.stalled:
        return f"{words}, but stalled: no heartbeat for {length(status.heartbeat_age or 0.0)}"
    if status.status == "completed" and status.errors:
        return f"{words}, with {counted(status.errors, 'error')}"
    return words


def show_phases(out: Output, told: RunTold) -> None:
    if not out.fancy:
        out.result(plain_table(PHASES, lines(told.status)))
        return
    console = out.console()
    console.print(drawn(told.status, console.width))


def _counted(told: RunTold) -> Facts:
    """Documents, chunks, tokens, money and time; beside each what was planned, where there was a plan."""
    status, plan = told.status, told.status.plan
    counters = status.counters
    if status.status == "not_started":
        return []
    facts = [
        ("documents", documents_text(counters) + _planned(plan, "documents", counters["docs_seen"])),
        ("chunks", chunks_text(counters) + _planned(plan, "chunks", counters["chunks_seen"])),
    ]
    if counters["tokens"]:
        facts.append(("tokens", f"{counters['tokens']:,}{_planned(plan, 'tokens', counters['tokens'])}"))
    planned = plan["cost"] if plan else None
    if told.cost or planned:
        facts.append(("cost", f"{dollars(told.cost)}{f' (planned {dollars(planned)})' if planned else ''}"))
    if status.finished_at is not None:
        facts.append(("took", took_text(told)))
    return facts


def took_text(told: RunTold) -> str:
    status = told.status
    took = (status.finished_at or status.started_at) - status.started_at
    plan = status.plan
    planned = f" (planned {length(plan['seconds'])})" if plan and plan.get("seconds") is not None else ""
    work = sum(phase.seconds for phase in status.phases)
    resting = f", {length(work)} of it at work" if took > 5 and 0 < 2 * work < took else ""
    return f"{length(took)}{resting}{planned}"


def _planned(plan: Mapping[str, Any] | None, name: str, real: int) -> str:
    if plan is None:
        return ""
    return " (as planned)" if plan[name] == real else f" (planned {'' if plan['exact'] else 'about '}{plan[name]:,})"


def documents_text(counters: Mapping[str, int]) -> str:
    """`24: 20 new, 3 replaced, 1 unchanged`."""
    seen, known = counters["docs_seen"], ("unchanged", "replaced", "empty")
    amounts = {name: counters[f"docs_{name}"] for name in known}
    failed = counters["docs_error"]
    new = max(seen - sum(amounts.values()) - failed, 0)
    parts = [(new, "new"), *((amounts[name], name) for name in known), (failed, "failed")]
    told = ", ".join(f"{amount:,} {what}" for amount, what in parts if amount)
    removed = f"; {counters['docs_removed']:,} removed that are gone" if counters["docs_removed"] else ""
    return f"{seen:,}{f': {told}' if told else ''}{removed}"


def chunks_text(counters: Mapping[str, int]) -> str:
    parts = (
        (counters["chunks_processed"], "indexed"),
        (counters["chunks_skipped"], "known already"),
        (counters["chunks_error"], "failed"),
    )
    told = ", ".join(f"{amount:,} {what}" for amount, what in parts if amount)
    return f"{counters['chunks_seen']:,}{f': {told}' if told else ''}"


async def show_ended(asked: Asked, app: Penstock, told: RunTold) -> None:
    """What a run came to, and what to do about what it did not."""
    out, status, base = asked.call.out, told.status, told.run.base
    if status.status == "not_started":
        out.remark(f"{click.style('×', fg='yellow')} run {status.id} was canceled: nothing of it is left.")
        return
    if not out.json:
        style = STYLES.get(status.status if told.well else "failed", "")
        errors = f"{status.errors:,}" if status.errors else "none"
        styles = {"documents": "bold", "chunks": "bold", "errors": "red" if status.errors else ""}
        facts = [*_counted(told), ("errors", errors)]
        show_sheet(out, f"{harmless(base)} · run {status.id}", facts, border=style, styles=styles)
    if status.status == "failed":
        why = harmless(plain(status.last_error or "nobody knows why"))
        out.remark(f"{click.style('✗', fg='red')} run {status.id} failed: {why}")
        out.remark(f"  Go on where it was: {asked.command(f'resume {base} --wait')}")
        out.remark(f"  Or take out what it wrote: {asked.command(f'cancel {base} --wait')}")
        return
    found = await bases.find_base(app.engine, told.run.tenant, base)
    edition = None if found is None or found.edition is None else await bases.edition_of(app.engine, found.edition)
    sign = click.style("✓", fg="green") if told.well else click.style("✗", fg="red")
    if edition is not None:
        has = f"{big(edition.documents, 'document')} in {big(edition.chunks, 'chunk')}"
        but = "" if told.well else f", but {_failed_text(status.counters)}"
        out.remark(f"{sign} {harmless(base)} has {has} now{but}.")
    if status.errors:
        out.note(f"  {big(status.errors, 'error')}: {asked.command(f'errors {base}')}")
        out.remark(f"  Try them again: {asked.command(f'resume {base} --errors --wait')}")
    if edition is not None and edition.chunks:
        words = f'search {base} "your question"'
        out.remark(f"  Ask it: {asked.command(words)}")


def _failed_text(counters: Mapping[str, int]) -> str:
    documents, chunks = counters["docs_error"], counters["chunks_error"]
    parts = [f"{big(documents, 'document')} could not be read" if documents else "",
             f"{big(chunks, 'chunk')} could not be embedded" if chunks else ""]  # fmt: skip
    return ", ".join(filter(None, parts)) or "not everything could be indexed"


def big(amount: int, noun: str) -> str:
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"


def show_bases(out: Output, found: Sequence[BaseTold], now: float) -> None:
    lines = [told.line for told in found]
    columns: dict[str, list[str]] = {
        "KB": [line.id for line in lines],
        "TENANT": [line.tenant for line in lines],
        "STATUS": [line.status.replace("_", " ") for line in lines],
        "DOCUMENTS": [f"{line.documents:,}" for line in lines],
        "CHUNKS": [f"{line.chunks:,}" for line in lines],
        "ERRORS": [f"{line.errors:,}" if line.errors else "" for line in lines],
        "EMBEDDER": [line.embedder.name if line.embedder else "-" for line in lines],
        "FILLED": [ago(line.updated, now) if line.documents or line.status == "completed" else "–" for line in lines],
        "NEXT": ["" if told.schedule is None else ago(told.schedule.next_due, now) for told in found],
        "SOURCES": ["; ".join(sources_text(told.sources)) for told in found],
    }
    if all(line.tenant == DEFAULT_TENANT for line in lines):
        del columns["TENANT"]
    for name in ("ERRORS", "NEXT"):
        if not any(columns[name]):
            del columns[name]
    styles = [STYLES.get(line.status, "") for line in lines]
    _show_rows(out, columns, styles, unless_needed=("EMBEDDER", "FILLED", "SOURCES"))


def show_runs(out: Output, found: Sequence[RunTold], now: float) -> None:
    statuses = [told.status for told in found]
    columns: dict[str, list[str]] = {
        "RUN": [status.id for status in statuses],
        "STATUS": [status_words(status) for status in statuses],
        "DOCUMENTS": [f"{status.counters['docs_seen']:,}" for status in statuses],
        "CHUNKS": [f"{status.counters['chunks_processed']:,}" for status in statuses],
        "KNOWN": [f"{status.counters['chunks_skipped']:,}" for status in statuses],
        "ERRORS": [f"{status.errors:,}" for status in statuses],
        "TOOK": [
            took_text(told).partition(",")[0].partition(" (")[0] if told.status.finished_at else "" for told in found
        ],
        "BEGAN": [ago(status.started_at, now) for status in statuses],
    }
    failures = [plain(status.last_error or "") if status.status == "failed" else "" for status in statuses]
    reasons = [" ".join(words.split()) for words in failures]
    styles = [STYLES.get(status.status, "") for status in statuses]
    _show_rows(out, columns, styles, reasons=reasons, unless_needed=("KNOWN", "BEGAN", "TOOK"))


def _show_rows(
    out: Output,
    columns: dict[str, list[str]],
    styles: Sequence[str],
    *,
    reasons: Sequence[str] = (),
    unless_needed: Sequence[str] = (),
) -> None:
    reasons = reasons or [""] * len(styles)
    if not out.fancy:
        if any(reasons):
            columns["WHY"] = list(reasons)
        out.result(plain_table(list(columns), list(zip(*columns.values(), strict=True))))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console = out.console()
    shown = dict(columns)
    for name in ("", *unless_needed):
        shown.pop(name, None)
        widths = fitted(widths_of(shown), console.width, SHORTEST)
        if needed(widths) <= console.width:
            break
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in shown:
        table.add_column(
            name if name == "KB" else name.capitalize(),
            no_wrap=True,
            overflow="ellipsis",
            width=widths[name],
            justify="right" if name in NUMBERS else "left",
        )
    for number, style in enumerate(styles):
        cells = []
        for name, values in shown.items():
            text = harmless(values[number])
            if name == "SOURCES":
                text = shortened(text, max(widths[name], SHORTEST[name]))
            cells.append(Text(text, style=style if name == "STATUS" else "bold" if name == "KB" else ""))
        table.add_row(*cells)
    console.print(table)
    for reason in filter(None, reasons):
        console.print(Text(f"  ↳ {harmless(reason)}", style="bright_black", no_wrap=True, overflow="ellipsis"))


def show_errors(out: Output, found: Sequence[ErrorLine], now: float) -> None:
    places = [row.uri if row.chunk is None else f"{row.uri}, chunk {row.chunk + 1}" for row in found]
    messages = [" ".join(row.error.removeprefix(f"{row.uri}: ").split()) for row in found]
    if not out.fancy:
        rows = [
            (row.id, ago(row.at, now), str(row.attempts), place, message)
            for row, place, message in zip(found, places, messages, strict=True)
        ]
        out.result(plain_table(("ID", "AGE", "TRIES", "WHERE", "ERROR"), rows))
        return
    from rich.text import Text

    console = out.console()
    for row, place, message in zip(found, places, messages, strict=True):
        head = Text.assemble(
            ("✗ ", "red"), (harmless(place), "bold"),
            (f"  {ago(row.at, now)}, {row.attempts} {'try' if row.attempts == 1 else 'tries'}", "bright_black"),
        )  # fmt: skip
        console.print(head)
        console.print(Text(f"  {harmless(message)}"))


def show_verified(out: Output, base: str, found: Verified) -> None:
    looked = f"{big(found.documents, 'document')} and {big(found.chunks, 'chunk')}"
    if found.sound:
        sign = click.style("✓", fg="green") if out.fancy else "✓"
        out.result(f"{sign} {harmless(base)} is sound: {looked} compared, ledger and index say the same.")
        return
    rows = [
        (FAULTS[fault], f"{len(numbers):,}", ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else ""))
        for fault, numbers in found.faults.items()
    ]
    headings = ("FAULT", "COUNT", "NUMBERS")
    if not out.fancy:
        out.result(plain_table(headings, rows))
    else:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("Fault")
        table.add_column("Count", justify="right", style="bold red")
        table.add_column("Numbers", style="bright_black", overflow="ellipsis", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        out.console().print(table)
    out.wrong(f"ledger and index of {base!r} differ ({looked} compared)")


def show_plan(out: Output, base: str, plan: Plan, embedder: str, sources: Sequence[str]) -> None:
    about = "" if plan.exact else "about "
    told = f"{about}{plan.documents:,}"
    parts = [
        f"{plan.unchanged:,} unchanged" if plan.unchanged else "",
        f"{plan.unreadable:,} unreadable" if plan.unreadable else "",
    ]
    notes = ", ".join(filter(None, parts))
    known = f", {plan.known_chunks:,} of them known already" if plan.known_chunks else ""
    facts: Facts = [
        *(("source", text) for text in sources),
        ("documents", f"{told}{f' ({notes})' if notes else ''}"),
        ("chunks", f"{about}{plan.chunks:,}{known}"),
        ("tokens", f"{about}{plan.tokens:,} to embed with {embedder}"),
        ("money", money_text(plan)),
        ("time", "none to speak of" if plan.seconds is None else f"about {length(plan.seconds)}"),
    ]
    show_sheet(out, f"Plan · {harmless(base)}", facts, border="cyan", styles={"documents": "bold", "money": "bold"})
    how = (
        "Everything was read: documents, chunks and tokens are exact."
        if plan.exact
        else "An estimate: a part was read, and the rest is taken to be like it."
    )
    out.remark(click.style(f"{how} Nothing was indexed or paid.", fg="bright_black"))


def money_text(plan: Plan) -> str:
    if plan.cost is None:
        return "unknown: there is no price for this model; the file that gemini.prices names can give one"
    if not plan.cost:
        return "nothing"
    return f"{'' if plan.exact else 'about '}{dollars(plan.cost)}"
