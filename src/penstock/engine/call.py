"""What a remote call is, and how it moves: slow or paid work outside, as a row of its own.

    intent ──sent──▶ submitted ──▶ running ──▶ succeeded ──collected──▶ collected
      │                   │           └── late ──▶ overdue: still running, and shown
      │                   └──▶ failed · expired · cancelled
      ├── refused ──▶ unsent: the other side does not have it; sent again under the same name
      └── nobody knows (a crash, a lost reply)
            ├── found ──▶ submitted
            ├── absent, proved ──▶ absent: the next attempt is sent
            ├── lost ──▶ lost: cannot be looked for; counted as paid, the next attempt is sent
            └── doubted ──▶ quarantined ── a person: adopt · resubmit · discard

`MOVES` is the machine and `learn` its only reader. What is told about a call is accepted whatever became of its job
(rule 5); a fact that does not fit the state any more changes nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any, Literal

from pydantic_core import from_json, to_json

from penstock.engine.clock import to_the_tick
from penstock.engine.errors import Conflict, InvalidRequest
from penstock.engine.identity import made_storable

State = Literal[
    "intent", "unsent", "submitted", "running", "overdue", "succeeded", "quarantined",
    "collected", "failed", "expired", "cancelled", "absent", "lost", "discarded",
]  # fmt: skip

LIVE: frozenset[str] = frozenset({"intent", "submitted", "running", "overdue", "succeeded", "quarantined"})
"""States in which a call keeps its holds: the other side has the work, or may have."""

INHERITED: frozenset[str] = LIVE | {"unsent", "collected"}
"""Calls that the next run of a failed job takes over. What ended without a result stays behind: a retry begins anew."""

UNDER_WAY: frozenset[str] = frozenset({"intent", "submitted", "running", "overdue"})

ENDED: frozenset[str] = frozenset({"collected", "failed", "expired", "cancelled", "absent", "lost", "discarded"})
REPEATED: frozenset[str] = frozenset({"absent", "lost"})
"""Ends that say nothing about the work: the next attempt is sent at once."""

RESTING: frozenset[str] = ENDED | {"unsent", "quarantined"}
"""States in which nothing comes of a call by itself: a job that waits for it goes on."""

STATES: tuple[str, ...] = (
    "intent", "unsent", "submitted", "running", "overdue", "succeeded", "quarantined",
    "collected", "failed", "expired", "cancelled", "absent", "lost", "discarded",
)  # fmt: skip

_OUTSIDE = ("submitted", "running", "overdue")
_ANSWERED = (*_OUTSIDE, "succeeded", "quarantined")

MOVES: dict[str, dict[str, str]] = {
    # What the one who sends it learns.
    "sent": dict.fromkeys(("intent", "unsent", "quarantined", "absent", "cancelled", "discarded"), "submitted"),
    "refused": {"intent": "unsent"},
    # What whoever looks after a crash learns.
    "found": dict.fromkeys(("intent", "quarantined", "absent", "cancelled", "discarded"), "submitted"),
    "absent": {"intent": "absent"},
    "lost": {"intent": "lost"},
    "doubted": dict.fromkeys(("intent", *_OUTSIDE, "succeeded"), "quarantined"),
    # What the other side says of it.
    "running": {"submitted": "running", "running": "running", "overdue": "overdue"},
    "late": dict.fromkeys(_OUTSIDE, "overdue"),
    "succeeded": dict.fromkeys(_ANSWERED, "succeeded"),
    "collected": dict.fromkeys(("intent", "unsent", *_ANSWERED), "collected"),
    "failed": dict.fromkeys(_ANSWERED, "failed"),
    "expired": dict.fromkeys(_ANSWERED, "expired"),
    "cancelled": dict.fromkeys(_ANSWERED, "cancelled"),
    # What a person decides.
    "adopt": {"quarantined": "submitted"},
    "resubmit": {"quarantined": "absent"},
    "discard": {"quarantined": "discarded"},
    # What changes no state: a look that told nothing, a wish, the time of the next look.
    "missed": {},
    "unwanted": {},
    "checked": {},
}

LOOK_AGAIN_AFTER_ABSENCE = 3600.0
"""Seconds after which a call that never arrived is looked for once more: should it have, it is stopped."""

DECISIONS = ("adopt", "resubmit", "discard")


@dataclass(slots=True, frozen=True)
class Hold:
    """Part of something scarce that a call keeps while it is unfinished: `name` may be held up to `most` in all; None:
    as the configured limit of that name says."""

    name: str
    amount: int = 1
    most: int | None = None


@dataclass(slots=True, frozen=True)
class Usage:
    """Tokens, as the other side counts them. `output` includes `thinking`; `input` includes `cached`."""

    input: int = 0
    output: int = 0
    cached: int = 0
    thinking: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.thinking + other.thinking,
        )


@dataclass(slots=True)
class CallRow:
    """One row of `calls`. `epoch` is the claim under which it was last sent, `due` when somebody is to look at it,
    `strikes` how many looks in a row told nothing. Amounts of money are millionths of a dollar."""

    id: str
    tenant: str
    job: str
    workflow: str
    remote: str
    key: str
    attempt: int
    created: float

    state: str
    epoch: int = 0
    unwanted: int = 0
    provider_id: str | None = None
    model: str = ""
    place: str = ""
    digest: str = ""
    prepared: str = "{}"
    holds: str = "[]"
    submit_before: float | None = None
    submitted: float | None = None
    due: float | None = None
    checked: float | None = None
    looks: int = 0
    strikes: int = 0
    finished: float | None = None
    error: str | None = None
    result: str | None = None
    done: int | None = None
    total: int | None = None
    input: int = 0
    output: int = 0
    cached: int = 0
    thinking: int = 0
    estimate: int = 0
    cost: int = 0
    decided_by: str | None = None


CALL_COLUMNS: tuple[str, ...] = tuple(f.name for f in fields(CallRow))
CALL_CHANGING = CALL_COLUMNS[CALL_COLUMNS.index("state") :]


@dataclass(slots=True, frozen=True, kw_only=True)
class NewCall:
    """A call as a step asks for it, checked and counted. `window` is how long, in seconds, it may be sent from now."""

    remote: str
    key: str
    attempt: int
    model: str = ""
    digest: str = ""
    place: str = ""
    """Where it is made: only who works at the same place looks after it. The remote's name, unless told."""
    prepared: str = "{}"
    holds: tuple[Hold, ...] = ()
    estimate: int = 0
    priced: bool = True
    window: float = 60.0
    proof_after: float = 0.0
    """Seconds after the window until somebody may look for a call of which nobody heard."""

    resend: bool = False
    """The other side knows our label: one of which nobody heard is sent again under it."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Fact:
    """Something learned about a call. `look_in`: seconds until somebody is to look again; None: as it was, or never
    once it has ended. `intent`: the `submit_before` of the intent that this is about; it says nothing of a later one,
    so it may come late, or twice."""

    call: str
    kind: str
    provider_id: str | None = None
    error: str | None = None
    result: str | None = None
    usage: Usage | None = None
    cost: int | None = None
    done: int | None = None
    total: int | None = None
    look_in: float | None = None
    intent: float | None = None
    stopping: bool = False
    """Whether who tells this knows that the call is unwanted, and has asked the other side to stop it."""
    actor: str | None = None


@dataclass(slots=True, frozen=True)
class Call:
    """A remote call as steps and users see it; a snapshot. `cost` and `estimate` are millionths of a dollar."""

    id: str
    tenant: str
    job: str
    workflow: str
    remote: str
    key: str
    attempt: int
    state: State
    model: str
    provider_id: str | None
    result: Any
    error: str | None
    usage: Usage
    estimate: int
    cost: int
    done: int | None
    total: int | None
    created: float
    submitted: float | None
    due: float | None
    finished: float | None
    unwanted: bool

    @property
    def ended(self) -> bool:
        """Nothing more will come of it, well or not."""
        return self.state in ENDED

    @property
    def ok(self) -> bool:
        """Its result is here."""
        return self.state == "collected"


def view(row: CallRow) -> Call:
    """The public snapshot of a stored row."""
    return Call(
        id=row.id,
        tenant=row.tenant,
        job=row.job,
        workflow=row.workflow,
        remote=row.remote,
        key=row.key,
        attempt=row.attempt,
        state=row.state,  # type: ignore[arg-type]
        model=row.model,
        provider_id=row.provider_id,
        result=from_json(row.result) if row.result else None,
        error=row.error,
        usage=Usage(row.input, row.output, row.cached, row.thinking),
        estimate=row.estimate,
        cost=row.cost,
        done=row.done,
        total=row.total,
        created=row.created,
        submitted=row.submitted,
        due=row.due,
        finished=row.finished,
        unwanted=bool(row.unwanted),
    )


def call_id(job: str, key: str, attempt: int) -> str:
    """The same for the same attempt, whoever makes it: what is uploaded or sent under it can be found again."""
    return hashlib.sha256(f"{job}\n{key}\n{attempt}".encode()).hexdigest()[:26]


def label_of(call: str) -> str:
    """Our name for the call at the other side."""
    return f"penstock-{call}"


def may_send(last: CallRow | None, new: NewCall) -> bool:
    """Whether this attempt is the one to be sent now, given the last one there is."""
    if last is None:
        return new.attempt == 1
    if last.state == "unsent" or (last.state == "intent" and new.resend):
        return new.attempt == last.attempt
    return last.state in ENDED and last.state not in ("collected", "discarded") and new.attempt == last.attempt + 1


def intended(
    new: NewCall, last: CallRow | None, *, job: str, tenant: str, workflow: str, epoch: int, now: float
) -> CallRow:
    """The row of a call that is about to be sent; one that was refused, or is sent again, keeps its own."""
    if last is not None and last.state in ("unsent", "intent"):
        row = last
    else:
        row = CallRow(
            id=call_id(job, new.key, new.attempt),
            tenant=tenant,
            job=job,
            workflow=workflow,
            remote=new.remote,
            key=new.key,
            attempt=new.attempt,
            created=now,
            state="intent",
        )
    row.state, row.epoch, row.error = "intent", epoch, None
    row.model, row.digest, row.prepared = new.model, new.digest, new.prepared
    row.place = new.place or new.remote
    row.holds = to_json([[hold.name, hold.amount] for hold in new.holds]).decode()
    row.estimate = new.estimate
    row.submit_before = to_the_tick(now + new.window)
    row.due = to_the_tick(now + new.window + new.proof_after)
    return row


def held_by(row: CallRow) -> list[tuple[str, int]]:
    """What the call keeps while it is live."""
    return held_for(row.job, row.holds)


def held_for(job: str, holds: str) -> list[tuple[str, int]]:
    """A retried job takes its budget along, so the job's own is named anew."""
    return [
        (f"budget:job:{job}" if name.startswith("budget:job:") else name, amount) for name, amount in from_json(holds)
    ]


