"""Everything the local Gemini can do wrong on purpose, as data.

    {"kind": "error", "where": "create", "code": 429, "times": 3}
    {"kind": "drop_after", "where": "create", "after": 1, "times": 1}
    {"kind": "row_error", "code": 13, "rate": 0.1}
    {"kind": "list_lag", "seconds": 30, "match": "^invoices-"}

`where` names operations (`routes.py`), `match` is looked for in the label of a request (the display name of what it
makes), the first `after` requests that fit are left alone and at most `times` are hit, each with probability `rate`.
Faults of a file are dealt when its upload ends, those of a batch (its job, its rows, its result) when it is created,
and belong to it from then on; for rows and results `rate` and `keys` choose among the rows, and `count` is how many at
most.
"""

from __future__ import annotations

import difflib
import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from pydantic_core import from_json, to_json

from penstock.gemini_local.routes import OPERATIONS
from penstock.gemini_local.state import State

log = logging.getLogger("penstock.gemini")

Scope = Literal["request", "file", "job", "row", "result"]


@dataclass(slots=True, frozen=True)
class Kind:
    """`where` is what is meant when nothing is said; `options` are those it takes, with their defaults."""

    scope: Scope
    where: tuple[str, ...] = ("*",)
    options: Mapping[str, Any] = field(default_factory=dict)


_rows = {"keys": None, "count": None}
_create = ("create",)

KINDS: dict[str, Kind] = {
    # The request itself.
    "error": Kind("request", options={
        "code": 503, "status": None, "message": None, "retry": None, "retry_after": None, "body": "json", "done": False,
    }),
    "not_json": Kind("request", options={"body": "<html>Welcome to the hotel network</html>", "done": False}),
    "delay": Kind("request", options={"seconds": 1.0}),
    "hang": Kind("request", options={"seconds": None, "done": False}),
    "drop_before": Kind("request"),
    "drop_after": Kind("request"),
    "half_download": Kind("request", ("download",), {"fraction": 0.5}),
    "chunk_without_status": Kind("request", ("upload_chunk",), {"code": 200, "stored": False}),
    "stream_error": Kind("request", ("stream",), {"code": 503, "message": "The model is overloaded."}),
    "empty_list_page_with_token": Kind("request", ("list", "file_list")),
    # A file, from the end of its upload.
    "processing": Kind("file", ("upload_chunk",), {"seconds": 10.0}),
    "processing_failed": Kind("file", ("upload_chunk",)),
    "file_gone": Kind("file", ("upload_chunk",), {"seconds": 0.0}),
    # A batch as a whole.
    "stuck_pending": Kind("job", _create, {"seconds": None}),
    "stuck_running": Kind("job", _create, {"seconds": None}),
    "expire": Kind("job", _create),
    "fail": Kind("job", _create, {"code": 13, "message": "Internal error encountered."}),
    "unknown_state": Kind("job", _create, {"state": "BATCH_STATE_PAUSED", "output": False}),
    "partially_succeeded": Kind("job", _create),
    "succeeded_before_output": Kind("job", _create, {"seconds": 5.0}),
    "list_lag": Kind("job", _create, {"seconds": 30.0}),
    "list_omits": Kind("job", _create),
    "get_404_for": Kind("job", _create, {"seconds": 5.0}),
    "result_gone": Kind("job", _create),
    # Single answers: rows of a batch, or with `where` generate, stream, embed those of a request.
    "row_error": Kind("row", _create, _rows | {
        "code": 13, "message": "Internal error encountered.", "under": "error", "details": None,
    }),
    "truncate": Kind("row", _create, _rows | {"fraction": 0.5}),
    "block": Kind("row", _create, _rows | {"reason": "SAFETY"}),
    "invalid_json": Kind("row", _create, _rows),
    "wrong_mime": Kind("row", _create, _rows),
    "empty_answer": Kind("row", _create, _rows),
    # The set of rows a result is made of.
    "shuffle": Kind("result", _create),
    "missing_rows": Kind("result", _create, _rows | {"count": 1}),
    "duplicate_rows": Kind("result", _create, _rows | {"count": 1}),
    "unknown_rows": Kind("result", _create, {"count": 1}),
    "keyless_rows": Kind("result", _create, _rows | {"count": 1}),
    "swapped_rows": Kind("result", _create, _rows | {"count": 2}),
    "cut_result": Kind("result", _create, {"fraction": 0.5}),
}  # fmt: skip


class BadFault(ValueError):
    """A fault that cannot be: the message says what is wrong with it."""


