"""The rows of a batch on disk: the lines of its input, the spool of answers, and the result made of it.

A line of the spool is the row's number, whether it went well, and the line for the result. It is written in one go, so
after a crash only the last can be incomplete, and its row is asked again.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic_core import from_json, to_json

from penstock.gemini_local import tokens
from penstock.gemini_local.bending import Line, arrange, relabel
from penstock.gemini_local.operations import Batch
from penstock.gemini_local.wire import field

BLOCK = 1024 * 1024


def lines_of(path: Path, most: int) -> Iterator[bytes | None]:
    """The lines that are not blank. None stands for one that is longer than `most` bytes."""
    with path.open("rb") as file:
        while line := file.readline(most + 1):
            if len(line) > most and not line.endswith(b"\n"):
                while (rest := file.readline(BLOCK)) and not rest.endswith(b"\n"):
                    pass
                yield None
            elif line.strip():
                yield line


def scan(path: Path, most: int) -> tuple[int, int]:
    """How many rows an input has, and how many tokens they are about."""
    rows = total = 0
    for line in lines_of(path, most):
        rows += 1
        if line is None:
            continue
        try:
            row = from_json(line)
        except ValueError:
            continue
        total += tokens.estimate(request_of(row))
    return rows, total


def request_of(row: Any) -> Any:
    """The request in a row: under its name, or the row itself."""
    if not isinstance(row, dict):
        return None
    request = row.get("request")
    if request is None and (field(row, "contents") is not None or field(row, "content") is not None):
        return row
    return request


def key_of(row: Any) -> str:
    """By what name a row is known to faults and scripts; empty where it has none."""
    if not isinstance(row, dict):
        return ""
    key = row.get("key")
    if key is None and isinstance(metadata := row.get("metadata"), dict):
        key = metadata.get("key")
    return key if isinstance(key, str) else ""


class Spool:
    """The answers of one batch, as they come."""

    def __init__(self, path: Path, rows: int) -> None:
        self._path = path
        self._offsets = array("q", [-1]) * rows
        self.succeeded = 0
        self.failed = 0
        self._end = self._read_back()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._file, self._end)
        os.lseek(self._file, self._end, os.SEEK_SET)

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def has(self, row: int) -> bool:
        return self._offsets[row] >= 0

    def add(self, row: int, answer: dict[str, Any], *, well: bool) -> None:
        line = b"%d %d " % (row, well) + to_json(answer) + b"\n"
        written = os.write(self._file, line)
        while written < len(line):
            written += os.write(self._file, line[written:])
        self._note(row, self._end, well)
        self._end += len(line)

    def write_result(self, batch: Batch, path: Path) -> tuple[int, str]:
        """Write the result beside `path` and put it there when it is whole. Returns its size and SHA-256."""
        beside = path.with_name(path.name + ".part")
        digest = hashlib.sha256()
        with self._path.open("rb") as spool, beside.open("wb") as result:
            for line in self._arranged(batch):
                spool.seek(self._offsets[line.answer])
                text = spool.readline().split(b" ", 2)[2]
                if line.key != line.answer:
                    text = self._with_key_of(batch, line, text)
                digest.update(text)
                result.write(text)
            if (cut := batch.fault("cut_result")) is not None and not batch.inline:
                result.truncate(int(result.tell() * float(cut.option("fraction"))))
            result.flush()
            os.fsync(result.fileno())
            size = result.seek(0, os.SEEK_END)
        beside.replace(path)
        if cut is not None:
            digest = hashlib.sha256(path.read_bytes())
        return size, digest.hexdigest()

    def _arranged(self, batch: Batch) -> list[Line] | Iterator[Line]:
        rows = len(self._offsets)
        faults = [fault for fault in batch.faults if fault.scope == "result"]
        if not faults:
            return (Line(row, row) for row in range(rows))
        looked_at = any(fault.options.get("keys") is not None for fault in faults)
        keys = [key_of(self._answer(row)) for row in range(rows)] if looked_at else []
        lines = arrange(rows, keys, faults, batch.id)
        if batch.inline and (cut := batch.fault("cut_result")) is not None:
            # A list within an answer cannot break off in the middle of a line: its last rows are not there.
            lines = lines[: int(len(lines) * float(cut.option("fraction")))]
        return lines

    def _with_key_of(self, batch: Batch, line: Line, text: bytes) -> bytes:
        answer = from_json(text)
        if line.key < 0:
            answer = relabel(answer, line.key, f"{batch.id}:{line.answer}", batch.inline)
        else:
            own = self._answer(line.key)
            for name in ("key", "metadata"):
                answer.pop(name, None)
                if name in own:
                    answer[name] = own[name]
        return to_json(answer) + b"\n"

    def _answer(self, row: int) -> Any:
        with self._path.open("rb") as spool:
            spool.seek(self._offsets[row])
            return from_json(spool.readline().split(b" ", 2)[2])

    def _read_back(self) -> int:
        """Learn what was answered before a restart. Returns where the last whole line ends."""
        end = 0
        if not self._path.exists():
            return end
        with self._path.open("rb") as spool:
            for line in spool:
                if not line.endswith(b"\n"):
                    break
                row, well, _ = line.split(b" ", 2)
                self._note(int(row), end, well == b"1")
                end += len(line)
        return end

    def _note(self, row: int, offset: int, well: bool) -> None:
        self._offsets[row] = offset
        if well:
            self.succeeded += 1
        else:
            self.failed += 1
