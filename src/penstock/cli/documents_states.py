"""How far documents are that somebody waits for: one statement for all of a batch, so that thousands are watched as
easily as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.engine.engine import Engine
from penstock.pipelines.documents import ledger
from penstock.pipelines.documents.reading import STATUS

ENDED = frozenset({"completed", "failed", "canceled"})
AT_ONCE = 500


@dataclass(slots=True, frozen=True)
class State:
    """One document. `job` is the run that works on it, or did."""

    id: str
    filename: str
    status: str
    job: str
    step: str
    attempt: int
    error: str | None
    reason: str | None
    due: float | None

    @property
    def ended(self) -> bool:
        return self.status in ENDED


async def states(engine: Engine, ids: Sequence[str]) -> dict[str, State]:
    """By document id, in this order."""
    found: dict[str, State] = {each: _gone(each) for each in ids}
    for start in range(0, len(ids), AT_ONCE):
        named = {f"d{number}": each for number, each in enumerate(ids[start : start + AT_ONCE])}
        rows = await engine.read(
            (
                f"SELECT d.id, d.filename, {STATUS} AS status, COALESCE(j.id, d.job), COALESCE(j.step, ''),"
                f" COALESCE(j.attempt, 0), j.error, j.reason, j.due FROM documents d {ledger.NEWEST_RUN}"
                f" WHERE d.id IN ({', '.join(f':{name}' for name in named)})",
                named,
            )
        )
        found |= {row[0]: State(*row) for row in rows}
    return found


def _gone(document: str) -> State:
    return State(document, document, "canceled", "", "", 0, "It was deleted.", None, None)


def plain_error(error: str | None) -> str:
    """What went wrong without the name of the error, which is for programs."""
    kind, colon, words = (error or "").partition(": ")
    return words if colon and kind.isidentifier() else error or ""