def held_also(job: str, holds: str, name: str, amount: int) -> str | None:
    """The call's holds with one thing more; None if that is among them already."""
    held = held_for(job, holds)
    if any(name == known for known, _ in held):
        return None
    return to_json([*held, (name, amount)]).decode()


def decided_before(row: CallRow, fact: Fact) -> bool:
    """Whether a person's decision is made already: what is asked when it is told again after an unknown COMMIT."""
    made = row.state != "quarantined" and row.decided_by is not None
    return fact.kind in DECISIONS and made and row.decided_by == fact.actor


def learn(row: CallRow, fact: Fact, *, now: float, superseded: bool) -> bool:
    """Change the row by what was learned; False if that is nothing new. `superseded`: a later attempt exists, or
    the job is over, so a call that was given up and turns out to be alive after all is unwanted."""
    if fact.kind not in MOVES:
        raise InvalidRequest(f"unknown kind of fact {fact.kind!r}")
    if fact.kind in DECISIONS:
        _check_decision(row, fact)
    after = MOVES[fact.kind].get(row.state)
    # Given up before, it turned up, and a person gives it up again: once more was enough.
    final = fact.kind in DECISIONS and bool(row.unwanted) and row.decided_by is not None
    if fact.intent is not None and fact.intent != row.submit_before:
        return False
    if fact.kind == "collected" and row.state in ENDED and row.state != "collected":
        _take_amounts(row, fact)
        return True
    if fact.kind == "checked":
        return _checked(row, fact, now)
    if fact.kind == "unwanted" and fact.actor is not None and row.state not in UNDER_WAY:
        raise Conflict(f"call {row.id} is {row.state}; only one that is under way can be cancelled")
    if fact.kind in ("missed", "unwanted"):
        if row.state not in LIVE:
            return False
        row.strikes += fact.kind == "missed"
        row.unwanted |= fact.kind == "unwanted"
    elif after is None:
        return False
    else:
        _enter(row, after, fact, now, superseded=superseded)
    row.looks += fact.kind not in ("sent", "unwanted", *DECISIONS)
    row.checked = now
    if fact.error is not None:
        row.error = made_storable(fact.error[:2000])
    if fact.look_in is not None and (row.state in LIVE or (may_turn_up(row) and not final)):
        row.due = _next_look(row, fact, now)
    return True


