"""A result, line by line: each line is classified, joined to what was asked by its key alone, and written to
`rows.jsonl`. Memory holds one line and a few bytes for each key, however large the result is."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from penstock.engine.call import Usage
from penstock.remote.gemini.lines import SLICE, decoded, encoded, lines
from penstock.remote.gemini.rows import NO_KEY, OUTCOMES, Kind, Row, read_row
from penstock.remote.gemini.schema import Schema
from penstock.remote.prices import Price

_UNSEEN = 0
_AT_ONCE = 10_000


class Sorting:
    """One pass over a result, in slices (`step`). The first line of a key counts, wherever it stands; a later one is a
    duplicate, and a `conflict` if it says something else."""

    def __init__(
        self,
        *,
        keys: BinaryIO,
        result: BinaryIO,
        rows: BinaryIO,
        kind: Kind,
        schema: Schema | None = None,
        price: Price | None = None,
    ) -> None:
        self._keys = keys
        self._result = result
        self._rows = rows
        self._kind: Kind = kind
        self._schema = schema
        self._price = price
        self._asked: dict[bytes, int] = {}
        self._lines = lines(result)
        self._missing: Iterator[Row] | None = None
        self.counts: Counter[str] = Counter()
        self.conflicts = 0
        self.usage = Usage()
        self.charge = 0
        self.ends_broken = False
        self.lines = 0
        self.rubbish = 0

    def read_keys(self) -> bool:
        """The keys that were asked, in slices; call until it says False, before `step`."""
        end = self._keys.tell() + SLICE
        for line in lines(self._keys):
            self._asked[_mark(str(decoded(line or b"")[0]))] = _UNSEEN
            if self._keys.tell() >= end:
                return True
        return False

    def step(self) -> bool:
        """Sort a slice of the result, then name a slice of what is missing."""
        if self._missing is None:
            end = self._result.tell() + SLICE
            for line in self._lines:
                self._sort(line)
                if self._result.tell() >= end:
                    return True
            self._missing = self._left_over()
        some = list(islice(self._missing, _AT_ONCE))
        for row in some:
            self._write(row)
        return len(some) == _AT_ONCE

    def _sort(self, line: bytes | None) -> None:
        row = read_row(line, self._kind, self._schema)
        self.ends_broken = row.key is None
        self.rubbish += row.key is None and row.error != NO_KEY
        self.lines += 1
        mark = b"" if row.key is None else _mark(row.key)
        if mark not in self._asked:
            self._write(row if row.outcome == "unknown" else replace(row, outcome="unknown", error="not asked"))
            self._pay(row)
            return
        content = _digest(row)
        first = self._asked[mark]
        if first == _UNSEEN:
            self._asked[mark] = content
            self._write(row)
            self._pay(row)
            return
        conflict = first != content
        self.conflicts += conflict
        self._write(replace(row, outcome="duplicate", conflict=conflict))
        if conflict:
            self._pay(row)

    def _left_over(self) -> Iterator[Row]:
        self._keys.seek(0)
        for line in lines(self._keys):
            key = str(decoded(line or b"")[0])
            if self._asked[_mark(key)] == _UNSEEN:
                yield Row(key, "missing", error="asked, and not in the result")

    def _write(self, row: Row) -> None:
        try:
            written = encoded(row.as_json())
        except ValueError:
            # 1e999 is JSON and no number.
            row = Row(row.key, "invalid", error="a number in the answer is too large", usage=row.usage)
            written = encoded(row.as_json())
        self._rows.write(written)
        self.counts[row.outcome] += 1

    def _pay(self, row: Row) -> None:
        self.usage += row.usage
        if self._price is not None:
            self.charge += self._price.charge(row.usage)

    def tally(self) -> dict[str, int]:
        return {outcome: self.counts[outcome] for outcome in OUTCOMES}


def read_rows(path: Path) -> Generator[Row]:
    """The rows of a `rows.jsonl`, one at a time. Blocking: for a thread, or where nobody shares the loop."""
    with path.open("rb") as file:
        for line in lines(file):
            value, damage = decoded(line or b"")
            if damage is not None:
                raise ValueError(f"{path}: {damage}")
            yield Row.from_json(value)


async def rows_in(path: Path, *, at_once: int = 500) -> AsyncIterator[Row]:
    """The same for a step that shares its loop with others: read and decoded in a thread, so many at once."""
    with contextlib.closing(read_rows(path)) as rows:
        while piece := await asyncio.to_thread(lambda: list(islice(rows, at_once))):
            for row in piece:
                yield row


def _mark(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _digest(row: Row) -> int:
    """What the row says; never 0, which is "not seen"."""
    content = _as_bytes(replace(row, usage=Usage()))
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) | 1


def _as_bytes(row: Row) -> bytes:
    try:
        return encoded(row.as_json())
    except ValueError:
        return repr(row).encode("utf-8", "replace")
