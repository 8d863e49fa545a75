"""The stored truth, as the rules look at it: straight from the store's own tables, past every connection and fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Column, Integer, MetaData, Table, Text, insert

from penstock.engine.call import CALL_COLUMNS, CallRow
from penstock.engine.model import EVENT_COLUMNS, JOB_COLUMNS, Event, JobRow
from penstock.store.memory import MemoryStore
from penstock.store.protocol import BatchRow, Budget, Store
from penstock.store.sql.sqlite import SqliteStore


class Tally(NamedTuple):
    """A row that a step wrote beside what it counted."""

    job: str
    number: int
    name: str
    amount: int


class View(Protocol):
    """What the checker reads. `refresh` is called after every transaction, before anything else."""

    rows: Mapping[str, JobRow]
    batches: Mapping[str, BatchRow]
    members: Mapping[str, Mapping[str, str | None]]
    limits: Mapping[str, int]
    calls: Mapping[str, CallRow]
    budgets: Mapping[str, Budget]

    @property
    def locks(self) -> Mapping[tuple[str, str], str]:
        """(tenant, name) → the job that has it."""
        ...

    def refresh(self) -> None: ...

    def events(self, job: str, since: int) -> Sequence[Event]:
        """A job's history but for its first `since` lines."""
        ...

    def audited(self) -> Counter[str]:
        """Actor → how many entries of the audit log are theirs."""
        ...

    def tallies(self, since: int) -> Sequence[Tally]: ...

    def tally_row(self, job: str, number: int, name: str, amount: int) -> Any:
        """What `ctx.write` takes to store a tally."""
        ...


class MemoryView:
    """Looks into the dictionaries; nothing is copied."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.refresh()

    def refresh(self) -> None:
        store = self._store
        self.rows: Mapping[str, JobRow] = store.rows
        self.batches: Mapping[str, BatchRow] = store.batch_rows
        self.members: Mapping[str, Mapping[str, str | None]] = store.member_rows
        self.limits: Mapping[str, int] = store.limit_rows
        self.calls: Mapping[str, CallRow] = store.call_rows
        self.budgets: Mapping[str, Budget] = store.budget_rows

    @property
    def locks(self) -> Mapping[tuple[str, str], str]:
        return {place: lock.job for place, lock in self._store.lock_rows.items()}

    def events(self, job: str, since: int) -> Sequence[Event]:
        return self._store.events[job][since:]

    def audited(self) -> Counter[str]:
        return Counter(row.actor for row in self._store.audit_rows.values())

    def tallies(self, since: int) -> Sequence[Tally]:
        return self._store.written[since:]

    def tally_row(self, job: str, number: int, name: str, amount: int) -> Tally:
        return Tally(job, number, name, amount)


_TALLIES = Table(
    "simulated_tallies",
    MetaData(),
    Column("job", Text),
    Column("number", Integer),
    Column("name", Text),
    Column("amount", Integer),
)
_JOBS = f"SELECT {', '.join(JOB_COLUMNS)} FROM jobs ORDER BY rowid"
_CALLS = "SELECT " + ", ".join(f'"{name}"' for name in CALL_COLUMNS) + " FROM calls ORDER BY rowid"
_EVENTS = f"SELECT {', '.join(EVENT_COLUMNS)} FROM history WHERE job = ? ORDER BY id LIMIT -1 OFFSET ?"
_BATCHES = (
    'SELECT id, tenant, "key", generation, "limit", "then", created, sealed, finished, members, completed, failed,'
    " canceled, follow_up FROM batches"
)


@dataclass(slots=True)
class SqliteView:
    """Reads the tables anew after every transaction."""

    store: SqliteStore
    rows: Mapping[str, JobRow]
    batches: Mapping[str, BatchRow]
    members: Mapping[str, Mapping[str, str | None]]
    locks: Mapping[tuple[str, str], str]
    limits: Mapping[str, int]
    calls: Mapping[str, CallRow]
    budgets: Mapping[str, Budget]

    @classmethod
    def of(cls, store: SqliteStore) -> SqliteView:
        view = cls(store, {}, {}, {}, {}, {}, {}, {})
        view._ask("CREATE TABLE simulated_tallies (job TEXT, number INTEGER, name TEXT, amount INTEGER)")
        return view

    def _ask(self, sql: str, *args: Any) -> list[Any]:
        assert self.store._write is not None
        return self.store._write.execute(sql, args).fetchall()

    def refresh(self) -> None:
        self.rows = {values[0]: JobRow(*values) for values in self._ask(_JOBS)}
        self.batches = {values[0]: BatchRow(*values) for values in self._ask(_BATCHES)}
        members: dict[str, dict[str, str | None]] = {batch: {} for batch in self.batches}
        for batch, job, ended in self._ask("SELECT batch, job, ended FROM members"):
            members[batch][job] = ended
        self.members = members
        self.locks = {(tenant, name): job for tenant, name, job in self._ask("SELECT tenant, name, job FROM locks")}
        self.limits = dict(self._ask('SELECT "key", most FROM limits'))
        self.calls = {values[0]: CallRow(*values) for values in self._ask(_CALLS)}
        self.budgets = {values[0]: Budget(*values) for values in self._ask("SELECT scope, most, spent FROM budgets")}

    def events(self, job: str, since: int) -> Sequence[Event]:
        return [Event(*values) for values in self._ask(_EVENTS, job, since)]

    def audited(self) -> Counter[str]:
        return Counter(dict(self._ask("SELECT actor, count(*) FROM audit GROUP BY actor")))

    def tallies(self, since: int) -> Sequence[Tally]:
        found = self._ask("SELECT job, number, name, amount FROM simulated_tallies LIMIT -1 OFFSET ?", since)
        return [Tally(*values) for values in found]

    def tally_row(self, job: str, number: int, name: str, amount: int) -> Any:
        return insert(_TALLIES).values(job=job, number=number, name=name, amount=amount)


def view_of(store: Store) -> View:
    if isinstance(store, MemoryStore):
        return MemoryView(store)
    if isinstance(store, SqliteStore):
        return SqliteView.of(store)
    raise TypeError(f"a simulation runs on MemoryStore or SqliteStore, not on {type(store).__name__}")
