"""Remote calls as people see them: a table, and a sheet for one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from penstock.cli.fitting import needed, shortened, widths_of
from penstock.cli.output import Output, plain_table
from penstock.cli.sheets import show_sheet
from penstock.engine.budget import dollars, scope_of
from penstock.engine.call import LIVE, Call, CallRow, held_by, label_of, view
from penstock.engine.model import DEFAULT_TENANT
from penstock.shapes import CALL_MEANINGS
from penstock.times import ago, length, local, local_and_ago

CALL_STYLES = {
    "intent": "cyan",
    "unsent": "yellow",
    "submitted": "cyan",
    "running": "bold blue",
    "overdue": "bold yellow",
    "succeeded": "green",
    "quarantined": "bold white on red",
    "collected": "green",
    "failed": "bold red",
    "expired": "red",
    "cancelled": "bright_black",
    "absent": "bright_black",
    "lost": "red",
    "discarded": "bright_black",
}

LONGEST_KEY = 20

ON_A_TERMINAL = (
    "ID", "STATE", "TENANT", "REMOTE", "CALL", "JOB KEY", "JOB", "PROVIDER ID", "AGE", "NEXT LOOK", "COST",
)  # fmt: skip


def called(call: Call) -> str:
    """`pages-3#2`: the key, and which attempt at it."""
    return f"{call.key}#{call.attempt}"


def state_text(call: Call) -> str:
    return f"{call.state}, unwanted" if call.unwanted and call.state in LIVE else call.state


def cost_text(call: Call) -> str:
    """What it cost, or the most that an unfinished one may cost."""
    if call.state in LIVE:
        return f"≤ {dollars(call.estimate)}" if call.estimate else ""
    return dollars(call.cost) if call.cost or call.ok else ""


def show_calls(out: Output, calls: Sequence[Call], now: float, *, keys: Mapping[str, str] | None = None) -> None:
    """A pipe gets everything in one line a call; on a terminal that is too narrow for it, the ids stand on a line below
    the call, and what is wrong with it on the next. `keys`: job → its key, which only a terminal gets."""
    columns: dict[str, list[str]] = {
        "ID": [call.id for call in calls],
        "STATE": [state_text(call) for call in calls],
        "TENANT": [call.tenant for call in calls],
        "REMOTE": [call.remote for call in calls],
        "CALL": [called(call) for call in calls],
        "JOB": [call.job for call in calls],
        "PROVIDER ID": [call.provider_id or "" for call in calls],
        "AGE": [ago(call.created, now) for call in calls],
        "NEXT LOOK": [_next_look(call, now) for call in calls],
        "COST": [cost_text(call) for call in calls],
        "WHY": [" ".join((call.error or "").split()) for call in calls],
    }
    if all(call.tenant == DEFAULT_TENANT for call in calls):
        del columns["TENANT"]
    if not out.fancy:
        if not any(columns["WHY"]):
            del columns["WHY"]
        out.result(plain_table(list(columns), list(zip(*columns.values(), strict=True))))
        return
    from penstock.cli.row_table import RowTable

    console = out.console()
    reasons = columns.pop("WHY")
    known = keys or {}
    columns["JOB KEY"] = [shortened(known.get(call.job, ""), LONGEST_KEY) for call in calls]
    shown = {name: columns[name] for name in ON_A_TERMINAL if any(columns.get(name, ()))}
    ids: list[str] = []
    if needed(widths_of(shown)) > console.width:
        ids = [_ids(call, console.width) for call in calls]
        shown = {name: cells for name, cells in shown.items() if name not in ("ID", "JOB", "PROVIDER ID")}
    if needed(widths_of(shown)) > console.width:
        shown.pop("NEXT LOOK", None)
    styles = [CALL_STYLES[call.state] for call in calls]
    console.print(RowTable(shown, reasons, styled="STATE", styles=styles, details=ids))


def _ids(call: Call, room: int) -> str:
    """Whole, so that they can be copied; the provider's is shortened where there is no room for it."""
    ours = f"{call.id}  job {call.job}"
    return f"{ours}  {shortened(call.provider_id, max(room - len(ours) - 4, 12))}" if call.provider_id else ours