@dataclass(slots=True, frozen=True)
class Fault:
    kind: str
    where: tuple[str, ...] = ("*",)
    times: int | None = None
    after: int = 0
    rate: float = 1.0
    match: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, spec: Any) -> Fault:
        if not isinstance(spec, dict) or not isinstance(spec.get("kind"), str):
            raise BadFault(f'a fault is an object with a kind, such as {{"kind": "drop_after"}}; got {spec!r:.200}')
        name = spec["kind"]
        kind = KINDS.get(name)
        if kind is None:
            raise BadFault(f"there is no kind of fault {name!r:.100}; {_meant(name, KINDS)}")
        options = {option: value for option, value in spec.items() if option not in _common}
        for option in sorted(options.keys() - kind.options.keys(), key=str):
            raise BadFault(f"{name} does not take {option!r:.100}; {_meant(option, {*kind.options, *_common})}")
        for option, value in options.items():
            # No count is every row that is chosen, for kinds that choose among rows.
            unsaid = kind.options[option] is None or (option == "count" and "keys" in kind.options)
            if option in _numbers and not (value is None and unsaid):
                _number(name, option, value, most=1.0 if option == "fraction" else math.inf)
        _pattern(name, "keys", options.get("keys"))
        return cls(
            kind=name,
            where=_operations(name, spec.get("where") or kind.where),
            times=None if spec.get("times") is None else _whole(name, "times", spec["times"]),
            after=_whole(name, "after", spec.get("after", 0)),
            rate=_number(name, "rate", spec.get("rate", 1.0), most=1.0),
            match=_pattern(name, "match", spec.get("match")),
            options={**kind.options, **options},
        )

    @property
    def scope(self) -> Scope:
        return KINDS[self.kind].scope

    def option(self, name: str) -> Any:
        return self.options[name]

    def spec(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "where": list(self.where), "times": self.times, "after": self.after, "rate": self.rate,
            "match": self.match, **self.options,
        }  # fmt: skip

    def fits(self, operation: str, label: str) -> bool:
        return (operation in self.where or "*" in self.where) and (
            self.match is None or re.search(self.match, label) is not None
        )

    def chooses(self, seed: str, row: int, key: str) -> bool:
        """Whether it is for this row. Depends on its arguments alone, so that a restart chooses the same rows."""
        keys = self.options.get("keys")
        if keys is not None and re.search(keys, key) is None:
            return False
        return self.rate >= 1 or Random(f"{seed}:{self.kind}:{row}").random() < self.rate


_common = {"kind", "where", "times", "after", "rate", "match"}
_numbers = {"seconds", "fraction", "count", "code", "retry"}


def _meant(name: Any, known: Iterable[str]) -> str:
    """The one that looks like it, or all there are."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"


def _operations(kind: str, where: Any) -> tuple[str, ...]:
    names = (where,) if isinstance(where, str) else where
    if not isinstance(names, list | tuple):
        raise BadFault(f"{kind}: where is an operation, or a list of some; got {where!r:.100}")
    for name in names:
        if name != "*" and (not isinstance(name, str) or name not in OPERATIONS):
            raise BadFault(f"{kind}: where: there is no operation {name!r:.100}; {_meant(name, {*OPERATIONS, '*'})}")
    return tuple(names)


def _number(kind: str, name: str, value: Any, *, most: float = math.inf) -> float:
    right = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not right or not 0 <= value <= most:
        allowed = "from 0 to 1" if most == 1 else "that is not below 0"
        raise BadFault(f"{kind}: {name} is a number {allowed}; got {value!r:.100}")
    return float(value)


def _whole(kind: str, name: str, value: Any) -> int:
    number = _number(kind, name, value)
    if number != int(number):
        raise BadFault(f"{kind}: {name} is a whole number; got {value!r:.100}")
    return int(number)


def _pattern(kind: str, name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise BadFault(f"{kind}: {name} is a regular expression; got {value!r:.100}")
    try:
        re.compile(value or "")
    except re.error as error:
        raise BadFault(f"{kind}: {name}: {value!r:.100} is not a regular expression: {error}") from None
    return value


def dump(faults: Iterable[Fault]) -> str:
    return to_json([fault.spec() for fault in faults]).decode()


def load(text: str) -> tuple[Fault, ...]:
    return tuple(fault for spec in from_json(text) if (fault := _stored(spec)) is not None)


def _stored(spec: Any) -> Fault | None:
    """A fault from the disk. One that an earlier version took and this one does not is left out."""
    try:
        return Fault.parse(spec)
    except BadFault as error:
        log.warning("a fault is left out: %s", error)
        return None


class Faults:
    """The faults in force, with how often each was due. They outlive the process."""

    def __init__(self, state: State, rng: Random) -> None:
        self._state = state
        self._rng = rng
        self._faults: list[tuple[int, Fault]] = []
        self._left: dict[int, tuple[int, int]] = {}
        for row in state.db.execute("SELECT * FROM faults ORDER BY position"):
            if (fault := _stored(from_json(row["spec"]))) is not None:
                self._faults.append((row["position"], fault))
                self._left[row["position"]] = (row["seen"], row["applied"])

    def replace(self, faults: Iterable[Fault]) -> None:
        self._faults = list(enumerate(faults))
        self._left = {position: (0, 0) for position, _ in self._faults}
        with self._state.transaction() as db:
            db.execute("DELETE FROM faults")
            db.executemany(
                "INSERT INTO faults (position, spec) VALUES (?, ?)",
                [(position, to_json(fault.spec()).decode()) for position, fault in self._faults],
            )

    def view(self) -> list[dict[str, Any]]:
        return [
            {**fault.spec(), "seen": self._left[position][0], "applied": self._left[position][1]}
            for position, fault in self._faults
        ]

    def take(self, operation: str, label: str, scopes: tuple[Scope, ...]) -> tuple[Fault, ...]:
        """The faults that hit now; those that fit are counted."""
        return tuple(self._due(operation, label, scopes)) if self._faults else ()

    def _due(self, operation: str, label: str, scopes: tuple[Scope, ...]) -> Iterator[Fault]:
        for position, fault in self._faults:
            if fault.scope not in scopes or not fault.fits(operation, label):
                continue
            seen, applied = self._left[position]
            hit = seen >= fault.after and (fault.times is None or applied < fault.times)
            # A rate of rows is for the rows of one batch, not for the batches.
            by_row = operation == "create" and fault.scope in ("row", "result")
            if hit and fault.rate < 1 and not by_row:
                hit = self._rng.random() < fault.rate
            self._left[position] = seen + 1, applied + hit
            self._state.db.execute(
                "UPDATE faults SET seen = ?, applied = ? WHERE position = ?", (seen + 1, applied + hit, position)
            )
            if hit:
                yield fault
