"""Pages as people see them: the plan, how far a run is, what failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from penstock.cli.output import STATUS_STYLES, Output, harmless, plain_table
from penstock.cli.pages_told import Told
from penstock.cli.sheets import show_sheet
from penstock.engine.budget import dollars
from penstock.engine.errors import OverBudget
from penstock.engine.model import Job
from penstock.pipelines.pages import rules
from penstock.pipelines.pages.model import Run
from penstock.pipelines.pages.planning import Estimate, Rounds, Survey, pages_until_pause
from penstock.pipelines.pages.reading import Attempt, BatchView, BookRow
from penstock.times import ago, length, local_and_ago

if TYPE_CHECKING:
    from rich.text import Text

HOUR, DAY = 3600.0, 86_400.0
STRIP = 40
"""Characters for the pages of a book."""

LETTERS = {rules.DONE: ("█", "green"), rules.FOUND: ("▓", "green"), rules.FLYING: ("▒", "blue"),
           rules.DEAD: ("✗", "bold red"), rules.WORK: ("·", "bright_black")}  # fmt: skip
_WORST_FIRST = (rules.DEAD, rules.FLYING, rules.WORK, rules.FOUND, rules.DONE)


def big(amount: float) -> str:
    return f"{amount:,.0f}"


def many(amount: int, noun: str) -> str:
    """`1 page`, `2,000 pages`."""
    return f"{big(amount)} {noun}" if amount == 1 else f"{big(amount)} {noun}{'es' if noun.endswith('ch') else 's'}"


def show_plan(out: Output, name: str, run: Run, survey: Survey, depth: Rounds, cost: Estimate, *, took: float | None,
              spent: int, local: bool) -> None:  # fmt: skip
    facts = [
        ("books", big(survey.books)),
        ("pages", _pages_text(survey)),
        ("chains", f"{big(survey.runs_of_pages)}, the longest has {many(survey.longest_book_chain, 'page')}"),
    ]
    if survey.to_do:
        limits = run.execution
        facts += [
            (
                "batches",
                f"about {big(depth.batches)} of up to {many(limits.batch_size_limit, 'page')}, at most "
                f"{limits.max_concurrent_batches} at once",
            ),
            ("tokens", f"about {big(cost.input_tokens)} in, {big(cost.output_tokens)} out"),
            ("money", _money_text(cost, local=local)),
            ("time", _time_text(depth.rounds, took, local=local)),
        ]
        if run.budget.max_usd is not None:
            facts.append(("budget", _budget_text(run.budget.max_usd, spent)))
    styles = {"money": "bold", "pages": "bold"}
    show_sheet(out, f"Plan · {harmless(name)}", facts, border="cyan", styles=styles)
    for line in _warnings(run, survey, cost, spent):
        out.note(line)
    if survey.to_do:
        out.remark(click.style(_assumptions(cost, depth), fg="bright_black"))


def _pages_text(survey: Survey) -> str:
    parts = [
        (survey.done, "done"), (survey.flying, "in flight"), (survey.to_do, "to do"), (survey.dead, "dead"),
        (survey.without_image, "without an image"), (survey.blocked, "behind a page that cannot be read"),
    ]  # fmt: skip
    told = ", ".join(f"{big(amount)} {what}" for amount, what in parts if amount)
    return f"{big(survey.pages)}: {told}" if told else big(survey.pages)


def _money_text(cost: Estimate, *, local: bool) -> str:
    if cost.cost is None or cost.most is None:
        told = f"unknown: there is no batch price for {cost.model}; the file that gemini.prices names can give one"
    else:
        told = f"about {rounded_dollars(cost.cost)}, at most {rounded_dollars(cost.most)}"
    return f"nothing, on this machine (at Google {told})" if local else told


def rounded_dollars(millionths: int) -> str:
    """For estimates: cents, or the first digits of less."""
    amount = millionths / 1_000_000
    return f"${amount:,.2f}" if amount >= 0.1 or not millionths else f"${amount:.2g}"


def spent_text(millionths: int, *, local: bool) -> str:
    """What batches have cost, or would have."""
    if not millionths:
        return ""
    return f"{rounded_dollars(millionths)} at Google's prices" if local else dollars(millionths)


def _time_text(rounds: int, took: float | None, *, local: bool) -> str:
    if took is not None:
        return f"about {length(rounds * took)}: {many(rounds, 'batch')} after each other, {length(took)} each lately"
    told = f"{length(rounds * HOUR)} if a batch takes 1 h, {length(rounds * DAY)} if it takes 24 h"
    return f"seconds for each batch, on this machine (at Google {told})" if local else told


def _budget_text(most: float, spent: int) -> str:
    told = f"${most:,.2f}" if most >= 0.01 else f"${most:g}"
    return f"{told}, of which the run that is alive has spent {dollars(spent)}" if spent else told


def no_pages_text(run: Run) -> str:
    return (
        f"There are no pages in {run.paths.label_source_dir}: "
        "one is {state}/{school}/{year}/{page}.json, with a year and a number for names."
    )


def _warnings(run: Run, survey: Survey, cost: Estimate, spent: int) -> list[str]:
    found = []
    if not survey.pages:
        found.append(no_pages_text(run))
    if survey.without_image:
        found.append(
            f"{many(survey.without_image, 'page')} without an image will be dead at once; what follows them "
            + ("waits (execution.on_dead_page: block)." if run.execution.on_dead_page == "block" else "goes on.")
        )
    if survey.dead:
        found.append(f"{many(survey.dead, 'page')} dead: `penstock pages retry` lets them be tried again.")
    if survey.ignored:
        found.append(f"{big(survey.ignored)} files or folders left out: no year, no page number, or not readable.")
    if survey.to_do and (line := _pause_text(run, survey, cost, spent)):
        found.append(line)
    return found


def _pause_text(run: Run, survey: Survey, cost: Estimate, spent: int) -> str:
    """Whether the budget would hold the run up, when, and what helps."""
    most, size = run.budget.max_usd, run.execution.batch_size_limit
    if most is None:
        return ""
    if cost.most is None:
        return (
            f"budget.max_usd cannot be kept without a price for {cost.model}, so the run would pause before its first "
            "batch: give the price, or leave the budget out."
        )
    after = pages_until_pause(survey, cost, size=size, left=round(most * 1_000_000) - spent)
    if after is None:
        return ""
    reserved = "A batch reserves the most it may cost, which a smaller max_output_tokens lowers."
    if not after:
        return f"budget.max_usd does not allow the next batch: the run would pause at once. {reserved}"
    if after < survey.to_do:
        return f"budget.max_usd is less than that: the run would pause after about {many(after, 'page')}. {reserved}"
    return f"budget.max_usd is less than the most it may cost: with long answers the run would pause. {reserved}"


def _assumptions(cost: Estimate, depth: Rounds) -> str:
    how = "as measured in earlier batches" if cost.measured else "assumed; --answer-tokens says better"
    read = f", as read on {cost.price.read:%Y-%m-%d}" if cost.price is not None and cost.price.read else ""
    prices = f"Batch prices of {cost.model}{read}. " if cost.price is not None else ""
    return (
        f"Counted for each page: {big(cost.image)} tokens of image, {big(cost.words)} of prompt, schema and context, "
        f"{big(cost.answer)} of answer ({how}; at most {big(cost.longest_answer)}).\n"
        f"{prices}Pages of one chain wait for each other: {many(depth.rounds, 'batch')} in "
        "a row. Failed pages and their retries are not counted; outputs that are there are taken to be valid."
    )


def done_text(told: Told) -> str:
    return f"{big(told.totals.done)} of {many(told.totals.pages, 'page')}"


def left_text(told: Told) -> str:
    """How long it may still take, where that is known."""
    seconds = told.seconds_left
    return f"about {length(seconds)} left" if seconds else ""


def counts_text(told: Told, *, local: bool) -> str:
    """One line of everything but the pages that are done."""
    totals = told.totals
    parts = [
        many(totals.books, "book"),
        f"{many(told.batches_active, 'batch')} active, {big(told.batches_ended)} ended",
        f"{big(totals.flying)} in flight" if totals.flying else "",
        f"{big(told.unsent_pages)} waiting to be sent" if told.unsent_pages else "",
        f"{big(totals.ready)} ready" if totals.ready else "",
        f"{big(totals.dead)} dead" if totals.dead else "",
        spent_text(told.cost, local=local),
    ]
    return " · ".join(part for part in parts if part)


def paused_because(job: Job) -> str:
    """Why it rests. That the budget of a run is raised in its file is said elsewhere, and is the only way."""
    why = job.reason or ""
    if why.startswith(f"{OverBudget.__name__}: budget job:"):
        why = why.partition(" ('penstock costs budget set ")[0]
    return why


def show_status(
    out: Output, job: Job, run: Run, told: Told, batches: Sequence[BatchView], books: Sequence[BookRow],
    left_out: Sequence[tuple[str, str]], now: float, *, local: bool,
) -> None:  # fmt: skip
    totals = told.totals
    status = job.status
    again = f", the folder's run number {job.run}" if job.run > 1 else ""
    facts = [("run", f"{job.id}{again}"), ("status", status)]
    why = job.error or paused_because(job)
    if why and not why.startswith("waits for "):
        facts.append(("why", why))
    if job.error and not job.final and job.due is not None and job.due > now:
        facts.append(("next try", ago(job.due, now)))
    facts += [
        ("outputs", str(run.paths.output_dir)),
        ("books", big(totals.books)),
        ("pages", _totals_text(told)),
        ("batches", _batches_text(told)),
        ("cost", spent_text(told.cost, local=local) or "nothing yet"),
    ]
    if told.failed_attempts:
        facts.append(("failed", many(told.failed_attempts, "attempt")))
    if not job.final and told.seconds_left:
        facts.append(("left", f"about {length(told.seconds_left)} (the longest chain has {told.longest_chain} to go)"))
    if told.pace:
        facts.append(("pace", f"{many(round(told.pace), 'page')} an hour lately"))
    if told.wishes:
        facts.append(("asked", f"{many(told.wishes, 'wish')} that the next tick grants"))
    if told.ignored:
        named = "; ".join(f"{path} ({reason})" for path, reason in left_out)
        more = "; …" if told.ignored > len(left_out) else ""
        facts.append(("left out", f"{many(told.ignored, 'file')}: {named}{more}" if named else big(told.ignored)))
    if told.scanned is not None:
        facts.append(("looked", f"at the folders, {local_and_ago(told.scanned, now)}"))
    style = STATUS_STYLES.get(status, "bright_black")
    show_sheet(out, "Pages", facts, border=style, styles={"status": style, "why": "red", "pages": "bold"})
    if batches:
        show_batches(out, batches, now)
    if books:
        show_books(out, books)


def _batches_text(told: Told) -> str:
    unsent = f", {big(told.unsent_batches)} waiting to be sent" if told.unsent_batches else ""
    return f"{big(told.batches_active)} active, {big(told.batches_ended)} ended{unsent}"


def _totals_text(told: Told) -> str:
    totals = told.totals
    parts = [
        (totals.done, "done"), (totals.flying, "in flight"), (told.unsent_pages, "waiting to be sent"),
        (totals.ready, "ready"), (told.blocked, "waiting"), (totals.dead, "dead"),
    ]  # fmt: skip
    gone = f"; and {big(told.labels_gone)} dead whose label is gone" if told.labels_gone else ""
    return f"{big(totals.pages)}: " + (", ".join(f"{big(n)} {what}" for n, what in parts if n) or "none yet") + gone


def batch_cells(batch: BatchView, now: float) -> list[str]:
    state = batch.call_state or batch.state
    done = f"{batch.call_done}/{batch.size}" if batch.call_done is not None else str(batch.size)
    since = ago(batch.submitted or batch.created, now)
    return [str(batch.number), state, done, since, batch.provider_id or "-"]


BATCH_HEADINGS = ("BATCH", "STATE", "PAGES", "SINCE", "PROVIDER ID")


def show_batches(out: Output, batches: Sequence[BatchView], now: float) -> None:
    out.result("")
    rows = [batch_cells(batch, now) for batch in batches]
    if not out.fancy:
        out.result(plain_table(BATCH_HEADINGS, rows))
        return
    from penstock.cli.row_table import RowTable

    columns = {heading: [row[place] for row in rows] for place, heading in enumerate(BATCH_HEADINGS)}
    errors = [batch.call_error or "" for batch in batches]
    out.console().print(RowTable(columns, errors, styled="STATE", styles=["magenta"] * len(rows)))


def strip(states: str, width: int = STRIP) -> Text:
    """The pages of a book in a line: one character for each, or for as many as share it."""
    from rich.text import Text

    letters = states.replace(rules.GAP, "")
    text = Text(no_wrap=True)
    slots = min(len(letters), width)
    for slot in range(slots):
        share = letters[slot * len(letters) // slots : (slot + 1) * len(letters) // slots]
        letter = next(letter for letter in _WORST_FIRST if letter in share)
        text.append(*LETTERS[letter])
    return text


def show_books(out: Output, books: Sequence[BookRow]) -> None:
    out.result("")
    if not out.fancy:
        rows = [[book.book, f"{book.done}/{book.total}", str(book.flying), str(book.dead)] for book in books]
        out.result(plain_table(("BOOK", "DONE", "IN FLIGHT", "DEAD"), rows))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    for book in books:
        table.add_row(Text(harmless(book.book)), strip(book.states), f"{book.done}/{book.total}")
    out.console().print(table)


FAILURE_HEADINGS = ("PAGE", "TRY", "TYPE", "BATCH", "AGE", "MESSAGE")


def show_failures(out: Output, attempts: Sequence[Attempt], now: float) -> None:
    rows = [
        [
            attempt.key,
            str(attempt.attempt),
            attempt.type if attempt.counted else f"{attempt.type} (not counted)",
            str(attempt.batch or "-"),
            ago(attempt.at, now),
            " ".join(attempt.message.split()),
        ]
        for attempt in attempts
    ]
    if not out.fancy:
        out.result(plain_table(FAILURE_HEADINGS, rows))
        return
    from penstock.cli.row_table import RowTable

    columns = {heading: [row[place] for row in rows] for place, heading in enumerate(FAILURE_HEADINGS[:-1])}
    messages = [row[-1] for row in rows]
    out.console().print(RowTable(columns, messages, styled="TYPE", styles=["red"] * len(rows), folded=True))


def show_groups(out: Output, by: str, groups: Sequence[tuple[str, int, int]]) -> None:
    rows = [[group, str(attempts), str(pages)] for group, attempts, pages in groups]
    if not out.fancy:
        out.result(plain_table((by.upper(), "ATTEMPTS", "PAGES"), rows))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(by.capitalize())
    table.add_column("Attempts", justify="right")
    table.add_column("Pages", justify="right")
    table.add_column("")
    most = max(attempts for _, attempts, _ in groups)
    for group, attempts, pages in groups:
        bar = Text("█" * max(1, round(30 * attempts / most)), style="red")
        table.add_row(Text(harmless(group)), big(attempts), big(pages), bar)
    out.console().print(table)


def unread_text(told: Told) -> str:
    totals = told.totals
    waiting = totals.pages - totals.done - totals.dead
    behind = f", {big(waiting)} {'waits' if waiting == 1 else 'wait'} behind a dead one" if waiting else ""
    return f"{many(totals.dead, 'page')} dead{behind}."


def show_ended(out: Output, job: Job, told: Told, run: Run, commands: dict[str, str], *, local: bool) -> None:
    """How a run ended, and what to do about what did not."""
    totals = told.totals
    took = f" in {length(job.finished - job.started)}" if job.finished and job.started else ""
    work = ", ".join(filter(None, (many(told.batches_ended, "batch"), spent_text(told.cost, local=local))))
    # What was sent and what it cost is the folder's; how long it took is this run's.
    in_all = job.counters.get("batches_submitted", 0) != told.batches_ended
    if in_all:
        work = f"in all {work}"
    if job.status != "completed":
        colour = "red" if job.status == "failed" else "yellow"
        words = f"run {job.id} {job.status}{took}" + (f": {job.error}" if job.error else "")
        out.remark(f"{click.style('✗', fg=colour)} {harmless(words)}; {done_text(told)} done, {work}")
        if job.status == "failed":
            out.remark(f"  Go on: {commands['run']}")
        return
    if not totals.pages:
        out.note(no_pages_text(run))
        return
    unread = totals.pages - totals.done
    sign = click.style("✗", fg="red") if unread else click.style("✓", fg="green")
    how = f"{took}{';' if in_all else ':'} {work}"
    if not job.counters.get("batches_submitted"):
        how = "; there was nothing to send"
    out.remark(f"{sign} {done_text(told)} in {many(totals.books, 'book')} are read{how}")
    out.remark(f"  Outputs: {run.paths.output_dir}")
    if unread:
        out.note(f"  {unread_text(told)}")
        out.remark(f"  Why: {commands['failures']}\n  Try them again: {commands['retry']}")