def _next_look(row: CallRow, fact: Fact, now: float) -> float:
    """A wish to stop that came while somebody looked is not put off by what they found."""
    unheard = bool(row.unwanted) and not fact.stopping and row.state in UNDER_WAY
    return now if unheard else to_the_tick(now + (fact.look_in or 0.0))


def may_turn_up(row: CallRow) -> bool:
    """Ended without an answer from the other side: it is looked for once more, to be stopped should it be there."""
    return row.state in ("absent", "discarded") or (row.state == "cancelled" and row.provider_id is None)


def _checked(row: CallRow, fact: Fact, now: float) -> bool:
    """Who looked may not know what became of the call meanwhile: what has ended is not looked at again, and what has
    not is not forgotten."""
    waits = may_turn_up(row) or (row.state in LIVE and row.state != "quarantined")
    if fact.look_in is None and waits and not may_turn_up(row):
        return False
    row.due = _next_look(row, fact, now) if fact.look_in is not None and waits else None
    row.looks, row.checked = row.looks + 1, now
    return True


def _enter(row: CallRow, after: str, fact: Fact, now: float, *, superseded: bool) -> None:
    if after == "absent" and row.unwanted:
        after = "cancelled"
    if fact.provider_id is not None:
        row.provider_id = made_storable(fact.provider_id)
    if after == "submitted":
        if row.state in ENDED:
            row.unwanted = int(superseded or row.state in ("cancelled", "discarded"))
            row.finished = None
        row.submitted = row.submitted or now
        row.due = now
        row.error = None
    if after in ("running", "succeeded", "collected") or (after == "overdue" and fact.kind == "running"):
        row.error = None
    if fact.kind not in ("doubted",):
        row.strikes = 0
    row.done = row.done if fact.done is None else fact.done
    row.total = row.total if fact.total is None else fact.total
    row.state = after
    if after == "collected":
        _take_amounts(row, fact)
        row.result = fact.result
    elif after == "lost":
        row.cost = row.estimate
    elif after in ENDED and fact.cost is not None:
        _take_amounts(row, fact)
    if fact.actor is not None:
        row.decided_by = fact.actor
    if after in ENDED:
        row.finished = now
    if after not in LIVE or after == "quarantined":
        row.due = None


def _take_amounts(row: CallRow, fact: Fact) -> None:
    if fact.usage is not None:
        row.input, row.output = fact.usage.input, fact.usage.output
        row.cached, row.thinking = fact.usage.cached, fact.usage.thinking
    if fact.cost is not None:
        row.cost = fact.cost


def _check_decision(row: CallRow, fact: Fact) -> None:
    if row.state != "quarantined":
        raise Conflict(f"call {row.id} is {row.state}; only a quarantined call needs a decision")
    if fact.kind == "adopt" and not (fact.provider_id or row.provider_id):
        raise InvalidRequest(f"call {row.id}: to adopt it, say the id it has at {row.remote}")