def _next_look(call: Call, now: float) -> str:
    if call.due is None:
        return ""
    return "now" if call.due <= now else ago(call.due, now)


def show_call(out: Output, row: CallRow, now: float) -> None:
    """Everything about one call."""
    style = CALL_STYLES[row.state]
    title = f"{row.remote} · {row.id}"
    show_sheet(out, title, _facts(row, now), border=style.split(" on ")[-1], styles={"state": style, "error": "red"})


def _facts(row: CallRow, now: float) -> list[tuple[str, str]]:
    call = view(row)
    facts: list[tuple[str, str | None]] = [
        ("call", call.id),
        ("remote", call.remote),
        ("key", call.key),
        ("attempt", str(call.attempt) if call.attempt > 1 else None),
        ("state", f"{state_text(call)} ({CALL_MEANINGS[call.state]})"),
        ("to do", _nothing_to_do(row, now) if call.state == "intent" else None),
        ("error", call.error),
        ("job", f"{call.job} ({call.workflow})"),
        ("tenant", None if call.tenant == DEFAULT_TENANT else call.tenant),
        ("label", label_of(call.id)),
        ("provider id", call.provider_id),
        ("model", call.model),
        ("rows", _rows(call)),
        ("tokens", _tokens(call)),
        ("estimate", f"at most {dollars(call.estimate)}" if call.estimate else None),
        ("cost", dollars(call.cost) if call.ended else None),
        ("holds", "; ".join(_hold(*hold) for hold in held_by(row)) if call.state in LIVE else None),
        ("created", local_and_ago(call.created, now)),
        ("send before", _when(row.submit_before, now) if call.state == "intent" else None),
        ("submitted", _when(call.submitted, now)),
        ("last look", _looks(row, now)),
        ("next look", _when(call.due, now)),
        ("finished", _when(call.finished, now)),
        ("took", length(call.finished - call.created) if call.finished else None),
        ("decided by", row.decided_by),
        ("result", json.dumps(call.result, ensure_ascii=False) if call.ok else None),
    ]
    return [(name, value) for name, value in facts if value]


def _nothing_to_do(row: CallRow, now: float) -> str:
    """When its absence is proved depends on the remote, which is not known here; that it is not before is sure."""
    sending = row.submit_before is not None and now < row.submit_before
    if sending and not row.looks and row.error is None:
        return "nothing: it is about to be sent"
    told = "nothing: it is being looked for, until it is found or its absence is proved"
    return f"{told}, which cannot be before {local(row.submit_before or now)}" if sending else told


def _rows(call: Call) -> str | None:
    if call.done is None:
        return None
    return str(call.done) if call.total is None else f"{call.done}/{call.total}"


def _tokens(call: Call) -> str | None:
    usage = call.usage
    if not (usage.input or usage.output):
        return None
    cached = f" ({usage.cached:,} cached)" if usage.cached else ""
    thinking = f" ({usage.thinking:,} thinking)" if usage.thinking else ""
    return f"{usage.input:,} in{cached}, {usage.output:,} out{thinking}"


def _hold(name: str, amount: int) -> str:
    return f"{dollars(amount)} of the budget {scope}" if (scope := scope_of(name)) else f"{amount:,} of {name}"


def _looks(row: CallRow, now: float) -> str | None:
    if row.checked is None:
        return None
    strikes = f", the last {row.strikes} in vain" if row.strikes > 1 else ""
    return f"{local_and_ago(row.checked, now)}, look {row.looks}{strikes}" if row.looks else None


def _when(moment: float | None, now: float) -> str | None:
    return None if moment is None else local_and_ago(moment, now)
